//! Projects, and requests to create and change them.

use emergent_domain::{
    coordination::{DiscussionDefaults, DiscussionPhase, SelectionRule},
    inbox::Webhook,
    project::{DeletedCounts, Project, ProjectPatch, Retention, RetentionPatch},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::fields::{self, nullable};

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Project)]
pub struct ProjectView {
    pub id: Uuid,
    pub name: String,
    /// Types that no assigned template pack describes are refused.
    pub strict: bool,
    #[serde(default)]
    pub retention: RetentionView,
    #[serde(default)]
    pub deleted: DeletedView,
    /// Whether new tasks outside a workflow are executed by themselves.
    #[serde(default)]
    pub auto_dispatch: bool,
    /// Which agent gets which tasks; the first rule that matches decides.
    #[serde(default)]
    pub selection_rules: Vec<SelectionRuleView>,
    /// Whether internal agents of products are chosen for tasks like other agents.
    #[serde(default)]
    pub select_internal_agents: bool,
    /// What holds for discussions that do not say it themselves.
    #[serde(default)]
    pub discussions: DiscussionDefaultsView,
    /// Where notices of the inbox are sent; absent if the project has no webhook of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookView>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

impl From<Project> for ProjectView {
    fn from(project: Project) -> Self {
        Self {
            id: project.id.0,
            name: project.name,
            strict: project.strict,
            retention: project.retention.into(),
            deleted: project.deleted.into(),
            auto_dispatch: project.auto_dispatch_since.is_some(),
            selection_rules: project.coordination.selection_rules.into_iter().map(Into::into).collect(),
            select_internal_agents: project.coordination.select_internal_agents,
            discussions: project.coordination.discussions.into(),
            webhook: project.webhook.map(Into::into),
            created_at: project.created_at,
            updated_at: project.updated_at,
        }
    }
}

/// A task that matches the pattern goes to the agent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SelectionRule)]
pub struct SelectionRuleView {
    /// Text of the title or the description, or `field:value` for title, description, kind, tag, key, priority or
    /// verdict. `*` stands for anything; case does not matter.
    #[schema(min_length = 1, max_length = 500, example = "kind:research")]
    pub pattern: String,
    #[schema(min_length = 1, max_length = 128)]
    pub agent: String,
}

impl From<SelectionRule> for SelectionRuleView {
    fn from(SelectionRule { pattern, agent }: SelectionRule) -> Self {
        Self { pattern, agent }
    }
}

impl From<SelectionRuleView> for SelectionRule {
    fn from(SelectionRuleView { pattern, agent }: SelectionRuleView) -> Self {
        Self { pattern, agent }
    }
}

/// What holds for the discussions of a project or a task unless one says otherwise; null leaves it to the kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = DiscussionDefaults)]
pub struct DiscussionDefaultsView {
    /// `review_loop`, `consensus`, `debate`, `brainstorm`, `problem_solving` or `collaboration`. Without it, reviews
    /// are a `review_loop`, and discussions that agents start a `consensus`.
    pub kind: Option<String>,
    #[schema(minimum = 1, maximum = 10)]
    pub rounds: Option<i64>,
    /// The share of weight that an option needs, above 0 and at most 1.
    #[schema(maximum = 1.0)]
    pub threshold: Option<f64>,
    /// How many participants have to be left.
    #[schema(minimum = 1, maximum = 20)]
    pub quorum: Option<usize>,
    /// The phases of a collaboration, in their order.
    #[serde(deserialize_with = "fields::map_list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 10)]
    pub phases: Vec<DiscussionPhaseView>,
}

/// A phase of a collaboration.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DiscussionPhase)]
pub struct DiscussionPhaseView {
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// Who is asked; without any, everybody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub agents: Vec<String>,
    /// 1 when not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10)]
    pub max_rounds: Option<i64>,
    /// What its entries are: `argument` (when not said), `proposal`, `vote`, `question`, `clarification`, `feedback`
    /// or `decision`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl From<DiscussionPhase> for DiscussionPhaseView {
    fn from(DiscussionPhase { name, agents, max_rounds, output }: DiscussionPhase) -> Self {
        Self { name, agents, max_rounds, output }
    }
}

impl From<DiscussionPhaseView> for DiscussionPhase {
    fn from(DiscussionPhaseView { name, agents, max_rounds, output }: DiscussionPhaseView) -> Self {
        Self { name, agents, max_rounds, output }
    }
}

impl From<DiscussionDefaults> for DiscussionDefaultsView {
    fn from(defaults: DiscussionDefaults) -> Self {
        let DiscussionDefaults { kind, rounds, threshold, quorum, phases } = defaults;
        Self { kind, rounds, threshold, quorum, phases: phases.into_iter().map(Into::into).collect() }
    }
}

impl From<DiscussionDefaultsView> for DiscussionDefaults {
    fn from(view: DiscussionDefaultsView) -> Self {
        let DiscussionDefaultsView { kind, rounds, threshold, quorum, phases } = view;
        Self { kind, rounds, threshold, quorum, phases: phases.into_iter().map(Into::into).collect() }
    }
}

/// For how many days what is over is kept; null means for ever.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Retention)]
pub struct RetentionView {
    /// Ended runs, with their messages, tool calls and events.
    pub runs_days: Option<i64>,
    /// The changes of the graph in the change feed.
    pub events_days: Option<i64>,
    /// Settled firings of triggers.
    pub firings_days: Option<i64>,
}

impl From<Retention> for RetentionView {
    fn from(Retention { runs_days, events_days, firings_days }: Retention) -> Self {
        Self { runs_days, events_days, firings_days }
    }
}

/// How many runs, changes and firings were deleted because the project does not keep them any longer.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeletedCounts)]
pub struct DeletedView {
    pub runs: i64,
    pub events: i64,
    pub firings: i64,
}

impl From<DeletedCounts> for DeletedView {
    fn from(DeletedCounts { runs, events, firings }: DeletedCounts) -> Self {
        Self { runs, events, firings }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateProject {
    /// Names are used in headers and on command lines, so they stay plain.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", example = "research")]
    pub name: String,
    #[serde(default)]
    pub strict: bool,
}

/// What to change; what is absent stays.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateProject {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<UpdateRetention>,
    /// Whether new tasks outside a workflow are executed by themselves, in one standing workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_dispatch: Option<bool>,
    /// Takes the place of all rules.
    #[serde(
        default,
        deserialize_with = "fields::optional_map_list",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(max_items = 100)]
    pub selection_rules: Option<Vec<SelectionRuleView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select_internal_agents: Option<bool>,
    /// Takes the place of all defaults of discussions.
    #[serde(default, deserialize_with = "fields::optional_map", skip_serializing_if = "Option::is_none")]
    pub discussions: Option<DiscussionDefaultsView>,
    /// Where notices of the inbox are sent; null removes it.
    #[serde(default, deserialize_with = "fields::nullable_object", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<WebhookView>)]
    pub webhook: Option<Option<WebhookView>>,
}

/// The address that is told of new and decided items of the inbox.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Webhook)]
pub struct WebhookView {
    #[schema(min_length = 1, max_length = 2_000, example = "https://example.com/hooks/emergent")]
    pub url: String,
    /// The name of the secret of the project whose value signs the notices.
    #[schema(min_length = 1, max_length = 128, example = "WEBHOOK_KEY")]
    pub secret: String,
}

impl From<Webhook> for WebhookView {
    fn from(Webhook { url, secret }: Webhook) -> Self {
        Self { url, secret }
    }
}

impl From<WebhookView> for Webhook {
    fn from(WebhookView { url, secret }: WebhookView) -> Self {
        Self { url, secret }
    }
}

/// What to change of the retention; what is absent stays, null keeps everything.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateRetention {
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 36_500)]
    pub runs_days: Option<Option<i64>>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 36_500)]
    pub events_days: Option<Option<i64>>,
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 36_500)]
    pub firings_days: Option<Option<i64>>,
}

impl From<UpdateProject> for ProjectPatch {
    fn from(update: UpdateProject) -> Self {
        let UpdateProject {
            name,
            strict,
            retention,
            auto_dispatch,
            selection_rules,
            select_internal_agents,
            discussions,
            webhook,
        } = update;
        let UpdateRetention { runs_days, events_days, firings_days } = retention.unwrap_or_default();
        let retention = RetentionPatch { runs_days, events_days, firings_days };
        let selection_rules = selection_rules.map(|rules| rules.into_iter().map(Into::into).collect());
        let discussions = discussions.map(Into::into);
        let webhook = webhook.map(|webhook| webhook.map(Into::into));
        Self {
            name,
            strict,
            retention,
            auto_dispatch,
            selection_rules,
            select_internal_agents,
            discussions,
            webhook,
        }
    }
}
