//! No tool reads or writes anything of another project, whatever its input names.

use emergent_domain::cursor::Page;
use emergent_graph::RelationshipFilter;
use emergent_testkit::both_engines;
use emergent_tools::builtin;
use serde_json::{Map, Value, json};

use crate::support;
use support::*;

/// A word that only the other project's rows have, and no input.
const SECRET: &str = "xyzzy";

/// What the other project has, by all its names.
struct Hoard {
    object: String,
    second: String,
    deleted: String,
    edge: String,
    document: String,
    pack: String,
    run: String,
}

async fn hoard(there: &World) -> Hoard {
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let said = json!({ "title": format!("hidden {SECRET}") });
    let made = there
        .ok("entities_create", json!({
            "objects": [
                { "type": "Secret", "key": "one", "status": "kept", "labels": ["kept"], "properties": said },
                { "type": "Secret", "key": "two", "properties": said },
                { "type": "Secret", "key": "gone", "properties": said },
            ],
            "relationships": [{
                "type": "guards", "fromId": "Secret/one", "toId": "Secret/two", "properties": { "why": SECRET },
            }],
        }))
        .await;
    there.ok("entities_delete", json!({ "id": "Secret/gone" })).await;
    let content = format!("hidden {SECRET} in a text");
    let document = there.ok("documents_create", json!({ "title": "Secret", "content": content })).await;
    let pack = there
        .ok(
            "schema_pack_create",
            json!({
                "name": "hidden", "version": "1.0.0", "description": SECRET,
                "objectTypeSchemas": { "Secret": { "type": "object", "description": SECRET } },
            }),
        )
        .await;
    let run = there.record_run("hidden-agent", SECRET).await;
    Hoard {
        run: run.to_string(),
        object: text(&made["objects"][0]["id"]),
        second: text(&made["objects"][1]["id"]),
        deleted: text(&made["objects"][2]["id"]),
        edge: text(&made["relationships"][0]["id"]),
        document: text(&document["document"]["id"]),
        pack: text(&pack["pack"]["id"]),
    }
}

impl Hoard {
    /// What a property of a tool's input can name: by id, and by key where there are keys.
    fn names(&self, tool: &str, property: &str) -> Vec<Value> {
        let objects = || vec![json!(self.object), json!("Secret/one")];
        match (tool, property) {
            ("entities_restore", "id") => vec![json!(self.deleted), json!("Secret/gone")],
            ("schema_pack_assign", "id") => vec![json!(self.pack), json!("hidden"), json!("hidden@1.0.0")],
            (tool, "id" | "parentId") if tool.starts_with("runs_") => vec![json!(self.run)],
            ("runs_list", "agent") => vec![json!("hidden-agent")],
            ("runs_list", "status") => vec![json!("completed")],
            (_, "documentId") => vec![json!(self.document)],
            (tool, "id") if tool.starts_with("documents_") => vec![json!(self.document)],
            (tool, "id") if tool.starts_with("relationships_") => vec![json!(self.edge)],
            ("relationships_list", "types") => vec![json!(["guards"])],
            (tool, "type") if tool.starts_with("relationships_") => vec![json!("guards")],
            (_, "id" | "fromId") => objects(),
            (_, "toId") => vec![json!(self.second), json!("Secret/two")],
            (_, "ids" | "startIds") => objects().into_iter().map(|one| json!([one])).collect(),
            ("relationships_create", "relationships") => objects()
                .into_iter()
                .map(|one| json!([{ "type": "steals", "fromId": one, "toId": self.second }]))
                .collect(),
            ("entities_create", "relationships") => objects()
                .into_iter()
                .map(|one| json!([{ "type": "steals", "fromRef": "thief", "toId": one }]))
                .collect(),
            (_, "query") => vec![json!("hidden")],
            (_, "type" | "name") => vec![json!("Secret")],
            (_, "types" | "objectTypes") => vec![json!(["Secret"])],
            (_, "labels") => vec![json!(["kept"])],
            (_, "status") => vec![json!("kept")],
            _ => Vec::new(),
        }
    }

    /// Inputs that name the other project's things in every way the schema knows: what is required,
    /// and up to three of the rest.
    fn inputs(&self, tool: &str, schema: &Value) -> Vec<Value> {
        let required: Vec<&str> =
            schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let mut inputs = vec![Map::new()];
        for property in schema["properties"].as_object().unwrap().keys() {
            let names = self.names(tool, property);
            let must = required.contains(&property.as_str());
            let mut next = if must && !names.is_empty() { Vec::new() } else { inputs.clone() };
            for input in inputs.iter().filter(|input| must || input.len() < required.len() + 3) {
                for name in &names {
                    let mut input = input.clone();
                    input.insert(property.clone(), name.clone());
                    next.push(input);
                }
            }
            inputs = next;
        }
        // What names nothing but is needed for a call to get that far.
        for input in &mut inputs {
            let needed = match tool {
                "entities_create" => json!({ "ref": "thief", "type": "Thief" }),
                "entities_update" => json!({ "properties": { "title": "stolen" } }),
                "relationships_update" => json!({ "weight": 7 }),
                "documents_create" => json!({ "title": "Secret", "content": "hidden" }),
                "schema_pack_create" => json!({ "name": "hidden", "version": "1.0.1" }),
                _ => json!({}),
            };
            input.extend(needed.as_object().unwrap().clone());
        }
        inputs.into_iter().map(Value::Object).collect()
    }
}

/// Everything the other project has, to compare before and after.
async fn everything(there: &World) -> Vec<String> {
    let (graph, project) = (&there.graph, there.project);
    let objects = graph.list_objects(project, Default::default(), Page::first(100)).await.unwrap().items;
    let edges =
        graph.list_relationships(project, RelationshipFilter::default(), Page::first(100)).await.unwrap();
    let documents = graph.list_documents(project, Page::first(100)).await.unwrap().items;
    let packs = graph.list_packs(project, Page::first(100)).await.unwrap().items;
    let mut all: Vec<String> = objects.iter().map(|one| format!("{one:?}")).collect();
    all.extend(edges.items.iter().map(|one| format!("{one:?}")));
    all.extend(documents.iter().map(|one| format!("{one:?}")));
    all.extend(packs.iter().map(|one| format!("{one:?}")));
    all.push(format!("{:?}", graph.get_project(project).await.unwrap()));
    all.push(there.changes(project).await.to_string());
    all
}

both_engines! {
    async fn no_tool_reaches_into_another_project_by_id_or_by_key(db: TestDb) {
        let here = World::new(&db).await;
        let there = here.over_there();
        let hoard = hoard(&there).await;
        here.ok("entities_create", json!({ "type": "Own", "key": "one" })).await;
        let before = everything(&there).await;
        for tool in builtin::tools() {
            let info = tool.info();
            let inputs = hoard.inputs(&info.name, tool.checked_schema().as_value());
            let mut works_there = 0;
            for input in &inputs {
                // The same call from inside, undone: it shows that the names are right.
                works_there += usize::from(there.call_tool(tool.as_ref(), input.clone(), Fate::RollBack).await.is_ok());
                let said = match here.call_tool(tool.as_ref(), input.clone(), Fate::RollBack).await {
                    Ok(answer) => answer.to_string(),
                    Err(why) => why,
                };
                assert!(!said.contains(SECRET), "{} {input} told {said}", info.name);
            }
            assert!(works_there > 0, "no input of `{}` works even inside: {inputs:?}", info.name);
        }
        assert_eq!(everything(&there).await, before);
    }

    async fn what_is_named_from_outside_is_not_found(db: TestDb) {
        let here = World::new(&db).await;
        let hoard = hoard(&here.over_there()).await;
        let own = here.ok("entities_create", json!({ "type": "Own", "key": "one" })).await["objects"][0]["id"].clone();
        let before = here.changes(here.project).await;
        for name in [hoard.object.as_str(), "Secret/one"] {
            for (tool, input) in [
                ("entities_get", json!({ "id": name })),
                ("entities_update", json!({ "id": name, "status": "stolen" })),
                ("entities_delete", json!({ "id": name })),
                ("entities_restore", json!({ "id": name })),
                ("entities_history", json!({ "id": name })),
                ("search_similar", json!({ "id": name })),
                ("graph_traverse", json!({ "startIds": [name] })),
                ("graph_neighbors", json!({ "id": name })),
                ("graph_path", json!({ "fromId": own, "toId": name })),
            ] {
                let said = here.err(tool, input).await;
                assert!(said.starts_with("there is no object"), "{tool}: {said}");
            }
            for input in [
                json!({ "type": "steals", "fromId": own, "toId": name }),
                json!({ "relationships": [{ "type": "steals", "fromId": name, "toId": own }] }),
            ] {
                let said = here.err("relationships_create", input).await;
                assert!(said.contains("no object"), "{said}");
            }
            let input = json!({ "ref": "a", "type": "T", "relationships": [{ "type": "r", "fromRef": "a", "toId": name }] });
            assert!(here.err("entities_create", input).await.contains("no object"));
            let listed = here.call("relationships_list", json!({ "fromId": name })).await;
            assert!(listed.is_err() || listed.unwrap()["relationships"] == json!([]));
        }
        for (tool, input) in [
            ("relationships_get", json!({ "id": hoard.edge })),
            ("relationships_update", json!({ "id": hoard.edge, "weight": 1 })),
            ("relationships_delete", json!({ "id": hoard.edge })),
            ("relationships_delete", json!({ "type": "guards", "fromId": hoard.object, "toId": hoard.second })),
            ("documents_get", json!({ "id": hoard.document })),
            ("documents_search", json!({ "query": "hidden", "documentId": hoard.document })),
            ("runs_get", json!({ "id": hoard.run })),
            ("runs_messages", json!({ "id": hoard.run })),
            ("runs_list", json!({ "agent": "hidden-agent" })),
            ("schema_pack_assign", json!({ "id": hoard.pack })),
            ("schema_pack_assign", json!({ "id": "hidden@1.0.0" })),
        ] {
            let said = here.err(tool, input).await;
            assert!(said.starts_with("there is no"), "{tool}: {said}");
        }
        assert_eq!(here.changes(here.project).await, before);
    }
}
