//! Flows, which call no model themselves, and tasks that no agent fits.

use crate::{
    common::{Home, command_output, failed, json_of},
    home_with_agent, write,
};

#[test]
fn a_flow_of_other_agents_needs_no_model() {
    let home = home_with_agent();
    for (name, model) in [("desk", ""), ("keyless", r#""model": "google/gemini-2.5-flash", "#)] {
        let flow = format!(
            r#"{{ "name": "{name}", {model}"flowType": "sequential", "flowConfig": {{ "agents": ["echo"] }} }}"#
        );
        write(&home, "flow.json", &flow);
        let applied = home.run(&["agent", "apply", "flow.json"]);
        let told =
            format!("{}{}", crate::common::text(&applied.stdout), crate::common::text(&applied.stderr));
        assert!(applied.status.success() && !told.contains("cannot start"), "{told}");
        let followed = command_output(home.run(&["agent", "trigger", name, "--input", "Hello", "--follow"]));
        assert!(followed.contains("Hello"), "{followed}");
        let last = json_of(home.run(&["run", "show", "last", "--json"]));
        assert_eq!(last["agentName"], name, "`last` is the flow that was started, and not its last part");
        let id = last["id"].as_str().expect("an id");
        assert!(followed.trim_end().ends_with(id), "the end names the run: {followed}");
        let tasks = format!("- {{ key: greet, title: Greet, assigned_agent: {name} }}");
        write(&home, "tasks.yaml", &tasks);
        let followed = command_output(home.run(&["dispatch", "--tasks", "tasks.yaml", "--follow"]));
        assert!(followed.contains("1 of 1 done"), "{followed}");
        let checked = home.run(&["doctor"]);
        let checked = crate::common::text(&checked.stdout);
        assert!(!checked.contains(&format!("`{name}`")), "{checked}");
    }
    write(&home, "alone.json", r#"{ "name": "alone", "flowType": "loop" }"#);
    command_output(home.run(&["agent", "apply", "alone.json"]));
    let told = failed(&home.run(&["agent", "trigger", "alone", "--input", "Hello"]));
    assert!(told.contains("no model is configured"), "it is a part of itself: {told}");
}

#[test]
fn a_dry_run_names_the_tasks_that_no_agent_fits() {
    let home = Home::sqlite();
    command_output(home.run(&["object", "create", "Note", "first"]));
    command_output(home.run(&["project", "create", "empty"]));
    write(
        &home,
        "tasks.yaml",
        "- { key: a, title: A thing }\n- { key: b, title: Another, blocked_by: [a] }\n",
    );
    let checked =
        command_output(home.run(&["dispatch", "--tasks", "tasks.yaml", "--dry-run", "-p", "empty"]));
    assert!(checked.contains("no agent fits the tasks `a`, `b`: the project has no agent"), "{checked}");
    assert!(checked.contains("install a product or create an agent"), "{checked}");
    assert!(checked.contains("`assigned_agent`"), "{checked}");
    let told = home.run(&["dispatch", "--tasks", "tasks.yaml", "--follow", "-p", "empty"]);
    assert!(
        crate::common::text(&told.stdout).contains("the project has no agent that can be chosen"),
        "{told:?}"
    );
}
