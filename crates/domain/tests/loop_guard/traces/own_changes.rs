//! Loops in which the run itself causes the change that it reads, and honest work beside its own repeated writes.
//!
//! The traces are made with a small graph that gives ids, versions and times as the server does.

use emergent_domain::{
    ids::ToolCallId,
    loops::{
        CallEffect::{self, External, Reads, Writes},
        LoopCheck, LoopGuard, ObservedCall,
    },
};
use serde_json::{Map, Value, json};

use super::{Label, Trace, TracedCall, add, call, search};

/// How the state is read between two writes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Look {
    Get,
    Query,
    Search,
    List,
    Neighbors,
    Counts,
    History,
    Tasks,
}

const LOOKS: [Look; 5] = [Look::Get, Look::Query, Look::Search, Look::History, Look::Neighbors];

#[derive(Debug, Clone)]
struct Item {
    id: String,
    type_: String,
    key: Option<String>,
    status: String,
    properties: Value,
    version: i64,
    history: Vec<Value>,
    created: i64,
    updated: i64,
    is_deleted: bool,
}

/// A graph, and the calls that were made of it.
#[derive(Debug, Default)]
struct World {
    items: Vec<Item>,
    edges: Vec<(String, String, String, i64, i64)>,
    clock: i64,
    calls: Vec<TracedCall>,
    page: usize,
    /// A call that the guard refuses changes nothing.
    guard: LoopGuard,
    call: Option<ToolCallId>,
}

fn time(clock: i64) -> String {
    format!("2026-11-19T{:02}:{:02}:{:02}Z", clock / 3600, clock / 60 % 60, clock % 60)
}

impl World {
    fn with(count: usize) -> Self {
        let mut world = Self { page: 20, ..Self::default() };
        (0..count).for_each(|n| {
            world.insert("Note", Some(format!("n{n}")), json!({ "title": format!("note {n}") }));
        });
        world
    }

    fn insert(&mut self, type_: &str, key: Option<String>, properties: Value) -> usize {
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

    fn row(&self, index: usize) -> Value {
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
    fn change(&mut self, index: usize, status: &str, properties: Option<Value>) {
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
    fn begin(&mut self, tool: &str, input: Value, effect: CallEffect) -> bool {
        let call = call(tool, input, effect, json!({ "error": "refused" }));
        let id = ToolCallId::new();
        let observed = ObservedCall { id, tool, input: &call.input, effect };
        let is_made = self.guard.observe_answer([observed])[0] == LoopCheck::None;
        self.calls.push(call);
        self.call = Some(id);
        is_made
    }

    fn finish(&mut self, result: Value, failed: bool) {
        self.clock += 1;
        self.guard.record_result(self.call.take().unwrap(), &result, failed);
        let call = self.calls.last_mut().unwrap();
        (call.result, call.failed) = (result, failed);
    }

    /// A call that changes nothing here.
    fn make(&mut self, tool: &str, input: Value, effect: CallEffect, result: Value) {
        if self.begin(tool, input, effect) {
            self.finish(result, false);
        }
    }

    fn update(&mut self, index: usize, status: &str) {
        let input = json!({ "id": format!("Note/n{index}"), "status": status });
        self.update_with(index, input, status, None);
    }

    fn update_property(&mut self, index: usize, value: i64) {
        let properties = json!({ "v": value });
        let input = json!({ "id": format!("Note/n{index}"), "properties": properties });
        self.update_with(index, input, "new", Some(properties));
    }

    /// An update that names the version that it expects.
    fn update_expected(&mut self, index: usize, status: &str) {
        let item = &self.items[index];
        let input = json!({ "id": item.id, "status": status, "expectedVersion": item.version });
        self.update_with(index, input, status, None);
    }

    fn update_by_id(&mut self, index: usize, status: &str) {
        let input = json!({ "id": self.items[index].id, "status": status });
        self.update_with(index, input, status, None);
    }

    fn update_with(&mut self, index: usize, input: Value, status: &str, properties: Option<Value>) {
        if self.begin("entities_update", input, Writes) {
            self.change(index, status, properties);
            self.finish(json!({ "object": self.row(index) }), false);
        }
    }

    fn delete(&mut self, index: usize, input: Value) {
        if self.begin("entities_delete", input, Writes) {
            self.change(index, "new", None);
            self.items[index].is_deleted = true;
            self.finish(json!({ "deleted": self.row(index) }), false);
        }
    }

    fn connect_as_call(&mut self, from: usize, input: Value) {
        if self.begin("relationships_create", input, Writes) {
            let edge = self.connect(from, 0);
            self.finish(json!({ "relationships": [self.edge(edge)], "created": true }), false);
        }
    }

    /// Creates an object, and connects it with the first one if `related`. Returns the newest object.
    fn create(&mut self, object: Value, related: bool) -> usize {
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

    fn connect(&mut self, from: usize, to: usize) -> usize {
        self.clock += 1;
        let id = format!("00000000-0000-7000-9000-{:012}", self.clock);
        let ends = (self.items[from].id.clone(), self.items[to].id.clone());
        self.edges.push((id, ends.0, ends.1, self.clock, 1));
        self.edges.len() - 1
    }

    fn edge(&self, index: usize) -> Value {
        let (id, from, to, created, version) = &self.edges[index];
        json!({ "id": id, "type": "about", "fromId": from, "toId": to, "version": version, "createdAt": time(*created) })
    }

    fn rows(&self, type_: &str) -> Vec<Value> {
        let listed = (0..self.items.len()).rev();
        let listed = listed.filter(|n| self.items[*n].type_ == type_ && !self.items[*n].is_deleted);
        listed.map(|index| self.row(index)).collect()
    }

    fn query(&mut self, type_: &str) {
        let mut rows = self.rows(type_);
        let mut result = json!({});
        if rows.len() > self.page {
            rows.truncate(self.page);
            result["nextCursor"] = json!(rows.last().unwrap()["id"]);
        }
        result["objects"] = json!(rows);
        self.make("entities_query", json!({ "type": type_ }), Reads, result);
    }

    fn get(&mut self, index: usize) {
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

    fn look(&mut self, look: Look, index: usize) {
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

    fn add(self, traces: &mut Vec<Trace>, name: String, label: Label) {
        add(traces, name, label, self.calls);
    }

    /// Plays `repetition` ten times, and adds what it did as a loop.
    fn add_loop(mut self, traces: &mut Vec<Trace>, name: String, repetition: impl Fn(&mut Self, usize)) {
        let mut length = 0;
        for round in 0..10 {
            repetition(&mut self, round);
            if round == 0 {
                length = self.calls.len();
            }
        }
        self.add(traces, name, Label::Loop { length });
    }

    fn add_honest(
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

/// Objects whose state is changed back and forth.
pub(super) fn loops_of_toggles(traces: &mut Vec<Trace>) {
    for look in LOOKS {
        for count in [1, 2, 3, 6] {
            World::with(count).add_loop(
                traces,
                format!("{count} toggled, each with {look:?}"),
                |world, _| {
                    for status in ["doing", "todo"] {
                        for n in 0..count {
                            world.update(n, status);
                            world.look(look, n);
                        }
                    }
                },
            );
        }
        World::with(1).add_loop(traces, format!("a property toggled, with {look:?}"), |world, _| {
            for value in [1, 2] {
                world.update_property(0, value);
                world.look(look, 0);
            }
        });
        World::with(1).add_loop(traces, format!("three states in a circle, with {look:?}"), |world, _| {
            for status in ["todo", "doing", "done"] {
                world.update(0, status);
                world.look(look, 0);
            }
        });
        World::with(1).add_loop(traces, format!("the same state again, with {look:?}"), |world, _| {
            world.update(0, "doing");
            world.look(look, 0);
        });
    }
    World::with(1).add_loop(
        traces,
        "a toggle with a look at all versions and the list".into(),
        |world, _| {
            for status in ["doing", "todo"] {
                world.update(0, status);
                [Look::Get, Look::Query, Look::Search].into_iter().for_each(|look| world.look(look, 0));
            }
        },
    );
    World::with(1).add_loop(traces, "a toggle that names the version it expects".into(), |world, _| {
        for status in ["doing", "todo"] {
            world.get(0);
            world.update_expected(0, status);
        }
    });
    World::with(3).add_loop(traces, "a toggle of one and a look at another".into(), |world, _| {
        for status in ["doing", "todo"] {
            world.update(0, status);
            world.get(1);
            world.query("Note");
        }
    });
    World::with(2).add_loop(traces, "deleted and restored, with a look".into(), |world, _| {
        world.delete(0, json!({ "id": "Note/n0" }));
        world.get(0);
        if world.begin("entities_restore", json!({ "id": "Note/n0" }), Writes) {
            world.change(0, "new", None);
            world.items[0].is_deleted = false;
            world.finish(json!({ "object": world.row(0) }), false);
        }
        world.get(0);
    });
    World::with(2).add_loop(traces, "a relationship made and deleted, with a look".into(), |world, _| {
        let ends = json!({ "type": "about", "fromId": "Note/n1", "toId": "Note/n0" });
        world.connect_as_call(1, ends.clone());
        world.look(Look::List, 0);
        if world.begin("relationships_delete", ends, Writes) {
            let deleted = world.edge(world.edges.len() - 1);
            world.edges.pop();
            world.finish(json!({ "deleted": deleted }), false);
        }
        world.look(Look::List, 0);
    });
}

/// The same object created again and again.
pub(super) fn loops_of_duplicates(traces: &mut Vec<Trace>) {
    let same = || json!({ "type": "Dup", "properties": { "title": "same" } });
    for look in [Look::Query, Look::Search, Look::Counts, Look::List, Look::Neighbors] {
        for related in [false, true] {
            let name = format!("the same object created, related: {related}, with {look:?}");
            World::with(2).add_loop(traces, name, |world, _| {
                let new = world.create(same(), related);
                world.look(
                    if look == Look::Get { Look::Query } else { look },
                    if look == Look::Neighbors { 0 } else { new },
                );
            });
        }
    }
    for (count, others) in [(2, 0), (3, 5), (1, 30), (2, 30)] {
        let name = format!("{count} objects created again among {others} others of their type");
        let mut world = World::with(1);
        for n in 0..others {
            world.insert("Dup", None, json!({ "title": format!("other {n}") }));
        }
        world.add_loop(traces, name, |world, _| {
            for n in 0..count {
                world.create(json!({ "type": "Dup", "properties": { "title": n } }), false);
                world.query("Dup");
            }
        });
    }
    World::with(1).add_loop(traces, "created again, read by its new id and listed".into(), |world, _| {
        let new = world.create(same(), false);
        world.get(new);
        world.query("Dup");
    });
    World::with(1).add_loop(traces, "created again, changed and listed".into(), |world, _| {
        let new = world.create(same(), false);
        world.update_by_id(new, "done");
        world.query("Dup");
    });
    World::with(1).add_loop(traces, "created again and deleted".into(), |world, _| {
        let new = world.create(same(), false);
        world.delete(new, json!({ "id": world.items[new].id }));
        world.look(Look::Counts, 0);
    });
    World::with(2).add_loop(traces, "created again and connected".into(), |world, _| {
        let new = world.create(same(), false);
        world.connect_as_call(
            new,
            json!({ "type": "about", "fromId": world.items[new].id, "toId": "Note/n0" }),
        );
        world.look(Look::Neighbors, 0);
    });
    World::with(1).add_loop(traces, "the same task again, with a look at the tasks".into(), |world, _| {
        if world.begin("tasks_create", json!({ "title": "same" }), Writes) {
            let new = world.insert("Task", None, json!("same"));
            world.finish(json!({ "tasks": [{ "id": world.items[new].id, "title": "same" }] }), false);
        }
        world.look(Look::Tasks, 0);
    });
}

/// Changes outside of this server, whose results have the time of the call.
pub(super) fn loops_outside(traces: &mut Vec<Trace>) {
    for effect in [Reads, External] {
        for count in [1, 2, 3] {
            let name = format!("{count} switches outside, read with effect {effect:?}");
            World::default().add_loop(traces, name, |world, _| {
                for state in ["on", "off"] {
                    for n in 0..count {
                        let at = time(world.clock);
                        let set = json!({ "switch": n, "state": state });
                        world.make(
                            "switch_set",
                            set,
                            External,
                            json!({ "ok": true, "at": 1, "updated_at": at }),
                        );
                        let shown =
                            json!({ "switch": n, "state": state, "timestamp": 1_790_000_000 + world.clock });
                        world.make("switch_get", json!({ "switch": n }), effect, shown);
                    }
                }
            });
        }
    }
}

pub(super) fn honest_work_beside_own_writes(traces: &mut Vec<Trace>) {
    for rounds in [5, 20, 60] {
        // Somebody else changes what the run waits for, while it reports that it is alive.
        World::with(3).add_honest(
            traces,
            format!("{rounds} rounds alive, others work"),
            rounds,
            |world, round| {
                world.update(0, "alive");
                world.change(1, &format!("step {round}"), None);
                world.get(1);
            },
        );
        World::with(3).add_honest(
            traces,
            format!("{rounds} rounds alive, others add"),
            rounds,
            |world, round| {
                world.update(0, "alive");
                world.insert("Note", None, json!({ "title": format!("found {round}") }));
                world.query("Note");
            },
        );
        World::with(3).add_honest(
            traces,
            format!("{rounds} rounds alive, others add the same"),
            rounds,
            |world, _| {
                world.update(0, "alive");
                world.insert("Result", None, json!({ "title": "a result" }));
                world.look(Look::Query, world.items.len() - 1);
            },
        );
        World::with(2).add_honest(
            traces,
            format!("{rounds} answers of another agent"),
            rounds,
            |world, round| {
                world.update(0, "ask");
                world.change(0, "answered", Some(json!({ "answer": round })));
                world.get(0);
            },
        );
        World::with(2).add_honest(
            traces,
            format!("{rounds} touches by another agent"),
            rounds,
            |world, _| {
                world.update(0, "ask");
                world.change(0, "ask", None);
                world.get(0);
            },
        );
        World::with(2).add_honest(traces, format!("{rounds} values of a counter"), rounds, |world, round| {
            world.update_property(0, round as i64);
            world.get(0);
        });
        World::with(2).add_honest(
            traces,
            format!("{rounds} values, seen in the list"),
            rounds,
            |world, round| {
                world.update_property(0, round as i64);
                world.query("Note");
            },
        );
        let world = World::with(rounds);
        world.add_honest(traces, format!("{rounds} objects through three states"), rounds, |world, n| {
            for status in ["todo", "doing", "done"] {
                world.update(n, status);
                world.get(n);
            }
        });
        World::with(rounds).add_honest(
            traces,
            format!("{rounds} objects, read and done"),
            rounds,
            |world, n| {
                world.get(n);
                world.update(n, "done");
            },
        );
        World::with(1).add_honest(
            traces,
            format!("{rounds} objects created and listed"),
            rounds,
            |world, n| {
                world.create(json!({ "type": "Item", "properties": { "title": n } }), n % 2 == 0);
                world.query("Item");
            },
        );
        World::with(1).add_honest(
            traces,
            format!("{rounds} objects created, read and changed"),
            rounds,
            |world, n| {
                let new = world.create(json!({ "type": "Item", "properties": { "title": n } }), false);
                world.get(new);
                let input = json!({ "id": world.items[new].id, "status": "done" });
                world.change(new, "done", None);
                world.make("entities_update", input, Writes, json!({ "object": world.row(new) }));
            },
        );
        // Pages of a list while the run marks where it is.
        World::with(2).add_honest(
            traces,
            format!("{rounds} pages, each with a mark"),
            rounds,
            |world, page| {
                let result =
                    json!({ "objects": [{ "id": page, "version": 1 }], "nextCursor": page.to_string() });
                world.make("entities_query", json!({ "type": "Row", "cursor": page }), Reads, result);
                world.update(0, "reading");
            },
        );
        World::with(1).add_honest(
            traces,
            format!("{rounds} searches, each with a mark"),
            rounds,
            |world, n| {
                let TracedCall { tool, input, result, .. } = search(&format!("topic {n}"), n + 1);
                world.make(&tool, input, Reads, result);
                world.update(0, "searching");
            },
        );
        // A queue outside gives another item each time, and each is worked on.
        World::default().add_honest(traces, format!("{rounds} items of a queue"), rounds, |world, n| {
            let at = time(world.clock);
            world.make("queue_pop", json!({}), External, json!({ "id": n, "taken_at": at }));
            world.make("item_process", json!({ "id": n }), External, json!({ "ok": true }));
        });
        World::default().add_honest(
            traces,
            format!("{rounds} polls of two builds with times"),
            rounds,
            |world, n| {
                for build in [1, 2] {
                    let shown =
                        json!({ "state": format!("step {}", n / 2), "updated_at": time(world.clock) });
                    world.make("build_status", json!({ "build": build }), External, shown);
                }
            },
        );
        // A worker that is started again does the next part each time.
        World::default().add_honest(traces, format!("{rounds} times the same worker"), rounds, |world, n| {
            let result = json!({ "results": [{ "runId": format!("r{n}"), "summary": format!("part {n}") }] });
            world.make("spawn_agents", json!({ "tasks": [{ "agent_name": "worker" }] }), Writes, result);
            let left: Vec<Value> = (n..rounds).map(|id| json!({ "id": id, "version": 1 })).collect();
            world.make("entities_query", json!({ "type": "Part" }), Reads, json!({ "objects": left }));
        });
    }
    World::with(4).add_honest(traces, "a correction that is taken back once".into(), 2, |world, round| {
        for status in ["doing", "todo"] {
            world.update(0, status);
            world.get(0);
        }
        world.update(round + 1, "done");
        world.query("Note");
    });
    World::with(1).add_honest(traces, "a draft that is improved and shown".into(), 12, |world, round| {
        world.update(0, "draft");
        world.update_property(0, 100 + round as i64);
        world.get(0);
        world.update(0, "review");
    });
}
