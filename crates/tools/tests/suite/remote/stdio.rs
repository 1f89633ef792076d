//! Programs that hang, die, flood and lie: each costs its own call and nothing else.

use std::time::{Duration, Instant};

use emergent_domain::mcp_server::ConfiguredBy;
use emergent_secrets::Secret;
use emergent_testkit::TestDb;
use emergent_tools::remote::ServerPatch;
use serde_json::json;

use crate::remote::support::{Site, alone, eventually, memory, open_ends};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_program_does_its_call_ends_with_a_clear_error_and_nothing_is_left_behind() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let before = open_ends();
    for name in ["hang", "die", "flood", "garbage", "big"] {
        let rogue = site.add(site.rogue(name)).await;
        let honest = site.add(site.rogue("honest")).await;
        site.timeout(rogue.id, if name == "hang" { 2 } else { 20 }).await;
        let tool = format!("{name}.{name}");
        let began = Instant::now();
        // Another server's tool works meanwhile.
        let (error, fine) = tokio::join!(
            async { site.call(&tool, json!({})).await.unwrap_err() },
            site.call("honest.echo", json!({ "zeta": "still here" }))
        );
        assert_eq!(fine.unwrap(), json!(r#"{"zeta":"still here"}"#), "beside {name}");
        let expected = match name {
            "hang" => "gave no answer within 2 seconds",
            "die" => "its process ended (exit status: 3)",
            "flood" => "messages a second that nobody asked for",
            "garbage" => "sent something that is not MCP",
            _ => "sent a message of more than 8388608 bytes",
        };
        assert!(error.contains(expected) && error.contains(&format!("`{name}`")), "{name}: {error}");
        if name != "hang" {
            assert!(began.elapsed() < Duration::from_secs(15), "{name} took {:?}", began.elapsed());
        }
        // It is started again, and works until the next mischief.
        let again = format!("{name}.echo");
        let mut answer = site.call(&again, json!({})).await;
        for _ in 0..50 {
            if answer.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            answer = site.call(&again, json!({})).await;
        }
        assert_eq!(answer, Ok(json!("{}")), "after {name}");
        for server in [rogue, honest] {
            site.servers.delete(site.project, server.id).await.unwrap();
        }
        eventually(&format!("no process is left after {name}"), || site.processes().is_empty()).await;
        assert_eq!(site.servers.open_connections(), 0, "after {name}");
    }
    eventually("pipes and sockets are as before", || open_ends() == before).await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_fifty_megabytes_is_not_kept() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    site.add(site.rogue("rogue")).await;
    site.call("echo", json!({})).await.unwrap();
    let before = memory();
    let error = site.call("big", json!({})).await.unwrap_err();
    let grown = memory() - before;
    assert!(error.contains("more than 8388608 bytes"), "{error}");
    assert!(grown < 30_000, "{grown} kB more than before");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_share_a_connection_and_one_that_hangs_holds_up_no_other() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let rogue = site.add(site.rogue("rogue")).await;
    site.timeout(rogue.id, 3).await;
    let hung = site.call("hang", json!({}));
    let others = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let calls = (0..20).map(|n| site.call("echo", json!({ "alpha": f64::from(n) / 20.0 })));
        let answers = futures_util::future::join_all(calls).await;
        assert_eq!(answers.len(), 20);
        for (n, answer) in answers.into_iter().enumerate() {
            let said: serde_json::Value = serde_json::from_str(answer.unwrap().as_str().unwrap()).unwrap();
            assert_eq!(said["alpha"].as_f64(), Some(n as f64 / 20.0));
        }
        assert_eq!(site.processes().len(), 1, "one program for all of them");
    };
    let (hung, ()) = tokio::join!(hung, others);
    assert!(hung.unwrap_err().contains("no answer within 3 seconds"));
    // The server was told that nobody waits any more.
    let file = site.file("cancelled");
    eventually("the call was cancelled", || file.exists()).await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_sees_only_what_it_is_given_and_secrets_stay_out_of_what_it_says() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let secret = "S3cr3t-of-the-rogue";
    let name = "ROGUE_KEY".parse().unwrap();
    site.secrets.put(site.project, None, &name, Secret::new(secret.into())).await.unwrap();
    let mut spec = site.rogue("rogue");
    spec["env"] = json!({ "ROGUE_KEY": "${ROGUE_KEY}", "PLAIN": "value" });
    let server = site.add(spec).await;
    let env = site.call("env", json!({})).await.unwrap();
    let mut env: Vec<&str> = env.as_str().unwrap().lines().collect();
    env.sort_unstable();
    let given = ["HOME", "PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];
    let given = given.map(|name| std::env::var(name).map(|value| format!("{name}={value}")));
    let given: Vec<String> = given.into_iter().flatten().collect();
    let expected = given.iter().map(String::as_str).chain(["PLAIN=value", "ROGUE_KEY=[secret ROGUE_KEY]"]);
    let mut expected: Vec<&str> = expected.collect();
    expected.sort_unstable();
    assert_eq!(env, expected);
    assert!(site.processes().iter().all(|line| !line.contains(secret)));
    // Nor is it kept with a tool that was given it as a description.
    let keyed = site.tool("keyed").await.unwrap();
    assert_eq!(keyed.info().description.as_ref(), "Uses [secret ROGUE_KEY].");
    let (_, tools) = site.servers.tools(site.project, server.id).await.unwrap();
    assert!(tools.iter().any(|tool| tool.tool.contains(r#""key":"[secret ROGUE_KEY]""#)));
    for tool in &tools {
        assert!(!tool.tool.contains(secret) && !tool.pinned_tool.contains(secret), "{}", tool.tool);
    }
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_says_is_not_searched_for_the_secrets_of_others() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    site.put_secret("OWN", "sent-to-this-server").await;
    site.put_secret("OTHER", "sent-to-another-one").await;
    let mut spec = site.rogue("rogue");
    spec["env"] = json!({ "MINE": "${OWN}", "GUESS": "sent-to-another-one" });
    let server = site.add(spec).await;
    let env = site.call("env", json!({})).await.unwrap().to_string();
    assert!(env.contains("GUESS=sent-to-another-one"), "a placeholder would confirm the guess: {env}");
    assert!(env.contains("MINE=[secret OWN]"), "{env}");
    // The value that an open connection was given is hidden, however often the secret is replaced.
    for turn in 0..4 {
        site.put_secret("OWN", &format!("{turn} is the newest value")).await;
    }
    let env = site.call("env", json!({})).await.unwrap().to_string();
    assert!(env.contains("MINE=[secret OWN]"), "{env}");
    site.servers.delete(site.project, server.id).await.unwrap();
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_a_server_was_sent_earlier_stays_hidden() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let first = "the-first-value-of-it";
    site.put_secret("OWN", first).await;
    let mut spec = site.rogue("rogue");
    // The program remembers what it was sent first.
    spec["env"] = json!({ "MINE": "${OWN}", "REMEMBERED": first });
    let server = site.add(spec).await;
    let hidden = async |when: &str| {
        let env = site.call("env", json!({})).await.unwrap().to_string();
        assert!(env.contains("REMEMBERED=[secret OWN]"), "{when}: {env}");
    };
    hidden("as long as it is the value").await;
    for turn in 0..4 {
        site.put_secret("OWN", &format!("{turn} is the newest value")).await;
    }
    hidden("though the secret has other values").await;
    let _ = site.call("die", json!({})).await;
    hidden("after the program was started again with another value").await;
    let spec = json!({ "env": { "REMEMBERED": first } }).as_object().cloned().unwrap();
    let patch = ServerPatch { spec, ..ServerPatch::default() };
    site.servers.update(site.project, ConfiguredBy::Operator, server.id, patch).await.unwrap();
    hidden("though its configuration does not refer to the secret any more").await;
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_of_a_server_confirms_no_guess_of_the_server() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    site.put_secret("OWN", "sent-to-this-server").await;
    site.put_secret("OTHER", "sent-to-another-one").await;
    let mut spec = site.rogue("rogue");
    let said = "is it sent-to-another-one, not sent-to-this-server?";
    spec["env"] = json!({ "MINE": "${OWN}", "ROGUE_REFUSES": said });
    let server = site.add(spec).await;
    let inspected = site.servers.inspect(site.project, server.id).await.unwrap().error.unwrap();
    let (row, ..) = site.servers.get(site.project, server.id).await.unwrap();
    for shown in [inspected, row.last_error.unwrap()] {
        assert!(shown.contains("sent-to-another-one, not [secret OWN]"), "{shown}");
    }
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_ends_before_it_answers_is_shown_with_the_end_of_its_standard_error() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    site.put_secret("OWN", "sent-to-this-server").await;
    let script =
        "for i in $(seq 400); do echo \"line $i\" >&2; done; echo \"no module x, key $MINE\" >&2; exit 1";
    let spec = json!({ "name": "broken", "transport": "stdio", "command": "sh", "args": ["-c", script],
                       "env": { "MINE": "${OWN}" } });
    let server = site.add(spec).await;
    let inspected = site.servers.inspect(site.project, server.id).await.unwrap().error.unwrap();
    let (row, ..) = site.servers.get(site.project, server.id).await.unwrap();
    for shown in [inspected, row.last_error.unwrap()] {
        assert!(shown.starts_with("lost the connection: its process ended (exit status: 1); "), "{shown}");
        assert!(shown.ends_with("\nline 399\nline 400\nno module x, key [secret OWN]"), "{shown}");
        assert!(shown.len() < 2_500 && shown.matches("line 400").count() == 1, "{shown}");
    }
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_missing_is_named() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let mut spec = site.rogue("rogue");
    spec["env"] = json!({ "ROGUE_KEY": "${NOT_THERE}" });
    let server = site.add(spec).await;
    let seen = site.servers.inspect(site.project, server.id).await.unwrap();
    assert!(seen.error.unwrap().contains("NOT_THERE"));
    assert!(site.processes().is_empty(), "nothing was started");
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_without_end_is_refused_and_a_tool_too_long_is_left_out() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    for (list, expected) in [
        ("endless", Some("a list of tools of more than 8388608 bytes")),
        ("junk", Some("more than 5000 tools")),
        ("fat", None),
    ] {
        let mut spec = site.rogue(list);
        spec["env"] = json!({ "ROGUE_LIST": list });
        let server = site.add(spec).await;
        let seen = site.servers.inspect(site.project, server.id).await.unwrap();
        match (expected, &seen.error) {
            (Some(expected), Some(error)) => assert!(error.contains(expected), "{list}: {error}"),
            (None, None) => {
                let names: Vec<_> = seen.tools.iter().map(|tool| tool.name.as_str()).collect();
                assert!(names.contains(&"echo") && !names.contains(&"fat"), "{names:?}");
            }
            _ => panic!("{list}: {seen:?}"),
        }
    }
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_program_started_ends_with_it() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    site.add(site.rogue("rogue")).await;
    site.call("family", json!({})).await.unwrap();
    eventually("the child lives", || site.processes().iter().any(|line| line.contains("--deaf"))).await;
    // It ignores SIGTERM, and its parent is asked kindly only.
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_without_end_cost_a_listing_now_and_then() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    site.add(site.rogue("rogue")).await;
    assert_eq!(site.call("notices", json!({})).await, Ok(json!("noticed")));
    assert_eq!(site.call("echo", json!({})).await, Ok(json!("{}")));
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_not_there_is_named_and_programs_can_be_switched_off() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let none = json!({ "name": "none", "transport": "stdio", "command": "/no/such/program" });
    let server = site.add(none).await;
    let seen = site.servers.inspect(site.project, server.id).await.unwrap();
    assert!(seen.error.unwrap().contains("could not start `/no/such/program`"));
    let off =
        emergent_tools::remote::RemoteSettings { allow_stdio: false, ..crate::remote::support::settings() };
    let clock = emergent_domain::time::Clock::system();
    let servers =
        emergent_tools::remote::McpServers::new(site.db.db.clone(), clock, site.secrets.clone(), off);
    let spec = serde_json::from_value(site.rogue("rogue")).unwrap();
    let refused = servers
        .create(site.project, ConfiguredBy::Operator, emergent_tools::remote::NewServer::new(spec))
        .await
        .unwrap_err();
    assert!(matches!(refused, emergent_tools::remote::Error::StdioDisabled), "{refused}");
    // One that is there already is not started.
    let seen = servers.inspect(site.project, server.id).await.unwrap();
    assert!(seen.error.unwrap().contains("EMERGENT_ALLOW_STDIO"));
    site.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_big_pool_is_resolved_from_memory() {
    let _alone = alone().await;
    let site = Site::open(TestDb::sqlite().await).await;
    let mut spec = site.rogue("rogue");
    spec["env"] = json!({ "ROGUE_TOOLS": "500" });
    site.add(spec).await;
    let all = ["*".to_owned()];
    assert!(site.tool("more_499").await.is_some());
    let began = Instant::now();
    for _ in 0..20 {
        let set = site.pool.resolve(site.project, &all, 0, false).await;
        assert!(set.names().count() > 500);
    }
    let each = began.elapsed() / 20;
    println!("a pool of 500 external tools is resolved in {each:?}");
    // Unoptimised and beside other tests; parsing 500 schemas each time would take longer than this.
    assert!(each < Duration::from_millis(20), "{each:?}");
    let (mut calls, began) = (0, Instant::now());
    while began.elapsed() < Duration::from_millis(500) {
        site.call("echo", json!({})).await.unwrap();
        calls += 1;
    }
    println!("a call takes {:?}, resolving included", began.elapsed() / calls);
    site.close().await;
}
