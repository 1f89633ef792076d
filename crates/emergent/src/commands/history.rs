//! What the lists of versions share: who wrote a version, with the names of tokens, and what it changed.

use std::collections::HashMap;

use emergent_domain::{json::JsonObject, time::Timestamp};
use emergent_wire::{
    author::AuthorView, object::ObjectView, relationship::RelationshipView, token::TokenView,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    client::{Client, Received},
    error::Result,
    output,
};

/// The names of the tokens of this server.
pub struct TokenNames(HashMap<Uuid, String>);

impl TokenNames {
    /// No names are known if this caller may not read tokens.
    pub async fn load(client: &Client) -> Self {
        let tokens: Vec<Received<TokenView>> = client.get_all_pages("/api/tokens").await.unwrap_or_default();
        Self(tokens.iter().map(|token| (token.id, token.name.clone())).collect())
    }

    pub fn get(&self, token: Uuid) -> Option<&str> {
        self.0.get(&token).map(String::as_str)
    }

    /// Who wrote a version: `token admin (0198…)`.
    pub fn author_text(&self, author: &AuthorView) -> String {
        match author {
            AuthorView::Run { run_id, .. } => format!("run {run_id}"),
            AuthorView::Token { id } => match self.get(*id) {
                Some(name) => format!("token {name} ({id})"),
                None => format!("token {id}"),
            },
            AuthorView::System => "system".to_owned(),
        }
    }
}

/// A version of an object or a relationship, as the list of versions shows it.
pub struct VersionRow<'a> {
    pub version: i64,
    pub updated_at: Timestamp,
    pub author: &'a AuthorView,
    pub change: String,
    pub reason: Option<&'a str>,
}

/// Prints versions, the newest first, and below them the reasons of those that have one.
pub async fn print_versions(client: &Client, versions: &[VersionRow<'_>]) -> Result<()> {
    let tokens = TokenNames::load(client).await;
    let row = |version: &VersionRow<'_>| {
        vec![
            version.version.to_string(),
            version.updated_at.to_string(),
            tokens.author_text(version.author),
            version.change.clone(),
        ]
    };
    let rows: Vec<_> = versions.iter().map(row).collect();
    output::print_table(&["VERSION", "WRITTEN", "BY", "CHANGE"], &rows)?;
    for version in versions {
        if let Some(reason) = version.reason {
            output::print_dim(&format!("version {}: {reason}", version.version))?;
        }
    }
    Ok(())
}

/// What a version of an object changed; all properties for the first one.
pub fn object_change(before: Option<&ObjectView>, after: &ObjectView) -> String {
    let fields = |object: &ObjectView| {
        let own = [
            ("type", json!(object.type_)),
            ("key", json!(object.key)),
            ("status", json!(object.status)),
            ("labels", json!(object.labels)),
        ];
        with_properties(own, &object.properties)
    };
    let is_deleted = |object: &ObjectView| object.deleted_at.is_some();
    let before = before.map(|before| (is_deleted(before), fields(before)));
    change(before, (is_deleted(after), fields(after)), &after.properties)
}

/// What a version of a relationship changed; all properties for the first one.
pub fn relationship_change(before: Option<&RelationshipView>, after: &RelationshipView) -> String {
    let fields =
        |edge: &RelationshipView| with_properties([("weight", json!(edge.weight))], &edge.properties);
    let is_deleted = |edge: &RelationshipView| edge.deleted_at.is_some();
    let before = before.map(|before| (is_deleted(before), fields(before)));
    change(before, (is_deleted(after), fields(after)), &after.properties)
}

fn with_properties<const N: usize>(own: [(&str, Value); N], properties: &JsonObject) -> Map<String, Value> {
    let mut fields: Map<String, Value> =
        own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    // A property may have the name of a field.
    for (name, value) in properties.to_map() {
        let name = if fields.contains_key(&name) { format!("properties.{name}") } else { name };
        fields.insert(name, value);
    }
    fields
}

fn change(
    before: Option<(bool, Map<String, Value>)>,
    (is_deleted, fields): (bool, Map<String, Value>),
    properties: &JsonObject,
) -> String {
    match before {
        _ if is_deleted => "deleted".to_owned(),
        None => properties.as_str().to_owned(),
        Some((was_deleted, before)) => {
            let changed = changed_fields(&before, &fields);
            match (was_deleted, changed.is_empty()) {
                (true, true) => "restored".to_owned(),
                (true, false) => format!("restored; {changed}"),
                (false, _) => changed,
            }
        }
    }
}

/// The fields that differ, with both values: `year: 1842 → 1843`. Texts are JSON, so that each stays on one line.
pub fn changed_fields(before: &Map<String, Value>, after: &Map<String, Value>) -> String {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let value = |fields: &Map<String, Value>, name: &str| match fields.get(name) {
        None | Some(Value::Null) => "none".to_owned(),
        Some(value) => value.to_string(),
    };
    let changes = names.into_iter().filter_map(|name| {
        let (old, new) = (value(before, name), value(after, name));
        (old != new).then(|| format!("{name}: {old} → {new}"))
    });
    changes.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn only_what_differs_is_shown_with_both_values() {
        let before = fields(json!({ "year": 1842, "name": "Ada", "old": true }));
        let after = fields(json!({ "year": 1843, "name": "Ada", "new": "a\nb" }));
        assert_eq!(
            changed_fields(&before, &after),
            r#"new: none → "a\nb", old: true → none, year: 1842 → 1843"#
        );
        assert_eq!(changed_fields(&after, &after), "");
    }

    #[test]
    fn a_restored_version_says_so() {
        let (empty, properties) = (fields(json!({})), JsonObject::from_map(&Map::new()));
        let restored = change(Some((true, empty.clone())), (false, empty.clone()), &properties);
        assert_eq!(restored, "restored");
        assert_eq!(change(Some((false, empty.clone())), (true, empty), &properties), "deleted");
    }
}
