//! The OpenAPI document is part of the contract: a change of it is visible in review.

use std::{collections::HashSet, path::Path};

use serde_json::Value;

fn document() -> Value {
    serde_json::to_value(emergent_api::openapi()).expect("the document serialises")
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("a path item") {
            all.push((path.clone(), method.clone(), operation.clone()));
        }
    }
    all
}

#[test]
fn the_committed_document_is_what_the_code_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let now = serde_json::to_string_pretty(&document()).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&file, &now).expect("docs/openapi.json can be written");
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == now,
        "docs/openapi.json is not what the code says; \
         run `UPDATE_OPENAPI=1 cargo test -p emergent-api --test openapi` and look at the difference"
    );
}

#[test]
fn every_operation_has_a_name_of_its_own_a_summary_and_a_tag_that_is_explained() {
    let document = document();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    let tags: HashSet<_> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].clone()).collect();
    let mut names = HashSet::new();
    for (path, method, operation) in operations(&document) {
        let name = operation["operationId"].as_str().unwrap_or_default().to_owned();
        assert!(!name.is_empty() && names.insert(name), "{method} {path} needs a name of its own");
        assert!(operation["summary"].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}");
        assert!(tags.contains(&operation["tags"][0]), "{method} {path}: {}", operation["tags"]);
    }
    assert!(names.len() > 40, "{} operations", names.len());
}

#[test]
fn every_reference_leads_somewhere() {
    fn check(value: &Value, document: &Value) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(target)) = map.get("$ref") {
                    let found = document.pointer(target.trim_start_matches('#'));
                    assert!(found.is_some(), "{target} leads nowhere");
                }
                map.values().for_each(|inner| check(inner, document));
            }
            Value::Array(items) => items.iter().for_each(|inner| check(inner, document)),
            _ => {}
        }
    }
    let document = document();
    check(&document, &document);
}

/// The media type and the schema of errors: both bindings of A2A have those of their protocol, except their card.
fn shape_of_errors(path: &str) -> (&'static str, &'static str) {
    if path == "/a2a/{project}/{agent}" {
        ("application/json", "A2aRpcFailure")
    } else if path.starts_with("/a2a/{project}/{agent}/v1/") {
        ("application/a2a+json", "A2aFailure")
    } else {
        ("application/json", "Failure")
    }
}

#[test]
fn every_operation_documents_how_it_refuses() {
    for (path, method, operation) in operations(&document()) {
        let responses = operation["responses"].as_object().unwrap();
        let guarded = operation["security"].as_array().is_some_and(|all| !all.is_empty());
        let mut needed = vec!["429", "503"];
        if guarded {
            needed.extend(["401", "404"]);
        }
        if operation["requestBody"].is_object() {
            needed.extend(["400", "413", "415"]);
        }
        // `/mcp` reports errors in the format of its own protocol.
        if path == "/mcp" {
            needed
                .retain(|status| !matches!((*status, method.as_str()), ("400" | "404", _) | ("429", "post")));
            let told = responses["429"]["description"].as_str().unwrap_or_default();
            assert!(method == "delete" || told.contains("streams"), "{method} {path}: {told}");
        }
        for status in needed {
            let (media_type, failure) = shape_of_errors(&path);
            let schema = &responses[status]["content"][media_type]["schema"]["$ref"];
            assert_eq!(*schema, format!("#/components/schemas/{failure}"), "{method} {path} {status}");
        }
        // The form of the login page leads to another page.
        let success = |status: &String| status.starts_with('2') || (path == "/login" && status == "303");
        assert!(responses.keys().any(success), "{method} {path}");
    }
}
