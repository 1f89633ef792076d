//! What a newcomer meets who follows the docs on the embedded database.

use std::process::Command;

use crate::{
    common::{Home, command_output, failed, finish, text},
    home_with_agent,
    terminal::{on_terminal, written_lines},
    write,
};

#[test]
fn doctor_creates_nothing() {
    let home = Home::sqlite().without_token();
    let entries = |path| std::fs::read_dir(path).expect("a folder").count();
    command_output(home.run(&["doctor"]));
    assert_eq!(entries(home.folder().to_owned()), 0);
    std::fs::create_dir(home.data()).expect("a folder");
    let told = command_output(home.run(&["doctor"]));
    assert!(told.contains("no database yet"), "{told}");
    assert_eq!(entries(home.data()), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_admin_token_is_printed_once_also_with_the_sample() {
    let home = Home::sqlite().without_token();
    let server = home.start_with(&["--sample"]).await;
    let token = std::fs::read_to_string(home.data().join("admin-token")).expect("a token");
    let said = server.launched.said.clone();
    assert_eq!(said.matches(token.trim()).count(), 1, "{said}");
    assert!(said.contains("Bearer $(cat data/admin-token)"), "{said}");
    let in_one_line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(in_one_line.contains("which starts when a document is added, cannot start: "), "{said}");
    let told = command_output(home.run(&["doctor"]));
    assert!(told.contains("(on_document_ingested) cannot start"), "{told}");
    server.kill();
    let server = home.start_with(&["--sample"]).await;
    let said = &server.launched.said;
    assert!(!said.contains(token.trim()) && said.contains("admin token  in data/admin-token"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_that_is_not_empty_gets_no_sample_and_the_start_says_so() {
    let home = home_with_agent();
    command_output(home.run(&["object", "create", "Note", "a"]));
    let server = home.start_with(&["--sample"]).await;
    let said = server.launched.said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("The graph has objects already, so the sample was not added"), "{said}");
    assert!(said.contains("--data-dir FOLDER") && !said.contains("ada-lovelace"), "{said}");
    let agents = command_output(home.run(&["agent", "list"]));
    assert!(agents.contains("graph-query-agent"), "{agents}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_fails_as_an_mcp_server_says_why() {
    let home = home_with_agent();
    let server = r#"{ "name": "files", "transport": "stdio", "command": "sh",
        "args": ["-c", "echo module not found >&2; exit 1"] }"#;
    write(&home, "server.json", server);
    command_output(home.run(&["mcp-server", "add", "server.json"]));
    let server = home.start().await;
    for args in [
        &["mcp-server", "inspect", "files"][..],
        &["doctor"],
        &["mcp-server", "list"],
        &["mcp-server", "show", "files"],
    ] {
        let output = home.run(args);
        let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(told.contains("its process ended (exit status: 1)"), "{args:?}: {told}");
        assert!(
            told.contains("standard error ends with:") && told.contains("module not found"),
            "{args:?}: {told}"
        );
        assert!(
            told.contains("\n    module not found"),
            "the line of the program is indented: {args:?}: {told}"
        );
    }
    server.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_nobody_can_call_is_named_at_start() {
    let home = Home::sqlite().with("EMERGENT_MODEL", "gogle/x");
    let told = failed(&home.run(&["serve", "--listen", "127.0.0.1:0"]));
    assert!(told.contains("EMERGENT_MODEL") && told.contains("unknown provider `gogle`"), "{told}");
    let home = Home::sqlite().with("EMERGENT_MODEL", "replay/all");
    let server = home.start().await;
    let log = server.launched.log();
    assert!(log.contains("EMERGENT_MODEL") && log.contains("EMERGENT_RECORDINGS"), "{log}");
}

#[test]
fn the_plan_of_a_product_keeps_its_indent_in_a_narrow_terminal() {
    let home = home_with_agent();
    let args = ["product", "install", "emergent.research", "--dry-run"];
    for columns in [60, 80, 100] {
        let shown = text(&on_terminal(&home, (50, columns), "", &args).stdout);
        let lines = written_lines(&shown);
        let uses = lines.iter().skip_while(|line| *line != "uses").skip(1);
        let uses: Vec<_> = uses.take_while(|line| !line.starts_with("nothing was changed")).collect();
        assert!(uses.len() > 3 && uses.iter().all(|line| line.starts_with("  ")), "{shown}");
        assert!(uses.iter().all(|line| line.chars().count() <= columns), "{shown}");
    }
}

#[test]
fn a_schedule_is_listed_with_its_whole_cron_expression_and_next_time() {
    let home = home_with_agent();
    let agent = r#"{ "name": "a-digest-with-a-long-name", "trigger": "*/15 8-18 1,15 * MON-FRI",
        "config": { "trigger": { "time_zone": "America/Argentina/ComodRivadavia" } },
        "model": { "provider": "rehearsal", "name": "echo" } }"#;
    write(&home, "digest.json", agent);
    command_output(home.run(&["agent", "apply", "digest.json"]));
    let shown = command_output(on_terminal(&home, (24, 80), "", &["trigger", "list"]));
    let lines = written_lines(&shown);
    let row =
        lines.iter().find(|line| line.contains("*/15 8-18 1,15 * MON-FRI")).expect("a whole expression");
    let next =
        row.split_whitespace().filter(|word| word.len() == "10:15".len() && word.contains(':')).count();
    assert_eq!(next, 1, "{shown}");
    assert!(!lines[0].contains("LAST") && !lines[0].contains("PRODUCT"), "{shown}");
}

/// Presses Ctrl-C at the prompt, and then prints whether the terminal shows what is typed.
const INTERRUPT_AT_PROMPT: &str = r#"
import os, pty, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
written = b""
while b"(not shown): " not in written:
    written += os.read(terminal, 4096)
os.write(terminal, b"half\x03")
while b"Nothing was set." not in written:
    written += os.read(terminal, 4096)
shows = bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
_, status = os.waitpid(pid, 0)
print(written.decode(), "echo:", shows, "exit:", os.waitstatus_to_exitcode(status))
"#;

#[test]
fn an_interrupted_secret_leaves_the_terminal_as_it_was() {
    let home = home_with_agent();
    let direct = home.command(&["secret", "set", "TOKEN"]);
    let mut command = Command::new("python3");
    command.args(["-c", INTERRUPT_AT_PROMPT]).arg(direct.get_program()).args(direct.get_args());
    command.current_dir(home.folder());
    for (name, value) in direct.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let told = command_output(finish(command));
    assert!(told.contains("echo: True exit: 130") && !told.contains("half"), "{told}");
    assert!(!command_output(home.run(&["secret", "list"])).contains("TOKEN"));
    let set = text(&on_terminal(&home, (24, 80), "sekret\n", &["secret", "set", "TOKEN"]).stdout);
    assert!(set.contains("TOKEN is set"), "{set}");
}

#[test]
fn a_pack_that_is_added_again_is_unchanged_and_can_be_assigned() {
    let home = home_with_agent();
    let pack = |title: &str| {
        format!(
            r#"{{ "name": "mine", "version": "1.0.0", "objectTypeSchemas": {{ "{title}": {{ "type": "object" }} }} }}"#
        )
    };
    write(&home, "pack.json", &pack("Note"));
    let add = |args: &[&str]| home.run(&[&["pack", "add", "pack.json"], args].concat());
    assert_eq!(command_output(add(&[])), "mine@1.0.0 is added\n");
    assert_eq!(command_output(add(&[])), "mine@1.0.0 is unchanged\n");
    assert_eq!(command_output(add(&["--assign"])), "mine@1.0.0 is unchanged and assigned\n");
    write(&home, "pack.json", &pack("Other"));
    let told = failed(&add(&[]));
    assert!(told.contains("new `version`") && told.contains("emergent pack assign mine@1.0.0"), "{told}");
}

#[test]
fn commands_that_work_themselves_print_no_lines_of_the_log() {
    let home = Home::sqlite();
    let server = r#"{ "name": "gone", "transport": "stdio", "command": "/no/such/program" }"#;
    write(&home, "server.json", server);
    command_output(home.run(&["mcp-server", "add", "server.json"]));
    let agent =
        r#"{ "name": "user", "tools": ["gone.*"], "model": { "provider": "rehearsal", "name": "echo" } }"#;
    write(&home, "agent.json", agent);
    command_output(home.run(&["agent", "apply", "agent.json"]));
    let args = ["agent", "trigger", "user", "--input", "x", "--follow"];
    let shown = text(&on_terminal(&home, (24, 60), "", &args).stdout);
    // The spinner is written on the same line, before the note.
    let note = shown.split_once('⚠').map(|(_, note)| written_lines(note)).unwrap_or_default();
    assert!(note.first().is_some_and(|line| line.starts_with(" without the tools of gone")), "{shown}");
    assert!(note[0].chars().count() < 60 && note[1].starts_with("  `/no/such/program`"), "{shown}");
    assert!(!shown.contains("WARN"), "{shown}");
}
