//! `emergent eval retrieval`.

use serde_json::json;

use crate::{
    common::{Home, command_output, failed, json_of, text},
    write,
};

const NOTES: &str = r#"{"kind":"object","type":"Note","key":"engine","properties":{"text":"Ada wrote notes on the engine."}}
{"kind":"object","type":"Note","key":"tea","properties":{"text":"The kettle is in the kitchen."}}
{"kind":"object","type":"Card","key":"kettle","properties":{"text":"A kettle boils water."}}
"#;

#[test]
fn questions_are_measured_in_each_mode() {
    let home = Home::sqlite();
    write(&home, "notes.ndjson", NOTES);
    command_output(home.run(&["graph", "import", "notes.ndjson"]));
    write(
        &home,
        "questions.json",
        r#"{ "questions": [
            { "question": "Who wrote about the engine?", "evidence": ["Note/engine"] },
            { "question": "kettle", "evidence": ["Note/tea"], "types": ["Note"], "budgetTokens": 100 },
            { "question": "engine kettle", "evidence": ["Note/engine", "Note/tea"], "types": ["Note"], "budgetTokens": 1 }
        ] }"#,
    );
    let report = json_of(home.run(&["eval", "retrieval", "questions.json", "--mode", "text", "--json"]));
    assert_eq!(report["questions"], 3);
    let text = &report["modes"][0];
    assert_eq!(report["modes"].as_array().unwrap().len(), 1);
    assert_eq!(text["mode"], "text");
    assert_eq!((&text["recallAt5"], &text["allAt10"]), (&json!(1.0), &json!(1.0)));
    assert_eq!(text["mrr"], 1.0);
    assert_eq!(text["allInBudget"], 0.5, "one token holds only the best object");
    assert!(text["p95Ms"].as_f64().unwrap() >= text["p50Ms"].as_f64().unwrap());
    let table = command_output(home.run(&["eval", "retrieval", "questions.json"]));
    let modes: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(modes, ["text", "vector", "hybrid", "linked", "auto"], "{table}");
    assert!(table.starts_with("MODE") && table.contains("IN BUDGET"), "{table}");
}

#[test]
fn evidence_by_id_and_by_key_is_one_object() {
    let home = Home::sqlite();
    write(&home, "notes.ndjson", NOTES);
    command_output(home.run(&["graph", "import", "notes.ndjson"]));
    let found = json_of(home.run(&["graph", "search", "engine", "--json"]));
    let id = found["hits"][0]["object"]["id"].as_str().unwrap();
    // One token holds the best hit, as a search with `budgetTokens` returns it.
    let questions = format!(
        r#"{{ "questions": [
            {{ "question": "engine", "evidence": ["Note/engine", "{id}"], "types": ["Note"], "budgetTokens": 1 }}
        ] }}"#
    );
    write(&home, "questions.json", &questions);
    let report = json_of(home.run(&["eval", "retrieval", "questions.json", "--mode", "text", "--json"]));
    let text = &report["modes"][0];
    assert_eq!((&text["recallAt5"], &text["allAt5"]), (&json!(1.0), &json!(1.0)));
    assert_eq!(text["allInBudget"], 1.0);
}

#[test]
fn evidence_that_is_not_there_is_an_error_before_anything_is_measured() {
    let home = Home::sqlite();
    write(&home, "notes.ndjson", NOTES);
    command_output(home.run(&["graph", "import", "notes.ndjson"]));
    let evidence = r#""Note/engine", "Note/none", "0190f5a0-0000-7000-8000-000000000001""#;
    let questions = format!(r#"{{ "questions": [{{ "question": "Who?", "evidence": [{evidence}] }}] }}"#);
    write(&home, "questions.json", &questions);
    let error = failed(&home.run(&["eval", "retrieval", "questions.json"]));
    assert!(error.contains("`Note/none` of question 1 (line 1)") && error.contains("0190f5a0"), "{error}");
    assert!(!error.contains("Note/engine"), "{error}");
    assert!(failed(&home.run(&["eval", "retrieval", "none.json"])).contains("none.json"));
}

#[test]
fn evidence_that_the_search_leaves_out_is_an_error_with_its_line() {
    let home = Home::sqlite();
    write(&home, "notes.ndjson", NOTES);
    command_output(home.run(&["graph", "import", "notes.ndjson"]));
    command_output(home.run(&["object", "create", "Session", "s1"]));
    let refused = |types: &str, evidence: &str| {
        let questions = format!(
            "{{ \"questions\": [\n{{ \"question\": \"kettle\", \"types\": {types},\n\"evidence\": [\"{evidence}\"] }}\n] }}"
        );
        write(&home, "questions.json", &questions);
        failed(&home.run(&["eval", "retrieval", "questions.json", "--mode", "text"]))
    };
    let other_type = refused(r#"["Card"]"#, "Note/tea");
    let expected =
        "question 1 (line 3): `evidence`: `Note/tea` is a `Note`, and only `types` are searched: Card";
    assert!(other_type.contains(expected), "{other_type}");
    let system_type = refused("[]", "Session/s1");
    assert!(system_type.contains("(line 3): `evidence`: `Session/s1` is a `Session`"), "{system_type}");
    let sessions =
        r#"{ "questions": [{ "question": "s1", "types": ["Session"], "evidence": ["Session/s1"] }] }"#;
    write(&home, "questions.json", sessions);
    let report = json_of(home.run(&["eval", "retrieval", "questions.json", "--mode", "text", "--json"]));
    assert_eq!(report["modes"][0]["recallAt5"], 1.0);
}

#[test]
fn a_file_without_questions_is_named_with_what_is_missing() {
    let home = Home::sqlite();
    command_output(home.run(&["object", "create", "Note", "a"]));
    for (content, expected) in [("[]", "it is a list"), ("{}", "it has no `questions`"), ("", "it is empty")]
    {
        write(&home, "questions.json", content);
        let error = failed(&home.run(&["eval", "retrieval", "questions.json"]));
        assert!(error.contains("`questions.json` cannot be used") && error.contains(expected), "{error}");
    }
}

#[test]
fn a_mode_that_could_not_be_measured_has_no_figures() {
    let home = Home::sqlite().with("EMERGENT_EMBEDDINGS", "off");
    write(&home, "notes.ndjson", NOTES);
    command_output(home.run(&["graph", "import", "notes.ndjson"]));
    let questions =
        r#"{ "questions": [{ "question": "engine", "evidence": ["Note/engine"], "budgetTokens": 9 }] }"#;
    write(&home, "questions.json", questions);
    let modes = ["eval", "retrieval", "questions.json", "--mode", "vector", "--mode", "text"];
    let report = json_of(home.run(&[&modes[..], &["--json"]].concat()));
    let (vector, by_words) = (&report["modes"][0], &report["modes"][1]);
    assert_eq!(vector, &json!({ "mode": "vector", "embedding": "unavailable" }));
    assert_eq!((&by_words["recallAt5"], &by_words["allInBudget"]), (&json!(1.0), &json!(1.0)));
    let output = home.run(&modes);
    let notice = text(&output.stderr);
    let table = command_output(output);
    let row = table.lines().find(|line| line.starts_with("vector")).expect("a row of the mode");
    let cells: Vec<&str> = row.split_whitespace().skip(1).collect();
    assert_eq!(cells, ["–"; 8], "{table}");
    assert!(notice.contains("some searches had no embedding"), "{notice}");
}

#[test]
fn passages_of_documents_are_evidence() {
    let home = Home::sqlite();
    write(&home, "engine.md", "# Engine\n\nAda wrote notes on the Analytical Engine.\n");
    write(&home, "tea.md", "# Tea\n\nThe kettle is in the kitchen.\n");
    let added = json_of(home.run(&["document", "add", "engine.md", "tea.md", "--json"]));
    let engine = added[0]["id"].as_str().expect("an id");
    let questions = |evidence: &str| {
        format!(
            r#"{{ "questions": [{{ "question": "Ada kettle", "evidence": [{evidence}], "budgetTokens": 1000 }}] }}"#
        )
    };
    // The first document is listed by its title and by its id, and counts once.
    let evidence = format!(
        r#"{{ "document": "engine.md", "chunk": 0 }}, {{ "document": "{engine}", "chunk": 0 }}, {{ "document": "tea.md", "chunk": 0 }}"#
    );
    write(&home, "questions.json", &questions(&evidence));
    let report = json_of(home.run(&["eval", "retrieval", "questions.json", "--mode", "text", "--json"]));
    let by_words = &report["modes"][0];
    assert_eq!((&by_words["allAt5"], &by_words["mrr"]), (&json!(1.0), &json!(1.0)));
    assert_eq!(by_words["allInBudget"], 1.0);
    write(&home, "questions.json", &questions(r#"{ "document": "tea.md", "chunk": 7 }"#));
    let error = failed(&home.run(&["eval", "retrieval", "questions.json"]));
    let expected =
        "question 1 (line 1): `evidence`: `tea.md` has no passage 7: it has 1 passage, numbered from 0";
    assert!(error.contains(expected), "{error}");
    write(&home, "questions.json", &questions(r#"{ "document": "te.md", "chunk": 0 }"#));
    let error = failed(&home.run(&["eval", "retrieval", "questions.json"]));
    let expected = "question 1 (line 1): `evidence`: there is no document `te.md`; did you mean `tea.md`?";
    assert!(error.contains(expected), "{error}");
}
