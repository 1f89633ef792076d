//! The newest objects and relationships that a person would name. The server also writes others, which record its own
//! work.

use std::collections::{HashMap, hash_map::Entry};

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
/// The runs that no other run started, newest first.
pub const STARTED_RUNS: &str = "/api/admin/runs?root=true";
pub const RELATIONSHIPS: &str = "/api/graph/relationships";
/// How many relationships are read first, besides those that are listed. Most often none has to be left out.
const READ_FIRST: usize = 20;

/// The objects at the ends of relationships. Each is read once.
pub struct Ends<'a> {
    client: &'a Client,
    /// The end of the path of each, such as `?asOf=…`.
    query: &'a str,
    objects: HashMap<Uuid, Option<Received<ObjectView>>>,
}

impl<'a> Ends<'a> {
    pub fn new(client: &'a Client, query: &'a str) -> Self {
        Self { client, query, objects: HashMap::new() }
    }

    /// `TYPE/KEY`; its id if it has no key, or is deleted.
    pub async fn label(&mut self, id: Uuid) -> Result<String> {
        let object = self.object(id).await?;
        let label = object.and_then(|object| Some(format!("{}/{}", object.type_, object.key.as_ref()?)));
        Ok(label.unwrap_or_else(|| id.to_string()))
    }

    /// Whether a relationship records the work of the server: it begins at an object of the [`SYSTEM_TYPES`], as those
    /// between the tasks, the sessions and the discussions of workflows do.
    async fn is_recorded(&mut self, edge: &RelationshipView) -> Result<bool> {
        let from = self.object(edge.from_id).await?;
        // Without its start, the relationship was deleted meanwhile.
        Ok(from.is_none_or(|from| SYSTEM_TYPES.contains(&from.type_.as_str())))
    }

    async fn object(&mut self, id: Uuid) -> Result<Option<&Received<ObjectView>>> {
        let object = match self.objects.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(find_object(self.client, id, self.query).await?),
        };
        Ok(object.as_ref())
    }
}

/// The first relationships of a list.
pub struct FirstRelationships {
    pub edges: Vec<Received<RelationshipView>>,
    /// How many were read, to find those.
    pub read: usize,
    /// Whether the list has others, or may have.
    pub has_more: bool,
}

/// The newest relationships of a list that do not record the work of the server, at most `limit`.
pub async fn newest_relationships(
    client: &Client,
    path: &str,
    limit: usize,
    ends: &mut Ends<'_>,
) -> Result<FirstRelationships> {
    let most = MAX_SEARCHED.max(limit);
    let mut count = (limit + READ_FIRST).min(most);
    loop {
        let newest: Vec<Received<RelationshipView>> = client.get_newest(path, count).await?;
        let (read, mut edges, mut has_more) = (newest.len(), Vec::new(), newest.len() == count);
        for edge in newest {
            match ends.is_recorded(&edge).await? {
                true => {}
                false if edges.len() < limit => edges.push(edge),
                false => {
                    has_more = true;
                    break;
                }
            }
        }
        if edges.len() == limit || read < count || count == most {
            return Ok(FirstRelationships { edges, read, has_more });
        }
        count = most;
    }
}

/// The id of the newest relationship that does not record the work of the server.
pub async fn newest_relationship(client: &Client) -> Result<String> {
    let newest = newest_relationships(client, RELATIONSHIPS, 1, &mut Ends::new(client, "")).await?;
    if let Some(edge) = newest.edges.first() {
        return Ok(edge.id.to_string());
    }
    if !newest.has_more {
        return Err(Error::Usage(
            "there is no relationship yet, apart from those of tasks, sessions and discussions, so there is no last one"
                .into(),
        ));
    }
    let list = hints::command("relationship list OBJECT");
    Err(Error::Usage(format!(
        "the newest {MAX_SEARCHED} relationships are of tasks, sessions and discussions; name the one you mean by its id, \
         which `{list}` shows"
    )))
}

/// How a message names an object: `Person/ada`, or with its id if it has no key.
pub async fn object_label(client: &Client, id: Uuid) -> Result<String> {
    let object = find_object(client, id, "").await?;
    Ok(object.map_or_else(|| id.to_string(), |object| label(&object)))
}

pub fn label(object: &ObjectView) -> String {
    let key = object.key.clone().unwrap_or_else(|| object.id.to_string());
    format!("{}/{key}", object.type_)
}

async fn find_object(client: &Client, id: Uuid, query: &str) -> Result<Option<Received<ObjectView>>> {
    match client.get(&format!("/api/graph/objects/{id}{query}")).await {
        Err(error) if error.is_not_found() => Ok(None),
        found => Ok(Some(found?.data().await?)),
    }
}
