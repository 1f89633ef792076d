//! `agent history`: the versions of an agent, with the fields that each of them changed.

use emergent_wire::agent::{AgentVersionView, CreateAgent};
use serde_json::{Map, Value};

use super::definition;
use crate::{
    client::{Client, Received},
    commands::{
        history::{TokenNames, changed_fields},
        resolve::{AGENTS, resolve_id},
    },
    error::{Error, Result},
    output,
};

/// Prints the list of versions, or one of them whole.
pub async fn show(client: &Client, reference: &str, version: Option<i64>, as_json: bool) -> Result<()> {
    let id = resolve_id(client, &AGENTS, reference).await?;
    let versions: Vec<Received<AgentVersionView>> =
        client.get_all_pages(&format!("/api/admin/agents/{id}/history")).await?;
    let Some(number) = version else {
        return if as_json { output::print_json(&versions) } else { print_versions(client, &versions).await };
    };
    let Some(found) = versions.iter().find(|candidate| candidate.version == number) else {
        let newest = versions.first().map_or(0, |newest| newest.version);
        return Err(Error::Usage(format!("there is no version {number}; the newest is {newest}")));
    };
    if as_json {
        return output::print_json(found);
    }
    output::print_part(&definition::to_yaml(&definition::compact(fields(&found.definition))))
}

async fn print_versions(client: &Client, versions: &[Received<AgentVersionView>]) -> Result<()> {
    let tokens = TokenNames::load(client).await;
    let rows: Vec<_> = versions
        .iter()
        .enumerate()
        .map(|(index, version)| {
            let before = versions.get(index + 1);
            let changed = match before {
                None => "created".to_owned(),
                Some(before) => change(&before.definition, &version.definition),
            };
            vec![
                version.version.to_string(),
                version.created_at.to_string(),
                tokens.author_text(&version.author),
                changed,
            ]
        })
        .collect();
    output::print_table(&["VERSION", "WRITTEN", "BY", "CHANGED"], &rows)
}

/// The fields that differ, with both values. A deletion changes none.
fn change(before: &CreateAgent, after: &CreateAgent) -> String {
    let changed = changed_fields(&fields(before), &fields(after));
    if changed.is_empty() { "deleted".to_owned() } else { changed }
}

fn fields(definition: &CreateAgent) -> Map<String, Value> {
    match serde_json::to_value(definition) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}
