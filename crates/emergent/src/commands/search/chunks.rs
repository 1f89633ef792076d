//! `emergent document search`.

use emergent_domain::query::SearchMode;
use emergent_wire::search::{ChunkGroup, ChunkHitView, ChunkSearchView, SearchChunks};
use uuid::Uuid;

use super::{
    MAX_TEXT_CHARS, SearchFlags,
    explanation::{self, QuestionWords},
    print_end, print_hit, warn_without_embedder,
};
use crate::{
    client::{Client, Received},
    commands::{
        parse_flag,
        pending_embeddings::warn_of_pending_embeddings,
        resolve::{DOCUMENTS, resolve_id},
    },
    error::{Error, Result},
    output::{self, bold, first_line},
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
        if as_json { output::print_json(&results) } else { print_hits(&body, &results) }
    }
}

async fn find_document(client: &Client, document: &str) -> Result<Uuid> {
    let id = resolve_id(client, &DOCUMENTS, document).await?;
    id.parse().map_err(|error| Error::Unexpected(format!("`{id}` is not an id: {error}")))
}

fn print_hits(body: &SearchChunks, results: &ChunkSearchView) -> Result<()> {
    if results.hits.is_empty() {
        return output::print_line("nothing found");
    }
    let name = |hit: &ChunkHitView| {
        let document = hit.document_title.clone().unwrap_or_else(|| hit.chunk.document_id.to_string());
        format!("{document}, chunk {}", hit.chunk.index)
    };
    let question = QuestionWords::new(&body.query);
    let mut shows_ranks = false;
    for (index, hit) in results.hits.iter().enumerate() {
        let chunk = &hit.chunk;
        let heading = chunk.heading.as_deref().map(|heading| format!("  {heading}")).unwrap_or_default();
        let title = bold(&name(hit));
        shows_ranks |= print_hit(&format!("{:>3}  {title}{heading}", index + 1), &hit.channels)?;
        let text = chunk.text.split_whitespace().collect::<Vec<_>>().join(" ");
        output::print_row(&format!("     {}", first_line(&text, MAX_TEXT_CHARS)))?;
        if body.explain {
            let all_text = format!("{}\n{}", chunk.heading.as_deref().unwrap_or_default(), chunk.text);
            let linked = hit.channels.link.as_ref();
            let seed = linked.and_then(|link| results.hits.iter().find(|other| other.chunk.id == link.from));
            let from = seed.map(name);
            explanation::print(&hit.channels, &question.found_in(&all_text), from.as_deref())?;
        }
    }
    print_end(results.truncated, shows_ranks)
}
