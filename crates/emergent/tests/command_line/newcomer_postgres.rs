//! What a newcomer meets who follows the docs on PostgreSQL.

use crate::{
    ECHO,
    common::{Home, command_output, failed, text},
    terminal::{on_terminal, written_lines},
    write,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_find_the_server_of_the_folder() {
    let home = Home::postgres().await;
    let server = home.start().await;
    write(&home, "echo.json", ECHO);
    command_output(home.run(&["agent", "apply", "echo.json"]));
    let link = command_output(home.run(&["login-link"]));
    assert!(link.starts_with(server.url()), "{link}");
    let started = home.run(&["agent", "trigger", "echo", "--input", "x"]);
    assert!(!text(&started.stderr).contains("waits for a server"), "{}", text(&started.stderr));
    let told = text(&home.run(&["doctor"]).stdout);
    assert!(told.contains(&format!("{} answers", server.url())), "{told}");
    assert!(!told.contains("in use by another program"), "{told}");

    // In another terminal, without the address of the database.
    let mut command = home.command(&["agent", "list"]);
    command.env_remove("EMERGENT_DATABASE_URL");
    let listed = command_output(crate::common::finish(command));
    assert!(listed.contains("echo"), "{listed}");
    assert!(!home.data().join("emergent.db").exists());

    // A server that was killed leaves its file behind, which misleads nobody.
    server.kill();
    assert!(home.data().join("server").exists());
    assert!(command_output(home.run(&["agent", "list"])).contains("echo"));
    let told = text(&home.run(&["doctor"]).stdout);
    assert!(told.contains("none (the last one listened on"), "{told}");

    // A start that forgets the address of the database does not make an empty one.
    let mut forgetful = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    forgetful.env_remove("EMERGENT_DATABASE_URL");
    let told = crate::common::failed(&crate::common::finish(forgetful));
    assert!(told.contains("EMERGENT_DATABASE_URL") && told.contains("postgres"), "{told}");
    assert!(!home.data().join("emergent.db").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_database_is_said_in_a_plain_sentence() {
    let home = Home::postgres().await;
    let database = home.command(&[]);
    let url = database.get_envs().find(|(name, _)| *name == "EMERGENT_DATABASE_URL");
    let url = url.and_then(|(_, url)| url).expect("a database").to_string_lossy().into_owned();
    let absent = url.split_once('?').map_or(url.as_str(), |(url, _)| url).to_owned() + "_absent";
    for args in [&["serve", "--listen", "127.0.0.1:0"][..], &["run", "list"]] {
        let told = failed(&home.run(&[args, &["--database-url", &absent]].concat()));
        assert!(told.contains("there is no such database: create it"), "{told}");
    }
    // `doctor` says the same as `serve`.
    let told = text(&home.run(&["doctor", "--database-url", &absent]).stdout);
    assert!(told.contains("there is no such database: create it"), "{told}");
    let stopped = "postgres://me:pw@127.0.0.1:1/x";
    let told = text(&home.run(&["doctor", "--database-url", stopped]).stdout);
    assert!(told.contains("PostgreSQL does not answer at 127.0.0.1:1") && !told.contains("pw@"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_for_a_backup_are_not_broken() {
    let url = "postgres://somebody@a-host-with-a-rather-long-name.example:5432/emergent";
    let home = Home::on(url.to_owned());
    for (args, commands) in [(["backup", "copy.dump"], 1), (["restore", "copy.dump"], 2)] {
        let shown = text(&on_terminal(&home, (24, 80), "", &args).stdout);
        let lines = written_lines(&shown);
        // A superuser creates the extension that a restored database needs.
        let superuser = url.replace("somebody@", "postgres@");
        let is_whole = |line: &&String| line.contains(url) || line.contains(&superuser);
        let whole = lines.iter().filter(|line| line.starts_with("  ")).filter(is_whole);
        assert_eq!(whole.count(), commands, "{shown}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("  ")).count(), commands, "{shown}");
    }
}
