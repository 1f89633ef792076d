//! The types of a project's objects, for hints about a type that no object has.

use emergent_wire::pack::PackView;
use serde::Deserialize;

use super::resolve::suggestion;
use crate::{
    client::{Client, Received},
    hints, output,
};

/// What the hints need of the counts of types.
#[derive(Deserialize)]
struct TypeCounts {
    objects: Vec<TypeCount>,
    relationships: Vec<TypeCount>,
}

#[derive(Deserialize)]
struct TypeCount {
    #[serde(rename = "type")]
    type_: String,
}

/// The types that objects have, the most frequent one first. Empty if they cannot be read: a hint is not worth an error.
pub async fn used_types(client: &Client) -> Vec<String> {
    names(type_counts(client).await.map(|counts| counts.objects))
}

/// The types that relationships have, as [`used_types`] returns those of objects.
async fn used_relationship_types(client: &Client) -> Vec<String> {
    names(type_counts(client).await.map(|counts| counts.relationships))
}

async fn type_counts(client: &Client) -> Option<TypeCounts> {
    client.get("/api/graph/types").await.ok()?.data().await.ok()
}

fn names(counts: Option<Vec<TypeCount>>) -> Vec<String> {
    counts.into_iter().flatten().map(|count| count.type_).collect()
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

/// Says on standard error which of these types no relationship of the project has, with the nearest one.
pub async fn warn_of_unused_types(client: &Client, types: &[String]) {
    if types.is_empty() {
        return;
    }
    let used = used_relationship_types(client).await;
    for type_ in types.iter().filter(|type_| !used.contains(type_)) {
        let nearest = suggestion(type_, used.iter().map(String::as_str));
        output::print_notice(&format!("no relationship of this project has the type `{type_}`{nearest}"));
    }
}

/// Says on standard error which types a question names that found nothing: types are no words of the texts that are
/// searched.
pub async fn hint_at_named_types(client: &Client, question: &str) {
    let used = used_types(client).await;
    for (word, type_) in named_types(question, &used) {
        let list = hints::command(&format!("object list --type {}", hints::quoted(type_)));
        output::print_notice(&format!(
            "no text has `{word}`, but there is the type {type_}: `{list}` lists its objects"
        ));
    }
}

/// The types that a question names, each with the words that name it: `invoice lines` names `InvoiceLine`.
fn named_types<'t>(question: &str, types: &'t [String]) -> Vec<(String, &'t str)> {
    let words: Vec<String> = words_of(question).collect();
    let is_same = |asked: &String, own: &String| {
        asked == own || asked.strip_suffix('s').is_some_and(|singular| singular == own)
    };
    let naming = |type_: &'t String| {
        let own: Vec<String> = words_of(&split_camel_case(type_)).collect();
        let joined = [own.concat()];
        let candidates = [own.as_slice(), &joined];
        let named = candidates.into_iter().filter(|own| !own.is_empty()).find_map(|own| {
            words
                .windows(own.len())
                .find(|asked| asked.iter().zip(own).all(|(asked, own)| is_same(asked, own)))
        });
        named.map(|named| (named.join(" "), type_.as_str()))
    };
    types.iter().filter_map(naming).collect()
}

fn words_of(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// `InvoiceLine` as `Invoice Line`.
fn split_camel_case(type_: &str) -> String {
    let mut split = String::new();
    let mut after_small = false;
    for c in type_.chars() {
        if c.is_uppercase() && after_small {
            split.push(' ');
        }
        after_small = c.is_lowercase() || c.is_numeric();
        split.push(c);
    }
    split
}

/// The used types that differ from this one only in upper and lower case.
pub async fn types_in_other_case(client: &Client, type_: &str) -> Vec<String> {
    let lower = type_.to_lowercase();
    let types = used_types(client).await.into_iter();
    types.filter(|used| used != type_ && used.to_lowercase() == lower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_a_type_by_its_words() {
        let types = ["Invoice", "InvoiceLine", "Person"].map(str::to_owned);
        let named = |question: &str| -> Vec<(String, &str)> { named_types(question, &types) };
        assert_eq!(named("invoice"), [("invoice".to_owned(), "Invoice")]);
        assert_eq!(named("open Invoices"), [("invoices".to_owned(), "Invoice")]);
        assert_eq!(named("invoiceline")[0], ("invoiceline".to_owned(), "InvoiceLine"));
        assert_eq!(named("invoice lines").len(), 2);
        assert!(named("who pays").is_empty());
    }
}
