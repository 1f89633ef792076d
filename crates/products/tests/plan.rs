//! What a plan decides, as tables: values in, values out, no database.

use emergent_domain::{
    agent::{Agent, AgentDefinition},
    ids::{AgentId, PackId, ProductId, ProjectId},
    pack::TemplatePack,
    time::Timestamp,
};
use emergent_products::{
    Installed, Manifest, Plan, State,
    plan::{Change, Direction, What, plan},
    validate::read,
};
use emergent_store::packs::StoredPack;
use serde_json::{Value, json};

fn manifest(name: &str, version: &str, more: Value) -> Manifest {
    let mut value = json!({ "name": name, "version": version });
    value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    read(value).unwrap_or_else(|found| panic!("{found:#?}"))
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

/// An agent of the project's own.
fn own(name: &str) -> Agent {
    agent(AgentDefinition::named(name))
}

fn pack(name: &str, version: &str, of: Option<&str>, assigned: bool, types: Value) -> StoredPack {
    let pack: TemplatePack =
        serde_json::from_value(json!({ "name": name, "version": version, "object_type_schemas": types }))
            .unwrap();
    let product = of.map(str::to_owned);
    StoredPack {
        id: PackId::new(),
        project: Some(ProjectId::new()),
        pack,
        created_at: at(),
        assigned,
        product,
    }
}

/// A project right after these manifests were installed.
fn after(manifests: &[&Manifest]) -> State {
    let mut state = State { allow_stdio: true, ..State::default() };
    for manifest in manifests {
        state.installed.push(Installed {
            id: ProductId::new(),
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            raw: manifest.raw.clone(),
            manifest: Some((*manifest).clone()),
            source: None,
            revision: 1,
            installed_at: at(),
            updated_at: at(),
        });
        state.agents.extend(manifest.definitions().map(agent));
    }
    state
}

fn change<'a>(plan: &'a Plan, what: What, name: &str) -> Option<&'a Change> {
    plan.steps.iter().find(|step| step.what == what && step.name == name).map(|step| &step.change)
}

/// `add a, keep b, update c(/x), remove d`, agents only.
fn agents(plan: &Plan) -> String {
    let told = |step: &emergent_products::plan::Step| {
        let fields = match &step.change {
            Change::Update(fields) => {
                fields.iter().map(|field| field.pointer.as_str()).collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        };
        let fields = if fields.is_empty() { fields } else { format!("({fields})") };
        format!("{} {}{fields}", step.change.as_str(), step.name)
    };
    plan.steps.iter().filter(|step| step.what == What::Agent).map(told).collect::<Vec<_>>().join(", ")
}

fn warnings(plan: &Plan) -> Vec<String> {
    plan.warnings.iter().map(|warning| format!("{} {}", warning.kind(), warning.about())).collect()
}

#[track_caller]
fn refused(name: &str, before: &State, after: &Manifest, pointer: &str, said: &str) {
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
        let state = from.map_or_else(State::default, |version| after(&[&manifest(version)]));
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
fn a_persons_change_is_warned_of_only_where_it_is_lost() {
    let v1 =
        manifest("p", "1.0.0", json!({ "agents": [{ "name": "a", "system_prompt": "A", "tools": ["x"] }] }));
    let to = |prompt| {
        manifest(
            "p",
            "2.0.0",
            json!({ "agents": [{ "name": "a", "system_prompt": prompt, "tools": ["x"] }] }),
        )
    };
    let mut state = after(&[&v1]);
    state.agents[0].definition.system_prompt = "Mine".into();
    let lost = plan("p", &state, Some(&to("AA"))).unwrap();
    assert_eq!(warnings(&lost), ["own_change a"]);
    assert!(lost.warnings[0].to_string().contains("/system_prompt"), "{}", lost.warnings[0]);
    assert_eq!(
        warnings(&plan("p", &state, Some(&v1)).unwrap()),
        ["own_change a"],
        "the same version puts it back"
    );
    assert_eq!(
        warnings(&plan("p", &state, Some(&to("Mine"))).unwrap()),
        [""; 0],
        "it is what was wanted anyway"
    );
    let gone = plan("p", &state, None).unwrap();
    assert!(gone.warnings[0].to_string().contains("goes with it"), "{:?}", gone.warnings);
    state.agents.clear();
    assert_eq!(warnings(&plan("p", &state, Some(&v1)).unwrap()), ["own_deletion a"]);
}

#[test]
fn who_is_the_default_agent_does_not_count_as_a_change() {
    let v1 = manifest("p", "1.0.0", json!({ "agents": [{ "name": "a", "is_default": true }] }));
    let mut state = after(&[&v1]);
    state.agents[0].definition.is_default = false;
    assert_eq!(warnings(&plan("p", &state, Some(&v1)).unwrap()), [""; 0]);
}

/// The flag goes to an external agent of a product, and is never taken from an agent of the
/// project's own.
#[test]
fn the_default_agent() {
    let inside = manifest("inside", "1.0.0", json!({ "agents": [{ "name": "i", "is_default": true }] }));
    let outside = manifest(
        "outside",
        "1.0.0",
        json!({ "agents": [{ "name": "o", "is_default": true, "visibility": "external" }] }),
    );
    let second = manifest("second", "1.0.0", json!({ "agents": [{ "name": "s", "is_default": true }] }));
    let took = |state: &State, manifest: &Manifest| {
        let plan = plan(&manifest.name, state, Some(manifest)).unwrap();
        (agents(&plan), warnings(&plan))
    };
    assert_eq!(took(&State::default(), &inside), ("add i".into(), vec![]));
    let taken = took(&after(&[&inside]), &outside);
    assert_eq!(taken, ("update i(/is_default), add o".into(), vec!["default_taken o".into()]));
    assert_eq!(took(&after(&[&outside]), &inside), ("add i".into(), vec!["default_not_taken i".into()]));
    assert_eq!(took(&after(&[&inside]), &second).1, ["default_not_taken s"]);
    let mut state = State::default();
    state.agents.push(Agent {
        definition: AgentDefinition { is_default: true, ..AgentDefinition::named("mine") },
        ..own("mine")
    });
    assert_eq!(took(&state, &outside), ("add o".into(), vec!["default_not_taken o".into()]));
}

#[test]
fn the_flag_returns_when_its_holder_goes() {
    let inside = manifest("inside", "1.0.0", json!({ "agents": [{ "name": "i", "is_default": true }] }));
    let outside = manifest(
        "outside",
        "1.0.0",
        json!({ "agents": [{ "name": "o", "is_default": true, "visibility": "external" }] }),
    );
    let humble =
        manifest("outside", "1.1.0", json!({ "agents": [{ "name": "o", "visibility": "external" }] }));
    let mut state = after(&[&inside, &outside]);
    state.agents[0].definition.is_default = false;
    assert_eq!(agents(&plan("outside", &state, None).unwrap()), "remove o, update i(/is_default)");
    let stepped_down = plan("outside", &state, Some(&humble)).unwrap();
    assert_eq!(agents(&stepped_down), "update o(/is_default), update i(/is_default)");
    assert_eq!(agents(&plan("inside", &state, None).unwrap()), "remove i", "it did not have the flag");
}

#[test]
fn an_agent_that_others_name_is_told_of_when_it_goes() {
    let v1 = manifest("p", "1.0.0", json!({ "agents": [{ "name": "a" }] }));
    let mut state = after(&[&v1]);
    let mut user = own("mine");
    user.definition.flow_config = serde_json::from_value(json!({ "agents": ["a"] })).unwrap();
    state.agents.push(user);
    let plan = plan("p", &state, None).unwrap();
    assert!(plan.warnings[0].to_string().contains("the agent `mine`"), "{:?}", plan.warnings);
}

#[test]
fn packs_are_versioned_shared_and_never_changed_behind_their_version() {
    let types = json!({ "T": { "type": "object" } });
    let wants = |version: &str, types: &Value| {
        manifest(
            "p",
            "1.0.0",
            json!({ "template_packs": [{ "name": "k", "version": version, "object_type_schemas": types }] }),
        )
    };
    let v1 = wants("1.0.0", &types);
    let at = |packs: Vec<StoredPack>, products: &[&Manifest]| State { packs, ..after(products) };
    let told = |state: &State, manifest: &Manifest| {
        change(&plan("p", state, Some(manifest)).unwrap(), What::TemplatePack, "k").cloned()
    };

    assert_eq!(told(&at(vec![], &[]), &v1), Some(Change::Add));
    let ours = || pack("k", "1.0.0", Some("p"), true, types.clone());
    assert_eq!(told(&at(vec![ours()], &[&v1]), &v1), Some(Change::Keep));
    assert!(matches!(told(&at(vec![ours()], &[&v1]), &wants("1.1.0", &types)), Some(Change::Update(_))));
    let other = json!({ "T": { "type": "object", "required": ["x"] } });
    refused(
        "p",
        &at(vec![ours()], &[&v1]),
        &wants("1.0.0", &other),
        "/template_packs/0/version",
        "a change is a new version",
    );
    // One that is there to the letter is used, whoever brought it.
    let theirs = pack("k", "1.0.0", None, true, types.clone());
    assert_eq!(told(&at(vec![theirs.clone()], &[]), &v1), Some(Change::Keep));
    refused(
        "p",
        &at(vec![theirs], &[]),
        &wants("2.0.0", &types),
        "/template_packs/0/name",
        "is not this product's",
    );
}

#[test]
fn only_packs_of_its_own_go_with_a_product() {
    let types = json!({ "T": { "type": "object" } });
    let packs =
        json!({ "template_packs": [{ "name": "k", "version": "1.0.0", "object_type_schemas": types }] });
    let (p, q) = (manifest("p", "1.0.0", packs.clone()), manifest("q", "1.0.0", packs));
    let gone = |of: Option<&str>, products: &[&Manifest]| {
        let state = State { packs: vec![pack("k", "1.0.0", of, true, types.clone())], ..after(products) };
        change(&plan("p", &state, None).unwrap(), What::TemplatePack, "k").cloned()
    };
    assert_eq!(gone(Some("p"), &[&p]), Some(Change::Remove));
    assert_eq!(gone(None, &[&p]), None, "the project had it before");
    assert_eq!(
        gone(Some("p"), &[&p, &q]),
        Some(Change::Keep),
        "the other product needs it: it is handed over"
    );
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
    let mut state = State::default();
    state.secrets.insert("B".into());
    let made = plan("p", &state, Some(&v1)).unwrap();
    for (what, name) in [(What::Server, "s"), (What::Prompt, "q"), (What::Job, "j")] {
        assert_eq!(change(&made, what, name), Some(&Change::Add), "{name}");
    }
    assert_eq!(warnings(&made), ["secret_missing s", "server_blocked s"]);
    assert!(made.warnings[0].to_string().contains("`A_KEY`"));
    state.allow_stdio = true;
    assert_eq!(warnings(&plan("p", &state, Some(&v1)).unwrap()), ["secret_missing s", "not_reached_yet s"]);
    let last: Vec<_> = made.steps.iter().map(|step| step.what).collect();
    assert_eq!(last.last(), Some(&What::Job), "a job comes after the agent it starts: {last:?}");
}
