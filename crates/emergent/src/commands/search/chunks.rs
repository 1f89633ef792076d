//! `emergent document search`.

use std::collections::HashMap;

use emergent_domain::query::SearchMode;
use emergent_wire::{
    document::{ChunkView, DocumentView},
    search::{ChunkGroup, ChunkSearchView, SearchChunks},
};
use uuid::Uuid;

use super::{
    MAX_TEXT_CHARS, SearchFlags,
    explanation::{self, QuestionWords},
    print_end, ranks, warn_without_embedder,
};
use crate::{
    client::{Client, Received},
    commands::{
        parse_flag,
        pending_embeddings::warn_of_pending_embeddings,
        resolve::{DOCUMENTS, resolve_id},
    },
    error::{Error, Result},
    output::{self, bold, dim, first_line},
};

#[derive(Debug, clap::Args)]
pub struct ChunkSearch {
    /// What to look for
    query: String,
    #[command(flatten)]
    flags: SearchFlags,
    /// Only in this document: a title, an id, the end of an id, or `last`
    #[arg(long)]
    document: Option<String>,
    /// Put the passages of a document together
    #[arg(long, value_name = "PARENT", value_parser = ["document"])]
    group: Option<String>,
}

impl ChunkSearch {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let mode = self.flags.mode()?;
        let group: Option<ChunkGroup> = parse_flag("--group", self.group.as_deref())?;
        let document_id = match &self.document {
            Some(document) => Some(find_document(client, document).await?),
            None => None,
        };
        let SearchFlags { min_similarity, limit, budget_tokens, explain, .. } = self.flags;
        let query = self.query;
        let body =
            SearchChunks { query, mode, document_id, min_similarity, limit, explain, group, budget_tokens };
        let results: Received<ChunkSearchView> =
            client.post("/api/documents/search", &body).await?.data().await?;
        if mode != SearchMode::Text {
            warn_of_pending_embeddings(client).await;
        }
        warn_without_embedder(mode, results.embedding);
        if as_json { output::print_json(&results) } else { print_hits(client, &body, &results).await }
    }
}

async fn find_document(client: &Client, document: &str) -> Result<Uuid> {
    let id = resolve_id(client, &DOCUMENTS, document).await?;
    id.parse().map_err(|error| Error::Unexpected(format!("`{id}` is not an id: {error}")))
}

async fn print_hits(client: &Client, body: &SearchChunks, results: &ChunkSearchView) -> Result<()> {
    if results.hits.is_empty() {
        return output::print_line("nothing found");
    }
    let titles = load_titles(client, results).await;
    let name = |chunk: &ChunkView| {
        let document = titles.get(&chunk.document_id).cloned();
        let document = document.unwrap_or_else(|| chunk.document_id.to_string());
        format!("{document}, chunk {}", chunk.index)
    };
    let question = QuestionWords::new(&body.query);
    for (index, hit) in results.hits.iter().enumerate() {
        let chunk = &hit.chunk;
        let heading = chunk.heading.as_deref().map(|heading| format!("  {heading}")).unwrap_or_default();
        let (title, ranks) = (bold(&name(chunk)), dim(&ranks(&hit.channels)));
        output::print_row(&format!("{:>3}  {title}{heading}  {ranks}", index + 1))?;
        let text = chunk.text.split_whitespace().collect::<Vec<_>>().join(" ");
        output::print_row(&format!("     {}", first_line(&text, MAX_TEXT_CHARS)))?;
        if body.explain {
            let all_text = format!("{}\n{}", chunk.heading.as_deref().unwrap_or_default(), chunk.text);
            let linked = hit.channels.link.as_ref();
            let seed = linked.and_then(|link| results.hits.iter().find(|other| other.chunk.id == link.from));
            let from = seed.map(|seed| name(&seed.chunk));
            explanation::print(&hit.channels, &question.found_in(&all_text), from.as_deref())?;
        }
    }
    print_end(results.truncated)
}

/// The titles of the documents of the hits. One that was deleted in the meantime is missing.
async fn load_titles(client: &Client, results: &ChunkSearchView) -> HashMap<Uuid, String> {
    let mut titles = HashMap::new();
    for hit in &results.hits {
        let id = hit.chunk.document_id;
        if titles.contains_key(&id) {
            continue;
        }
        let Ok(response) = client.get(&format!("/api/documents/{id}")).await else { continue };
        if let Ok(DocumentView { title, .. }) = response.data().await {
            titles.insert(id, title);
        }
    }
    titles
}
