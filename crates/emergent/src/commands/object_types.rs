//! The types of a project's objects, for hints about a type that no object has.

use emergent_wire::pack::PackView;
use serde::Deserialize;

use super::resolve::suggestion;
use crate::{
    client::{Client, Received},
    error::Result,
    output,
};

/// What the hints need of the counts of types.
#[derive(Deserialize)]
struct TypeCounts {
    objects: Vec<TypeCount>,
}

#[derive(Deserialize)]
struct TypeCount {
    #[serde(rename = "type")]
    type_: String,
}

/// The types that objects have, the most frequent one first. Empty if they cannot be read: a hint is not worth an error.
pub async fn used_types(client: &Client) -> Vec<String> {
    let Ok(response) = client.get("/api/graph/types").await else { return Vec::new() };
    let counts: Result<TypeCounts> = response.data().await;
    counts.map(|counts| counts.objects.into_iter().map(|count| count.type_).collect()).unwrap_or_default()
}

/// The types that assigned packs describe. Empty if they cannot be read.
async fn described_types(client: &Client) -> Vec<String> {
    let packs: Vec<Received<PackView>> =
        client.get_all_pages("/api/template-packs").await.unwrap_or_default();
    let assigned = packs.into_iter().filter(|pack| pack.assigned);
    assigned.flat_map(|pack| pack.object_type_schemas.keys().cloned().collect::<Vec<_>>()).collect()
}

/// Says on standard error which of these types does not exist, with the nearest one, for a list that found nothing.
pub async fn warn_of_unknown_types(client: &Client, types: &[String]) {
    if types.is_empty() {
        return;
    }
    let mut known = used_types(client).await;
    known.extend(described_types(client).await);
    for type_ in types.iter().filter(|type_| !known.contains(type_)) {
        let nearest = suggestion(type_, known.iter().map(String::as_str));
        output::print_notice(&format!("there is no type `{type_}` in this project{nearest}"));
    }
}

/// The used types that differ from this one only in upper and lower case.
pub async fn types_in_other_case(client: &Client, type_: &str) -> Vec<String> {
    let lower = type_.to_lowercase();
    let types = used_types(client).await.into_iter();
    types.filter(|used| used != type_ && used.to_lowercase() == lower).collect()
}
