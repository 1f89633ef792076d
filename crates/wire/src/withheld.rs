//! What a write answers somebody who may write but not read: what identifies the result, and nothing that others wrote.

use emergent_domain::{
    agent::{FlowType, Visibility},
    json::JsonObject,
    trigger::MissedPolicy,
};
use serde_json::Map;

use crate::{
    agent::AgentView, bulk::BulkItem, document::DocumentView, object::ObjectView,
    relationship::RelationshipView, subgraph::SubgraphView, trigger::ScheduleView,
};

/// A view of something that is written, in the form for whoever may not read it. Every field that the request could
/// not have known is empty, or has its default, and `withheld` is true. The fields stay those of the type, so that a
/// client can read both forms.
pub trait Withhold {
    #[must_use]
    fn withhold(self) -> Self;
}

impl Withhold for ObjectView {
    /// Keeps the id, the type, the key, the version, its times and its author.
    fn withhold(self) -> Self {
        Self {
            status: None,
            labels: Vec::new(),
            properties: empty(),
            reason: None,
            sources: Vec::new(),
            withheld: true,
            ..self
        }
    }
}

impl Withhold for RelationshipView {
    /// Keeps the id, the type, the ends, the version, its times and its author.
    fn withhold(self) -> Self {
        Self { properties: empty(), weight: None, reason: None, sources: Vec::new(), withheld: true, ..self }
    }
}

impl Withhold for DocumentView {
    /// Keeps the id, the hash of the content and the time.
    fn withhold(self) -> Self {
        Self {
            title: String::new(),
            mime_type: String::new(),
            source_url: None,
            metadata: empty(),
            text_bytes: 0,
            chunk_count: 0,
            text: None,
            withheld: true,
            ..self
        }
    }
}

impl Withhold for AgentView {
    /// Keeps the id, the name, the version and its times.
    fn withhold(self) -> Self {
        Self {
            id: self.id,
            name: self.name,
            description: String::new(),
            system_prompt: String::new(),
            model: None,
            tools: Vec::new(),
            trigger: None,
            flow_type: FlowType::default(),
            flow_config: None,
            is_default: false,
            max_steps: None,
            default_timeout: None,
            visibility: Visibility::default(),
            acp: None,
            approvals: Vec::new(),
            output_schema: None,
            config: Map::new(),
            product: None,
            version: self.version,
            created_at: self.created_at,
            updated_at: self.updated_at,
            warnings: Vec::new(),
            withheld: true,
        }
    }
}

impl Withhold for ScheduleView {
    /// Keeps the id, the name, whether it is enabled, and its times of change.
    fn withhold(self) -> Self {
        Self {
            id: self.id,
            agent_id: None,
            agent_name: String::new(),
            dispatch: None,
            product: None,
            name: self.name,
            cron: String::new(),
            time_zone: String::new(),
            missed: MissedPolicy::default(),
            input: None,
            context: None,
            max_steps: None,
            timeout_seconds: None,
            next_at: None,
            waiting_since: None,
            enabled: self.enabled,
            paused_at: self.paused_at,
            error: None,
            last_at: None,
            last_run_id: None,
            last_workflow_id: None,
            created_at: self.created_at,
            updated_at: self.updated_at,
            withheld: true,
        }
    }
}

impl Withhold for SubgraphView {
    /// Keeps the objects, which are new. The relationships may have been there before.
    fn withhold(self) -> Self {
        Self { relationships: self.relationships.withhold(), ..self }
    }
}

impl<T: Withhold> Withhold for BulkItem<T> {
    fn withhold(self) -> Self {
        match self {
            Self::Made(view) => Self::Made(view.withhold()),
            refused @ Self::Refused(_) => refused,
        }
    }
}

impl<T: Withhold> Withhold for Vec<T> {
    fn withhold(self) -> Self {
        self.into_iter().map(T::withhold).collect()
    }
}

fn empty() -> JsonObject {
    JsonObject::from_map(&Map::new())
}
