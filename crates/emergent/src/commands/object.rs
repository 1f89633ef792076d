//! `emergent object`: lists, creates, changes, deletes and restores objects of the graph.

use emergent_domain::{foreign_json, object::check_type};
use emergent_wire::{
    object::{CreateObject, ObjectView, UpdateObject},
    pack::PackView,
};
use serde_json::{Map, Value};

use super::{
    confirm::ask_about_last,
    encode,
    graph::{object_name, resolve_object, show_object},
    newest::label,
    object_types::warn_of_unknown_types,
    resolve::{DELETED_OBJECTS, LAST, resolve_deleted},
    run_bulk::parse_optional_time,
};
use crate::{
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    hints, messages, output,
};

#[derive(Debug, clap::Subcommand)]
pub enum Object {
    /// List objects, newest first; `emergent graph search` finds them by words or by meaning
    List {
        /// Only objects of this type (may be repeated)
        #[arg(long = "type", value_name = "TYPE")]
        types: Vec<String>,
        /// Only objects with this label (may be repeated)
        #[arg(long = "label", value_name = "LABEL")]
        labels: Vec<String>,
        /// Only objects with this status
        #[arg(long)]
        status: Option<String>,
        /// Also tasks, sessions, messages and discussions, which `--type` lists as well
        #[arg(long, visible_alias = "all")]
        include_system: bool,
        /// As they were then: at a time such as 2026-01-31T08:00:00Z, or so long ago, such as 24h or 7d
        #[arg(long, value_name = "TIME")]
        as_of: Option<String>,
        /// The deleted ones instead, which `emergent object restore` brings back
        #[arg(long, conflicts_with = "as_of")]
        deleted: bool,
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Show one object, with its edges, as `emergent graph show` does
    Show {
        /// An id, the end of an id, TYPE/KEY, a unique key, or `last`
        object: String,
        /// As it was then: at a time such as 2026-01-31T08:00:00Z, or so long ago, such as 24h or 7d
        #[arg(long, value_name = "TIME")]
        as_of: Option<String>,
    },
    /// Create an object
    Create {
        /// Its type, such as Person
        #[arg(value_name = "TYPE")]
        object_type: String,
        /// Its key, unique among the objects of its type
        key: Option<String>,
        /// Its key, as the second word
        #[arg(long = "key", value_name = "KEY", conflicts_with = "key")]
        key_flag: Option<String>,
        #[command(flatten)]
        content: Content,
    },
    /// Change an object; what is not given stays
    Update {
        /// An id, the end of an id, TYPE/KEY, or `last`
        object: String,
        #[command(flatten)]
        content: Content,
        /// Remove a property (may be repeated)
        #[arg(long, value_name = "NAME")]
        unset: Vec<String>,
        /// Change it only if this is its newest version
        #[arg(long, value_name = "N")]
        expected_version: Option<i64>,
    },
    /// Delete an object and its relationships; its history stays
    Delete {
        /// An id, the end of an id, TYPE/KEY, or `last`
        object: String,
        /// With `last`, delete it without asking
        #[arg(long, short)]
        yes: bool,
        /// Delete it only if this is its newest version
        #[arg(long, value_name = "N")]
        expected_version: Option<i64>,
    },
    /// Restore a deleted object, with the relationships that were deleted with it
    Restore {
        /// Its id, the end of its id, TYPE/KEY, its key, or `last`, the one that was deleted last
        object: String,
    },
}

// What an object holds.
#[derive(Debug, clap::Args)]
pub struct Content {
    /// A property: text, or JSON such as 3, true or ["a"] (may be repeated)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    properties: Vec<String>,
    /// All properties at once, as a JSON object; `--set` adds to them
    #[arg(long = "properties", value_name = "JSON")]
    properties_json: Option<String>,
    /// A label (may be repeated); the labels given replace those of an object
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// Its status
    #[arg(long)]
    status: Option<String>,
}

impl Content {
    fn properties(&self) -> Result<Map<String, Value>> {
        let mut properties = match &self.properties_json {
            None => Map::new(),
            Some(text) => foreign_json::from_str(text)
                .map_err(|error| Error::Usage(format!("--properties is not a JSON object: {error}")))?,
        };
        properties.extend(parse_properties(&self.properties)?);
        Ok(properties)
    }
}

/// The properties of the options `--set`.
pub fn parse_properties(pairs: &[String]) -> Result<Map<String, Value>> {
    let parse = |pair: &String| match pair.split_once('=').filter(|(name, _)| !name.is_empty()) {
        Some((name, value)) => Ok((name.to_owned(), property_value(value))),
        None => Err(Error::Usage(format!("--set `{pair}` is not of the form NAME=VALUE"))),
    };
    pairs.iter().map(parse).collect()
}

/// JSON where the text is JSON, else the text itself.
fn property_value(text: &str) -> Value {
    foreign_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

impl Object {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            Object::Create { .. } => DataAccess::Create,
            _ => DataAccess::Existing,
        }
    }

    /// Refuses input that cannot be sent, before a data folder is made for it.
    pub fn check_input(&self) -> Result<()> {
        let Object::Create { object_type, key, key_flag, content } = self else { return Ok(()) };
        refuse_key_in_type(object_type, key.as_deref().or(key_flag.as_deref()))?;
        check_type(object_type).map_err(|invalid| Error::Usage(messages::translate(&invalid.to_string())))?;
        content.properties().map(drop)
    }

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let (object, outcome) = match self {
            Object::List { types, labels, status, include_system, as_of, deleted, limit } => {
                let as_of = parse_optional_time("as-of", as_of.as_deref())?.map(|time| time.to_string());
                let flags = types.iter().map(|type_| ("type", type_));
                let flags = flags.chain(labels.iter().map(|label| ("label", label)));
                let flags = flags.chain(status.iter().map(|status| ("status", status)));
                let flags = flags.chain(as_of.iter().map(|time| ("asOf", time)));
                let mut filter: String =
                    flags.map(|(name, value)| format!("&{name}={}", encode(value))).collect();
                if deleted {
                    filter.push_str("&deleted=true");
                }
                let path = format!("/api/graph/objects?includeSystem={include_system}{filter}");
                let objects: Vec<Received<ObjectView>> = client.get_limited(&path, limit).await?;
                // Objects of the past may have had types that none has today.
                if objects.is_empty() && as_of.is_none() {
                    warn_of_unknown_types(client, &types).await;
                }
                return match as_of {
                    _ if as_json => output::print_json(&objects),
                    None if deleted && objects.is_empty() && output::terminal_width().is_some() => {
                        output::print_text("There are no deleted objects that match.")
                    }
                    Some(time) if objects.is_empty() && output::terminal_width().is_some() => {
                        output::print_text(&format!("There were none at {time}."))
                    }
                    _ => print_objects(&objects),
                };
            }
            Object::Show { object, as_of } => {
                return show_object(client, &object, as_of.as_deref(), as_json).await;
            }
            Object::Create { object_type, key, key_flag, content } => {
                let key = key.or(key_flag);
                let body = CreateObject {
                    type_: object_type,
                    key,
                    properties: content.properties()?,
                    labels: content.labels,
                    status: content.status,
                };
                let created: Received<ObjectView> = match client.post("/api/graph/objects", &body).await {
                    Ok(response) => response.data().await?,
                    Err(error) => {
                        let error = with_packs(client, &body.type_, error).await;
                        return Err(with_update(error, &body.type_, body.key.as_deref()));
                    }
                };
                (created, "created")
            }
            Object::Update { object, content, unset, expected_version } => {
                let mut properties = content.properties()?;
                properties.extend(unset.into_iter().map(|name| (name, Value::Null)));
                let body = UpdateObject {
                    type_: None,
                    key: None,
                    properties: (!properties.is_empty()).then_some(properties),
                    labels: (!content.labels.is_empty()).then_some(content.labels),
                    status: content.status.map(Some),
                    expected_version,
                };
                let path = format!("/api/graph/objects/{}", resolve_object(client, &object).await?);
                let before: Received<ObjectView> = client.get(&path).await?.data().await?;
                let updated: Received<ObjectView> = match client.patch(&path, &body).await {
                    Ok(response) => response.data().await?,
                    Err(error) => return Err(with_packs(client, &before.type_, error).await),
                };
                let outcome = if updated.version == before.version { "unchanged" } else { "saved" };
                (updated, outcome)
            }
            Object::Delete { object, yes, expected_version } => {
                let id = resolve_object(client, &object).await?;
                let mut expected = expected_version;
                if object == LAST {
                    let shown: Received<ObjectView> =
                        client.get(&format!("/api/graph/objects/{id}")).await?.data().await?;
                    let name = object_name(&shown.properties).map(|name| format!(" ({name})"));
                    let what = format!("delete {}{}", label(&shown), name.unwrap_or_default());
                    ask_about_last(&object, yes, &what)?;
                    // What is deleted is what the question was about.
                    expected = expected.or(Some(shown.version));
                }
                let expected =
                    expected.map(|version| format!("?expectedVersion={version}")).unwrap_or_default();
                let deleted: Received<ObjectView> =
                    client.delete(&format!("/api/graph/objects/{id}{expected}")).await?.data().await?;
                (deleted, "deleted")
            }
            Object::Restore { object } => {
                let reference = match object.contains('/') {
                    // The server knows which deleted object had the key, and whether a live one has it now.
                    true => encode(&object),
                    false => resolve_deleted(client, &DELETED_OBJECTS, &object).await?,
                };
                let path = format!("/api/graph/objects/{reference}");
                // A restore of a live object changes nothing. A deleted one is not found.
                let live: Option<Received<ObjectView>> = match client.get(&path).await {
                    Ok(response) => Some(response.data().await?),
                    Err(_) => None,
                };
                let path = format!("{path}/restore");
                let restored: Received<ObjectView> = client.post(&path, &Map::new()).await?.data().await?;
                let was_live =
                    live.is_some_and(|live| live.id == restored.id && live.version == restored.version);
                (
                    restored,
                    if was_live { "not deleted, and nothing was restored: it is live" } else { "live" },
                )
            }
        };
        if as_json {
            return output::print_json(&object);
        }
        let key = object.key.as_ref().map(|key| format!("/{key}")).unwrap_or_default();
        output::print_text(&format!(
            "{}{key} ({}) is {outcome}, version {}",
            object.type_, object.id, object.version
        ))
    }
}

/// Adds who asks for them, if the API refused properties: the packs that describe the type.
async fn with_packs(client: &Client, type_: &str, error: Error) -> Error {
    match error {
        Error::Refused { code, message, details }
            if code == "invalid" && [&message, &details].iter().any(|text| text.contains("`properties")) =>
        {
            // Whoever may not list packs is told the rest.
            let packs: Vec<Received<PackView>> =
                client.get_all_pages("/api/template-packs").await.unwrap_or_default();
            let describes =
                |pack: &&Received<PackView>| pack.assigned && pack.object_type_schemas.contains_key(type_);
            let names: Vec<String> = packs
                .iter()
                .filter(describes)
                .map(|pack| format!("`{}@{}`", pack.name, pack.version))
                .collect();
            let note = match names.first() {
                Some(first) => format!(
                    " (a rule of the type `{type_}` in the pack {}; `{}` shows its rules)",
                    names.join(" or "),
                    hints::command(&format!("pack show {}", first.trim_matches('`')))
                ),
                None => String::new(),
            };
            match details.is_empty() {
                true => Error::Refused { code, message: format!("{message}{note}"), details },
                false => Error::Refused { code, message, details: format!("{details}\n {note}") },
            }
        }
        other => other,
    }
}

/// Adds how to change the object that has the key.
fn with_update(error: Error, type_: &str, key: Option<&str>) -> Error {
    let Some(key) = key else { return error };
    let update = format!("object update {}", hints::quoted(&format!("{type_}/{key}")));
    error.with_way_out("key_taken", &hints::command(&update), "changes it")
}

/// Refuses `TYPE/KEY`, which names objects elsewhere.
fn refuse_key_in_type(object_type: &str, key: Option<&str>) -> Result<()> {
    let Some((type_, own_key)) = object_type.split_once('/') else { return Ok(()) };
    let create = format!("object create {} {}", hints::quoted(type_), hints::quoted(key.unwrap_or(own_key)));
    Err(Error::Usage(format!(
        "`{object_type}` is not a type: write the type and the key as two words, `{}`",
        hints::command(&create)
    )))
}

fn print_objects(objects: &[Received<ObjectView>]) -> Result<()> {
    let rows: Vec<_> = objects
        .iter()
        .map(|object| {
            let key = object.key.clone().unwrap_or_else(|| object.id.to_string());
            vec![
                format!("{}/{key}", object.type_),
                object_name(&object.properties).unwrap_or_default(),
                object.status.clone().unwrap_or_default(),
                object.version.to_string(),
                object.updated_at.to_string(),
            ]
        })
        .collect();
    let headers = ["OBJECT", "NAME", "STATUS", "VERSION", "WRITTEN"];
    if rows.is_empty() {
        return output::print_list(&headers, &rows, ("object create TYPE KEY", "creates one"));
    }
    output::print_table_with_optional(&headers, &rows, &["OBJECT"], &["VERSION", "WRITTEN"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_property_is_json_or_text() {
        let content = |set: &[&str], json: Option<&str>| Content {
            properties: set.iter().map(|pair| (*pair).to_owned()).collect(),
            properties_json: json.map(str::to_owned),
            labels: Vec::new(),
            status: None,
        };
        let properties = content(&["name=Ada = A", "born=1815", "x=[1]"], Some(r#"{"a":1}"#)).properties();
        let expected = json!({ "name": "Ada = A", "born": 1815, "x": [1], "a": 1 });
        assert_eq!(Value::Object(properties.unwrap()), expected);
        assert!(content(&["no value"], None).properties().is_err());
        assert!(content(&[], Some("[]")).properties().is_err());
    }
}
