//! Lists: how much of them is shown, and what their columns say.

use crate::{
    common::{Home, command_output, json_of, text},
    home_with_agent,
    terminal::on_terminal,
    write,
};

fn home_with_notes(count: usize) -> Home {
    let home = home_with_agent();
    let line = |index| format!("{{\"kind\":\"object\",\"type\":\"Note\",\"key\":\"n{index}\"}}\n");
    write(&home, "notes.ndjson", &(0..count).map(line).collect::<String>());
    command_output(home.run(&["graph", "import", "notes.ndjson"]));
    home
}

#[test]
fn a_list_that_is_not_complete_says_so_on_standard_error() {
    let home = home_with_notes(120);
    let notice = |args: &[&str]| text(&home.run(&[&["object", "list"], args].concat()).stderr);
    assert_eq!(notice(&[]), "20 shown, there are more: --limit N\n");
    assert_eq!(notice(&["--json"]), "20 shown, there are more: --limit N\n");
    assert_eq!(notice(&["--limit", "110"]), "110 shown, there are more: --limit N\n");
    assert_eq!(notice(&["--limit", "120"]), "");
    let all = json_of(home.run(&["object", "list", "--limit", "1000", "--json"]));
    assert_eq!(all.as_array().map(Vec::len), Some(120));
    for _ in 0..2 {
        command_output(home.run(&["agent", "trigger", "echo", "--input", "x", "--follow"]));
    }
    for list in [&["run", "list"][..], &["audit"]] {
        let output = home.run(&[list, &["--limit", "1"]].concat());
        assert_eq!(text(&output.stderr), "1 shown, there are more: --limit N\n", "{list:?}");
    }
}

#[test]
fn agents_are_listed_with_whole_names_and_times_with_their_zone() {
    let home = home_with_agent();
    let name = "an-agent-that-answers-when-nobody-is-named";
    let agent = format!(
        r#"{{ "name": "{name}", "isDefault": true, "description": "It answers questions about many things, and more.",
            "trigger": "0 9 * * MON", "config": {{ "trigger": {{ "time_zone": "Europe/Berlin" }} }},
            "model": {{ "provider": "rehearsal", "name": "echo" }} }}"#
    );
    write(&home, "agent.json", &agent);
    command_output(home.run(&["agent", "apply", "agent.json"]));
    let shown = |args: &[&str]| text(&on_terminal(&home, (24, 80), "", args).stdout);
    let agents = shown(&["agent", "list"]);
    assert!(agents.contains(name) && agents.contains("DEFAULT"), "{agents}");
    let triggers = shown(&["trigger", "list"]);
    assert!(triggers.contains("NEXT (UTC)"), "{triggers}");
    assert!(shown(&["audit"]).contains("AT (UTC)"));
    let piped = command_output(home.run(&["trigger", "list"]));
    assert!(
        !piped.contains("(UTC)") && (piped.contains("T07:00:00Z") || piped.contains("T08:00:00Z")),
        "{piped}"
    );
}

#[test]
fn names_are_whole_on_a_terminal_of_60_columns() {
    let home = home_with_agent();
    command_output(home.run(&["product", "install", "emergent.memory", "--yes"]));
    let shown = |args: &[&str]| text(&on_terminal(&home, (24, 60), "", args).stdout);
    assert!(shown(&["product", "list"]).contains("emergent.memory"));
    let settings = shown(&["doctor"]);
    for name in ["EMERGENT_ADMIN_TOKEN = (hidden)", "max-project-runs = ", "write-timeout = "] {
        assert!(settings.lines().any(|line| line.trim_start().starts_with(name)), "{name}: {settings}");
    }
}

#[test]
fn a_step_without_messages_is_said_to_have_none() {
    let home = home_with_agent();
    command_output(home.run(&["agent", "trigger", "echo", "--input", "x", "--follow"]));
    let args = ["run", "messages", "last", "--step", "99"];
    assert!(text(&on_terminal(&home, (24, 80), "", &args).stdout).contains("This run has no such messages."));
    assert_eq!(command_output(home.run(&args)), "");
}
