//! A small graph that gives ids, versions and times as the server does, and records the calls that are made of it.

use emergent_domain::{
    ids::ToolCallId,
    loops::{
        CallEffect::{self, Reads, Writes},
        LoopCheck, LoopGuard, ObservedCall,
    },
};
use serde_json::{Map, Value, json};

use super::{Label, Trace, TracedCall, add, call};

/// How the state is read between two writes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Look {
    Get,
    Query,
    Search,
    List,
    Neighbors,
    Counts,
    History,
    Tasks,
}

#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: String,
    type_: String,
    key: Option<String>,
    status: String,
    properties: Value,
    version: i64,
    history: Vec<Value>,
    created: i64,
    updated: i64,
    pub(super) is_deleted: bool,
}

/// A graph, and the calls that were made of it.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) items: Vec<Item>,
    pub(super) edges: Vec<(String, String, String, i64, i64)>,
    pub(super) clock: i64,
    calls: Vec<TracedCall>,
    page: usize,
    /// A call that the guard refuses changes nothing.
    guard: LoopGuard,
    call: Option<ToolCallId>,
}

pub(super) fn time(clock: i64) -> String {
    format!("2026-11-19T{:02}:{:02}:{:02}Z", clock / 3600, clock / 60 % 60, clock % 60)
}

impl World {
    pub(super) fn with(count: usize) -> Self {
        let mut world = Self { page: 20, ..Self::default() };
        (0..count).for_each(|n| {
            world.insert("Note", Some(format!("n{n}")), json!({ "title": format!("note {n}") }));
        });
        world
    }

    pub(super) fn insert(&mut self, type_: &str, key: Option<String>, properties: Value) -> usize {
        self.clock += 1;
        let (id, created) = (format!("00000000-0000-7000-8000-{:012}", self.clock), self.clock);
        self.items.push(Item {
            id,
            type_: type_.into(),
            key,
            status: "new".into(),
            properties,
            version: 1,
            history: Vec::new(),
            created,
            updated: created,
            is_deleted: false,
        });
        self.items.len() - 1
    }

    pub(super) fn row(&self, index: usize) -> Value {
        let item = &self.items[index];
        let mut row = json!({
            "id": item.id, "type": item.type_, "status": item.status, "labels": [], "version": item.version,
            "createdAt": time(item.created), "updatedAt": time(item.updated), "properties": item.properties,
        });
        if let Some(key) = &item.key {
            row["key"] = json!(key);
        }
        row
    }

    /// Changes an object, as this run or as somebody else.
    pub(super) fn change(&mut self, index: usize, status: &str, properties: Option<Value>) {
        let before = self.row(index);
        self.clock += 1;
        let (clock, item) = (self.clock, &mut self.items[index]);
        item.history.push(before);
        (item.status, item.version, item.updated) = (status.into(), item.version + 1, clock);
        if let Some(properties) = properties {
            item.properties = properties;
        }
    }

    /// Makes a call, unless the guard refuses it. Returns whether it is made; its result follows.
    pub(super) fn begin(&mut self, tool: &str, input: Value, effect: CallEffect) -> bool {
        let call = call(tool, input, effect, json!({ "error": "refused" }));
        let id = ToolCallId::new();
        let observed = ObservedCall { id, tool, input: &call.input, effect };
        let is_made = self.guard.observe_answer([observed])[0] == LoopCheck::None;
        self.calls.push(call);
        self.call = Some(id);
        is_made
    }

    pub(super) fn finish(&mut self, result: Value, failed: bool) {
        self.clock += 1;
        self.guard.record_result(self.call.take().unwrap(), &result, failed);
        let call = self.calls.last_mut().unwrap();
        (call.result, call.failed) = (result, failed);
    }

    /// A call that changes nothing here.
    pub(super) fn make(&mut self, tool: &str, input: Value, effect: CallEffect, result: Value) {
        if self.begin(tool, input, effect) {
            self.finish(result, false);
        }
    }

    pub(super) fn update(&mut self, index: usize, status: &str) {
        let input = json!({ "id": format!("Note/n{index}"), "status": status });
        self.update_with(index, input, status, None);
    }

    pub(super) fn update_property(&mut self, index: usize, value: i64) {
        let properties = json!({ "v": value });
        let input = json!({ "id": format!("Note/n{index}"), "properties": properties });
        self.update_with(index, input, "new", Some(properties));
    }

    /// An update that names the version that it expects.
    pub(super) fn update_expected(&mut self, index: usize, status: &str) {
        let item = &self.items[index];
        let input = json!({ "id": item.id, "status": status, "expectedVersion": item.version });
        self.update_with(index, input, status, None);
    }

    pub(super) fn update_by_id(&mut self, index: usize, status: &str) {
        let input = json!({ "id": self.items[index].id, "status": status });
        self.update_with(index, input, status, None);
    }

    pub(super) fn update_with(
        &mut self,
        index: usize,
        input: Value,
        status: &str,
        properties: Option<Value>,
    ) {
        if self.begin("entities_update", input, Writes) {
            self.change(index, status, properties);
            self.finish(json!({ "object": self.row(index) }), false);
        }
    }

    pub(super) fn delete(&mut self, index: usize, input: Value) {
        if self.begin("entities_delete", input, Writes) {
            self.change(index, "new", None);
            self.items[index].is_deleted = true;
            self.finish(json!({ "deleted": self.row(index) }), false);
        }
    }

    pub(super) fn connect_as_call(&mut self, from: usize, input: Value) {
        if self.begin("relationships_create", input, Writes) {
            let edge = self.connect(from, 0);
            self.finish(json!({ "relationships": [self.edge(edge)], "created": true }), false);
        }
    }

    /// Creates an object, and connects it with the first one if `related`. Returns the newest object.
    pub(super) fn create(&mut self, object: Value, related: bool) -> usize {
        let input = match related {
            false => object.clone(),
            true => json!({
                "objects": [object], "relationships": [{ "type": "about", "fromRef": "new", "toId": "Note/n0" }],
            }),
        };
        if !self.begin("entities_create", input, Writes) {
            return self.items.len() - 1;
        }
        let key = object["key"].as_str().map(str::to_owned);
        let index = self.insert(object["type"].as_str().unwrap(), key, object["properties"].clone());
        let row = self.row(index);
        let fields = ["id", "type", "key", "status", "version"];
        let short: Map<String, Value> =
            fields.iter().filter_map(|field| Some(((*field).to_owned(), row.get(*field)?.clone()))).collect();
        let mut result = json!({ "objects": [short], "relationships": [], "refs": {} });
        if related {
            let edge = self.connect(index, 0);
            result["relationships"] = json!([self.edge(edge)]);
            result["refs"] = json!({ "new": self.items[index].id });
        }
        self.finish(result, false);
        index
    }

    pub(super) fn connect(&mut self, from: usize, to: usize) -> usize {
        self.clock += 1;
        let id = format!("00000000-0000-7000-9000-{:012}", self.clock);
        let ends = (self.items[from].id.clone(), self.items[to].id.clone());
        self.edges.push((id, ends.0, ends.1, self.clock, 1));
        self.edges.len() - 1
    }

    pub(super) fn edge(&self, index: usize) -> Value {
        let (id, from, to, created, version) = &self.edges[index];
        json!({ "id": id, "type": "about", "fromId": from, "toId": to, "version": version, "createdAt": time(*created) })
    }

    pub(super) fn rows(&self, type_: &str) -> Vec<Value> {
        let listed = (0..self.items.len()).rev();
        let listed = listed.filter(|n| self.items[*n].type_ == type_ && !self.items[*n].is_deleted);
        listed.map(|index| self.row(index)).collect()
    }

    pub(super) fn query(&mut self, type_: &str) {
        let mut rows = self.rows(type_);
        let mut result = json!({});
        if rows.len() > self.page {
            rows.truncate(self.page);
            result["nextCursor"] = json!(rows.last().unwrap()["id"]);
        }
        result["objects"] = json!(rows);
        self.make("entities_query", json!({ "type": type_ }), Reads, result);
    }

    pub(super) fn get(&mut self, index: usize) {
        let id = match &self.items[index].key {
            Some(key) => format!("{}/{key}", self.items[index].type_),
            None => self.items[index].id.clone(),
        };
        if self.begin("entities_get", json!({ "id": id }), Reads) {
            let result = match self.items[index].is_deleted {
                true => json!({ "error": format!("there is no object `{id}`") }),
                false => json!({ "object": self.row(index) }),
            };
            self.finish(result, self.items[index].is_deleted);
        }
    }

    pub(super) fn look(&mut self, look: Look, index: usize) {
        let type_ = self.items[index].type_.clone();
        match look {
            Look::Get => self.get(index),
            Look::Query => self.query(&type_),
            Look::Search => {
                let score = 4.0 - self.clock as f64 * 0.001;
                let rows = self.rows(&type_).into_iter().take(10);
                let hits: Vec<Value> = rows
                    .map(|row| json!({ "score": score, "channels": { "text": { "score": score } }, "object": row }))
                    .collect();
                let result = json!({ "hits": hits, "embedding": "used" });
                self.make("search_hybrid", json!({ "query": "note" }), Reads, result);
            }
            Look::List => {
                let edges: Vec<Value> = (0..self.edges.len()).rev().map(|index| self.edge(index)).collect();
                self.make(
                    "relationships_list",
                    json!({ "type": "about" }),
                    Reads,
                    json!({ "relationships": edges }),
                );
            }
            Look::Neighbors => {
                let edge = |n: usize| {
                    let mut edge = self.edge(n);
                    let other = self.items.iter().position(|item| item.id == self.edges[n].1).unwrap();
                    edge["object"] = self.row(other);
                    edge
                };
                let mut neighbors: Vec<Value> = (0..self.edges.len()).rev().map(edge).collect();
                neighbors.push(json!({ "object": self.row(index), "type": "self" }));
                let result = json!({ "neighbors": neighbors });
                self.make("graph_neighbors", json!({ "id": "Note/n0" }), Reads, result);
            }
            Look::Counts => {
                let mut counts: Map<String, Value> = Map::new();
                for item in self.items.iter().filter(|item| !item.is_deleted) {
                    let count = counts.get(&item.type_).and_then(Value::as_i64).unwrap_or(0);
                    counts.insert(item.type_.clone(), json!(count + 1));
                }
                let result = json!({
                    "objects": self.items.len(), "objectsByType": counts,
                    "relationshipsByType": { "about": self.edges.len() },
                    "embeddings": { "model": "m", "done": self.clock, "pending": self.clock % 5 + 1 },
                });
                self.make("project_info", json!({}), Reads, result);
            }
            Look::History => {
                let mut versions: Vec<Value> = self.items[index].history.clone();
                versions.push(self.row(index));
                versions.reverse();
                let input = json!({ "id": format!("Note/n{index}") });
                self.make("entities_history", input, Reads, json!({ "versions": versions }));
            }
            Look::Tasks => {
                let tasks: Vec<Value> = self
                    .rows("Task")
                    .iter()
                    .map(|row| json!({ "id": row["id"], "title": row["properties"], "createdAt": row["createdAt"] }))
                    .collect();
                let total = tasks.len();
                self.make("tasks_available", json!({}), Reads, json!({ "tasks": tasks, "total": total }));
            }
        }
    }

    pub(super) fn add(self, traces: &mut Vec<Trace>, name: String, label: Label) {
        add(traces, name, label, self.calls);
    }

    /// Plays `repetition` ten times, and adds what it did as a loop.
    pub(super) fn add_loop(
        mut self,
        traces: &mut Vec<Trace>,
        name: String,
        repetition: impl Fn(&mut Self, usize),
    ) {
        let mut length = 0;
        for round in 0..10 {
            repetition(&mut self, round);
            if round == 0 {
                length = self.calls.len();
            }
        }
        self.add(traces, name, Label::Loop { length });
    }

    pub(super) fn add_honest(
        mut self,
        traces: &mut Vec<Trace>,
        name: String,
        rounds: usize,
        work: impl Fn(&mut Self, usize),
    ) {
        (0..rounds).for_each(|round| work(&mut self, round));
        self.add(traces, name, Label::Honest);
    }
}
