//! What a caller is offered: tools in a stable order, written once.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Fault, Fields};

/// A tool as it is listed.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    /// As it was written, to the letter.
    pub input_schema: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
}

/// What a client may tell its user before a tool is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    pub read_only_hint: bool,
    pub destructive_hint: bool,
    pub idempotent_hint: bool,
    /// Whether it reaches beyond this server.
    pub open_world_hint: bool,
}

/// A parameter that a client has to repeat in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirrored {
    pub parameter: String,
    pub header: String,
}

/// Every tool of one caller, as text, and what has to be known of each before it is called.
#[derive(Debug, Default)]
pub struct Offer {
    pub(super) list: Fields,
    mirrored: HashMap<String, Vec<Mirrored>>,
}

impl Offer {
    pub fn of(tools: &[Tool]) -> Result<Self, Fault> {
        #[derive(Serialize)]
        struct List<'a> {
            tools: &'a [Tool],
        }
        let mirrored = tools.iter().map(|tool| (tool.name.clone(), mirrored(&tool.input_schema)));
        Ok(Self {
            list: Fields::of(&List { tools })?,
            mirrored: mirrored.filter(|(_, some)| !some.is_empty()).collect(),
        })
    }

    pub fn list(&self) -> &Fields {
        &self.list
    }

    pub(super) fn mirrored(&self, tool: &str) -> &[Mirrored] {
        self.mirrored.get(tool).map_or(&[], Vec::as_slice)
    }
}

/// `x-mcp-header` of the parameters at the top of a schema.
fn mirrored(schema: &RawValue) -> Vec<Mirrored> {
    // Most schemas have none, and need not be read for that.
    if !schema.get().contains("x-mcp-header") {
        return Vec::new();
    }
    let schema: serde_json::Value = serde_json::from_str(schema.get()).unwrap_or_default();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let named = properties.filter_map(|(parameter, about)| {
        let header = about["x-mcp-header"].as_str()?.to_owned();
        Some(Mirrored { parameter: parameter.clone(), header })
    });
    named.collect()
}
