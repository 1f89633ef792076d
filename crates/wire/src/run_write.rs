//! What a run wrote to the graph.

use emergent_domain::{
    run_write::{RunWrite, WriteChange, WrittenKind},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::schema;

/// One version that a tool call of a run wrote. The history of the object or relationship has its content, and that
/// of the version before it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunWrite)]
pub struct RunWriteView {
    #[schema(value_type = schema::WrittenKind)]
    pub kind: WrittenKind,
    pub id: Uuid,
    /// The type of an object or a relationship; the MIME type of a document.
    #[serde(rename = "type")]
    pub type_: String,
    /// The key of an object, or the title of a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where a relationship starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_id: Option<Uuid>,
    /// Where a relationship ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_id: Option<Uuid>,
    #[schema(value_type = schema::WriteChange)]
    pub change: WriteChange,
    /// The version before the write; null for what it created.
    pub version_before: Option<i64>,
    /// The version that the write made.
    pub version_after: i64,
    /// The newest version, whoever wrote it.
    pub current_version: i64,
    pub run_id: Uuid,
    pub agent_name: String,
    pub tool_call_id: Option<Uuid>,
    pub tool_name: Option<String>,
    pub step_number: Option<i64>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

impl RunWriteView {
    pub fn new(write: RunWrite, agent_name: String) -> Self {
        let (from_id, to_id) = write.ends.map(|[from, to]| (from.0, to.0)).unzip();
        Self {
            version_before: write.version_before(),
            kind: write.kind,
            id: write.id,
            type_: write.type_,
            name: write.name,
            from_id,
            to_id,
            change: write.change,
            version_after: write.version,
            current_version: write.newest_version,
            run_id: write.run.0,
            agent_name,
            tool_call_id: write.tool_call.map(Into::into),
            tool_name: write.tool,
            step_number: write.step,
            at: write.at,
        }
    }
}
