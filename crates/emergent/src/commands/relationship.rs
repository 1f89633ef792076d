//! `emergent relationship`: lists relationships and their versions, and creates, deletes and restores them.

use std::collections::HashMap;

use axum::http::StatusCode;
use emergent_domain::ids::ObjectId;
use emergent_wire::{
    object::ObjectView,
    relationship::{CreateRelationship, RelationshipView},
    traverse::{TraversalView, Traverse},
};
use serde_json::Map;
use uuid::Uuid;

use super::{
    confirm::ask_about_last,
    encode,
    graph::{resolve_object, traverse_from},
    history::{VersionRow, print_versions, relationship_change},
    moment::{Moment, resolve_object_at},
    newest::{self, Ends, object_label},
    number::parse_finite,
    object::parse_properties,
    object_types::warn_of_unused_types,
    resolve::{DELETED_RELATIONSHIPS, LAST, RELATIONSHIPS, resolve_deleted, resolve_id},
};
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    hints, output,
};

#[derive(Debug, clap::Subcommand)]
pub enum Relationship {
    /// List the relationships of an object, from it and to it, or the newest of the project
    List {
        /// An id, the end of an id, TYPE/KEY, a unique key, or `last`; without it, the newest of the project are listed,
        /// those of tasks, sessions, messages and discussions only with `--type`
        object: Option<String>,
        /// Only relationships of this type (may be repeated)
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// Which ones: those that leave the object, those that reach it, or both
        #[arg(long, default_value = "both", value_parser = ["out", "in", "both"], requires = "object")]
        direction: String,
        /// As they were then: at a time such as 2026-01-31T08:00:00Z, or so long ago, such as 24h or 7d
        #[arg(long, value_name = "TIME")]
        as_of: Option<String>,
        /// The deleted ones instead, which `emergent relationship restore` brings back; those that were deleted with an
        /// object come back with it
        #[arg(long, conflicts_with_all = ["as_of", "direction"])]
        deleted: bool,
        /// At most this many of all objects
        #[arg(long, default_value_t = 20, conflicts_with_all = ["object", "deleted"])]
        limit: u32,
    },
    /// Connect two objects
    Create {
        /// Where it begins: an id, the end of an id, TYPE/KEY, a unique key, or `last`
        from: String,
        /// Its type, such as knows
        #[arg(value_name = "TYPE")]
        type_: String,
        /// Where it leads
        to: String,
        /// A property: text, or JSON such as 3, true or ["a"] (may be repeated)
        #[arg(long = "set", value_name = "NAME=VALUE")]
        set: Vec<String>,
        /// How strong it is
        #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, value_parser = parse_finite)]
        weight: Option<f64>,
    },
    /// Delete a relationship; its history stays, and it can be restored
    Delete {
        /// Its id, the end of its id as `relationship list` shows it, or `last`
        relationship: String,
        /// With `last`, delete it without asking
        #[arg(long, short)]
        yes: bool,
    },
    /// List every version of a relationship, newest first, also of a deleted one
    History {
        /// Its id, the end of its id, or `last`, the newest that is not deleted
        relationship: String,
    },
    /// Restore a deleted relationship between objects that exist
    Restore {
        /// Its id, the end of its id, or `last`, the one that was deleted last
        relationship: String,
    },
}

impl Relationship {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Relationship::List { object, types, deleted: true, .. } => {
                list_deleted(client, object.as_deref(), &types, as_json).await
            }
            Relationship::List { object: None, types, as_of, limit, .. } => {
                let moment = Moment::parse(as_of.as_deref())?;
                list_newest(client, &types, moment, limit, as_json).await
            }
            Relationship::List { object: Some(object), types, direction, as_of, .. } => {
                let moment = Moment::parse(as_of.as_deref())?;
                let id = resolve_object_at(client, &object, moment).await?;
                let mut filter: String =
                    types.iter().map(|type_| format!("&type={}", encode(type_))).collect();
                if let Some(moment) = moment {
                    filter.push_str(&format!("&asOf={}", encode(&moment.time().to_string())));
                }
                let list = async |end: &str| {
                    let path = format!("/api/graph/relationships?{end}={id}{filter}");
                    client.get_all_pages::<Received<RelationshipView>>(&path).await
                };
                let mut edges = if direction == "in" { Vec::new() } else { list("fromId").await? };
                if direction != "out" {
                    let reaching = list("toId").await?.into_iter();
                    // A relationship of the object with itself is in both lists.
                    edges.extend(reaching.filter(|edge| direction == "in" || edge.from_id != id));
                }
                // Relationships of the past may have had types that none has today.
                if edges.is_empty() && moment.is_none() && !types.is_empty() {
                    warn_of_unused_types(client, &types).await;
                }
                if as_json {
                    output::print_json(&edges)
                } else {
                    let around = Traverse {
                        max_depth: Some(1),
                        relationship_types: types,
                        as_of: moment.map(|moment| moment.time()),
                        ..traverse_from(id)
                    };
                    let around: TraversalView =
                        client.post("/api/graph/traverse", &around).await?.data().await?;
                    let keys = around.nodes.iter().filter_map(|node| Some((node, node.key.as_ref()?)));
                    let labels = keys.map(|(node, key)| (node.id, format!("{}/{key}", node.type_)));
                    print_edges(&labels.collect(), &edges)
                }
            }
            Relationship::Create { from, type_, to, set, weight } => {
                let from_id = ObjectId(resolve_object(client, &from).await?).into();
                let to_id = ObjectId(resolve_object(client, &to).await?).into();
                let properties = parse_properties(&set)?;
                let body = CreateRelationship { type_, from_id, to_id, properties, weight };
                let response = client.post("/api/graph/relationships", &body).await?;
                let is_new = response.status == StatusCode::CREATED;
                let edge: Received<RelationshipView> = response.data().await?;
                if as_json {
                    return output::print_json(&edge);
                }
                let RelationshipView { type_, id, version, .. } = &*edge;
                output::print_text(&match is_new {
                    true => format!("{type_} ({id}) leads from {from} to {to}, version {version}"),
                    false => format!("{type_} ({id}) from {from} to {to} exists already, version {version}"),
                })?;
                let asks_for_more = !body.properties.is_empty() || body.weight.is_some();
                if !is_new && asks_for_more {
                    output::print_notice("Its properties and its weight stay as they were.");
                }
                Ok(())
            }
            Relationship::Delete { relationship, yes } => {
                let id = resolve_id(client, &RELATIONSHIPS, &relationship).await?;
                let path = format!("/api/graph/relationships/{id}");
                if relationship == LAST {
                    let edge: Received<RelationshipView> = client.get(&path).await?.data().await?;
                    let from = object_label(client, edge.from_id).await?;
                    let to = object_label(client, edge.to_id).await?;
                    ask_about_last(&relationship, yes, &format!("delete {from} ─{}→ {to}", edge.type_))?;
                }
                let deleted: Received<RelationshipView> = client.delete(&path).await?.data().await?;
                if as_json {
                    return output::print_json(&deleted);
                }
                let restore = hints::command(&format!("relationship restore {}", deleted.id));
                output::print_text(&format!("{} is deleted; `{restore}` restores it", deleted.type_))
            }
            Relationship::History { relationship } => {
                let id = resolve_any(client, &relationship).await?;
                let path = format!("/api/graph/relationships/{id}/history");
                let versions: Vec<Received<RelationshipView>> = client.get_all_pages(&path).await?;
                if as_json { output::print_json(&versions) } else { print_history(client, &versions).await }
            }
            Relationship::Restore { relationship } => {
                let id = resolve_deleted(client, &DELETED_RELATIONSHIPS, &relationship).await?;
                let path = format!("/api/graph/relationships/{id}/restore");
                let restored: Received<RelationshipView> =
                    client.post(&path, &Map::new()).await?.data().await?;
                if as_json {
                    return output::print_json(&restored);
                }
                output::print_text(&format!(
                    "{} ({}) is live, version {}",
                    restored.type_, restored.id, restored.version
                ))
            }
        }
    }
}

/// Lists the newest relationships of the project. Those that record the work of the server have to be asked for by a type.
async fn list_newest(
    client: &Client,
    types: &[String],
    moment: Option<Moment<'_>>,
    limit: u32,
    as_json: bool,
) -> Result<()> {
    let time = moment.map(|moment| format!("asOf={}", encode(&moment.time().to_string())));
    let filters: Vec<String> =
        types.iter().map(|type_| format!("type={}", encode(type_))).chain(time.clone()).collect();
    let path = format!("{}?{}", newest::RELATIONSHIPS, filters.join("&"));
    let at = time.map(|time| format!("?{time}")).unwrap_or_default();
    let mut ends = Ends::new(client, &at);
    let edges = if types.is_empty() {
        let first = newest::newest_relationships(client, &path, limit as usize, &mut ends).await?;
        if first.has_more {
            output::print_notice(&match first.edges.len() < limit as usize {
                true => format!(
                    "only the newest {} were looked at, and the others are of tasks, sessions and discussions: --type TYPE \
                     lists older ones",
                    first.read
                ),
                false => format!("{limit} shown, there are more: --limit N"),
            });
        }
        first.edges
    } else {
        let edges = client.get_limited(&path, limit).await?;
        if edges.is_empty() && moment.is_none() {
            warn_of_unused_types(client, types).await;
        }
        edges
    };
    if as_json {
        return output::print_json(&edges);
    }
    let mut labels = HashMap::new();
    for id in edges.iter().flat_map(|edge| [edge.from_id, edge.to_id]) {
        labels.insert(id, ends.label(id).await?);
    }
    print_edges(&labels, &edges)
}

/// Prints relationships. `labels` has the types and keys of their ends; an end that it does not have is named by its id.
fn print_edges(labels: &HashMap<Uuid, String>, edges: &[Received<RelationshipView>]) -> Result<()> {
    let label = |id: Uuid| labels.get(&id).cloned().unwrap_or_else(|| id.to_string());
    let cells = |edge: &Received<RelationshipView>| {
        vec![
            edge.id.to_string(),
            label(edge.from_id),
            edge.type_.clone(),
            label(edge.to_id),
            edge.version.to_string(),
            edge.updated_at.to_string(),
        ]
    };
    let rows: Vec<_> = edges.iter().map(cells).collect();
    let headers = ["ID", "FROM", "TYPE", "TO", "VERSION", "WRITTEN"];
    output::print_table_with_optional(&headers, &rows, &["FROM", "TO"], &["VERSION", "WRITTEN"])
}

/// Lists the deleted relationships of an object, or all. An end that is deleted as well is named by its id.
async fn list_deleted(client: &Client, object: Option<&str>, types: &[String], as_json: bool) -> Result<()> {
    let types: String = types.iter().map(|type_| format!("&type={}", encode(type_))).collect();
    let list = async |end: &str| {
        let path = format!("{}{end}{types}", DELETED_RELATIONSHIPS.path());
        client.get_all_pages::<Received<RelationshipView>>(&path).await
    };
    let edges = match object {
        None => list("").await?,
        Some(object) => {
            let id = resolve_object(client, object).await?;
            let mut edges = list(&format!("&fromId={id}")).await?;
            let reaching = list(&format!("&toId={id}")).await?.into_iter();
            edges.extend(reaching.filter(|edge| edge.from_id != id));
            edges
        }
    };
    if as_json {
        return output::print_json(&edges);
    }
    if edges.is_empty() && output::terminal_width().is_some() {
        return output::print_text("There are no deleted relationships that match.");
    }
    let (mut ends, mut rows) = (Ends::new(client, ""), Vec::with_capacity(edges.len()));
    for edge in &edges {
        let deleted_at = edge.deleted_at.map(|time| time.to_string()).unwrap_or_default();
        let (from, to) = (ends.label(edge.from_id).await?, ends.label(edge.to_id).await?);
        rows.push(vec![edge.id.to_string(), from, edge.type_.clone(), to, deleted_at]);
    }
    output::print_table(&["ID", "FROM", "TYPE", "TO", "DELETED"], &rows)
}

/// The id of a relationship that may be deleted. The end of an id is looked up among the live ones first.
async fn resolve_any(client: &Client, reference: &str) -> Result<String> {
    let live = resolve_id(client, &RELATIONSHIPS, reference).await;
    match live {
        Err(error @ Error::Usage(_)) if reference != LAST => {
            resolve_deleted(client, &DELETED_RELATIONSHIPS, reference).await.map_err(|_| error)
        }
        live => live,
    }
}

/// An end of a relationship as `TYPE/KEY`; its id if it has no key, or is deleted.
async fn end_text(client: &Client, id: Uuid) -> String {
    let found = async {
        let end: Received<ObjectView> =
            client.get(&format!("/api/graph/objects/{id}")).await.ok()?.data().await.ok()?;
        Some(format!("{}/{}", end.type_, end.key.as_ref()?))
    };
    found.await.unwrap_or_else(|| id.to_string())
}

async fn print_history(client: &Client, versions: &[Received<RelationshipView>]) -> Result<()> {
    if let Some(newest) = versions.first() {
        let (from, to) = (end_text(client, newest.from_id).await, end_text(client, newest.to_id).await);
        output::print_row(&format!("{} {from} → {to}", newest.type_))?;
    }
    let rows: Vec<VersionRow<'_>> = versions
        .iter()
        .enumerate()
        .map(|(index, version)| VersionRow {
            version: version.version,
            updated_at: version.updated_at,
            author: &version.author,
            change: relationship_change(versions.get(index + 1).map(|before| &**before), version),
            reason: version.reason.as_deref(),
        })
        .collect();
    print_versions(client, &rows).await
}
