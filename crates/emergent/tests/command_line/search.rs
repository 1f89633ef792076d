//! `emergent graph search` and `emergent document search`: why a hit was found, groups, and budgets of tokens.

use crate::{
    common::{Home, command_output, failed, json_of, text},
    write,
};

const COMPANY: &str = r#"{"kind":"object","type":"Note","key":"company","properties":{"title":"Tabulating Machines","description":"started by Herman Hollerith"}}
{"kind":"object","type":"Note","key":"founder","properties":{"title":"Herman Hollerith","description":"from Buffalo"}}
"#;

const MESSAGES: &str = r#"{"kind":"object","type":"Message","key":"m1","properties":{"text":"kettle kettle kettle"}}
{"kind":"object","type":"Message","key":"m2","properties":{"text":"kettle kettle tea"}}
{"kind":"object","type":"Message","key":"m3","properties":{"text":"kettle tea tea"}}
{"kind":"object","type":"Chat","key":"s1","properties":{"topic":"kitchen"}}
{"kind":"relationship","type":"has_message","from":{"type":"Chat","key":"s1"},"to":{"type":"Message","key":"m1"}}
{"kind":"relationship","type":"has_message","from":{"type":"Chat","key":"s1"},"to":{"type":"Message","key":"m3"}}
"#;

fn home_with(graph: &str) -> Home {
    let home = Home::sqlite();
    write(&home, "graph.ndjson", graph);
    command_output(home.run(&["graph", "import", "graph.ndjson"]));
    home
}

#[test]
fn an_explained_search_says_by_which_words_and_over_which_name_it_found() {
    let home = home_with(COMPANY);
    let question = "Who started Tabulating Machines?";
    for mode in ["linked", "auto"] {
        let shown = command_output(home.run(&["graph", "search", question, "--mode", mode, "--explain"]));
        assert!(shown.contains("     words   started, Tabulating, Machines (score "), "{shown}");
        let link =
            "     link    the name \"herman hollerith\", which Note/company (Tabulating Machines) has too";
        assert!(shown.contains(link), "{shown}");
    }
    let plain = command_output(home.run(&["graph", "search", question, "--mode", "linked"]));
    assert!(!plain.contains("words  ") && !plain.contains("has too"), "{plain}");
    let found = json_of(home.run(&["graph", "search", question, "--mode", "linked", "--explain", "--json"]));
    assert_eq!(found["hits"][1]["channels"]["link"]["name"], "herman hollerith");
}

#[test]
fn hits_are_shown_below_their_parents_and_cut_to_a_budget() {
    let home = home_with(MESSAGES);
    let search = ["graph", "search", "kettle", "--mode", "text"];
    let grouped = [&search[..], &["--group", "has_message", "--group-direction", "in"]].concat();
    let shown = command_output(home.run(&grouped));
    let heads = shown.lines().filter(|line| !line.starts_with("     "));
    let first_words: Vec<&str> = heads.filter_map(|line| line.split_whitespace().nth(1)).collect();
    let expected = ["Chat/s1", "Message/m1", "Message/m3", "Message/m2", "Message/m2"];
    assert_eq!(first_words, expected, "{shown}");
    let cut = home.run(&[&search[..], &["--budget-tokens", "1"]].concat());
    assert!(text(&cut.stderr).contains("further hits were left out"), "{}", text(&cut.stderr));
    let shown = command_output(cut);
    assert!(shown.contains("Message/m1") && !shown.contains("Message/m2"), "{shown}");
    let refused = failed(&home.run(&[&search[..], &["--budget-tokens", "0"]].concat()));
    assert!(refused.contains("--budget-tokens: must be 1 to"), "{refused}");
    let refused = failed(&home.run(&[&search[..], &["--group", "not a type"]].concat()));
    assert!(refused.contains("--group: must start with a letter"), "{refused}");
}

#[test]
fn with_a_budget_alone_there_are_as_many_hits_as_fit() {
    let notes: String = (0..12)
        .map(|n| format!("{{\"kind\":\"object\",\"type\":\"Note\",\"key\":\"n{n}\",\"properties\":{{\"text\":\"kettle\"}}}}\n"))
        .collect();
    let home = home_with(&notes);
    let hits = |more: &[&str]| {
        let found =
            json_of(home.run(&[&["graph", "search", "kettle", "--mode", "text", "--json"], more].concat()));
        found["hits"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(hits(&[]), 10);
    assert_eq!(hits(&["--budget-tokens", "1000"]), 12);
    assert_eq!(hits(&["--budget-tokens", "1000", "--limit", "11"]), 11);
}

#[test]
fn passages_are_found_with_their_documents_and_places() {
    let home = Home::sqlite();
    write(&home, "engine.md", "# Engine\n\nAda wrote notes on the Analytical Engine.\n");
    write(&home, "tea.md", "# Tea\n\nThe kettle is in the kitchen.\n");
    command_output(home.run(&["document", "add", "engine.md", "tea.md"]));
    let search = ["document", "search", "Who wrote a note?", "--mode", "text"];
    let shown = command_output(home.run(&[&search[..], &["--explain"]].concat()));
    assert!(shown.contains("  1  engine.md, chunk 0"), "{shown}");
    assert!(shown.contains("     words   wrote, note (score "), "{shown}");
    assert!(!shown.contains("tea.md"), "{shown}");
    let elsewhere = command_output(home.run(&[&search[..], &["--document", "tea.md"]].concat()));
    assert_eq!(elsewhere, "nothing found\n");
    let found = json_of(home.run(&[&search[..], &["--group", "document", "--json"]].concat()));
    assert_eq!(found["hits"][0]["group"], found["hits"][0]["chunk"]["documentId"]);
}

#[test]
fn a_search_that_cannot_find_anything_says_why() {
    let home = home_with(COMPANY);
    let misspelt = home.run(&["graph", "search", "Hollerith", "--type", "Note", "--type", "Notte"]);
    assert!(!text(&misspelt.stderr).contains("there is no type"), "{}", text(&misspelt.stderr));
    let misspelt = home.run(&["graph", "search", "Hollerith", "--mode", "text", "--type", "Notte"]);
    let told = text(&misspelt.stderr);
    assert!(told.contains("there is no type `Notte`") && told.contains("`Note`"), "{told}");
    assert_eq!(command_output(misspelt), "nothing found\n");

    for search in [["graph", "search"], ["document", "search"]] {
        let mut by_meaning = home.command(&[&search[..], &["Hollerith", "--mode", "vector"]].concat());
        let output = by_meaning.env("EMERGENT_EMBEDDINGS", "off").output().expect("the binary runs");
        let told = text(&output.stderr);
        assert!(told.contains("needs an embedder") && told.contains("`emergent doctor`"), "{told}");
    }
}

#[test]
fn an_import_of_a_file_that_does_not_exist_leaves_no_data_folder() {
    let home = Home::sqlite();
    let told = failed(&home.run(&["graph", "import", "missing.ndjson", "--data-dir", "new-folder"]));
    assert!(told.contains("missing.ndjson"), "{told}");
    assert!(!home.folder().join("new-folder").exists());
}

#[test]
fn a_search_for_a_type_says_how_its_objects_are_listed() {
    let home = home_with(r#"{"kind":"object","type":"Invoice","key":"4711","properties":{"total":12}}"#);
    let found = home.run(&["graph", "search", "invoice", "--mode", "text"]);
    let told = text(&found.stderr);
    assert!(told.contains("there is the type Invoice: `emergent object list --type Invoice`"), "{told}");
    assert_eq!(command_output(found), "nothing found\n");
    let found = home.run(&["graph", "search", "kettle", "--mode", "text"]);
    assert!(!text(&found.stderr).contains("Invoice"), "{}", text(&found.stderr));
}

#[test]
fn a_hit_without_a_description_shows_the_text_that_matched() {
    let home = home_with(MESSAGES);
    let found = command_output(home.run(&["graph", "search", "kettle", "--mode", "text"]));
    assert!(found.contains("\n     kettle kettle kettle\n"), "{found}");
}
