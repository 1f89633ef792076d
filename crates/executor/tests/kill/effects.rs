//! Checks of the graph: each effect of each call is there once, with its author.

use std::collections::BTreeMap;

use emergent_domain::{
    author::Author,
    cursor::Page,
    ids::{ObjectId, ProjectId, RunId, ToolCallId},
    object::Object,
    query::ObjectFilter,
    time::Clock,
};
use emergent_graph::{Graph, RelationshipFilter};
use emergent_store::Db;
use serde_json::Value;

use crate::{agent_scripts, check::Recorded};

/// The writes of each call as text: the object, its version and its content.
type Effects = BTreeMap<(RunId, ToolCallId), Vec<String>>;

pub async fn check(db: &Db, all: &[Recorded]) -> usize {
    let graph = Graph::new(db.clone(), Clock::system(), None);
    let project = graph.ensure_default_project().await.expect("a project").id;
    let found = found(&graph, project).await;
    let mut wanted = wanted(all);
    for (call, written) in &found {
        assert_eq!(wanted.remove(call).as_ref(), Some(written), "what {call:?} wrote");
    }
    assert_eq!(wanted, Effects::new(), "calls that wrote nothing");
    found.len()
}

/// Derives the expected effects from the record: every writing call adds one version, in order. No
/// other run touches the objects of a run.
fn wanted(all: &[Recorded]) -> Effects {
    let mut effects = Effects::new();
    for one in all {
        let mut things: BTreeMap<String, Thing> = BTreeMap::new();
        for call in one.talk.calls.iter().filter(|call| agent_scripts::is_write(&call.tool)) {
            let input = &call.input;
            let text = |field: &str| input[field].as_str().unwrap_or_default().to_owned();
            let effect = match call.tool.as_str() {
                "relationships_create" => edge_line(&text("fromId"), &text("toId"), 1),
                "entities_create" if input["type"] == "Note" => note_line(&input["properties"]["mark"], 1),
                tool => {
                    let id = match tool {
                        "entities_update" => text("id"),
                        _ => format!("Thing/{}", text("key")),
                    };
                    let thing = things.entry(id.clone()).or_default();
                    thing.version += 1;
                    thing.n += i64::from(tool == "increment");
                    if tool == "entities_update" {
                        thing.seen = input["properties"]["seen"].clone();
                    }
                    thing_line(&id, thing)
                }
            };
            effects.entry((one.run.id, call.id)).or_default().push(effect);
        }
    }
    effects
}

#[derive(Default)]
struct Thing {
    version: i64,
    n: i64,
    seen: Value,
}

fn thing_line(id: &str, Thing { version, n, seen }: &Thing) -> String {
    format!("{id} v{version} n={n} seen={seen}")
}

fn note_line(mark: &Value, version: i64) -> String {
    format!("Note {mark} v{version}")
}

fn edge_line(from: &str, to: &str, version: i64) -> String {
    format!("{from} -> {to} v{version}")
}

async fn found(graph: &Graph, project: ProjectId) -> Effects {
    let mut effects = Effects::new();
    let mut note = |author: Author, line: String| match author {
        Author::Run { run_id, tool_call_id: Some(call) } => {
            effects.entry((run_id, call)).or_default().push(line);
        }
        other => panic!("{line} was written by {other:?}"),
    };
    let mut names: BTreeMap<ObjectId, String> = BTreeMap::new();
    let mut page = Page::first(Page::MAX);
    loop {
        let some = graph.list_objects(project, ObjectFilter::default(), page).await.expect("objects");
        for object in &some.items {
            names.insert(object.id, name(object));
            let versions =
                graph.object_history(project, object.id, Page::first(10_000)).await.expect("a history");
            versions.items.iter().for_each(|version| note(version.author, line(version)));
        }
        page.after = some.next;
        if page.after.is_none() {
            break;
        }
    }
    let mut page = Page::first(Page::MAX);
    loop {
        let filter = RelationshipFilter { types: Vec::new(), from: None, to: None };
        let some = graph.list_relationships(project, filter, page).await.expect("relationships");
        for edge in &some.items {
            let history = graph.relationship_history(project, edge.id, Page::first(10_000)).await;
            for version in history.expect("a history").items {
                note(version.author, edge_line(&names[&version.from], &names[&version.to], version.version));
            }
        }
        page.after = some.next;
        if page.after.is_none() {
            break;
        }
    }
    effects
}

fn name(object: &Object) -> String {
    format!("{}/{}", object.type_, object.key.as_deref().unwrap_or_default())
}

fn line(version: &Object) -> String {
    let properties = version.properties.to_map();
    let property = |name: &str| properties.get(name).cloned().unwrap_or(Value::Null);
    if version.type_ == "Note" {
        return note_line(&property("mark"), version.version);
    }
    let n = property("n").as_i64().unwrap_or(-1);
    thing_line(&name(version), &Thing { version: version.version, n, seen: property("seen") })
}
