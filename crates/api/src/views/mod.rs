//! What the outside reads and writes. These shapes are ours to keep stable; the domain's types
//! are free to change.

pub(crate) mod agent;
mod agent_parts;
pub(crate) mod author;
pub(crate) mod bulk;
pub(crate) mod change;
pub(crate) mod coordination;
pub(crate) mod coordination_budget;
pub(crate) mod coordination_discussion;
pub(crate) mod coordination_dispatch;
pub(crate) mod coordination_event;
pub(crate) mod coordination_task;
pub(crate) mod document;
pub(crate) mod import;
pub(crate) mod mcp_server;
pub(crate) mod object;
pub(crate) mod pack;
pub(crate) mod product;
pub(crate) mod project;
pub(crate) mod relationship;
pub(crate) mod revert;
pub(crate) mod run;
pub(crate) mod run_detail;
pub(crate) mod run_event;
pub(crate) mod run_message;
pub(crate) mod search;
pub(crate) mod secret;
pub(crate) mod source;
pub(crate) mod subgraph;
pub(crate) mod token;
pub(crate) mod tool;
pub(crate) mod tool_call;
pub(crate) mod traverse;
pub(crate) mod trigger;

use serde::{Deserialize, Deserializer};

use crate::extract::fields;

/// Tells a field that is absent (`None`) from one that is null (`Some(None)`).
pub(crate) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}

/// As [`present`], for an object.
pub(crate) fn nullable_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    fields::optional_map(from).map(Some)
}

/// A version that someone has seen: they count from 1.
pub(crate) fn expected_version<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    match Option::<i64>::deserialize(from)? {
        Some(version) if version < 1 => Err(serde::de::Error::custom("must be 1 or more")),
        version => Ok(version),
    }
}
