//! The commands for PostgreSQL that `emergent backup` and `emergent restore` print, carried out as printed.

use std::{collections::BTreeMap, path::PathBuf, process::Command};

use emergent_testkit::new_postgres_database;
use tokio_postgres::NoTls;

use crate::{
    common::{self, Home, failed},
    fill, run, with_slow_script,
};

/// Runs a command line with PostgreSQL's programs.
async fn shell(home: &Home, line: String) {
    let mut command = Command::new("sh");
    command.args(["-ec", &line]).current_dir(home.folder());
    if let Ok(programs) = std::env::var("TEST_POSTGRES_PROGRAMS") {
        let programs = PathBuf::from(programs);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", programs.display()));
        command.env("LD_LIBRARY_PATH", programs.join("../lib"));
    }
    let done = tokio::task::spawn_blocking(move || common::finish(command)).await.unwrap();
    assert!(done.status.success(), "{line}\n{}", common::text(&done.stderr));
}

/// The command lines in a text of `emergent`: those that begin with two spaces.
fn command_lines(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
}

/// For each table the number of its rows and a digest of all of them.
async fn digests(url: &str) -> BTreeMap<String, (i64, String)> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let tables = client
        .query("SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'kb'", &[])
        .await
        .unwrap();
    let mut digests = BTreeMap::new();
    for table in tables {
        let table: String = table.get(0);
        let sql = format!(
            "SELECT count(*), coalesce(md5(string_agg(md5(t::text), '' ORDER BY md5(t::text))), '') FROM kb.\"{table}\" AS t"
        );
        let row = client.query_one(&sql, &[]).await.unwrap();
        digests.insert(table, (row.get(0), row.get(1)));
    }
    drop(client);
    let _ = connection.await;
    digests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_that_are_printed_copy_everything() {
    let home = with_slow_script(Home::postgres().await);
    let mut server = home.start().await;
    fill(&server.api).await;
    let advice = failed(&run(&home, &["backup", "copy.dump"]).await);
    assert!(advice.contains("EMERGENT_SECRET_KEY") && advice.contains("pg_dump"), "{advice}");
    // Once while the server runs, and once when nothing changes any more.
    let lines = command_lines(&advice);
    assert_eq!(lines.len(), 1, "{advice}");
    shell(&home, lines[0].replace("copy.dump", "busy.dump")).await;
    server.launched.signal("TERM");
    server.launched.ended();
    shell(&home, lines[0].clone()).await;

    let database = new_postgres_database().await;
    let other = Home::on(database.url());
    let dump = home.folder().join("copy.dump");
    let advice = failed(&run(&other, &["restore", dump.to_str().unwrap()]).await);
    let lines = command_lines(&advice);
    assert_eq!(lines.len(), 2, "{advice}");
    for line in lines {
        shell(&other, line).await;
    }
    let (original, copied) =
        (digests(home.postgres.as_deref().unwrap()).await, digests(&database.url()).await);
    assert!(original.len() > 40, "every table: {original:?}");
    assert_eq!(original, copied);

    let server = other.start().await;
    let rotated = server.api.post("/api/admin/secrets/rotate", &serde_json::Value::Null).await;
    assert!(
        rotated.body.to_string().contains("EMERGENT_SECRET_KEY"),
        "the key is the right one: {}",
        rotated.body
    );
    let listed = server.api.all("/api/graph/objects?type=Note").await;
    assert_eq!(listed.len(), 1);
}

#[test]
fn the_page_has_the_same_commands() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/backup.md")).unwrap();
    for part in [
        "pg_dump --format=custom --no-owner --schema=kb --file=",
        "--command='CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public'",
        "pg_restore --exit-on-error --single-transaction --no-owner --dbname=",
    ] {
        assert!(page.contains(part), "{part}");
        assert!(include_str!("../../src/commands/backup/postgres.rs").contains(part), "{part}");
    }
}
