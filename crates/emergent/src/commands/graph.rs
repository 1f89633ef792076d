//! `emergent graph`: search, traverse, import and export the knowledge graph.

use emergent_domain::{json::JsonObject, query::Direction};
use emergent_wire::{
    author::AuthorView,
    object::ObjectView,
    search::{SearchObjects, SearchView},
    traverse::{NodeView, TraversalView, Traverse},
};
use serde::Deserialize;
use uuid::Uuid;

use super::{
    encode, parse_flag,
    transfer::{Export, Import},
};
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    output::{self, bold, dim, first_line},
};

#[derive(Debug, clap::Subcommand)]
pub enum Graph {
    /// Read objects and relationships from an NDJSON file
    ///
    /// Objects are found again by type and key, edges by their ends: an import that was cut off
    /// is started again and goes on.
    Import(Import),
    /// Write the whole graph as NDJSON
    Export(Export),
    /// Find objects by words, by meaning, or both
    Search {
        query: String,
        #[arg(long, default_value = "hybrid", value_parser = ["hybrid", "text", "vector"])]
        mode: String,
        /// Only objects of this type (may be repeated)
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// Only objects with this label (may be repeated)
        #[arg(long = "label", value_name = "LABEL")]
        labels: Vec<String>,
        #[arg(long, default_value_t = 10)]
        limit: i64,
    },
    /// Walk from an object, breadth first
    Traverse {
        /// An id, or TYPE/KEY
        object: String,
        #[arg(long, default_value_t = 1)]
        depth: usize,
        #[arg(long, default_value = "both", value_parser = ["out", "in", "both"])]
        direction: String,
        /// Only edges of this type (may be repeated)
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        #[arg(long, default_value_t = 200)]
        max_nodes: usize,
    },
    /// One object, with its edges
    Show {
        /// An id, or TYPE/KEY
        object: String,
    },
    /// Every version of an object, newest first
    History {
        /// An id, or TYPE/KEY
        object: String,
    },
}

impl Graph {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Graph::Import(import) => import.run(client, as_json).await,
            Graph::Export(export) => export.run(client).await,
            Graph::Search { query, mode, types, labels, limit } => {
                let body = SearchObjects {
                    query,
                    mode: parse_flag("--mode", Some(&mode))?.unwrap_or_default(),
                    types,
                    labels,
                    status: None,
                    filters: Vec::new(),
                    limit: Some(limit),
                    weights: None,
                };
                let found: Received<SearchView> =
                    client.post("/api/graph/search", &body).await?.data().await?;
                if as_json { output::print_json(&found) } else { print_hits(&found) }
            }
            Graph::Traverse { object, depth, direction, types, max_nodes } => {
                let id = resolve_object(client, &object).await?;
                let body = Traverse {
                    direction: parse_flag("--direction", Some(&direction))?.unwrap_or_default(),
                    max_depth: Some(depth),
                    relationship_types: types,
                    max_nodes: Some(max_nodes),
                    ..traverse_from(id)
                };
                let walked: Received<TraversalView> =
                    client.post("/api/graph/traverse", &body).await?.data().await?;
                if as_json { output::print_json(&walked) } else { print_traversal(&walked) }
            }
            Graph::Show { object } => {
                let id = resolve_object(client, &object).await?;
                let found: Received<ObjectView> =
                    client.get(&format!("/api/graph/objects/{id}")).await?.data().await?;
                if as_json {
                    return output::print_json(&found);
                }
                output::print_line(&bold(&title(
                    &found.type_,
                    found.key.as_deref(),
                    found.id,
                    &found.properties,
                )))?;
                output::print_json(&found)?;
                let body = Traverse { max_depth: Some(1), max_nodes: Some(100), ..traverse_from(id) };
                let walked: Received<TraversalView> =
                    client.post("/api/graph/traverse", &body).await?.data().await?;
                print_traversal(&walked)
            }
            Graph::History { object } => {
                let id = resolve_object(client, &object).await?;
                let versions: Vec<Received<ObjectView>> =
                    client.get_all_pages(&format!("/api/graph/objects/{id}/history")).await?;
                if as_json { output::print_json(&versions) } else { print_history(&versions) }
            }
        }
    }
}

/// An id as it is; `Type/key` looked up.
async fn resolve_object(client: &Client, object: &str) -> Result<Uuid> {
    let Some((type_, key)) = object.split_once('/') else {
        let wrong = |why| Error::Usage(format!("`{object}` is neither an id nor TYPE/KEY: {why}"));
        return object.parse().map_err(wrong);
    };
    let path = format!("/api/graph/objects?type={}&key={}&limit=1", encode(type_), encode(key));
    let found: Vec<ObjectView> = client.get(&path).await?.data().await?;
    match found.first() {
        Some(object) => Ok(object.id),
        None => Err(Error::Usage(format!("there is no {type_} with the key `{key}` in this project"))),
    }
}

fn traverse_from(id: Uuid) -> Traverse {
    Traverse {
        start_ids: vec![id.into()],
        direction: Direction::default(),
        max_depth: None,
        relationship_types: Vec::new(),
        object_types: Vec::new(),
        max_nodes: None,
        max_edges: None,
        as_of: None,
    }
}

/// The properties that most types have, by which people know an object.
#[derive(Default, Deserialize)]
struct DisplayProperties {
    #[serde(default, deserialize_with = "text_or_none")]
    name: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    title: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    label: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    topic: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    description: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    summary: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    content: Option<String>,
}

impl DisplayProperties {
    fn from_object(properties: &JsonObject) -> Self {
        serde_json::from_str(properties.as_str()).unwrap_or_default()
    }

    fn name(self) -> Option<String> {
        self.name.or(self.title).or(self.label).or(self.topic)
    }

    fn text(self) -> Option<String> {
        self.description.or(self.summary).or(self.content)
    }
}

/// A project may keep anything under these names: what is no text is left out.
fn text_or_none<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(match serde_json::Value::deserialize(from)? {
        serde_json::Value::String(text) => Some(text),
        _ => None,
    })
}

/// `Person/ada-lovelace  Ada Lovelace`, or what there is of it.
fn title(type_: &str, key: Option<&str>, id: Uuid, properties: &JsonObject) -> String {
    let key = key.map_or_else(|| id.to_string(), str::to_owned);
    let name =
        DisplayProperties::from_object(properties).name().map(|name| format!("  {name}")).unwrap_or_default();
    format!("{type_}/{key}{name}")
}

fn print_hits(found: &SearchView) -> Result<()> {
    if found.hits.is_empty() {
        return output::print_line("nothing found");
    }
    for (at, hit) in found.hits.iter().enumerate() {
        let object = &hit.object;
        let channels: Vec<_> = [("text", &hit.channels.text), ("vector", &hit.channels.vector)]
            .into_iter()
            .filter_map(|(name, channel)| channel.as_ref().map(|channel| format!("{name} #{}", channel.rank)))
            .collect();
        output::print_line(&format!(
            "{:>3}  {}  {}",
            at + 1,
            bold(&title(&object.type_, object.key.as_deref(), object.id, &object.properties)),
            dim(&channels.join(", "))
        ))?;
        if let Some(text) = DisplayProperties::from_object(&object.properties).text() {
            output::print_line(&format!("     {}", first_line(&text, 100)))?;
        }
    }
    Ok(())
}

/// A tree by depth: each node under the edge that led to it.
fn print_traversal(walked: &TraversalView) -> Result<()> {
    let TraversalView { nodes, edges, truncated } = walked;
    let node = |id: Uuid| nodes.iter().find(|node| node.id == id);
    let name = |node: &NodeView| {
        DisplayProperties::from_object(&node.properties).name().or_else(|| node.key.clone())
    };
    for one in nodes {
        let indent = "  ".repeat(one.depth);
        let by = edges.iter().find_map(|edge| {
            let (here, other, arrow) = if edge.to_id == one.id {
                (true, node(edge.from_id)?, "→")
            } else {
                (edge.from_id == one.id, node(edge.to_id)?, "←")
            };
            let nearer = other.depth + 1 == one.depth;
            let from = name(other).unwrap_or_else(|| "…".to_owned());
            (here && nearer).then(|| format!("{from} {arrow} {}", edge.type_))
        });
        let title = title(&one.type_, one.key.as_deref(), one.id, &one.properties);
        output::print_line(&format!("{indent}{}  {}", bold(&title), dim(&by.unwrap_or_default())))?;
    }
    let cut = if *truncated { ", cut by a limit" } else { "" };
    output::print_line(&dim(&format!("{} objects, {} edges{cut}", nodes.len(), edges.len())))
}

fn print_history(versions: &[Received<ObjectView>]) -> Result<()> {
    let rows: Vec<_> = versions
        .iter()
        .map(|version| {
            let by = match &version.author {
                AuthorView::Run { run_id, .. } => format!("run {run_id}"),
                AuthorView::Token { id } => format!("token {id}"),
                AuthorView::System => "system".to_owned(),
            };
            let what = match version.deleted_at {
                Some(_) => "deleted",
                None => version.properties.as_str(),
            };
            vec![version.version.to_string(), version.updated_at.to_string(), by, first_line(what, 80)]
        })
        .collect();
    output::print_table(&["VERSION", "WRITTEN", "BY", "PROPERTIES"], &rows)?;
    for version in versions {
        if let Some(reason) = &version.reason {
            output::print_line(&dim(&format!("version {}: {reason}", version.version)))?;
        }
    }
    Ok(())
}
