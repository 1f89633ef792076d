//! Products from the command line: on a data folder alone, and through a server.

mod common;

use common::{Home, command_output, failed, json_of, text};
use serde_json::{Value, json};

fn manifest(version: &str, prompt: &str) -> String {
    let agents = json!([{ "name": "triage", "description": "Sorts tickets", "system_prompt": prompt,
        "model": { "provider": "rehearsal", "name": "echo" }, "tools": ["search_*"] }]);
    json!({ "name": "acme.support", "version": version, "agents": agents }).to_string()
}

/// A folder with a product in two versions.
fn home() -> Home {
    let home = Home::sqlite();
    for (folder, version, prompt) in
        [("v1", "1.0.0", "You sort.\nBe kind."), ("v2", "2.0.0", "You sort fast.\nBe kind.")]
    {
        let folder = home.folder().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("manifest.json"), manifest(version, prompt)).expect("a file");
    }
    home
}

/// The same tour, wherever the commands go.
fn tour(home: &Home) {
    let planned = command_output(home.run(&["product", "install", "v1", "--dry-run"]));
    assert!(planned.contains("+ agent triage") && planned.contains("nothing was changed"), "{planned}");
    assert!(!planned.contains('\x1b'), "no colour where no person looks");
    assert_eq!(json_of(home.run(&["product", "list", "--json"])), json!([]));

    command_output(home.run(&["product", "install", "v1/manifest.json"]));
    let again = failed(&home.run(&["product", "install", "v2"]));
    assert!(again.contains("already") && again.contains("upgrade"), "{again}");
    let listed = command_output(home.run(&["product", "list"]));
    assert!(listed.contains("acme.support") && listed.contains("1.0.0"), "{listed}");
    assert!(listed.contains("a file"), "the path is not stored: {listed}");
    let echo = command_output(home.run(&["agent", "trigger", "triage", "--input", "hello", "--follow"]));
    assert!(echo.contains("hello"), "{echo}");

    let diff = command_output(home.run(&["product", "upgrade", "acme.support", "v2", "--dry-run"]));
    assert!(diff.contains("1.0.0 → 2.0.0") && diff.contains("~ agent triage"), "{diff}");
    assert!(
        diff.contains("    - You sort.\n    + You sort fast.\n") && !diff.contains("- Be kind."),
        "{diff}"
    );
    let done = json_of(home.run(&["product", "upgrade", "acme.support", "v2", "--json"]));
    assert_eq!(
        (&done["product"]["version"], &done["plan"]["direction"]),
        (&json!("2.0.0"), &json!("upgrade"))
    );
    let back = command_output(home.run(&["product", "upgrade", "acme.support", "v1"]));
    assert!(back.contains("2.0.0 → 1.0.0") && back.contains("downgrade"), "{back}");
    let nowhere = failed(&home.run(&["product", "upgrade", "acme.support"]));
    assert!(nowhere.contains("came from a file"), "{nowhere}");
    assert!(nowhere.contains("emergent product upgrade acme.support ./acme.support"), "{nowhere}");
    let checked = command_output(home.run(&["product", "check"]));
    assert!(checked.contains("newer versions cannot be found"), "{checked}");
    let shown = command_output(home.run(&["product", "show", "acme.support"]));
    assert!(
        shown.contains("triage") && shown.contains("emergent product upgrade acme.support FILE"),
        "{shown}"
    );

    let gone = command_output(home.run(&["product", "uninstall", "acme.support"]));
    assert!(gone.contains("- agent triage"), "{gone}");
    assert!(failed(&home.run(&["product", "show", "acme.support"])).contains("acme.support"));
}

#[test]
fn only_a_product_with_a_similar_last_name_is_suggested() {
    let home = home();
    command_output(home.run(&["product", "install", "v1"]));
    for unlike in ["acme.research", "acme.memory"] {
        let told = failed(&home.run(&["product", "uninstall", unlike]));
        assert!(told.contains(unlike) && !told.contains("did you mean"), "{told}");
    }
    for misspelt in ["acme.suport", "acme.Support", "amce.support"] {
        let told = failed(&home.run(&["product", "uninstall", misspelt]));
        assert!(told.contains("did you mean `acme.support`?"), "{told}");
    }
}

#[test]
fn a_product_comes_changes_and_goes_on_a_data_folder() {
    tour(&home());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_product_comes_changes_and_goes_through_a_server() {
    let home = home();
    let server = home.start().await;
    tokio::task::spawn_blocking(move || {
        tour(&home);
        home
    })
    .await
    .expect("a tour");
    server.kill();
}

/// What a newcomer would type: nothing but the binary, and no key.
#[test]
fn a_product_that_ships_can_be_tried_at_once() {
    let home = home();
    for (product, agent) in [
        ("emergent.memory", "entity-extractor"),
        ("emergent.research", "research-assistant"),
        ("emergent.code", "spec-writer"),
    ] {
        command_output(home.run(&["product", "install", product, "--accept"]));
        let model = format!("rehearsal/{product}");
        let input = "What is known about Ada Lovelace?";
        let live = command_output(
            home.run(&["agent", "trigger", agent, "--input", input, "--follow", "--model", &model]),
        );
        assert!(live.contains("Rehearsed") && live.contains("completed"), "{live}");
    }
    let reports = json_of(home.run(&["graph", "search", "rehearsed", "--json"]));
    assert!(!reports["hits"].as_array().expect("hits").is_empty(), "{reports}");
    let up_to_date = command_output(home.run(&["product", "check"]));
    assert_eq!(up_to_date.matches("up to date").count(), 3, "{up_to_date}");
}

#[test]
fn what_a_product_uses_is_accepted_with_a_flag_where_nobody_can_be_asked() {
    let home = home();
    let refused = home.run(&["product", "install", "emergent.research"]);
    assert!(failed(&refused).contains("--accept"), "{refused:?}");
    let shown = text(&refused.stdout);
    for line in [
        "  ? program   BRAVE_API_KEY=${SEARCH_API_KEY} npx -y @brave/brave-search-mcp-server",
        "  ? program   uvx mcp-server-fetch",
        "  ? host      https://api.githubcopilot.com",
        "  ? secret    GITHUB_TOKEN → https://api.githubcopilot.com",
        "    event     on_document_ingested starts paper-summarizer",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    assert_eq!(json_of(home.run(&["product", "list", "--json"])), json!([]));
    assert!(failed(&home.run(&["product", "install", "emergent.research", "--json"])).contains("--accept"));
    let installed = command_output(home.run(&["product", "install", "emergent.research", "--yes"]));
    assert!(
        installed.contains("    program   uvx") && !installed.contains("  ? "),
        "it is accepted: {installed}"
    );
    command_output(home.run(&["product", "install", "emergent.memory"]));
    let details = command_output(home.run(&["product", "show", "emergent.research"]));
    assert!(details.contains("https://api.githubcopilot.com"), "{details}");
}

#[test]
fn a_manifest_is_validated_without_a_server() {
    let home = home();
    assert!(command_output(home.run(&["product", "validate", "v1"])).contains("acme.support 1.0.0 is fine"));
    assert!(!home.data().exists(), "looking changes nothing");
    let schema: Value = json_of(home.run(&["product", "schema"]));
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let broken =
        json!({ "name": "Acme", "version": "1", "agents": [{ "name": "a", "tools": ["serch_hybrid"] }] });
    std::fs::write(home.folder().join("broken.json"), broken.to_string()).expect("a file");
    let told = home.run(&["product", "validate", "broken.json"]);
    assert!(failed(&told).contains("3 things are wrong"), "{told:?}");
    let shown = text(&told.stdout);
    assert!(
        ["/name", "/version", "/agents/0/tools/0"].iter().all(|pointer| shown.contains(pointer)),
        "{shown}"
    );
    let tool =
        json!({ "name": "a", "version": "1.0.0", "agents": [{ "name": "a", "tools": ["serch_hybrid"] }] });
    std::fs::write(home.folder().join("tool.json"), tool.to_string()).expect("a file");
    let told = home.run(&["product", "validate", "tool.json", "--json"]);
    let found: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(found["problems"][0]["pointer"], "/agents/0/tools/0", "{found}");
    std::fs::write(home.folder().join("v1/rehearsal.yaml"), "rules: 7").expect("a file");
    assert!(!home.run(&["product", "validate", "v1"]).status.success());
    let missing = failed(&home.run(&["product", "install", "emergent.reserch"]));
    assert!(missing.contains("emergent.research"), "{missing}");
}

#[test]
fn validation_refuses_what_installing_refuses() {
    let home = home();
    let newer = json!({ "name": "acme.next", "version": "1.0.0", "min_core_version": "99.0.0", "agents": [
        { "name": "a", "colour": "red", "tools": [], "model": { "name": "llama3" } }] });
    std::fs::write(home.folder().join("newer.json"), newer.to_string()).expect("a file");
    let told = home.run(&["product", "validate", "newer.json"]);
    assert!(failed(&told).contains("3 things are wrong"), "{told:?}");
    let shown = text(&told.stdout);
    assert!(shown.contains("/min_core_version") && shown.contains("requires version 99.0.0"), "{shown}");
    assert!(shown.contains("/agents/0/model") && shown.contains("`gemini-*` (google)"), "{shown}");
    assert!(failed(&home.run(&["product", "install", "newer.json"])).contains("99.0.0"));
}
