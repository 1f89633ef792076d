//! Every example of the documentation works when it is followed literally.
//!
//! The test reads README.md and every page of `docs/`, and runs the code blocks of a page from top
//! to bottom in a fresh folder, against a real server. A page in `docs/` that is not listed here
//! fails, so no page is forgotten.
//!
//! - `sh` blocks run in one bash per page, with `set -eu -o pipefail`. The port 4400 is replaced by
//!   a free one, and `programs/` holds what replaces `emergent`, `cargo`, `make`, `docker` and others.
//! - `json`, `jsonl`, `yaml` and `toml` blocks need a directive in an HTML comment before them, which
//!   says what the test does with the block: see `directive.rs`.
//! - Blocks without a language, and `text` blocks, show output; with a directive it is compared.
//!
//! The tests need bash, curl and Python 3. Nothing here uses the crates of Emergent, only its binary.

#![cfg(unix)]

mod directive;
mod markdown;
mod page;
mod sandbox;
mod shape;
mod shell;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::{directive::Directive, markdown::Item};

/// How many blocks may say `not run`. A block that needs root, a cluster or a download may; count it
/// here, so that a reviewer sees it.
const MAX_NOT_RUN: usize = 1;

macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $test() {
                if let Err(error) = page::run($page, &read($page)) {
                    panic!("{error}");
                }
            }
        )*
    };
}

pages! {
    readme: "README.md",
    agents: "docs/agents.md",
    approvals: "docs/approvals.md",
    chat: "docs/chat.md",
    backup: "docs/backup.md",
    budgets: "docs/budgets.md",
    embeddings: "docs/embeddings.md",
    events: "docs/events.md",
    extraction: "docs/extraction.md",
    graph: "docs/graph.md",
    installation: "docs/installation.md",
    integrations: "docs/integrations.md",
    invoke: "docs/invoke.md",
    mcp: "docs/mcp.md",
    mcp_servers: "docs/mcp-servers.md",
    models: "docs/models.md",
    observability: "docs/observability.md",
    performance: "docs/performance.md",
    products: "docs/products.md",
    projects: "docs/projects.md",
    retrieval: "docs/retrieval.md",
    runs: "docs/runs.md",
    scale: "docs/scale.md",
    secrets: "docs/secrets.md",
    security: "docs/security.md",
    sessions: "docs/sessions.md",
    tools: "docs/tools.md",
    triggers: "docs/triggers.md",
    vocabulary: "docs/vocabulary.md",
    web: "docs/web.md",
    workflows: "docs/workflows.md",
}

#[test]
fn every_page_has_a_test() {
    let mut found = BTreeSet::from(["README.md".to_owned()]);
    for entry in fs::read_dir(repository().join("docs")).expect("docs/") {
        let name = entry.expect("an entry of docs/").file_name().into_string().expect("a name in UTF-8");
        if name.ends_with(".md") {
            found.insert(format!("docs/{name}"));
        }
    }
    let listed: BTreeSet<_> = PAGES.iter().map(|&page| page.to_owned()).collect();
    assert_eq!(found, listed, "list every page of docs/ in `pages!` of this file");
}

#[test]
fn few_blocks_are_not_run() {
    let mut excluded = Vec::new();
    for page in PAGES {
        for item in markdown::items(&read(page)).expect("a page that can be read") {
            if let Item::Block(block) = item
                && let Some(Directive::NotRun(reason)) = block.directives.first()
            {
                excluded.push(format!("{page}:{}: {reason}", block.line));
            }
        }
    }
    assert!(
        excluded.len() <= MAX_NOT_RUN,
        "{} blocks are not run, {MAX_NOT_RUN} may be:\n{}",
        excluded.len(),
        excluded.join("\n")
    );
}

/// A reader may follow several pages in one data folder, so an example must not replace what another page made.
#[test]
fn examples_of_different_pages_have_different_names() {
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    let mut collisions = BTreeSet::new();
    for page in PAGES {
        let mut names = BTreeSet::new();
        for item in markdown::items(&read(page)).expect("a page that can be read") {
            let Item::Block(block) = item else { continue };
            for directive in &block.directives {
                if let Directive::File(file) = directive {
                    names.insert(format!("the file `{file}`"));
                }
            }
            names.extend(made_names(&block.text));
        }
        for name in names {
            match owners.insert(name.clone(), page) {
                Some(other) if other != *page => collisions.insert(format!("{name}: {other} and {page}")),
                _ => false,
            };
        }
    }
    assert!(collisions.is_empty(), "{collisions:#?}");
}

/// The tokens that a block makes, and the agents and servers whose definitions begin in it. A definition begins with
/// its name.
fn made_names(block: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for part in block.split("emergent token create ").skip(1) {
        names.extend(part.split_whitespace().next().map(|name| format!("the token `{name}`")));
    }
    let text = block.split_whitespace().collect::<Vec<_>>().join(" ");
    let starts = ["echo '{ \"name\": \"", "<<'END' { \"name\": \""];
    let definitions = starts.iter().flat_map(|start| text.split(start).skip(1));
    let whole_block = text.strip_prefix("{ \"name\": \"").into_iter();
    for rest in definitions.chain(whole_block) {
        names.extend(rest.split_once('"').map(|(name, _)| format!("`{name}`")));
    }
    // The agents of a product's manifest.
    if text.contains("\"agents\": [") {
        let agents =
            text.split("\"agents\": [").skip(1).filter_map(|rest| rest.trim().strip_prefix("{ \"name\": \""));
        names.extend(agents.filter_map(|rest| Some(format!("`{}`", rest.split_once('"')?.0))));
    }
    names
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn read(page: &str) -> String {
    fs::read_to_string(repository().join(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}
