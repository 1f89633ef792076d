//! What `last` names where the server also writes objects and relationships that record its own work: the newest that a
//! person would name.

use std::collections::HashMap;

use emergent_domain::query::SYSTEM_TYPES;
use emergent_wire::{object::ObjectView, relationship::RelationshipView};
use uuid::Uuid;

use super::resolve::MAX_SEARCHED;
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    hints,
};

/// The objects that `object list` shows without options, newest first.
pub const LISTED_OBJECTS: &str = "/api/graph/objects?includeSystem=false";
const RELATIONSHIPS: &str = "/api/graph/relationships";
/// How many of the newest relationships are read first. Most often the newest is the one.
const READ_FIRST: usize = 20;

/// The id of the newest relationship that does not begin at an object of the [`SYSTEM_TYPES`], as those between the tasks,
/// the sessions and the discussions of workflows do.
pub async fn newest_relationship(client: &Client) -> Result<String> {
    let mut is_system = HashMap::new();
    for count in [READ_FIRST, MAX_SEARCHED] {
        let newest: Vec<Received<RelationshipView>> = client.get_newest(RELATIONSHIPS, count).await?;
        for edge in &newest {
            let is_recorded = match is_system.get(&edge.from_id) {
                Some(known) => *known,
                None => {
                    let from = find_object(client, edge.from_id).await?;
                    // Without its start, the relationship was deleted meanwhile.
                    let hidden = from.is_none_or(|from| SYSTEM_TYPES.contains(&from.type_.as_str()));
                    is_system.insert(edge.from_id, hidden);
                    hidden
                }
            };
            if !is_recorded {
                return Ok(edge.id.to_string());
            }
        }
        if newest.len() < count {
            return Err(Error::Usage(
                "there is no relationship yet, apart from those of tasks, sessions and discussions, so there is no \
                 last one"
                    .into(),
            ));
        }
    }
    let list = hints::command("relationship list OBJECT");
    Err(Error::Usage(format!(
        "the newest {MAX_SEARCHED} relationships are of tasks, sessions and discussions; name the one you mean by its id, \
         which `{list}` shows"
    )))
}

/// How a message names an object: `Person/ada`, or with its id if it has no key.
pub async fn object_label(client: &Client, id: Uuid) -> Result<String> {
    let object = find_object(client, id).await?;
    Ok(object.map_or_else(|| id.to_string(), |object| label(&object)))
}

pub fn label(object: &ObjectView) -> String {
    let key = object.key.clone().unwrap_or_else(|| object.id.to_string());
    format!("{}/{key}", object.type_)
}

async fn find_object(client: &Client, id: Uuid) -> Result<Option<Received<ObjectView>>> {
    match client.get(&format!("/api/graph/objects/{id}")).await {
        Err(error) if error.is_not_found() => Ok(None),
        found => Ok(Some(found?.data().await?)),
    }
}
