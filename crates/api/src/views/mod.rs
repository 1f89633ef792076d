//! Conversions between the types of the services and those of `wire`, which are the JSON of the API. Each
//! module also re-exports the `wire` types of its area, so that a route imports from one module.

pub(crate) mod bulk;
pub(crate) mod chat;
pub(crate) mod coordination;
pub(crate) mod coordination_budget;
pub(crate) mod coordination_discussion;
pub(crate) mod coordination_dispatch;
pub(crate) mod coordination_task;
pub(crate) mod import;
pub(crate) mod mcp_server;
pub(crate) mod pack;
pub(crate) mod product;
pub(crate) mod revert;
pub(crate) mod run;
pub(crate) mod run_bulk;
pub(crate) mod run_detail;
pub(crate) mod run_message;
pub(crate) mod search;
pub(crate) mod secret;
pub(crate) mod subgraph;
pub(crate) mod tool;
pub(crate) mod trigger;

use emergent_domain as domain;
pub(crate) use emergent_wire::{
    agent, approval, audit, change, document, fields::expected_version, invoke, object, project,
    project_event, relationship, run_event, run_write, schema, session, token, tool_call, traverse,
    workflow_event as coordination_event,
};

/// Converts a service's result into a response type. `From` cannot be implemented here, because both types
/// belong to other crates.
pub(crate) trait IntoView<V> {
    fn into_view(self) -> V;
}

impl<V> IntoView<V> for V {
    fn into_view(self) -> V {
        self
    }
}

/// Implements [`IntoView`] for types of `domain` that `wire` converts with `From`.
macro_rules! converted_by_wire {
    ($($from:ty => $view:ty),* $(,)?) => {$(
        impl IntoView<$view> for $from {
            fn into_view(self) -> $view {
                self.into()
            }
        }
    )*};
}

converted_by_wire! {
    domain::agent::Agent => agent::AgentView,
    domain::agent::AgentVersion => agent::AgentVersionView,
    domain::audit::AuditEntry => audit::AuditEntryView,
    domain::conversation::ChatMessage => chat::ChatMessageView,
    domain::conversation::Conversation => chat::ConversationView,
    domain::document::Chunk => document::ChunkView,
    domain::document::Document => document::DocumentView,
    domain::document::DocumentObject => document::DocumentObjectView,
    domain::object::Object => object::ObjectView,
    (domain::object::Object, Vec<domain::merge::Source>) => object::ObjectView,
    domain::object::Object => coordination_task::TaskView,
    domain::object::Object => coordination_discussion::DiscussionSummaryView,
    domain::project::Project => project::ProjectView,
    domain::query::SearchResult<domain::object::Object> => search::SearchView,
    domain::query::SearchResult<domain::document::Chunk> => search::ChunkSearchView,
    domain::query::Subgraph => traverse::TraversalView,
    Option<domain::query::FoundPath> => traverse::PathView,
    domain::relationship::Relationship => relationship::RelationshipView,
    (domain::relationship::Relationship, Vec<domain::merge::Source>) => relationship::RelationshipView,
    domain::run::Run => run::StartedRun,
    domain::task::Task => coordination_task::TaskView,
    domain::token::Token => token::TokenView,
    (domain::token::Token, String) => token::TokenView,
    domain::workflow::Workflow => coordination::WorkflowSummaryView,
}
