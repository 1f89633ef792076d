//! Planning the agents of a product: manual changes, and the default agent.

use emergent_domain::agent::{Agent, AgentDefinition};
use emergent_products::{Manifest, ProjectState, plan::plan};
use serde_json::{Value, json};

use crate::{after, agents, manifest, own, warnings};

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
    assert!(gone.warnings[0].to_string().contains("is removed with it"), "{:?}", gone.warnings);
    state.agents.clear();
    assert_eq!(warnings(&plan("p", &state, Some(&v1)).unwrap()), ["own_deletion a"]);
}

#[test]
fn a_change_inside_of_what_goes_as_a_whole_is_lost_too() {
    let config = json!({ "trigger": { "input": "A" } });
    let v1 = manifest("p", "1.0.0", json!({ "agents": [{ "name": "a", "config": config }] }));
    let v2 = manifest("p", "2.0.0", json!({ "agents": [{ "name": "a" }] }));
    let mut state = after(&[&v1]);
    state.agents[0].definition.config["trigger"]["input"] = json!("Mine");
    assert_eq!(warnings(&plan("p", &state, Some(&v2)).unwrap()), ["own_change a"]);
}

#[test]
fn an_agent_that_somebody_changed_is_warned_of_when_a_new_version_drops_or_renames_it() {
    let v1 = manifest("p", "1.0.0", json!({ "agents": [{ "name": "a" }] }));
    let mut state = after(&[&v1]);
    state.agents[0].definition.system_prompt = "Mine".into();
    for agents in [json!([]), json!([{ "name": "z" }])] {
        let v2 = manifest("p", "2.0.0", json!({ "agents": agents }));
        let plan = plan("p", &state, Some(&v2)).unwrap();
        assert!(plan.warnings[0].to_string().contains("is removed with it"), "{:?}", plan.warnings);
    }
    // The same holds if an agent was renamed.
    state.agents[0].definition.name = "b".into();
    let back = plan("p", &state, Some(&v1)).unwrap();
    assert_eq!(
        (agents(&back), warnings(&back)),
        ("remove b, add a".into(), vec!["own_change b".into(), "own_deletion a".into()])
    );
}

#[test]
fn who_is_the_default_agent_does_not_count_as_a_change() {
    let v1 = manifest("p", "1.0.0", json!({ "agents": [{ "name": "a", "is_default": true }] }));
    let mut state = after(&[&v1]);
    state.agents[0].definition.is_default = false;
    assert_eq!(warnings(&plan("p", &state, Some(&v1)).unwrap()), [""; 0]);
}

/// The default flag goes to an external agent of a product, and is never taken from an agent of the
/// project itself.
#[test]
fn the_default_agent() {
    let inside = manifest("inside", "1.0.0", json!({ "agents": [{ "name": "i", "is_default": true }] }));
    let outside = manifest(
        "outside",
        "1.0.0",
        json!({ "agents": [{ "name": "o", "is_default": true, "visibility": "external" }] }),
    );
    let second = manifest("second", "1.0.0", json!({ "agents": [{ "name": "s", "is_default": true }] }));
    let took = |state: &ProjectState, manifest: &Manifest| {
        let plan = plan(&manifest.name, state, Some(manifest)).unwrap();
        (agents(&plan), warnings(&plan))
    };
    assert_eq!(took(&ProjectState::default(), &inside), ("add i".into(), vec![]));
    let taken = took(&after(&[&inside]), &outside);
    assert_eq!(taken, ("update i(/is_default), add o".into(), vec!["default_taken o".into()]));
    assert_eq!(took(&after(&[&outside]), &inside), ("add i".into(), vec!["default_not_taken i".into()]));
    assert_eq!(took(&after(&[&inside]), &second).1, ["default_not_taken s"]);
    let mut state = ProjectState::default();
    state.agents.push(Agent {
        definition: AgentDefinition { is_default: true, ..AgentDefinition::new("mine") },
        ..own("mine")
    });
    assert_eq!(took(&state, &outside), ("add o".into(), vec!["default_not_taken o".into()]));
}

#[test]
fn who_gives_the_flag_up_comes_before_who_takes_it() {
    let of = |version, agents: Value| manifest("p", version, json!({ "agents": agents }));
    let v1 =
        of("1.0.0", json!([{ "name": "a", "is_default": true, "visibility": "external" }, { "name": "b" }]));
    let v2 =
        of("2.0.0", json!([{ "name": "b", "is_default": true }, { "name": "a", "visibility": "external" }]));
    let up = plan("p", &after(&[&v1]), Some(&v2)).unwrap();
    assert_eq!(agents(&up), "update a(/is_default), update b(/is_default)");
    let down = plan("p", &after(&[&v2]), Some(&v1)).unwrap();
    assert_eq!(agents(&down), "update b(/is_default), update a(/is_default)");
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
