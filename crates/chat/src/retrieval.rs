//! Conversations without an agent: a model is shown what a search finds for the message. Its run needs a definition,
//! which this module stores as a deleted agent: nobody can start, change or list it, and its runs are shown like those
//! of every deleted agent.

use std::collections::HashMap;

use emergent_domain::{
    agent::{Agent, AgentDefinition},
    author::Author,
    conversation::{Citation, CitationKind, RetrievedPassage},
    document::Chunk,
    ids::{AgentId, DocumentId, ProjectId},
    object::Object,
    query::{Hit, ObjectFilter, SearchMode, SearchQuery},
    text::truncate,
    text_query::without_exclusion_signs,
    time::Timestamp,
};
use emergent_store::{Tx, agents};
use uuid::Uuid;

use crate::{Chat, Result};

/// How many passages a model is shown.
const MAX_PASSAGES: usize = 8;
/// How many objects, and how many parts of documents, are searched.
const HITS: usize = 6;
/// The score below which a hit is no passage. The best hit by words has a score of about 1. What only shares parts of
/// words with the message, as `Othello` does with `Hello`, is below a millionth.
const MIN_SCORE: f64 = 1e-3;
/// The maximum length of a passage in characters.
const MAX_PASSAGE_CHARS: usize = 1_500;
/// How much of the message is searched for, in characters.
const MAX_QUERY_CHARS: usize = 1_000;
const AGENT_NAME: &str = "chat-retrieval";
/// Differs from the id of every project, so that no other id is computed from a project like this.
const AGENT_ID_MASK: u128 = 0x6368_6174_0000_0000_0000_7265_7472_6965;

const SYSTEM_PROMPT: &str = "You answer questions about what this project knows. Each message comes with numbered \
passages that a search found in the project's knowledge graph and documents. Base the answer on them and cite them \
as [1], [2]. If they do not contain the answer, say so clearly and do not invent one.";

impl Chat {
    /// Returns the objects and parts of documents that fit a message best.
    pub(crate) async fn retrieve(&self, project: ProjectId, message: &str) -> Result<Vec<RetrievedPassage>> {
        let graph = self.executor.graph();
        let words: String = message.chars().take(MAX_QUERY_CHARS).collect();
        // A message is no query: a dash in it excludes nothing.
        let words = without_exclusion_signs(&words).into_owned();
        let query = SearchQuery {
            query: words.clone(),
            mode: SearchMode::Auto,
            filter: ObjectFilter::default(),
            include_system: false,
            min_similarity: None,
            limit: HITS,
            weights: None,
        };
        let objects = graph.search(project, query).await;
        let chunks = graph.search_chunks(project, &words, SearchMode::Auto, HITS, None, None).await;
        let mut passages: Vec<RetrievedPassage> = Vec::new();
        passages.extend(hits_or_none(objects)?.into_iter().map(from_object));
        let chunks = hits_or_none(chunks)?;
        let documents = chunks.iter().map(|hit| hit.item.document).collect();
        let titles = graph.document_titles(project, documents).await?;
        passages.extend(chunks.into_iter().map(|hit| from_chunk(hit, &titles)));
        passages.retain(|passage| passage.score >= MIN_SCORE);
        passages.sort_by(|one, other| other.score.total_cmp(&one.score));
        passages.truncate(MAX_PASSAGES);
        Ok(passages)
    }
}

/// A message that cannot be searched for, because it has only signs, finds nothing.
fn hits_or_none<T>(
    found: emergent_graph::Result<emergent_domain::query::SearchResult<T>>,
) -> Result<Vec<Hit<T>>> {
    match found {
        Ok(found) => Ok(found.hits),
        Err(emergent_graph::Error::Invalid(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn from_object(hit: Hit<Object>) -> RetrievedPassage {
    let properties = hit.item.properties.to_map();
    let title = ["title", "name"].into_iter().find_map(|name| properties.get(name)?.as_str());
    let title = title.map(|title| truncate(title, 120));
    let text = serde_json::to_string(&properties).unwrap_or_default();
    let source = Citation {
        kind: CitationKind::Object,
        id: hit.item.id.0,
        document_id: None,
        type_: Some(hit.item.type_),
        key: hit.item.key,
        title,
        index: None,
        from_id: None,
        to_id: None,
    };
    RetrievedPassage { source, text: truncate(&text, MAX_PASSAGE_CHARS), score: hit.score }
}

/// A passage is called by its heading, or else by the title of its document.
fn from_chunk(hit: Hit<Chunk>, titles: &HashMap<DocumentId, String>) -> RetrievedPassage {
    let title = hit.item.heading.as_ref().or_else(|| titles.get(&hit.item.document));
    let title = title.map(|title| truncate(title, 120));
    let source = Citation {
        kind: CitationKind::Chunk,
        id: hit.item.id.0,
        document_id: Some(hit.item.document.0),
        type_: None,
        key: None,
        title,
        index: Some(hit.item.index),
        from_id: None,
        to_id: None,
    };
    RetrievedPassage { source, text: truncate(&hit.item.text, MAX_PASSAGE_CHARS), score: hit.score }
}

/// Returns the input of a run: the message, and the passages below it.
pub(crate) fn with_passages(message: &str, passages: &[RetrievedPassage]) -> String {
    if passages.is_empty() {
        return format!("{message}\n\nThe search found no passages.");
    }
    let mut text = format!("{message}\n\nPassages:");
    for (index, passage) in passages.iter().enumerate() {
        let number = index + 1;
        let Citation { type_, key, title, .. } = &passage.source;
        let names = [type_, key, title].into_iter().flatten();
        let names: Vec<&str> = names.map(String::as_str).collect();
        text.push_str(&format!("\n[{number}] {}\n{}", names.join(" "), passage.text));
    }
    text
}

fn definition() -> AgentDefinition {
    AgentDefinition {
        description: "Answers the messages of conversations without an agent.".to_owned(),
        system_prompt: SYSTEM_PROMPT.to_owned(),
        ..AgentDefinition::new(AGENT_NAME)
    }
}

/// Returns the definition that answers in conversations without an agent, and stores it if the project does not have
/// it, or has that of another version of the server.
pub(crate) fn stored_agent(
    tx: &mut Tx<'_>,
    project: ProjectId,
    now: Timestamp,
) -> Result<Agent, emergent_store::Error> {
    let (id, definition) = (AgentId(Uuid::from_u128(project.0.as_u128() ^ AGENT_ID_MASK)), definition());
    let is_current = |agent: &Agent| agent.definition == definition;
    if let Some(agent) = agents::get_including_deleted(tx, project, id)?.filter(is_current) {
        return Ok(agent);
    }
    // Two servers could insert it at the same moment.
    tx.advisory_lock(&format!("chat:{project}"))?;
    match agents::get_including_deleted(tx, project, id)? {
        Some(agent) if is_current(&agent) => Ok(agent),
        Some(agent) => {
            let next = Agent { version: agent.version + 1, definition, updated_at: now, ..agent };
            agents::update(tx, &next, Author::System)?;
            Ok(next)
        }
        None => {
            let (created_at, updated_at, deleted_at) = (now, now, Some(now));
            let agent = Agent { id, project, version: 1, definition, created_at, updated_at, deleted_at };
            agents::insert(tx, &agent, Author::System)?;
            Ok(agent)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_reads_the_message_first_and_numbered_passages_below_it() {
        let source = Citation {
            kind: CitationKind::Object,
            id: Uuid::nil(),
            document_id: None,
            type_: Some("Person".to_owned()),
            key: Some("ada".to_owned()),
            title: None,
            index: None,
            from_id: None,
            to_id: None,
        };
        let passage = RetrievedPassage { source, text: "{\"born\":1815}".to_owned(), score: 1.0 };
        let text = with_passages("When?", &[passage]);
        assert_eq!(text, "When?\n\nPassages:\n[1] Person ada\n{\"born\":1815}");
        assert_eq!(with_passages("When?", &[]), "When?\n\nThe search found no passages.");
    }
}
