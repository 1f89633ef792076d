//! How answers show objects, relationships and documents, limited to the requested fields.

use std::collections::BTreeSet;

use emergent_domain::{cursor::Cursor, document::Document, object::Object, relationship::Relationship};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The fields that an answer shows. An empty selection means all fields but `author`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct FieldSelection(BTreeSet<String>);

/// The fields of an object that are not properties.
const OBJECT_FIELDS: [&str; 9] =
    ["key", "status", "labels", "properties", "version", "createdAt", "updatedAt", "deletedAt", "author"];

impl FieldSelection {
    /// Selects exactly these fields.
    pub fn only<const N: usize>(names: [&str; N]) -> Self {
        Self(names.map(str::to_owned).into())
    }

    /// Whether the answer shows this field.
    pub fn includes(&self, name: &str) -> bool {
        self.0.contains(name) || (self.0.is_empty() && name != "author")
    }

    /// The names of the properties that are requested one by one.
    fn property_names(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(|name| !OBJECT_FIELDS.contains(&name.as_str()))
            .map(|name| name.strip_prefix("properties.").unwrap_or(name))
    }

    /// Removes the properties that are not requested.
    fn properties(&self, all: Map<String, Value>) -> Map<String, Value> {
        if self.includes("properties") {
            return all;
        }
        let requested: BTreeSet<&str> = self.property_names().collect();
        all.into_iter().filter(|(name, _)| requested.contains(name.as_str())).collect()
    }

    pub fn object_json(&self, object: &Object) -> Value {
        let mut view = Map::new();
        view.insert("id".into(), json!(object.id));
        view.insert("type".into(), json!(object.type_));
        let mut add = |name: &str, value: Value| {
            if self.includes(name) && !value.is_null() {
                view.insert(name.to_owned(), value);
            }
        };
        add("key", json!(object.key));
        add("status", json!(object.status));
        add("labels", json!(object.labels));
        add("version", json!(object.version));
        add("createdAt", json!(object.created_at));
        add("updatedAt", json!(object.updated_at));
        add("deletedAt", json!(object.deleted_at));
        add("author", json!(object.author));
        add("reason", json!(object.reason));
        if self.includes("properties") || self.property_names().next().is_some() {
            view.insert("properties".into(), Value::Object(self.properties(object.properties.to_map())));
        }
        Value::Object(view)
    }

    pub fn objects_json<'a>(&self, objects: impl IntoIterator<Item = &'a Object>) -> Vec<Value> {
        objects.into_iter().map(|object| self.object_json(object)).collect()
    }

    /// Removes fields that are not requested or null; `id` is always shown. Objects use
    /// [`Self::object_json`].
    pub fn select(&self, whole: Value) -> Value {
        match whole {
            Value::Object(map) => Value::Object(
                map.into_iter()
                    .filter(|(name, value)| name == "id" || (self.includes(name) && !value.is_null()))
                    .collect(),
            ),
            other => other,
        }
    }

    pub fn relationship_json(&self, edge: &Relationship) -> Value {
        self.select(json!({
            "id": edge.id,
            "type": edge.type_,
            "fromId": edge.from,
            "toId": edge.to,
            "properties": edge.properties,
            "weight": edge.weight,
            "version": edge.version,
            "createdAt": edge.created_at,
            "updatedAt": edge.updated_at,
            "author": edge.author,
            "reason": edge.reason,
        }))
    }

    pub fn relationships_json<'a>(&self, edges: impl IntoIterator<Item = &'a Relationship>) -> Vec<Value> {
        edges.into_iter().map(|edge| self.relationship_json(edge)).collect()
    }

    pub fn document_json(&self, document: &Document) -> Value {
        self.select(json!({
            "id": document.id,
            "title": document.title,
            "mimeType": document.mime_type,
            "sourceUrl": document.source_url,
            "metadata": document.metadata,
            "textBytes": document.text_bytes,
            "chunkCount": document.chunk_count,
            "createdAt": document.created_at,
        }))
    }
}

/// A list under its name, and `nextCursor` if there is another page.
pub fn page_json(name: &str, items: Vec<Value>, next: Option<Cursor>) -> Value {
    page_json_at(name, items, next.map(|cursor| cursor.encode()))
}

/// Like [`page_json`], with a cursor that is already encoded.
pub fn page_json_at(name: &str, items: Vec<Value>, next: Option<String>) -> Value {
    let mut view = Map::from_iter([(name.to_owned(), Value::Array(items))]);
    if let Some(next) = next {
        view.insert("nextCursor".to_owned(), Value::from(next));
    }
    Value::Object(view)
}
