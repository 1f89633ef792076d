//! Decisions of a plan, as tables. The tests are pure and need no database.

mod agents;
mod packs;
mod uses;

use emergent_domain::{
    agent::{Agent, AgentDefinition},
    ids::{AgentId, ProductId, ProjectId, TokenId},
    mcp_server::ConfiguredBy,
    time::Timestamp,
};
use emergent_products::{
    Manifest, Plan, Product, ProjectState, Uses,
    plan::{Direction, ItemKind, StepChange, plan},
    validate::parse_value,
};
use serde_json::{Value, json};

fn manifest(name: &str, version: &str, more: Value) -> Manifest {
    let mut value = json!({ "name": name, "version": version });
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    parse_value(value).unwrap_or_else(|found| panic!("{found:#?}"))
}

fn at() -> Timestamp {
    "2026-01-31T08:00:00Z".parse().unwrap()
}

fn agent(definition: AgentDefinition) -> Agent {
    Agent {
        id: AgentId::new(),
        project: ProjectId::new(),
        version: 1,
        definition,
        created_at: at(),
        updated_at: at(),
        deleted_at: None,
    }
}

/// An agent of the project itself.
fn own(name: &str) -> Agent {
    agent(AgentDefinition::new(name))
}

/// The state of a project right after these manifests were installed.
fn after(manifests: &[&Manifest]) -> ProjectState {
    let mut state = ProjectState { allow_stdio: true, by: ConfiguredBy::Operator, ..ProjectState::default() };
    for manifest in manifests {
        state.installed.push(Product {
            id: ProductId::new(),
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            raw: manifest.raw.clone(),
            manifest: Some((*manifest).clone()),
            source: None,
            accepted: Uses::of_manifest(manifest),
            revision: 1,
            installed_at: at(),
            updated_at: at(),
        });
        state.agents.extend(manifest.definitions().map(agent));
    }
    state
}

fn change<'a>(plan: &'a Plan, what: ItemKind, name: &str) -> Option<&'a StepChange> {
    plan.steps.iter().find(|step| step.kind == what && step.name == name).map(|step| &step.change)
}

/// Formats the agents of a plan as `add a, keep b, update c(/x), remove d`.
fn agents(plan: &Plan) -> String {
    let told = |step: &emergent_products::plan::Step| {
        let fields = match &step.change {
            StepChange::Update(fields) => {
                fields.iter().map(|field| field.pointer.as_str()).collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        };
        let fields = if fields.is_empty() { fields } else { format!("({fields})") };
        format!("{} {}{fields}", step.change.as_str(), step.name)
    };
    plan.steps.iter().filter(|step| step.kind == ItemKind::Agent).map(told).collect::<Vec<_>>().join(", ")
}

fn warnings(plan: &Plan) -> Vec<String> {
    plan.warnings.iter().map(|warning| format!("{} {}", warning.kind(), warning.subject())).collect()
}

#[track_caller]
fn refused(name: &str, before: &ProjectState, after: &Manifest, pointer: &str, said: &str) {
    let problems = plan(name, before, Some(after)).expect_err("something stands against it");
    assert!(
        problems.iter().any(|one| one.pointer == pointer && one.to_string().contains(said)),
        "{problems:#?}"
    );
    assert!(problems.iter().all(|one| after.raw.pointer(&one.pointer).is_some()), "{problems:#?}");
}

#[test]
fn an_upgrade_adds_overwrites_and_removes_and_leaves_the_rest_alone() {
    let v1 = manifest(
        "p",
        "1.0.0",
        json!({ "agents": [{ "name": "a", "system_prompt": "A" }, { "name": "b" }, { "name": "gone" }] }),
    );
    let v2 = manifest(
        "p",
        "1.1.0",
        json!({ "agents": [{ "name": "a", "system_prompt": "AA" }, { "name": "b" }, { "name": "new" }] }),
    );
    let mut state = after(&[&v1]);
    state.agents.push(own("mine"));
    let plan = plan("p", &state, Some(&v2)).unwrap();
    assert_eq!(agents(&plan), "remove gone, update a(/system_prompt), keep b, add new");
    assert_eq!((plan.direction, warnings(&plan)), (Direction::Upgrade, vec![]));
}

#[test]
fn a_plan_knows_its_direction() {
    let manifest = |version| manifest("p", version, json!({}));
    for (from, to, direction) in [
        (None, Some("1.0.0"), Direction::Install),
        (Some("1.0.0"), Some("1.0.1"), Direction::Upgrade),
        (Some("1.0.0"), Some("1.0.0-rc.1"), Direction::Downgrade),
        (Some("1.0.0"), Some("1.0.0+other"), Direction::Same),
        (Some("2.0.0"), Some("1.9.0"), Direction::Downgrade),
        (Some("1.0.0"), None, Direction::Uninstall),
    ] {
        let state = from.map_or_else(ProjectState::default, |version| after(&[&manifest(version)]));
        let to = to.map(manifest);
        assert_eq!(plan("p", &state, to.as_ref()).unwrap().direction, direction, "{from:?}");
    }
}

#[test]
fn a_name_that_is_anothers_stands_against_it() {
    let other = manifest("other", "1.0.0", json!({ "agents": [{ "name": "theirs" }] }));
    let mut state = after(&[&other]);
    state.agents.push(own("mine"));
    let wants = |name| manifest("p", "1.0.0", json!({ "agents": [{ "name": "fine" }, { "name": name }] }));
    refused("p", &state, &wants("mine"), "/agents/1/name", "belongs to the project itself");
    refused("p", &state, &wants("theirs"), "/agents/1/name", "belongs to the product `other`");
}

#[test]
fn servers_prompts_and_jobs() {
    let servers = json!([{ "name": "s", "transport": "stdio", "command": "x", "env": { "K": "${A_KEY} {{secrets.B}}" } }]);
    let v1 = manifest(
        "p",
        "1.0.0",
        json!({
        "agents": [{ "name": "a" }], "jobs": [{ "name": "j", "cron": "0  8 * * *", "agent": "a" }],
        "mcp": { "servers": servers, "prompts": [{ "name": "q", "messages": [{ "role": "user", "content": "hi" }] }] } }),
    );
    let mut state = ProjectState { by: ConfiguredBy::Operator, ..ProjectState::default() };
    state.secrets.insert("B".into());
    let made = plan("p", &state, Some(&v1)).unwrap();
    for (what, name) in [(ItemKind::Server, "s"), (ItemKind::Prompt, "q"), (ItemKind::Job, "j")] {
        assert_eq!(change(&made, what, name), Some(&StepChange::Add), "{name}");
    }
    assert_eq!(warnings(&made), ["secret_missing s", "server_blocked s"]);
    assert!(made.warnings[0].to_string().contains("`A_KEY`"));
    state.allow_stdio = true;
    assert_eq!(warnings(&plan("p", &state, Some(&v1)).unwrap()), ["secret_missing s", "not_reached_yet s"]);
    state.by = ConfiguredBy::Project(TokenId::new());
    let refused = plan("p", &state, Some(&v1)).unwrap();
    assert_eq!(refused.refused_program(), Some(("x", "")), "a token of one project may not run a program");
    let last: Vec<_> = made.steps.iter().map(|step| step.kind).collect();
    assert_eq!(last.last(), Some(&ItemKind::Job), "a job comes after the agent it starts: {last:?}");
}
