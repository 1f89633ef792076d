//! Checks the dependency rules of ARCHITECTURE.md: every crate may use the crates below it and no
//! others.
//!
//! The test reads each `crates/*/Cargo.toml` line by line. It needs no TOML parser, because it only
//! determines which `emergent-…` names appear under which heading.

use std::{fs, path::Path};

/// The direct dependencies of each crate. A crate may use those and everything below them. A crate
/// that is missing here is an error: add it here and to ARCHITECTURE.md.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("documents", &[]),
    ("net", &[]),
    // The files of the web UI, without HTTP.
    ("web", &[]),
    // Decisions without I/O: `rules` must never see the store, a model or a runtime.
    ("rules", &["domain", "documents"]),
    ("store", &["domain", "net"]),
    ("wire", &["domain"]),
    // The protocols of callers from outside, as functions over values.
    ("surfaces", &["wire"]),
    ("llm", &["domain", "net"]),
    ("mcp", &["domain", "net"]),
    ("a2a", &["domain", "net"]),
    ("secrets", &["store"]),
    ("graph", &["store", "llm", "documents"]),
    ("tools", &["a2a", "graph", "mcp", "secrets"]),
    ("executor", &["tools", "rules"]),
    // All depend on `executor`, and none on another.
    ("chat", &["executor"]),
    ("coordination", &["executor"]),
    ("products", &["executor"]),
    ("api", &["chat", "coordination", "products", "surfaces", "web"]),
    ("emergent", &["api"]),
    // These crates are for developers only, so they may use every library.
    ("testkit", &["api"]),
    ("bench", &["api", "testkit"]),
    ("fuzz", &["api"]),
];

#[test]
fn every_arrow_points_down() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut forbidden = Vec::new();
    let mut seen = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        forbidden.extend(forbidden_dependencies(folder.file_name().unwrap().to_str().unwrap(), &manifest));
        seen += 1;
    }
    assert!(seen > 0, "no Cargo.toml below {}", crates.display());
    forbidden.sort();
    assert!(forbidden.is_empty(), "\n{}\n", forbidden.join("\n"));
}

#[test]
fn a_wrong_arrow_is_named() {
    check("graph", "[dependencies]\nemergent-store.workspace = true", &[]);
    check(
        "store",
        "[dependencies]\nemergent-domain.workspace = true\nemergent-graph.workspace = true",
        &["store → graph in [dependencies] points the wrong way: `store` may use domain, net"],
    );
    check(
        "domain",
        "[dependencies]\nemergent-store = { path = \"../store\" }",
        &["domain → store in [dependencies] points the wrong way: `domain` may use nothing"],
    );
}

#[test]
fn an_arrow_is_seen_however_it_is_written() {
    for manifest in [
        "[dependencies.emergent-api]\nworkspace = true",
        "[target.'cfg(unix)'.dependencies]\nemergent-api.workspace = true",
        "[build-dependencies]\n  emergent-api = { workspace = true } # for now",
        "[dev-dependencies]\n\"emergent-api\" = { workspace = true }",
        "[dependencies]\nweb = { path = \"../api\", package = \"emergent-api\" }",
        "[dependencies.web]\npath = \"../api\"\npackage = \"emergent-api\"",
    ] {
        assert_eq!(forbidden_dependencies("llm", manifest).len(), 1, "{manifest}");
    }
    check("llm", "[dependencies]\n# emergent-api.workspace = true", &[]);
    check("llm", "[features]\nemergent-api = []", &[]);
}

#[test]
fn the_testkit_is_for_tests_only() {
    check("api", "[dev-dependencies]\nemergent-testkit.workspace = true", &[]);
    check("domain", "[dev-dependencies]\nemergent-testkit.workspace = true", &[]);
    check(
        "emergent",
        "[dependencies]\nemergent-testkit.workspace = true",
        &["emergent → testkit in [dependencies] points the wrong way: \
           `testkit` is for [dev-dependencies]"],
    );
}

#[test]
fn a_crate_outside_the_plan_is_named() {
    check(
        "shed",
        "[dependencies]",
        &["`shed` has no entry: add it to ARCHITECTURE.md and to DEPENDENCIES in \
           crates/testkit/tests/architecture.rs"],
    );
}

fn check(krate: &str, manifest: &str, expected: &[&str]) {
    assert_eq!(forbidden_dependencies(krate, manifest), expected, "in {manifest}");
}

/// Returns a sentence for each dependency of this crate that the rules do not allow.
fn forbidden_dependencies(krate: &str, manifest: &str) -> Vec<String> {
    let Some(allowed) = below(krate) else {
        return vec![format!(
            "`{krate}` has no entry: add it to ARCHITECTURE.md and to DEPENDENCIES in \
             crates/testkit/tests/architecture.rs"
        )];
    };
    dependencies(manifest)
        .into_iter()
        .filter(|dependency| !allowed.contains(&dependency.to) && !is_testkit_for_tests(dependency))
        .map(|Dependency { kind, to }| {
            let rule = match (to, allowed.is_empty()) {
                ("testkit", _) => "`testkit` is for [dev-dependencies]".to_owned(),
                (_, true) => format!("`{krate}` may use nothing"),
                (_, false) => format!("`{krate}` may use {}", allowed.join(", ")),
            };
            format!("{krate} → {to} in [{kind}] points the wrong way: {rule}")
        })
        .collect()
}

/// Returns all crates that a crate may use, in the order of the rules, or `None` if it is missing.
fn below(krate: &str) -> Option<Vec<&'static str>> {
    let (_, direct) = DEPENDENCIES.iter().find(|(name, _)| *name == krate)?;
    let reached: Vec<_> =
        direct.iter().flat_map(|name| below(name).into_iter().flatten().chain([*name])).collect();
    let in_order = DEPENDENCIES.iter().map(|(name, _)| *name);
    Some(in_order.filter(|name| reached.contains(name)).collect())
}

fn is_testkit_for_tests(dependency: &Dependency) -> bool {
    dependency.to == "testkit" && dependency.kind == "dev-dependencies"
}

struct Dependency<'a> {
    kind: &'static str,
    to: &'a str,
}

/// Returns every dependency on a crate of this workspace, in the order of the file.
fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut dependencies = Vec::new();
    let mut kind = None;
    for line in manifest.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(heading) = line.strip_prefix('[') {
            let heading = heading.trim_end_matches(']');
            kind = kind_of(heading);
            // `[dependencies.emergent-store]` is both a heading and a name.
            dependencies.extend(kind.zip(emergent_crate(heading)).map(|(kind, to)| Dependency { kind, to }));
        } else if let Some((kind, to)) = kind.zip(emergent_crate(line)) {
            dependencies.push(Dependency { kind, to });
        }
    }
    dependencies
}

/// Longer headings come first, because each of them ends with the shortest.
fn kind_of(heading: &str) -> Option<&'static str> {
    ["dev-dependencies", "build-dependencies", "dependencies"]
        .into_iter()
        .find(|kind| heading.split('.').any(|part| part == *kind))
}

/// Returns `store` for a line that names `emergent-store`, as a key or as `package = "…"`.
fn emergent_crate(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("emergent-")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}
