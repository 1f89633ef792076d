//! The rules of a manifest: every problem is reported at an existing location.

use std::collections::BTreeMap;

use emergent_domain::agent::{AvailableNames, Visibility};
use emergent_products::{
    ManifestProblem, ProjectState, ToolForecast, builtin,
    validate::{InstallContext, core_version, parse, parse_value, parse_with_problems, validate},
};
use serde_json::{Value, json};

fn around() -> InstallContext {
    let tools = AvailableNames {
        tools: vec!["search_hybrid".to_owned(), "entities_create".to_owned(), "create_entity".to_owned()],
        tools_complete: true,
        ..AvailableNames::default()
    };
    let agents = BTreeMap::from([
        ("librarian".to_owned(), Visibility::Project),
        ("hidden".to_owned(), Visibility::Internal),
    ]);
    InstallContext { core: core_version(), tools, agents, providers: vec!["google".into()] }
}

/// A manifest that uses every feature.
fn whole() -> Value {
    json!({
        "$schema": "./manifest.schema.json",
        "name": "acme.support", "version": "1.0.0", "description": "Helps", "author": "Acme", "license": "MIT",
        "repository": "https://example.com/x", "min_core_version": "0.1.0",
        "template_packs": [{
            "name": "support", "version": "1.0.0", "description": "Tickets",
            "object_type_schemas": { "Ticket": { "type": "object", "properties": { "title": { "type": "string" } } } },
            "relationship_type_schemas": {
                "about": { "from": "Ticket", "to": "*" },
                "replies_to": { "source": ["Ticket"], "target": "Ticket", "properties": { "at": { "type": "string" } } } },
            "ui_configs": { "Ticket": { "icon": "t" } }, "extraction_prompts": { "Ticket": "Find tickets" } }],
        "agents": [
            { "name": "triage", "description": "Sorts", "visibility": "external", "system_prompt": "Sort.",
              "model": { "provider": "google", "name": "gemini-2.5-flash", "temperature": 0.1, "max_tokens": 100 },
              "tools": ["search_hybrid", "entities_*"], "trigger": "on_document_ingested", "flow_type": "single",
              "is_default": true, "max_steps": 5, "default_timeout": 60,
              "acp": { "display_name": "Triage", "description": "d", "capabilities": ["chat"], "input_modes": ["text"], "output_modes": ["text"] },
              "output_schema": { "type": "object", "properties": { "due_date": { "type": "string" } } },
              "config": { "allow_delegation": true, "trigger": { "types": ["text/plain"] } } },
            { "name": "chain", "model": { "name": "gemini-2.5-pro" }, "temperature": 0.2, "max_tokens": 10, "tools": [],
              "trigger": null, "flow_type": "sequential", "flow_config": { "agents": ["triage", "librarian"] } }],
        "jobs": [{ "name": "daily", "cron": "0 8 * * MON-FRI", "agent": "triage",
                   "config": { "time_zone": "Europe/Paris", "missed": "skip", "input": "Go", "context": { "a": 1 }, "max_steps": 3, "timeout_seconds": 30 } }],
        "mcp": {
            "servers": [
                { "name": "web", "description": "d", "transport": "stdio", "command": "npx", "args": ["-y", "x"], "env": { "A_KEY": "${A_KEY}" } },
                { "name": "hub", "transport": "sse", "url": "https://example.com/sse", "headers": { "Authorization": "Bearer ${HUB_TOKEN}" } },
                { "name": "api", "transport": "http", "url": "https://example.com/mcp" }],
            "prompts": [{ "name": "ask", "title": "Ask", "description": "d",
                          "arguments": [{ "name": "topic", "title": "t", "description": "d", "required": true }],
                          "messages": [{ "role": "user", "content": "About {{topic}}" }] }],
            "tool_filter": ["web_*", "*"] }
    })
}

fn problems(manifest: &Value) -> Vec<ManifestProblem> {
    match parse_value(manifest.clone()) {
        Err(problems) => problems,
        Ok(manifest) => validate(&manifest, &around()),
    }
}

/// Sets `value` at `pointer`, or removes the value there.
fn set(root: &mut Value, pointer: &str, value: Option<Value>) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let name = name.replace("~1", "/").replace("~0", "~");
    match (root.pointer_mut(parent).unwrap(), value) {
        (Value::Object(map), Some(value)) => drop(map.insert(name, value)),
        (Value::Object(map), None) => drop(map.remove(&name)),
        (Value::Array(items), Some(value)) => items[name.parse::<usize>().unwrap()] = value,
        (Value::Array(items), None) => drop(items.remove(name.parse::<usize>().unwrap())),
        other => panic!("{pointer}: {other:?}"),
    }
}

#[track_caller]
fn check(pointer: &str, value: Value, at: &str, said: &str) {
    let mut manifest = whole();
    set(&mut manifest, pointer, Some(value));
    told(&manifest, at, said);
}

#[track_caller]
fn without(pointer: &str, at: &str, said: &str) {
    let mut manifest = whole();
    set(&mut manifest, pointer, None);
    told(&manifest, at, said);
}

#[track_caller]
fn told(manifest: &Value, at: &str, said: &str) {
    let found = problems(manifest);
    let fits = |problem: &&ManifestProblem| problem.pointer == at && problem.to_string().contains(said);
    assert!(found.iter().any(|problem| fits(&problem)), "expected `{said}` at `{at}`, got {found:#?}");
    for problem in &found {
        assert!(manifest.pointer(&problem.pointer).is_some(), "{problem:?} points at nothing");
    }
}

#[test]
fn a_manifest_with_one_of_everything_is_fine() {
    assert_eq!(problems(&whole()), []);
    assert_eq!(problems(&json!({ "name": "a", "version": "1.0.0" })), []);
}

/// The problems of a manifest and of its place in a project, with parts that cannot be read.
fn all_problems(manifest: &Value) -> Vec<ManifestProblem> {
    match parse_with_problems(manifest.clone()) {
        Err(problems) => problems,
        Ok(manifest) => validate(&manifest, &around()),
    }
}

#[test]
fn what_cannot_be_read_hides_no_other_problem() {
    let mut wrong = whole();
    set(&mut wrong, "/min_core_version", Some(json!("99.0.0")));
    set(&mut wrong, "/agents/0/tools/0", Some(json!("no_such_tool")));
    set(&mut wrong, "/agents/1/model", Some(json!({ "provider": "nobody", "name": "x" })));
    set(&mut wrong, "/jobs/0/agent", Some(json!("missing")));
    let hidden = ["/min_core_version", "/agents/0/tools/0", "/agents/1/model", "/jobs/0/agent"];
    assert_eq!(all_problems(&wrong).len(), hidden.len());
    for (pointer, value, at) in [
        ("/name", Some(json!(5)), "/name"),
        ("/name", None, ""),
        ("/version", Some(json!("one")), "/version"),
        ("/version", None, ""),
        ("/description", Some(json!(5)), "/description"),
        ("/mcp/servers/0/command", None, "/mcp/servers/0"),
        ("/mcp/servers/0", Some(json!("web")), "/mcp/servers/0"),
        ("/mcp/prompts/0/messages", None, "/mcp/prompts/0"),
        ("/mcp/tool_filter", Some(json!("*")), "/mcp/tool_filter"),
        ("/template_packs/0/version", None, "/template_packs/0"),
        ("/template_packs/0/object_type_schemas", Some(json!([])), "/template_packs/0/object_type_schemas"),
        ("/agents/0/description", Some(json!(5)), "/agents/0/description"),
        ("/jobs/0/config", Some(json!(5)), "/jobs/0/config"),
    ] {
        let mut manifest = wrong.clone();
        set(&mut manifest, pointer, value);
        let found = all_problems(&manifest);
        let has = |pointer: &str| found.iter().any(|problem| problem.pointer == pointer);
        for pointer in hidden.iter().chain([&at]) {
            assert!(has(pointer), "no problem at `{pointer}`: {found:#?}");
        }
        assert_eq!(found.len(), hidden.len() + 1, "{found:#?}");
    }
}

#[test]
fn what_could_not_be_read_is_not_judged() {
    let one_problem = |pointer: &str, value: Option<Value>, at: &str| {
        let mut manifest = whole();
        set(&mut manifest, pointer, value);
        let found = all_problems(&manifest);
        assert_eq!(
            found.iter().map(|problem| problem.pointer.as_str()).collect::<Vec<_>>(),
            [at],
            "{found:#?}"
        );
    };
    one_problem("/agents/0", Some(json!({ "name": "triage", "tools": 5 })), "/agents/0/tools");
    one_problem("/agents", Some(json!(5)), "/agents");
    one_problem("/mcp/servers", Some(json!(5)), "/mcp/servers");
    one_problem("/jobs/0", Some(json!(5)), "/jobs/0");
    one_problem("/jobs/0/agent", None, "/jobs/0");
    one_problem("/jobs/0/agent", Some(json!("")), "/jobs/0/agent");
    one_problem("/agents/1/model", Some(json!(5)), "/agents/1/model");
}

#[test]
fn a_part_that_cannot_be_read_hides_nothing_of_itself() {
    let mut manifest = whole();
    set(&mut manifest, "/agents/1/name", Some(json!("triage")));
    set(&mut manifest, "/agents/1/flow_type", Some(json!("zigzag")));
    let twice = manifest["mcp"]["prompts"][0].clone();
    set(&mut manifest, "/mcp/prompts", Some(json!([twice, { "name": "ask" }])));
    let pack = "/template_packs/0";
    set(&mut manifest, &format!("{pack}/object_type_schemas/Ticket"), Some(json!({ "type": "objct" })));
    let relationships = json!({ "about": { "from": "Ticket" }, "bad name\n": { "from": "*", "to": "*" } });
    set(&mut manifest, &format!("{pack}/relationship_type_schemas"), Some(relationships));
    let found = all_problems(&manifest);
    for pointer in [
        "/agents/1/flow_type",
        "/agents/1/flow_config/agents/0",
        "/agents/1/name",
        "/mcp/prompts/1",
        "/mcp/prompts/1/name",
        "/template_packs/0/object_type_schemas/Ticket",
        "/template_packs/0/relationship_type_schemas/about",
        "/template_packs/0/relationship_type_schemas/bad name\n",
    ] {
        let fits = |problem: &ManifestProblem| problem.pointer.starts_with(pointer);
        assert!(found.iter().any(fits), "no problem at `{pointer}`: {found:#?}");
    }
    assert_eq!(found.len(), 8, "{found:#?}");
}

#[test]
fn what_is_not_json_is_told_so() {
    let found = parse(b"{ name: ").unwrap_err();
    assert!(found[0].message.contains("not JSON") && found[0].pointer.is_empty(), "{found:?}");
    told(&json!([]), "", "is not an object");
}

#[test]
fn words_that_are_missing_unknown_or_of_the_wrong_kind() {
    without("/name", "", "`name` is required");
    without("/version", "", "such as `1.0.0`");
    without("/agents/0/name", "/agents/0", "`name` is required");
    without("/mcp/servers/0/command", "/mcp/servers/0", "`command` is required");
    without("/mcp/servers/1/url", "/mcp/servers/1", "`url` is required");
    without(
        "/template_packs/0/relationship_type_schemas/about/from",
        "/template_packs/0/relationship_type_schemas/about",
        "`from` or `source` is required",
    );
    check("/agents/0/sytem_prompt", json!("x"), "/agents/0/sytem_prompt", "did you mean `system_prompt`?");
    check("/agents/0/model/nmae", json!("x"), "/agents/0/model/nmae", "did you mean `name`?");
    check(
        "/template_packs/0/objectTypeSchemas",
        json!({}),
        "/template_packs/0/objectTypeSchemas",
        "unknown field",
    );
    check("/agents/0/tools", json!("search_hybrid"), "/agents/0/tools", "is not a list");
    check("/agents/0/visibility", json!("public"), "/agents/0/visibility", "external, project, internal");
    check("/agents/0/model", json!({ "provider": "google" }), "/agents/0/model", "`name` is required");
    check("/agents/0/acp", json!({ "capabilities": [] }), "/agents/0/acp", "`display_name` is required");
    check("/mcp/servers/0/url", json!("https://x"), "/mcp/servers/0/url", "is not allowed");
    check("/mcp/servers/1/transport", json!("pigeon"), "/mcp/servers/1/transport", "stdio, sse, http");
    check(
        "/template_packs/0/relationship_type_schemas/about/source",
        json!("*"),
        "/template_packs/0/relationship_type_schemas/about/source",
        "is not allowed",
    );
    check("/jobs/0/config/timezone", json!("UTC"), "/jobs/0/config/timezone", "did you mean `time_zone`?");
}

#[test]
fn names_and_versions() {
    check("/name", json!("Acme Support"), "/name", "such as `acme.support`");
    check("/name", json!("check-updates"), "/name", "reserved");
    check("/name", json!("manifest.schema.json"), "/name", "reserved");
    check("/version", json!("1.0"), "/version", "semantic version");
    check("/version", json!("1.0.0-01"), "/version", "");
    check("/min_core_version", json!("99.0.0"), "/min_core_version", "upgrade Emergent");
    check("/template_packs/0/version", json!("one"), "/template_packs/0/version", "");
    check("/agents/1/name", json!("triage"), "/agents/1/name", "twice");
    check("/mcp/servers/1/name", json!("web"), "/mcp/servers/1/name", "twice");
    check("/agents/1/is_default", json!(true), "/agents/1/is_default", "`triage` is already the default");
    check("/description", json!("a\u{0}b"), "/description", "NUL");
    check("/agents/0/config/x~1y", json!({ "z": "\u{0}" }), "/agents/0/config/x~1y/z", "NUL");
}

#[test]
fn agents_and_their_tools() {
    check("/agents/0/tools/0", json!("serch_hybrid"), "/agents/0/tools/0", "did you mean `search_hybrid`?");
    check("/agents/0/tools/1", json!("no such tool"), "/agents/0/tools/1", "not a tool name");
    check(
        "/agents/1/flow_config/agents/1",
        json!("libarian"),
        "/agents/1/flow_config/agents/1",
        "did you mean `librarian`?",
    );
    check("/agents/0/model/temperature", json!(7), "/agents/0/model/temperature", "maximum of 2");
    check("/agents/1/model", json!(null), "/agents/1/temperature", "has no `model`");
    check("/agents/0/temperature", json!(0.5), "/agents/0/temperature", "set it only once");
    check("/agents/0/trigger", json!("on_documents_ingested"), "/agents/0/trigger", "on_document_ingested");
    check("/agents/0/config/trigger/typse", json!(1), "/agents/0/config/trigger", "typse");
    let max_concurrent = "/agents/0/config/trigger/max_concurrent";
    check(max_concurrent, json!(0), max_concurrent, "from 1 to 100");
    check("/agents/0/visibility", json!("internal"), "/agents/0/trigger", "internal");
    check("/agents/1/acp", json!({ "display_name": "x" }), "/agents/1/acp", "external");
    let due = "/agents/0/output_schema/properties/due_date/type";
    check(due, json!("strng"), due, "is not a JSON schema");
}

#[test]
fn jobs_servers_packs_and_prompts() {
    check("/jobs/0/cron", json!("0 25 * * *"), "/jobs/0/cron", "five fields");
    check("/jobs/0/cron", json!("daily"), "/jobs/0/cron", "five fields");
    check("/jobs/0/agent", json!("triag"), "/jobs/0/agent", "did you mean `triage`?");
    check("/jobs/0/agent", json!("hidden"), "/jobs/0/agent", "internal");
    check("/jobs/0/config/time_zone", json!("Mars/Olympus"), "/jobs/0/config/time_zone", "");
    check("/mcp/servers/0/args/1", json!("${KEY}"), "/mcp/servers/0/args/1", "secret");
    check(
        "/mcp/servers/1/headers/Authorization",
        json!("Bearer abc"),
        "/mcp/servers/1/headers/Authorization",
        "plain text",
    );
    check("/mcp/servers/2/url", json!("ftp://x"), "/mcp/servers/2/url", "https://");
    check("/mcp/tool_filter/0", json!("a b"), "/mcp/tool_filter/0", "pattern");
    check(
        "/mcp/prompts/0/messages/0/content",
        json!("{{topik}}"),
        "/mcp/prompts/0/messages/0/content",
        "did you mean `topic`?",
    );
    check("/mcp/prompts/0/messages", json!([]), "/mcp/prompts/0/messages", "");
    check(
        "/template_packs/0/object_type_schemas/Ticket",
        json!({ "type": 7 }),
        "/template_packs/0/object_type_schemas/Ticket/type",
        "not a JSON schema",
    );
}

#[test]
fn a_job_starts_an_agent_or_a_workflow_at_times_or_at_an_event() {
    let job = |job: Value| {
        let mut manifest = whole();
        set(&mut manifest, "/jobs/0", Some(job));
        manifest
    };
    let workflow =
        json!({ "tasks": [{ "key": "a", "title": "A" }, { "key": "b", "title": "B", "blocked_by": ["a"] }] });
    assert_eq!(problems(&job(json!({ "name": "j", "cron": "0 9 * * MON", "dispatch": workflow }))), []);
    let event = json!({ "name": "j", "event": "on_document_ingested", "dispatch": { "description": "Read it." },
        "event_config": { "types": ["text/plain"] } });
    assert_eq!(problems(&job(event)), []);
    for (wrong, at, said) in [
        (json!({ "name": "j", "cron": "0 9 * * MON" }), "/jobs/0", "`agent` or `dispatch`"),
        (json!({ "name": "j", "dispatch": workflow }), "/jobs/0", "`cron` or `event`"),
        (
            json!({ "name": "j", "cron": "0 9 * * MON", "agent": "triage", "dispatch": workflow }),
            "/jobs/0/dispatch",
            "beside `agent`",
        ),
        (
            json!({ "name": "j", "cron": "0 9 * * MON", "event": "on_entity_created", "dispatch": workflow }),
            "/jobs/0/event",
            "beside `cron`",
        ),
        (
            json!({ "name": "j", "event": "on_entity_created", "agent": "triage" }),
            "/jobs/0/event",
            "`trigger`",
        ),
        (json!({ "name": "j", "cron": "0 9 * * MON", "dispatch": {} }), "/jobs/0/dispatch", "`tasks`"),
        (
            json!({ "name": "j", "cron": "0 9 * * MON", "dispatch": workflow, "config": { "input": "x" } }),
            "/jobs/0/config/input",
            "starts an agent",
        ),
        (
            json!({ "name": "j", "event": "on_entity_created", "dispatch": workflow, "event_config": { "types": ["SpecTask"] } }),
            "/jobs/0/event_config/types",
            "workflows",
        ),
    ] {
        told(&job(wrong), at, said);
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let mut manifest = whole();
    set(&mut manifest, "/agents/0/tools/0", Some(json!("nope_nothing")));
    set(&mut manifest, "/min_core_version", Some(json!("99.0.0")));
    set(&mut manifest, "/jobs/0/agent", Some(json!("hidden")));
    assert_eq!(problems(&manifest).len(), 3, "{:#?}", problems(&manifest));
}

#[test]
fn a_mistake_of_one_kind_does_not_hide_those_of_another() {
    let mut manifest = whole();
    let mistakes = [
        // The schema and the types.
        ("/version", json!("one")),
        ("/agents/1/max_steps", json!("many")),
        ("/agents/0/sytem_prompt", json!("x")),
        // The rules.
        ("/jobs/0/cron", json!("0 25 * * *")),
        ("/mcp/prompts/0/messages/0/content", json!("About {{topik}}")),
        ("/mcp/servers/1/name", json!("web")),
        ("/description", json!("a\u{0}b")),
    ];
    for (pointer, value) in &mistakes {
        set(&mut manifest, pointer, Some(value.clone()));
    }
    let found = problems(&manifest);
    for (pointer, _) in &mistakes {
        assert!(found.iter().any(|problem| problem.pointer == *pointer), "{pointer}: {found:#?}");
    }
}

#[test]
fn a_tool_that_nobody_knows_yet_may_be_a_servers() {
    let mut manifest = whole();
    set(&mut manifest, "/agents/0/tools/0", Some(json!("web_search")));
    let manifest = parse_value(manifest).unwrap();
    let tools = ToolForecast::after_change(&around().tools.tools, &ProjectState::default(), &manifest)
        .available_names(&manifest);
    assert_eq!(validate(&manifest, &InstallContext { tools, ..around() }), []);
    assert_eq!(validate(&manifest, &around()).len(), 1);
}

#[test]
fn a_model_is_written_as_a_text_or_as_an_object() {
    let with_model = |model: Value| {
        let agent = json!({ "name": "a", "system_prompt": "Go.", "model": model, "temperature": 0.5 });
        let tasks = json!([{ "key": "one", "title": "One", "assigned_agent": "a" }]);
        let job =
            json!({ "name": "j", "cron": "0 9 * * MON", "dispatch": { "tasks": tasks, "model": model } });
        parse_value(json!({ "name": "p", "version": "1.0.0", "agents": [agent], "jobs": [job] }))
    };
    let manifest = with_model(json!("rehearsal/echo")).unwrap();
    assert_eq!(manifest.problems, []);
    let model = manifest.definitions().next().unwrap().model.unwrap();
    assert_eq!((model.to_string().as_str(), model.temperature), ("rehearsal/echo", Some(0.5)));
    let model = manifest.jobs[0].dispatch.as_ref().unwrap().model.as_ref().unwrap();
    assert_eq!(model.to_string(), "rehearsal/echo");
    assert_eq!(with_model(json!("gemini-2.5-flash")).unwrap().problems, []);
    for model in [json!("echo"), json!(""), json!(3), json!({ "name": 3 })] {
        let refused = with_model(model.clone());
        assert!(refused.map_or(true, |manifest| !manifest.problems.is_empty()), "{model}");
    }
}

#[test]
fn names_of_tools_providers_agents_and_tasks_are_checked_in_one_pass() {
    let manifest = parse_value(json!({
        "name": "p", "version": "1.0.0",
        "agents": [{
            "name": "a", "system_prompt": "Go.", "tools": ["nosuch_tool"],
            "model": { "provider": "nosuch", "name": "x" }
        }],
        "jobs": [{ "name": "j", "cron": "0 9 * * MON", "dispatch": { "tasks": [
            { "key": "one", "title": "One", "assigned_agent": "a" },
            { "key": "two", "title": "Two", "assigned_agent": "nobody", "blocked_by": ["one", "three"] }
        ] } }]
    }));
    let problems = validate(&manifest.unwrap(), &around());
    let pointers: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/agents/0/tools/0",
            "/agents/0/model",
            "/jobs/0/dispatch/tasks/1/assigned_agent",
            "/jobs/0/dispatch/tasks/1/blocked_by/1",
        ]
    );
    let text = emergent_products::Error::Manifest(problems).to_string();
    assert_eq!(text.lines().count(), 5, "each has its line: {text}");
    for word in ["nosuch_tool", "the unknown provider `nosuch`", "no agent `nobody`", "no task `three`"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// Returns the pointers to all values of a manifest, deepest last.
fn places(value: &Value, at: String, all: &mut Vec<String>) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    for (name, value) in below {
        let at = format!("{at}/{name}");
        all.push(at.clone());
        places(value, at, all);
    }
}

/// The schema and the Rust types must agree: after any change at any location of a complete
/// manifest, either the schema rejects it or it can be parsed, and every reported problem has an
/// existing location.
#[test]
fn the_schema_lets_nothing_through_that_cannot_be_read() {
    let mut all = Vec::new();
    places(&whole(), String::new(), &mut all);
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(""),
        json!("x"),
        json!([]),
        json!([null]),
        json!({}),
        json!({ "x": 1 }),
    ];
    let mut looked = 0;
    for place in &all {
        for value in odd.iter().map(Some).chain([None]) {
            let mut manifest = whole();
            set(&mut manifest, place, value.cloned());
            for problem in problems(&manifest) {
                assert!(
                    manifest.pointer(&problem.pointer).is_some(),
                    "{place} {value:?}: {problem:?} points at nothing"
                );
            }
            if emergent_products::schema::check(&manifest).problems.is_empty() {
                let read = serde_json::from_value::<emergent_products::Manifest>(manifest);
                assert!(read.is_ok(), "{place} {value:?}: {:?}", read.err());
            }
            looked += 1;
        }
    }
    assert!(looked > 1_000, "{looked}");
}

#[test]
fn a_manifest_that_consists_of_mistakes_is_told_about_the_first_of_them() {
    // Each part that cannot be read makes the whole manifest be read again, so a long list is not looked into.
    let jobs = vec![json!({ "name": 7 }); 300];
    let agents: Vec<Value> = (0..3_000).map(|n| json!({ "name": format!("a{n}") })).collect();
    let long = json!({ "name": "acme.long", "version": "1.0.0", "agents": agents, "jobs": jobs });
    let found = parse_with_problems(long).unwrap_err();
    assert!(found.iter().any(|problem| problem.pointer == "/agents"), "{:?}", &found[..3]);
    assert!(found.len() <= 201, "{}", found.len());
    // One that is within the limits and large is read a few times, and the mistakes of its schema are still told.
    let prompt = "x".repeat(100_000);
    let agents: Vec<Value> = (0..40)
        .map(|n| json!({ "name": format!("a{n}"), "system_prompt": prompt, "max_steps": "many" }))
        .collect();
    let large = json!({ "name": "acme.large", "version": "1.0.0", "agents": agents });
    let started = std::time::Instant::now();
    let found = match parse_with_problems(large) {
        Ok(manifest) => manifest.problems,
        Err(problems) => problems,
    };
    assert_eq!(found.iter().filter(|problem| problem.pointer.ends_with("/max_steps")).count(), 40);
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[test]
fn the_products_that_ship_are_fine_and_can_be_rehearsed() {
    for product in builtin::ALL {
        let manifest =
            parse(product.manifest.as_bytes()).unwrap_or_else(|found| panic!("{}: {found:#?}", product.name));
        assert_eq!(manifest.name, product.name);
        let script = emergent_llm::Script::parse(product.rehearsal)
            .unwrap_or_else(|why| panic!("{}: {why}", product.name));
        for agent in &manifest.agents {
            let plays = |rule: &emergent_llm::Rule| {
                rule.when.agent.as_ref() == Some(&agent.name)
                    && rule.when.turn.is_none()
                    && rule.when.input.is_none()
            };
            assert!(
                script.rules.iter().any(plays),
                "{}: nobody plays `{}` to its end",
                product.name,
                agent.name
            );
        }
    }
    let code = parse(builtin::ALL[2].manifest.as_bytes()).unwrap();
    assert_eq!(
        &code.template_packs[0],
        emergent_domain::pack::coordination_pack(),
        "emergent.code brings the built-in pack to the letter: copy it again into its manifest"
    );
}

#[test]
fn the_research_product_searches_the_projects_own_documents_where_a_key_is_missing() {
    let product = builtin::ALL.iter().find(|product| product.name == "emergent.research").unwrap();
    let manifest = parse(product.manifest.as_bytes()).unwrap();
    for name in ["research-assistant", "web-browser"] {
        let agent = manifest.agents.iter().find(|agent| agent.name == name).unwrap();
        assert!(agent.tools.iter().any(|tool| tool == "documents_search"), "{name}");
        assert!(agent.system_prompt.contains("documents_search"), "{name}");
    }
    let servers: Vec<String> = manifest.mcp.servers.iter().map(|server| format!("{server:?}")).collect();
    for (index, existing) in
        ["brave-search-mcp-server", "mcp-server-fetch", "api.githubcopilot.com/mcp"].iter().enumerate()
    {
        assert!(servers[index].contains(existing), "{servers:?}");
    }
}
