//! `emergent graph search`.

use std::collections::{BTreeSet, HashMap};

use emergent_domain::{
    indexed_text::{NAME_PROPERTIES, indexed_text},
    json::JsonObject,
    query::{SearchMode, TraverseQuery},
};
use emergent_wire::{
    object::ObjectView,
    search::{GroupInput, SearchObjects, SearchView},
    traverse::TraversalView,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    MAX_TEXT_CHARS, SearchFlags,
    explanation::{self, QuestionWords},
    print_end, print_hit, warn_without_embedder,
};
use crate::{
    client::{Client, Received},
    commands::{
        graph::{object_name, object_text, title},
        object_types::{hint_at_named_types, warn_of_unknown_types},
        parse_flag,
        pending_embeddings::warn_of_pending_embeddings,
    },
    error::Result,
    output::{self, bold, dim, first_line},
};

#[derive(Debug, clap::Args)]
pub struct ObjectSearch {
    /// What to look for
    query: String,
    #[command(flatten)]
    flags: SearchFlags,
    /// Only objects of this type (may be repeated)
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only objects with this label (may be repeated)
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// Find tasks, sessions, messages and discussions as well
    #[arg(long)]
    include_system: bool,
    /// Put hits with the same parent together: the type of the relationship between them, such as part_of
    #[arg(long, value_name = "TYPE")]
    group: Option<String>,
    /// Whether that relationship starts at the hit (out) or ends there (in) [default: out]
    #[arg(long, value_name = "DIRECTION", requires = "group", value_parser = ["out", "in"])]
    group_direction: Option<String>,
}

impl ObjectSearch {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let mode = self.flags.mode()?;
        let direction = parse_flag("--group-direction", self.group_direction.as_deref())?;
        let SearchFlags { min_similarity, limit, budget_tokens, explain, .. } = self.flags;
        let body = SearchObjects {
            query: self.query,
            mode,
            types: self.types,
            include_system: self.include_system,
            min_similarity,
            labels: self.labels,
            status: None,
            filters: Vec::new(),
            limit,
            weights: None,
            explain,
            group: self.group.map(|relationship| GroupInput { relationship, direction }),
            budget_tokens,
        };
        let results: Received<SearchView> = client.post("/api/graph/search", &body).await?.data().await?;
        if mode != SearchMode::Text {
            warn_of_pending_embeddings(client).await;
        }
        warn_without_embedder(mode, results.embedding);
        if as_json { output::print_json(&results) } else { print_hits(client, &body, &results).await }
    }
}

async fn print_hits(client: &Client, body: &SearchObjects, results: &SearchView) -> Result<()> {
    if results.hits.is_empty() {
        warn_of_unknown_types(client, &body.types).await;
        if body.types.is_empty() {
            hint_at_named_types(client, &body.query).await;
        }
        return output::print_line("nothing found");
    }
    let mut labels = Labels::new(client, results);
    labels.load(results, body.explain).await;
    let question = QuestionWords::new(&body.query);
    let (mut group, mut shows_ranks) = (None, false);
    for (index, hit) in results.hits.iter().enumerate() {
        let object = &hit.object;
        if let Some(parent) = hit.group.filter(|parent| group != Some(*parent)) {
            group = Some(parent);
            output::print_row(&dim(&format!("in {}", labels.find(parent).await)))?;
        }
        let title = title(&object.type_, object.key.as_deref(), object.id, &object.properties);
        shows_ranks |= print_hit(&format!("{:>3}  {}", index + 1, bold(&title)), &hit.channels)?;
        if let Some(text) = excerpt(&object.properties, &question) {
            output::print_row(&format!("     {}", first_line(&text, MAX_TEXT_CHARS)))?;
        }
        if body.explain {
            let from = match &hit.channels.link {
                Some(link) => Some(labels.find(link.from).await),
                None => None,
            };
            explanation::print(&hit.channels, &question.found_in(&all_text(object)), from.as_deref())?;
        }
    }
    print_end(results.truncated, shows_ranks)
}

/// The text that a hit shows: its description, or else, of the texts that do not name it, the one with the most words of the
/// question; of several, the longest.
fn excerpt(properties: &JsonObject, question: &QuestionWords) -> Option<String> {
    object_text(properties).or_else(|| {
        let texts = properties.to_map().into_iter().filter_map(|(name, value)| match value {
            Value::String(text) if !NAME_PROPERTIES.contains(&name.as_str()) => Some(text),
            _ => None,
        });
        texts
            .map(|text| (question.found_in(&text).len(), text))
            // A single word that nobody looked for is a state or an id.
            .filter(|(found, text)| *found > 0 || text.trim().contains(char::is_whitespace))
            .max_by_key(|(found, text)| (*found, text.len()))
            .map(|(_, text)| text)
    })
}

/// How other lines name an object: `Person/ada (Ada Lovelace)`.
fn label(type_: &str, key: Option<&str>, id: Uuid, properties: &JsonObject) -> String {
    let key = key.map_or_else(|| id.to_string(), str::to_owned);
    let name = object_name(properties).map(|name| format!(" ({name})")).unwrap_or_default();
    format!("{type_}/{key}{name}")
}

fn label_of(object: &ObjectView) -> String {
    label(&object.type_, object.key.as_deref(), object.id, &object.properties)
}

/// The text in which words are searched.
fn all_text(object: &ObjectView) -> String {
    let properties = object.properties.to_map();
    let text = indexed_text(&object.type_, object.key.as_deref(), &object.labels, &properties);
    format!("{}\n{}", text.name, text.body)
}

/// The labels of the objects that hits refer to.
struct Labels<'a> {
    client: &'a Client,
    known: HashMap<Uuid, String>,
}

impl<'a> Labels<'a> {
    fn new(client: &'a Client, results: &SearchView) -> Self {
        let known = results.hits.iter().map(|hit| (hit.object.id, label_of(&hit.object))).collect();
        Self { client, known }
    }

    /// Loads the labels of the objects that will be named, many with one request: a traversal of no steps returns the
    /// objects where it starts. Those of a request that fails, because one was deleted, are found one by one.
    async fn load(&mut self, results: &SearchView, with_links: bool) {
        let links = results.hits.iter().filter_map(|hit| hit.channels.link.as_ref()).map(|link| link.from);
        let groups = results.hits.iter().filter_map(|hit| hit.group);
        let named = groups.chain(links.filter(|_| with_links));
        let ids: BTreeSet<Uuid> = named.filter(|id| !self.known.contains_key(id)).collect();
        let ids: Vec<Uuid> = ids.into_iter().collect();
        for batch in ids.chunks(TraverseQuery::MAX_START) {
            let body = json!({ "startIds": batch, "maxDepth": 0, "maxEdges": 0 });
            let Ok(response) = self.client.post("/api/graph/traverse", &body).await else { continue };
            let Ok(TraversalView { nodes, .. }) = response.data().await else { continue };
            self.known.extend(
                nodes.iter().map(|node| {
                    (node.id, label(&node.type_, node.key.as_deref(), node.id, &node.properties))
                }),
            );
        }
    }

    /// The label of an object; its id if it was deleted in the meantime.
    async fn find(&mut self, id: Uuid) -> String {
        if let Some(label) = self.known.get(&id) {
            return label.clone();
        }
        let found = match self.client.get(&format!("/api/graph/objects/{id}")).await {
            Ok(response) => response.data().await.map(|object: ObjectView| label_of(&object)).ok(),
            Err(_) => None,
        };
        let found = found.unwrap_or_else(|| id.to_string());
        self.known.insert(id, found.clone());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_shows_its_description_or_the_text_that_matched_or_the_longest() {
        let question = QuestionWords::new("Where is the kettle?");
        let check = |properties: Value, expected: Option<&str>| {
            let properties = JsonObject::from_text(properties.to_string()).unwrap();
            assert_eq!(excerpt(&properties, &question).as_deref(), expected, "{}", properties.as_str());
        };
        check(json!({ "text": "The kettle is in the kitchen." }), Some("The kettle is in the kitchen."));
        check(json!({ "text": "A kettle.", "description": "A thing" }), Some("A thing"));
        check(json!({ "text": "A kettle.", "note": "A much longer text" }), Some("A kettle."));
        check(json!({ "text": "A short text", "note": "A much longer text" }), Some("A much longer text"));
        check(json!({ "name": "The kettle", "state": "cold", "size": 3, "parts": ["a lid"] }), None);
        check(json!({}), None);
    }
}
