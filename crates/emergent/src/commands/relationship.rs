//! `emergent relationship`: the versions of relationships, and restoring deleted ones.

use emergent_wire::relationship::RelationshipView;
use serde_json::Map;

use super::graph::author_text;
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    output::{self, first_line},
    text::is_id,
};

#[derive(Debug, clap::Subcommand)]
pub enum Relationship {
    /// List every version of a relationship, newest first, also of a deleted one
    History {
        /// Its id, as `graph show --json` and the change feed have it
        relationship: String,
    },
    /// Restore a deleted relationship between objects that exist
    Restore {
        /// Its id
        relationship: String,
    },
}

impl Relationship {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Relationship::History { relationship } => {
                let path = format!("/api/graph/relationships/{}/history", parse_id(&relationship)?);
                let versions: Vec<Received<RelationshipView>> = client.get_all_pages(&path).await?;
                if as_json { output::print_json(&versions) } else { print_history(&versions) }
            }
            Relationship::Restore { relationship } => {
                let path = format!("/api/graph/relationships/{}/restore", parse_id(&relationship)?);
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

fn parse_id(text: &str) -> Result<String> {
    match is_id(text) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(Error::Usage(format!("`{text}` is not the id of a relationship"))),
    }
}

fn print_history(versions: &[Received<RelationshipView>]) -> Result<()> {
    if let Some(newest) = versions.first() {
        output::print_row(&format!("{} {} → {}", newest.type_, newest.from_id, newest.to_id))?;
    }
    let rows: Vec<_> = versions
        .iter()
        .map(|version| {
            let content = match version.deleted_at {
                Some(_) => "deleted",
                None => version.properties.as_str(),
            };
            vec![
                version.version.to_string(),
                version.updated_at.to_string(),
                author_text(&version.author),
                first_line(content, 80),
            ]
        })
        .collect();
    output::print_table(&["VERSION", "WRITTEN", "BY", "PROPERTIES"], &rows)?;
    for version in versions {
        if let Some(reason) = &version.reason {
            output::print_dim(&format!("version {}: {reason}", version.version))?;
        }
    }
    Ok(())
}
