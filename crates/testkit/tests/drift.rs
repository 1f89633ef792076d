//! Fails if the documentation differs from the code: the crates and dependencies in
//! ARCHITECTURE.md, the reasons and events in docs/runs.md, and the events in docs/workflows.md.
//!
//! These tests read no Rust source. The manifests define which crates exist and what they use.
//! `docs/openapi.json`, which a test of `emergent-api` compares with the code, contains the names
//! that clients see.
//!
//! Other places compare the rest: `crates/tools/tests/docs.rs` and `docs.rs` in
//! `crates/coordination/tests/tool_schemas` the tools in docs/tools.md, and `scripts/unused-deps`, which
//! `make check` runs, the dependencies with their uses.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use emergent_domain::workflow_event::WorkflowEventBody;
use serde_json::Value;

type Names = BTreeSet<String>;

/// The lints that only code of the product has to pass; `clippy.toml` says more.
const LINTS: &str =
    "#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]";

/// Each crate with the crates that it uses.
type Uses = BTreeMap<String, Names>;

#[test]
fn the_table_of_crates_has_every_crate() {
    let documented = column(&read("ARCHITECTURE.md"), "crate", 0);
    let existing: Names = manifests().into_keys().collect();
    assert_eq!(documented, existing, "left: the table of ARCHITECTURE.md, right: the folders of crates/");
}

#[test]
fn the_diagram_has_every_arrow() {
    let page = read("ARCHITECTURE.md");
    let block = page.split("```").nth(1).expect("a diagram in a code block");
    let drawn = diagram(block);
    // The crates for developers use everything, so the diagram leaves them out.
    let mut used: Uses = manifests().iter().map(|(name, text)| (name.clone(), dependencies(text))).collect();
    used.retain(|name, _| !["bench", "fuzz", "testkit"].contains(&name.as_str()));
    assert_eq!(drawn, reduce(&used), "left: the diagram of ARCHITECTURE.md, right: crates/*/Cargo.toml");
}

#[test]
fn every_crate_of_the_product_switches_its_lints_on() {
    for name in manifests().into_keys().filter(|name| !["bench", "fuzz", "testkit"].contains(&name.as_str()))
    {
        let root = if name == "emergent" { "main.rs" } else { "lib.rs" };
        let file = format!("crates/{name}/src/{root}");
        assert!(read(&file).contains(LINTS), "{file} has to start with {LINTS}");
    }
}

#[test]
fn the_reasons_of_runs_are_documented() {
    let documented = column(&read("docs/runs.md"), "status", 1);
    assert_eq!(documented, enum_with("doom_loop"), "left: docs/runs.md, right: docs/openapi.json");
}

#[test]
fn the_events_of_runs_are_documented() {
    let documented = column(&read("docs/runs.md"), "event", 0);
    assert_eq!(documented, types_with("run_started"), "left: docs/runs.md, right: docs/openapi.json");
}

#[test]
fn the_events_of_workflows_are_documented() {
    let documented = column(&read("docs/workflows.md"), "event", 0);
    // For the API, `type` is any text. But serde lists the variants when it does not know one:
    // "unknown variant `?`, expected one of `workflow_started`, …".
    let error = WorkflowEventBody::from_stored("?", &Value::Null).expect_err("no event is called `?`");
    let message = error.to_string();
    let kinds: Names = message.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert_eq!(documented, kinds, "left: docs/workflows.md, right: `WorkflowEventBody`");
}

#[test]
fn an_arrow_that_follows_from_others_is_left_out() {
    let uses = diagram("api → executor, store\nexecutor → store\nstore → domain\nexecutor → domain");
    assert_eq!(reduce(&uses), diagram("api → executor\nexecutor → store\nstore → domain"));
}

#[test]
fn dependencies_for_tests_are_no_arrows() {
    let manifest = "[dependencies]\nemergent-store.workspace = true\nserde.workspace = true\n\
                    [dev-dependencies]\nemergent-testkit.workspace = true";
    assert_eq!(dependencies(manifest), names(["store"]));
    assert_eq!(dependencies("[dependencies.emergent-llm]\nworkspace = true"), names(["llm"]));
}

fn names<const N: usize>(names: [&str; N]) -> Names {
    names.into_iter().map(str::to_owned).collect()
}

// --- Pages -------------------------------------------------------------------------------------

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("`{path}`: {error}"))
}

/// Returns the names in backticks of one column of the table whose header starts with this word.
fn column(page: &str, header: &str, index: usize) -> Names {
    let is_header = |line: &&str| line.strip_prefix("| ").is_some_and(|line| line.starts_with(header));
    let cells: Vec<&str> = page
        .lines()
        .skip_while(|line| !is_header(line))
        .map_while(|line| line.strip_prefix('|'))
        .filter_map(|row| row.split('|').nth(index))
        .collect();
    assert!(!cells.is_empty(), "the page has no table with the header `{header}`");
    let quoted = cells.iter().filter_map(|cell| cell.trim().strip_prefix('`')?.strip_suffix('`'));
    quoted.map(str::to_owned).collect()
}

/// Parses lines of the form `crate → crate, crate`; a crate without an arrow uses no other.
fn diagram(block: &str) -> Uses {
    let mut uses = Uses::new();
    for line in block.lines().filter(|line| !line.trim().is_empty()) {
        let (from, to) = line.split_once('→').unwrap_or((line, ""));
        let to = to.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        uses.entry(from.trim().to_owned()).or_default().extend(to);
    }
    uses
}

// --- Manifests ---------------------------------------------------------------------------------

/// Returns the text of each `crates/*/Cargo.toml` by the name of its folder.
fn manifests() -> BTreeMap<String, String> {
    let folders = fs::read_dir(root().join("crates")).expect("the folder `crates`");
    let manifests: BTreeMap<_, _> = folders
        .filter_map(|entry| {
            let folder = entry.ok()?.path();
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
            Some((folder.file_name()?.to_str()?.to_owned(), manifest))
        })
        .collect();
    assert!(!manifests.is_empty(), "found no Cargo.toml below `crates`");
    manifests
}

/// Returns the crates of this workspace under `[dependencies]`, which are those of the product.
fn dependencies(manifest: &str) -> Names {
    let mut found = Names::new();
    let mut is_product = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(heading) = line.strip_prefix('[') {
            let parts = || heading.trim_end_matches(']').split('.');
            is_product = parts().any(|part| part == "dependencies");
            found.extend(
                parts()
                    .filter(|_| is_product)
                    .filter_map(|part| part.strip_prefix("emergent-"))
                    .map(str::to_owned),
            );
        } else if let Some(name) = line.strip_prefix("emergent-").filter(|_| is_product) {
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
            found.insert(name[..end.unwrap_or(name.len())].to_owned());
        }
    }
    found
}

/// Removes each arrow that follows from others: `api → store` when `api → executor → store`.
fn reduce(uses: &Uses) -> Uses {
    let is_reachable = |from: &str, to: &str| {
        let (mut open, mut seen) = (vec![from.to_owned()], Names::new());
        while let Some(name) = open.pop() {
            let next = uses.get(&name).into_iter().flatten();
            open.extend(next.filter(|next| seen.insert((*next).clone())).cloned());
        }
        seen.contains(to)
    };
    uses.iter()
        .map(|(from, direct)| {
            let kept = direct.iter().filter(|to| !direct.iter().any(|via| is_reachable(via, to)));
            (from.clone(), kept.cloned().collect())
        })
        .collect()
}

// --- Names that clients see ----------------------------------------------------------------------

/// Returns the schemas of the API. They are found by a value, because types are renamed more often.
fn schemas() -> Vec<Value> {
    let document: Value =
        serde_json::from_str(&read("docs/openapi.json")).expect("docs/openapi.json is JSON");
    let schemas = document["components"]["schemas"].as_object().expect("schemas in docs/openapi.json");
    schemas.values().cloned().collect()
}

fn values(schema: &Value) -> Names {
    schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns all values of the enum that has this one.
fn enum_with(value: &str) -> Names {
    let all = schemas().iter().map(values).find(|values| values.contains(value));
    all.unwrap_or_else(|| panic!("no enum of docs/openapi.json has `{value}`"))
}

/// Returns every `type` of the tagged union in which one variant has this `type`.
fn types_with(value: &str) -> Names {
    let types = |schema: &Value| -> Names {
        let variants = schema["oneOf"].as_array().into_iter().flatten();
        variants.flat_map(|variant| values(&variant["properties"]["type"])).collect()
    };
    let all = schemas().iter().map(types).find(|types| types.contains(value));
    all.unwrap_or_else(|| panic!("no union of docs/openapi.json has the type `{value}`"))
}
