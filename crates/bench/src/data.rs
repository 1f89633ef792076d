//! The dataset, read once.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

pub struct Data {
    pub path: PathBuf,
    pub objects: Vec<Object>,
    pub edges: Vec<Edge>,
}

pub struct Object {
    pub type_: String,
    pub key: String,
    pub labels: Value,
    pub properties: Map<String, Value>,
}

pub struct Edge {
    pub type_: String,
    pub from: String,
    pub to: String,
    pub properties: Value,
}

pub fn read(path: &Path) -> Data {
    let text = fs::read_to_string(path).unwrap_or_else(|error| {
        panic!("{}: {error}; `make bench` creates it with scripts/debian-graph", path.display())
    });
    let mut data = Data { path: path.to_owned(), objects: Vec::new(), edges: Vec::new() };
    for line in text.lines() {
        parse(line, &mut data);
    }
    data
}

/// Parses one line. The raw import calls this too, so that both sides pay for parsing JSON.
pub fn parse(line: &str, data: &mut Data) {
    let mut value: Value = serde_json::from_str(line).expect("a line of NDJSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if value["kind"] == "object" {
        let properties = match value["properties"].take() {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        data.objects.push(Object {
            type_: text(&value["type"]),
            key: text(&value["key"]),
            labels: value["labels"].take(),
            properties,
        });
    } else {
        data.edges.push(Edge {
            type_: text(&value["type"]),
            from: text(&value["from"]["key"]),
            to: text(&value["to"]["key"]),
            properties: value["properties"].take(),
        });
    }
}
