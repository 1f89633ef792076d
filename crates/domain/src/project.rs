//! Projects: the tenants. Every object, agent, tool, secret and token belongs to exactly one
//! project.

use crate::{
    coordination::{CoordinationSettings, DiscussionDefaults, SelectionRule},
    ids::{NAME_IS_ID, ProjectId, is_id},
    inbox::Webhook,
    invalid::Invalid,
    time::Timestamp,
};

#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    pub id: ProjectId,
    /// A small integer that identifies the project in composite keys. An engine may use it to
    /// cluster the rows of a project.
    pub no: i64,
    pub name: String,
    /// If true, writes with types that no assigned pack describes are rejected.
    pub strict: bool,
    /// Incremented when the assigned packs change. Caches of compiled validators compare it.
    pub packs_revision: i64,
    pub retention: Retention,
    /// What was deleted because of the retention, in all.
    pub deleted: DeletedCounts,
    /// Since when new tasks outside a workflow are executed by themselves; `None` if they are not.
    pub auto_dispatch_since: Option<Timestamp>,
    pub coordination: CoordinationSettings,
    /// Where notices of the inbox are sent.
    pub webhook: Option<Webhook>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// For how many days a project keeps what is over; `None` means for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// Ended runs, with their messages, tool calls and events.
    pub runs_days: Option<i64>,
    /// The changes of the graph in the change feed.
    pub events_days: Option<i64>,
    /// Settled firings of triggers.
    pub firings_days: Option<i64>,
}

/// How many rows were deleted because a project does not keep them any longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletedCounts {
    pub runs: i64,
    pub events: i64,
    pub firings: i64,
}

impl Retention {
    /// The longest time in days, about a hundred years.
    pub const MAX_DAYS: i64 = 36_500;

    pub fn check(&self) -> Result<(), Invalid> {
        let fields = [
            ("runsDays", self.runs_days),
            ("eventsDays", self.events_days),
            ("firingsDays", self.firings_days),
        ];
        for (field, days) in fields {
            if days.is_some_and(|days| !(1..=Self::MAX_DAYS).contains(&days)) {
                let range = format!("must be 1 to {} days, or null to keep everything", Self::MAX_DAYS);
                return Err(Invalid::new(format!("retention.{field}"), range));
            }
        }
        Ok(())
    }

    /// Whether anything is ever deleted.
    pub fn is_limited(&self) -> bool {
        *self != Self::default()
    }
}

/// A change of a project. `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectPatch {
    pub name: Option<String>,
    pub strict: Option<bool>,
    pub retention: RetentionPatch,
    /// Whether new tasks outside a workflow are executed by themselves.
    pub auto_dispatch: Option<bool>,
    pub selection_rules: Option<Vec<SelectionRule>>,
    pub select_internal_agents: Option<bool>,
    pub discussions: Option<DiscussionDefaults>,
    /// The inner `None` removes the webhook.
    pub webhook: Option<Option<Webhook>>,
}

/// A change of the retention. The outer `None` leaves a field as it is, the inner one keeps everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionPatch {
    pub runs_days: Option<Option<i64>>,
    pub events_days: Option<Option<i64>>,
    pub firings_days: Option<Option<i64>>,
}

impl RetentionPatch {
    pub fn apply(self, retention: Retention) -> Retention {
        Retention {
            runs_days: self.runs_days.unwrap_or(retention.runs_days),
            events_days: self.events_days.unwrap_or(retention.events_days),
            firings_days: self.firings_days.unwrap_or(retention.firings_days),
        }
    }
}

/// Validates a project name. Names appear in headers and on command lines, so only plain characters
/// are allowed.
pub fn check_name(name: &str) -> Result<(), Invalid> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 {
        return Err(Invalid::new("name", "must have 1 to 64 characters"));
    }
    if !name.chars().all(plain) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(Invalid::new(
            "name",
            "must start with a letter or digit, and may contain letters, digits, `-`, `_` and `.`",
        ));
    }
    if is_id(name) {
        return Err(Invalid::new("name", NAME_IS_ID));
    }
    Ok(())
}
