//! `emergent graph`: look into the graph, fill it, take it along.

use serde_json::{Value, json};

use super::{
    encode,
    transfer::{Export, Import},
};
use crate::{
    client::Client,
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
        limit: u32,
    },
    /// Walk from an object, breadth first
    Traverse {
        /// An id, or TYPE/KEY
        object: String,
        #[arg(long, default_value_t = 1)]
        depth: u32,
        #[arg(long, default_value = "both", value_parser = ["out", "in", "both"])]
        direction: String,
        /// Only edges of this type (may be repeated)
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        #[arg(long, default_value_t = 200)]
        max_nodes: u32,
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
                let body =
                    json!({ "query": query, "mode": mode, "types": types, "labels": labels, "limit": limit });
                let found: Value = client.post("/api/graph/search", &body).await?.data().await?;
                if as_json { output::print_json(&found) } else { print_hits(&found) }
            }
            Graph::Traverse { object, depth, direction, types, max_nodes } => {
                let id = resolve_object(client, &object).await?;
                let body = json!({ "startIds": [id], "maxDepth": depth, "direction": direction,
                    "relationshipTypes": types, "maxNodes": max_nodes });
                let walked: Value = client.post("/api/graph/traverse", &body).await?.data().await?;
                if as_json { output::print_json(&walked) } else { print_traversal(&walked) }
            }
            Graph::Show { object } => {
                let id = resolve_object(client, &object).await?;
                let found: Value = client.get(&format!("/api/graph/objects/{id}")).await?.data().await?;
                if as_json {
                    return output::print_json(&found);
                }
                output::print_line(&bold(&title(&found)))?;
                output::print_json(&found)?;
                let body = json!({ "startIds": [id], "maxDepth": 1, "maxNodes": 100 });
                let walked: Value = client.post("/api/graph/traverse", &body).await?.data().await?;
                print_traversal(&walked)
            }
            Graph::History { object } => {
                let id = resolve_object(client, &object).await?;
                let versions = client.get_all_pages(&format!("/api/graph/objects/{id}/history")).await?;
                if as_json { output::print_json(&versions) } else { print_history(&versions) }
            }
        }
    }
}

/// An id as it is; `Type/key` looked up.
async fn resolve_object(client: &Client, object: &str) -> Result<String> {
    let Some((type_, key)) = object.split_once('/') else { return Ok(encode(object)) };
    let path = format!("/api/graph/objects?type={}&key={}&limit=1", encode(type_), encode(key));
    let found: Vec<Value> = client.get(&path).await?.data().await?;
    match found.first().and_then(|object| object["id"].as_str()) {
        Some(id) => Ok(id.to_owned()),
        None => Err(Error::Usage(format!("there is no {type_} with the key `{key}` in this project"))),
    }
}

/// `Person/ada-lovelace  Ada Lovelace`, or what there is of it.
fn title(object: &Value) -> String {
    let type_ = object["type"].as_str().unwrap_or_default();
    let key = object["key"].as_str().or_else(|| object["id"].as_str()).unwrap_or_default();
    format!("{type_}/{key}{}", name(object).map(|name| format!("  {name}")).unwrap_or_default())
}

fn name(object: &Value) -> Option<&str> {
    ["name", "title", "label", "topic"].iter().find_map(|property| object["properties"][property].as_str())
}

fn print_hits(found: &Value) -> Result<()> {
    let hits = found["hits"].as_array().cloned().unwrap_or_default();
    if hits.is_empty() {
        return output::print_line("nothing found");
    }
    for (at, hit) in hits.iter().enumerate() {
        let object = &hit["object"];
        let channels: Vec<_> = ["text", "vector"]
            .iter()
            .filter_map(|channel| {
                hit["channels"][channel]["rank"].as_u64().map(|rank| format!("{channel} #{rank}"))
            })
            .collect();
        output::print_line(&format!(
            "{:>3}  {}  {}",
            at + 1,
            bold(&title(object)),
            dim(&channels.join(", "))
        ))?;
        if let Some(text) =
            ["description", "summary", "content"].iter().find_map(|p| object["properties"][p].as_str())
        {
            output::print_line(&format!("     {}", first_line(text, 100)))?;
        }
    }
    Ok(())
}

/// A tree by depth: each node under the edge that led to it.
fn print_traversal(walked: &Value) -> Result<()> {
    let nodes = walked["nodes"].as_array().cloned().unwrap_or_default();
    let edges = walked["edges"].as_array().cloned().unwrap_or_default();
    let node = |id: &Value| nodes.iter().find(|node| node["id"] == *id);
    for one in &nodes {
        let depth = one["depth"].as_u64().unwrap_or(0);
        let indent = "  ".repeat(usize::try_from(depth).unwrap_or(0));
        let by = edges.iter().find_map(|edge| {
            let (here, other, arrow) = if edge["toId"] == one["id"] {
                (true, node(&edge["fromId"])?, "→")
            } else {
                (edge["fromId"] == one["id"], node(&edge["toId"])?, "←")
            };
            let nearer = other["depth"].as_u64().unwrap_or(0) + 1 == depth;
            let from = name(other).or_else(|| other["key"].as_str()).unwrap_or("…");
            (here && nearer).then(|| format!("{from} {arrow} {}", edge["type"].as_str().unwrap_or_default()))
        });
        output::print_line(&format!("{indent}{}  {}", bold(&title(one)), dim(&by.unwrap_or_default())))?;
    }
    let cut = if walked["truncated"] == true { ", cut by a limit" } else { "" };
    output::print_line(&dim(&format!("{} objects, {} edges{cut}", nodes.len(), edges.len())))
}

fn print_history(versions: &[Value]) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or("–").to_owned();
    let rows: Vec<_> = versions
        .iter()
        .map(|version| {
            let author = &version["author"];
            let by = match author["type"].as_str() {
                Some("run") => format!("run {}", text(&author["runId"])),
                Some("token") => format!("token {}", text(&author["id"])),
                _ => "system".to_owned(),
            };
            let what = if version["deletedAt"].is_string() {
                "deleted".to_owned()
            } else {
                version["properties"].to_string()
            };
            vec![version["version"].to_string(), text(&version["updatedAt"]), by, first_line(&what, 80)]
        })
        .collect();
    output::print_table(&["VERSION", "WRITTEN", "BY", "PROPERTIES"], &rows)?;
    for version in versions.iter().filter(|version| version["reason"].is_string()) {
        output::print_line(&dim(&format!("version {}: {}", version["version"], text(&version["reason"]))))?;
    }
    Ok(())
}
