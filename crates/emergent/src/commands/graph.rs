//! `emergent graph`: search, traverse, import and export the knowledge graph.

use emergent_domain::{ids::ObjectId, json::JsonObject, query::Direction, stored_json};
use emergent_wire::{
    object::ObjectView,
    traverse::{TraversalView, Traverse},
};
use serde::Deserialize;
use uuid::Uuid;

use super::{
    encode,
    history::{TokenNames, VersionRow, object_change, print_versions},
    moment::{Moment, resolve_object_at},
    object_types::{types_in_other_case, used_types, warn_of_unused_types},
    parse_flag,
    resolve::{OBJECTS, find_object_of_type, resolve_id, suggestion},
    search::ObjectSearch,
    transfer::{Export, Import},
    traversal::print_traversal,
};
use crate::{
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    hints,
    output::{self, bold},
    text::shorten_ids,
};

/// How many objects `graph show` lists around an object.
const MAX_NEIGHBOURS: usize = 100;
/// Among how many of the newest objects of a type the key is searched that was probably meant.
const MAX_HINTED: usize = 1_000;

#[derive(Debug, clap::Subcommand)]
pub enum Graph {
    /// Read objects and relationships from an NDJSON file
    ///
    /// Objects are found again by type and key, edges by their ends: an import that was cut off
    /// is started again and goes on.
    Import(Import),
    /// Write the current objects and relationships of the project as NDJSON
    ///
    /// Not written: their history, sources, documents, agents, runs, workflows, products, tokens and
    /// secrets. `emergent backup` copies everything.
    Export(Export),
    /// Find objects by words, by meaning, or both
    Search(ObjectSearch),
    /// Traverse the graph from an object, breadth first
    Traverse {
        /// An id, the end of an id, TYPE/KEY, a unique key, or `last`
        object: String,
        /// How many edges away from it
        #[arg(long, default_value_t = 1)]
        depth: usize,
        /// Which edges: those that leave an object, those that reach it, or both
        #[arg(long, default_value = "both", value_parser = ["out", "in", "both"])]
        direction: String,
        /// Only edges of this type (may be repeated)
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// At most this many objects
        #[arg(long, default_value_t = 200)]
        max_nodes: usize,
        /// As the graph was then: at a time such as 2026-01-31T08:00:00Z, or so long ago, such as 24h or 7d
        #[arg(long, value_name = "TIME")]
        as_of: Option<String>,
    },
    /// Show one object, with its edges
    Show {
        /// An id, the end of an id, TYPE/KEY, a unique key, or `last`
        object: String,
        /// As it was then: at a time such as 2026-01-31T08:00:00Z, or so long ago, such as 24h or 7d
        #[arg(long, value_name = "TIME")]
        as_of: Option<String>,
    },
    /// List every version of an object, newest first, also of a deleted one
    History {
        /// An id, the end of an id, TYPE/KEY, a unique key, or `last`; a deleted object: its id or TYPE/KEY
        object: String,
    },
}

impl Graph {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            Graph::Import(_) => DataAccess::Create,
            _ => DataAccess::Existing,
        }
    }

    /// Refuses a file that does not exist, before a data folder is created for it.
    pub fn check_file(&self) -> Result<()> {
        match self {
            Graph::Import(import) => import.check_file(),
            _ => Ok(()),
        }
    }

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Graph::Import(import) => import.run(client, as_json).await,
            Graph::Export(export) => export.run(client).await,
            Graph::Search(search) => search.run(client, as_json).await,
            Graph::Traverse { object, depth, direction, types, max_nodes, as_of } => {
                let moment = Moment::parse(as_of.as_deref())?;
                let id = resolve_object_at(client, &object, moment).await?;
                let body = Traverse {
                    direction: parse_flag("--direction", Some(&direction))?.unwrap_or_default(),
                    max_depth: Some(depth),
                    relationship_types: types.clone(),
                    max_nodes: Some(max_nodes),
                    as_of: moment.map(|moment| moment.time()),
                    ..traverse_from(id)
                };
                let traversal: Received<TraversalView> =
                    client.post("/api/graph/traverse", &body).await?.data().await?;
                // Relationships of the past may have had types that none has today.
                if moment.is_none() {
                    warn_of_unused_types(client, &types).await;
                }
                if as_json { output::print_json(&traversal) } else { print_traversal(&traversal) }
            }
            Graph::Show { object, as_of } => show_object(client, &object, as_of.as_deref(), as_json).await,
            Graph::History { object } => {
                let reference = any_object_path(client, &object).await?;
                let versions: Vec<Received<ObjectView>> =
                    client.get_all_pages(&format!("/api/graph/objects/{reference}/history")).await?;
                if as_json { output::print_json(&versions) } else { print_history(client, &versions).await }
            }
        }
    }
}

/// Shows one object, with its edges, as it is or as it was at a time.
pub async fn show_object(client: &Client, object: &str, as_of: Option<&str>, as_json: bool) -> Result<()> {
    let moment = Moment::parse(as_of)?;
    let shown: Received<ObjectView> = match moment {
        Some(moment) => moment.get_object(client, object).await?,
        None => {
            let path = format!("/api/graph/objects/{}", resolve_object(client, object).await?);
            client.get(&path).await?.data().await?
        }
    };
    if as_json {
        return output::print_json(&shown);
    }
    output::print_row(&bold(&title(&shown.type_, shown.key.as_deref(), shown.id, &shown.properties)))?;
    print_facts(client, &shown).await?;
    let properties = shown.properties.to_map();
    if !properties.is_empty() {
        output::print_line("")?;
        output::print_fields(&properties)?;
    }
    output::print_line("")?;
    let body = Traverse {
        max_depth: Some(1),
        max_nodes: Some(MAX_NEIGHBOURS),
        as_of: moment.map(|moment| moment.time()),
        ..traverse_from(shown.id)
    };
    let traversal: Received<TraversalView> = client.post("/api/graph/traverse", &body).await?.data().await?;
    print_traversal(&traversal)
}

/// Prints what the server knows about an object besides its properties.
async fn print_facts(client: &Client, object: &ObjectView) -> Result<()> {
    let author = TokenNames::load(client).await.author_text(&object.author);
    let author = if output::terminal_width().is_some() { shorten_ids(&author) } else { author };
    let mut facts =
        vec![("id", object.id.to_string()), ("version", format!("{}, by {author}", object.version))];
    facts.extend(object.status.clone().map(|status| ("status", status)));
    facts.extend(
        Some(object.labels.join(", ")).filter(|labels| !labels.is_empty()).map(|labels| ("labels", labels)),
    );
    facts.push(("created", object.created_at.to_string()));
    facts.push(("written", object.updated_at.to_string()));
    facts.extend(object.deleted_at.map(|time| ("deleted", time.to_string())));
    facts.extend(object.reason.clone().map(|reason| ("reason", reason)));
    for source in &object.sources {
        let part = format!("{}, part {} of document {}", source.title, source.index, source.document_id);
        facts.push(("source", if source.document_deleted { format!("{part} (deleted)") } else { part }));
    }
    facts.iter().try_for_each(|(label, value)| output::print_fact(label, value))
}

/// The id of the object that a person names, also as `TYPE/KEY`. A whole id is not checked.
pub async fn resolve_object(client: &Client, object: &str) -> Result<Uuid> {
    let Some((type_, key)) = object.split_once('/') else {
        let id = resolve_id(client, &OBJECTS, object).await?;
        return id.parse().map_err(|error| Error::Unexpected(format!("`{id}` is not an id: {error}")));
    };
    match find_typed_object(client, type_, key).await? {
        Some(id) => Ok(id),
        None => {
            if let Some(deleted) = find_deleted(client, type_, key).await
                && let Some(at) = deleted.deleted_at
            {
                let restore = hints::command(&format!("object restore {}", hints::quoted(object)));
                return Err(Error::Usage(format!(
                    "the object `{object}` was deleted at {at}; `{restore}` restores it"
                )));
            }
            let hint = match case_hint(client, type_, key).await? {
                hint if hint.is_empty() => nearest_hint(client, type_, key).await,
                hint => hint,
            };
            Err(Error::Usage(format!("there is no {type_} with the key `{key}` in this project{hint}")))
        }
    }
}

/// The object with this type and key that was deleted last, if there is one.
async fn find_deleted(client: &Client, type_: &str, key: &str) -> Option<ObjectView> {
    let path = format!("/api/graph/objects?deleted=true&type={}&key={}", encode(type_), encode(key));
    let deleted: Vec<ObjectView> = client.get_newest(&path, MAX_HINTED).await.ok()?;
    deleted.into_iter().max_by_key(|object| object.deleted_at)
}

/// A hint for a type in other letters, if it has an object with the key: types differ in upper and lower case.
pub async fn case_hint(client: &Client, type_: &str, key: &str) -> Result<String> {
    for other in types_in_other_case(client, type_).await {
        if find_typed_object(client, &other, key).await?.is_some() {
            return Ok(format!("; did you mean `{other}/{key}`? Upper and lower case matter in types"));
        }
    }
    Ok(String::new())
}

/// A hint for a type that no object has, or for a key: the nearest one.
async fn nearest_hint(client: &Client, type_: &str, key: &str) -> String {
    let types = used_types(client).await;
    if !types.iter().any(|used| used == type_) {
        return suggestion(type_, types.iter().map(String::as_str));
    }
    let path = format!("/api/graph/objects?type={}", encode(type_));
    let objects: Vec<ObjectView> = client.get_newest(&path, MAX_HINTED).await.unwrap_or_default();
    suggestion(key, objects.iter().filter_map(|object| object.key.as_deref()))
}

/// The live object with this type and key. Lists name an object without a key by its type and its id, and on a terminal
/// by the end of the id, so these are found as well.
async fn find_typed_object(client: &Client, type_: &str, key: &str) -> Result<Option<Uuid>> {
    let path = format!("/api/graph/objects?type={}&key={}&limit=1", encode(type_), encode(key));
    let objects: Vec<ObjectView> = client.get(&path).await?.data().await?;
    match objects.first() {
        Some(object) => Ok(Some(object.id)),
        None => find_object_of_type(client, type_, key).await,
    }
}

/// What stands for an object in a path of the API. `TYPE/KEY` also names a deleted object, if no live one has the key.
pub async fn any_object_path(client: &Client, object: &str) -> Result<String> {
    let Some((type_, key)) = object.split_once('/') else {
        return Ok(resolve_object(client, object).await?.to_string());
    };
    match find_typed_object(client, type_, key).await? {
        Some(id) => Ok(id.to_string()),
        None => Ok(encode(object)),
    }
}

/// A traversal from one object with the defaults of the server.
pub fn traverse_from(id: Uuid) -> Traverse {
    Traverse {
        start_ids: vec![ObjectId(id).into()],
        direction: Direction::default(),
        max_depth: None,
        relationship_types: Vec::new(),
        object_types: Vec::new(),
        max_nodes: None,
        max_edges: None,
        as_of: None,
    }
}

/// Common properties that name or describe an object.
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
    /// What a review or a test came to, which has no other name.
    #[serde(default, deserialize_with = "text_or_none")]
    verdict: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    description: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    summary: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    content: Option<String>,
}

impl DisplayProperties {
    fn from_object(properties: &JsonObject) -> Self {
        stored_json::from_str(properties.as_str()).unwrap_or_default()
    }

    fn name(self) -> Option<String> {
        self.name.or(self.title).or(self.label).or(self.topic).or(self.verdict)
    }

    fn text(self) -> Option<String> {
        self.description.or(self.summary).or(self.content)
    }
}

/// A project may define these properties with any type; a value that is not text is ignored.
fn text_or_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::String(text) => Some(text),
        _ => None,
    })
}

/// The name of an object, from the properties that often have it.
pub fn object_name(properties: &JsonObject) -> Option<String> {
    DisplayProperties::from_object(properties).name()
}

/// The text that describes an object, from the properties that often have it.
pub fn object_text(properties: &JsonObject) -> Option<String> {
    DisplayProperties::from_object(properties).text()
}

/// The heading of an object: `Person/ada-lovelace  Ada Lovelace`. The id replaces a missing key.
pub fn title(type_: &str, key: Option<&str>, id: Uuid, properties: &JsonObject) -> String {
    let key = key.map_or_else(|| id.to_string(), str::to_owned);
    let name =
        DisplayProperties::from_object(properties).name().map(|name| format!("  {name}")).unwrap_or_default();
    format!("{type_}/{key}{name}")
}

async fn print_history(client: &Client, versions: &[Received<ObjectView>]) -> Result<()> {
    let rows: Vec<VersionRow<'_>> = versions
        .iter()
        .enumerate()
        .map(|(index, version)| VersionRow {
            version: version.version,
            updated_at: version.updated_at,
            author: &version.author,
            change: object_change(versions.get(index + 1).map(|before| &**before), version),
            reason: version.reason.as_deref(),
        })
        .collect();
    print_versions(client, &rows).await
}
