//! The graph that is there, with names for its objects that tell what they are. No name is taken
//! from an edge, so an edge with a wrong end is seen.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{expected, run};
use crate::common::{Home, command_output, json_of};

/// Holds what a demo left against what it promises.
pub fn check(home: &Home, told: &Value) {
    assert_eq!(told["graph"], expected::tree(), "{:#}", told["graph"]);
    let found = Found::of(home, text(&told["project"]), text(&told["workflowId"]));
    assert_eq!(found.named_agents, [] as [String; 0], "the plan names no agent, so each one was chosen");
    same("objects", found.objects(), expected::objects());
    same("edges", found.edges(), expected::edges());
}

/// Both are sorted; one that is there twice is seen too.
fn same(what: &str, found: Vec<String>, promised: Vec<String>) {
    let without = |these: &[String], those: &[String]| {
        let mut left = those.to_vec();
        let mut rest = these.to_vec();
        rest.retain(|one| match left.iter().position(|other| other == one) {
            Some(at) => {
                left.swap_remove(at);
                false
            }
            None => true,
        });
        rest
    };
    let (missing, more) = (without(&promised, &found), without(&found, &promised));
    assert!(
        missing.is_empty() && more.is_empty(),
        "{what} that are missing: {missing:#?}\nthat nobody promised: {more:#?}"
    );
}

struct Found {
    /// By id.
    names: HashMap<String, String>,
    /// The tasks that name an agent themselves.
    named_agents: Vec<String>,
    edges: Vec<Value>,
}

impl Found {
    fn of(home: &Home, project: &str, workflow: &str) -> Self {
        let of_project = |args: &[&str]| run(home, &[args, &["--project", project]].concat());
        let exported =
            command_output(of_project(&["graph", "export"]).output().expect("the graph is exported"));
        let lines = exported.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
        let (objects, edges): (Vec<Value>, Vec<Value>) = lines.partition(|line| line["kind"] == "object");
        let shown = of_project(&["workflow", "show", workflow, "--json"]).output().expect("it is shown");
        let sessions = sessions(&json_of(shown));
        let places = places(&objects);
        let name = |object: &Value| {
            let (type_, of) = (text(&object["type"]), &object["properties"]);
            let session = || sessions.get(text(&of["run_id"])).cloned().unwrap_or_default();
            match type_ {
                "SpecTask" => text(&of["key"]).to_owned(),
                "Session" => session(),
                "SessionMessage" => {
                    format!(
                        "message {} ({}) of {}",
                        places[text(&object["id"])],
                        text(&of["role"]),
                        session()
                    )
                }
                "Discussion" => format!("discussion \"{}\"", text(&of["topic"])),
                "DiscussionEntry" => {
                    format!(
                        "{} by {} in round {}",
                        text(&of["entry_type"]),
                        text(&of["agent_name"]),
                        of["round"]
                    )
                }
                "TestResult" | "CodeReview" => format!("{type_} {}", text(&of["verdict"])),
                _ => format!("{type_} {}", text(&object["key"])),
            }
        };
        let names = objects.iter().map(|object| (text(&object["id"]).to_owned(), name(object))).collect();
        let names_agent = |object: &&Value| {
            let of = &object["properties"];
            object["type"] == "SpecTask" && !(of["agent_is_named"].is_null() && of["collaborators"].is_null())
        };
        let named_agents = objects.iter().filter(names_agent).map(name).collect();
        Self { names, named_agents, edges }
    }

    fn objects(&self) -> Vec<String> {
        let mut names: Vec<String> = self.names.values().cloned().collect();
        names.sort();
        names
    }

    fn edges(&self) -> Vec<String> {
        let mut edges: Vec<String> = self.edges.iter().map(|edge| self.edge(edge)).collect();
        edges.sort();
        edges
    }

    fn edge(&self, edge: &Value) -> String {
        let name = |end: &Value| self.names.get(text(&end["id"])).cloned().unwrap_or_else(|| end.to_string());
        let (from, type_, to) = (name(&edge["from"]), text(&edge["type"]), name(&edge["to"]));
        let place = match type_ {
            // Counted over everything a run records, so there are gaps: only the order is promised.
            "has_message" => format!(" {}", self.place(edge)),
            "has_entry" => format!(" {}", edge["properties"]["sequence"]),
            "assigned_to_agent" => format!(" {}", text(&edge["properties"]["agent_name"])),
            _ => String::new(),
        };
        format!("{from} -{type_}{place}-> {to}")
    }

    /// The place of an edge among those of its type and start, by `sequence`.
    fn place(&self, edge: &Value) -> usize {
        let sequence = |edge: &Value| edge["properties"]["sequence"].as_i64().expect("a sequence");
        let beside =
            |other: &&Value| other["type"] == edge["type"] && other["from"]["id"] == edge["from"]["id"];
        1 + self.edges.iter().filter(beside).filter(|other| sequence(other) < sequence(edge)).count()
    }
}

/// Which attempt at which task a run was.
fn sessions(workflow: &Value) -> HashMap<String, String> {
    let mut names = HashMap::new();
    for task in workflow["tasks"].as_array().into_iter().flatten() {
        for (at, run) in task["runIds"].as_array().into_iter().flatten().enumerate() {
            names.insert(text(run).to_owned(), format!("session {} of {}", at + 1, text(&task["key"])));
        }
    }
    names
}

/// Messages of one run in the order of their `seq`.
fn places(objects: &[Value]) -> HashMap<String, usize> {
    let mut of_run: BTreeMap<&str, Vec<(i64, &str)>> = BTreeMap::new();
    for message in objects.iter().filter(|object| object["type"] == "SessionMessage") {
        let seq = message["properties"]["seq"].as_i64().expect("a place in the run's record");
        of_run.entry(text(&message["properties"]["run_id"])).or_default().push((seq, text(&message["id"])));
    }
    let mut places = HashMap::new();
    for mut messages in of_run.into_values() {
        messages.sort_unstable();
        places.extend(messages.iter().enumerate().map(|(at, (_, id))| ((*id).to_owned(), at + 1)));
    }
    places
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
