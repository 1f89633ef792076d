//! The tools that a caller is offered, in a stable order, serialised once.

use std::collections::HashMap;

use emergent_domain::foreign_json;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Fault, JsonFields};

/// An entry of `tools/list`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    /// The schema exactly as it was written.
    pub input_schema: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
}

/// Hints that a client may show to its user before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    pub read_only_hint: bool,
    pub destructive_hint: bool,
    pub idempotent_hint: bool,
    /// Whether the tool reaches beyond this server.
    pub open_world_hint: bool,
}

/// A parameter that a client has to repeat in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredParameter {
    pub parameter: String,
    pub header: String,
}

/// All tools of one caller as text, with what the protocol needs to know about each before a call.
#[derive(Debug, Default)]
pub struct ToolList {
    pub(super) list: JsonFields,
    mirrored: HashMap<String, Vec<MirroredParameter>>,
}

impl ToolList {
    /// Serialises the list.
    pub fn from_tools(tools: &[Tool]) -> Result<Self, Fault> {
        #[derive(Serialize)]
        struct List<'a> {
            tools: &'a [Tool],
        }
        let mirrored = tools.iter().map(|tool| (tool.name.clone(), mirrored_parameters(&tool.input_schema)));
        Ok(Self {
            list: JsonFields::from_object(&List { tools })?,
            mirrored: mirrored.filter(|(_, parameters)| !parameters.is_empty()).collect(),
        })
    }

    /// Returns the result of `tools/list`.
    pub fn json(&self) -> &JsonFields {
        &self.list
    }

    /// Returns the parameters of a tool that its callers have to repeat in headers.
    pub(super) fn mirrored(&self, tool: &str) -> &[MirroredParameter] {
        self.mirrored.get(tool).map_or(&[], Vec::as_slice)
    }
}

/// Returns the top-level parameters of a schema that have an `x-mcp-header`.
fn mirrored_parameters(schema: &RawValue) -> Vec<MirroredParameter> {
    // Most schemas have none, and then need not be parsed.
    if !schema.get().contains("x-mcp-header") {
        return Vec::new();
    }
    let schema: serde_json::Value = foreign_json::from_str(schema.get()).unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let mirrored = properties.filter_map(|(parameter, property)| {
        let header = property["x-mcp-header"].as_str()?.to_owned();
        Some(MirroredParameter { parameter: parameter.clone(), header })
    });
    mirrored.collect()
}
