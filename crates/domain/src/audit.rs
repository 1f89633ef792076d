//! The audit log: who changed what decides about access, money and programs. Entries are added and never
//! changed. They contain no secret values.

use std::net::IpAddr;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    agent::string_enum,
    ids::{BrowserSessionId, ProjectId, RunId, TokenId},
    invalid::Invalid,
    json::JsonObject,
    pack::nearest_name,
    project_event::EventSubject,
    time::Timestamp,
};

string_enum! {
    /// What was done: the kind of the target, a dot, and the change.
    AuditAction {
        TokenCreate = "token.create",
        TokenRevoke = "token.revoke",
        SessionCreate = "session.create",
        SessionEnd = "session.end",
        SecretPut = "secret.put",
        SecretDelete = "secret.delete",
        SecretRotate = "secret.rotate",
        SecretAllow = "secret.allow",
        McpServerCreate = "mcp_server.create",
        McpServerUpdate = "mcp_server.update",
        McpServerDelete = "mcp_server.delete",
        McpServerAcceptTool = "mcp_server.accept_tool",
        ProductInstall = "product.install",
        ProductUpgrade = "product.upgrade",
        ProductUninstall = "product.uninstall",
        AgentCreate = "agent.create",
        AgentUpdate = "agent.update",
        AgentDelete = "agent.delete",
        BudgetUpdate = "budget.update",
        TriggerPut = "trigger.put",
        TriggerDelete = "trigger.delete",
        TriggerPause = "trigger.pause",
        TriggerResume = "trigger.resume",
        ApprovalDecide = "approval.decide",
        ConversationDelete = "conversation.delete",
        DiscussionDecide = "discussion.decide",
        WorkflowSetBudget = "workflow.set_budget",
        /// A workflow that waited for a person goes on.
        WorkflowResume = "workflow.resume",
        /// A workflow that waited for a person is given up.
        WorkflowCancel = "workflow.cancel",
        /// Another workflow takes the tasks of a cancelled one that waited for a person or had a budget.
        WorkflowTakeOver = "workflow.take_over",
        /// A task of a workflow that waits for a person is tried again, given to another agent, or skipped.
        TaskRetry = "task.retry",
        TaskReassign = "task.reassign",
        TaskSkip = "task.skip",
        RunRevert = "run.revert",
        RunBulkCancel = "run.bulk_cancel",
        RunBulkResume = "run.bulk_resume",
        ProjectCreate = "project.create",
        ProjectUpdate = "project.update",
        ProjectDelete = "project.delete",
    }
}

impl AuditAction {
    /// The kind of the target: the part before the dot.
    pub fn target_kind(self) -> &'static str {
        self.as_str().split_once('.').map_or(self.as_str(), |(kind, _)| kind)
    }

    /// What was done to the target: the part after the dot.
    pub fn verb(self) -> &'static str {
        self.as_str().split_once('.').map_or("", |(_, verb)| verb)
    }

    /// The subject of the event on the project's stream that tells of the change. `None` if others tell of it: a run, a
    /// request, a workflow and a conversation have events of their own, and changes of sessions and projects have none.
    pub fn event_subject(self) -> Option<EventSubject> {
        match self {
            Self::TokenCreate | Self::TokenRevoke => Some(EventSubject::Token),
            Self::SecretPut | Self::SecretDelete | Self::SecretRotate | Self::SecretAllow => {
                Some(EventSubject::Secret)
            }
            Self::McpServerCreate
            | Self::McpServerUpdate
            | Self::McpServerDelete
            | Self::McpServerAcceptTool => Some(EventSubject::McpServer),
            Self::ProductInstall | Self::ProductUpgrade | Self::ProductUninstall => {
                Some(EventSubject::Product)
            }
            Self::AgentCreate | Self::AgentUpdate | Self::AgentDelete => Some(EventSubject::Agent),
            Self::BudgetUpdate => Some(EventSubject::Budget),
            Self::TriggerPut | Self::TriggerDelete | Self::TriggerPause | Self::TriggerResume => {
                Some(EventSubject::Trigger)
            }
            Self::SessionCreate
            | Self::SessionEnd
            | Self::ApprovalDecide
            | Self::ConversationDelete
            | Self::DiscussionDecide
            | Self::WorkflowSetBudget
            | Self::WorkflowResume
            | Self::WorkflowCancel
            | Self::WorkflowTakeOver
            | Self::TaskRetry
            | Self::TaskReassign
            | Self::TaskSkip
            | Self::RunRevert
            | Self::RunBulkCancel
            | Self::RunBulkResume
            | Self::ProjectCreate
            | Self::ProjectUpdate
            | Self::ProjectDelete => None,
        }
    }
}

/// Checks what a list of entries is filtered by: an action, or the kind of targets of some actions.
pub fn check_action_filter(text: &str) -> Result<(), Invalid> {
    let actions = || AuditAction::ALL.iter().map(|action| action.as_str());
    let mut kinds: Vec<&str> = AuditAction::ALL.iter().map(|action| action.target_kind()).collect();
    kinds.dedup();
    if kinds.contains(&text) || actions().any(|action| action == text) {
        return Ok(());
    }
    let nearest = nearest_name(text, kinds.iter().copied().chain(actions()));
    let suggestion = nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    let of_kind = text.split_once('.').map_or("", |(kind, _)| kind);
    let reason = match kinds.contains(&of_kind) {
        true => {
            let of_kind: Vec<&str> =
                actions().filter(|action| action.starts_with(&format!("{of_kind}."))).collect();
            format!("must be one of `{}`", of_kind.join("`, `"))
        }
        false => format!("must be one of `{}`, or an action such as `token.create`", kinds.join("`, `")),
    };
    Err(Invalid::new("action", format!("{reason}{suggestion}")))
}

/// Who makes a change, as far as the server knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditOrigin {
    /// The token of the request. `None` if the server itself makes the change.
    pub token: Option<(TokenId, String)>,
    /// The browser's session that stands for the token. `None` for a request with the token itself.
    pub session: Option<BrowserSessionId>,
    /// The address of the connection. `None` for a command that works on the data folder itself.
    pub address: Option<IpAddr>,
}

/// An entry that is about to be written. Who makes the change is known from the request.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAuditEntry {
    pub action: AuditAction,
    /// `None` for a change that concerns no single project.
    pub project: Option<ProjectId>,
    /// The id of the target; empty if it has none besides its name.
    pub target_id: String,
    pub target_name: String,
    /// The run that makes the change, if an agent does.
    pub run: Option<RunId>,
    pub details: Map<String, Value>,
}

impl NewAuditEntry {
    pub fn new(action: AuditAction, project: Option<ProjectId>, name: impl Into<String>) -> Self {
        Self {
            action,
            project,
            target_id: String::new(),
            target_name: name.into(),
            run: None,
            details: Map::new(),
        }
    }

    #[must_use]
    pub fn id(self, id: impl ToString) -> Self {
        Self { target_id: id.to_string(), ..self }
    }

    #[must_use]
    pub fn run(self, run: Option<RunId>) -> Self {
        Self { run, ..self }
    }

    /// Adds a detail. It must not be a secret, or contain one.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

/// An entry of the log. The action is a text, because a newer server may have written one that this version
/// does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    pub id: Uuid,
    pub at: Timestamp,
    pub project: Option<ProjectId>,
    pub token: Option<TokenId>,
    /// The name that the token had.
    pub token_name: Option<String>,
    /// The browser's session that stood for the token.
    pub session: Option<BrowserSessionId>,
    pub run: Option<RunId>,
    pub address: Option<String>,
    pub action: String,
    pub target_kind: String,
    pub target_id: String,
    pub target_name: String,
    pub outcome: String,
    pub details: JsonObject,
}

/// Which entries are listed; `None` means all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AuditFilter {
    pub project: Option<ProjectId>,
    /// An action such as `token.create`, or a kind of targets such as `token`.
    pub action: Option<String>,
    pub token: Option<TokenId>,
    /// The earliest time.
    pub since: Option<Timestamp>,
    /// The time before which the entries are.
    pub until: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_no_action_has_is_answered_with_those_there_are_and_the_nearest() {
        assert!(check_action_filter("token").is_ok() && check_action_filter("secret.put").is_ok());
        let refused = |text| check_action_filter(text).unwrap_err().to_string();
        let kind = refused("tokens");
        assert!(kind.contains("`mcp_server`") && kind.ends_with("; did you mean `token`?"), "{kind}");
        assert_eq!(
            refused("token.creat"),
            "`action`: must be one of `token.create`, `token.revoke`; did you mean `token.create`?"
        );
        assert!(!refused("zzzzzzzz").contains("did you mean"));
    }

    #[test]
    fn an_action_starts_with_the_kind_of_its_target() {
        assert_eq!(AuditAction::McpServerAcceptTool.target_kind(), "mcp_server");
        for action in AuditAction::ALL {
            assert_eq!(action.as_str(), format!("{}.{}", action.target_kind(), action.verb()));
            if let Some(subject) = action.event_subject() {
                assert_eq!(subject.as_str(), action.target_kind(), "{action}");
            }
        }
    }
}
