//! Fails when the modules of a crate depend on each other in a cycle.
//!
//! Rust allows cycles between modules, so the compiler does not report them. A cycle means that none
//! of its modules can be read, moved or tested alone. The test reads the source as text: it collects
//! the `crate::…` and `super::…` paths of each top-level module and builds a graph from them. A name
//! that the root re-exports counts as a use of the module that defines it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The folders whose modules are checked, relative to `crates/`, with the path of their root module.
const CHECKED: &[(&str, &[&str])] = &[
    ("rules/src", &[]),
    ("rules/src/workflow", &["workflow"]),
    ("coordination/src", &[]),
    ("executor/src", &[]),
    ("surfaces/src", &[]),
];

/// Each module with the modules that it uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_have_no_cycles() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder `crates`");
    let mut problems = Vec::new();
    for (folder, root) in CHECKED {
        let graph = read_graph(&crates.join(folder), root);
        assert!(!graph.is_empty(), "found no modules in `{folder}`");
        problems.extend(find_cycle(&graph).map(|cycle| format!("{folder}: {}", cycle.join(" → "))));
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn a_cycle_is_named_with_its_path() {
    let graph = |uses: &[(&str, &str)]| {
        let mut graph = Graph::new();
        for (from, to) in uses {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        find_cycle(&graph).map(|cycle| cycle.join(" → "))
    };
    assert_eq!(graph(&[("a", "b"), ("b", "c"), ("a", "c")]), None);
    assert_eq!(graph(&[("a", "b"), ("b", "c"), ("c", "b")]).as_deref(), Some("b → c → b"));
}

#[test]
fn uses_are_found_however_they_are_written() {
    let check = |text: &str, depth: usize, expected: &[&str]| {
        let modules = ["one", "two", "three"].map(str::to_owned).into();
        let exports = BTreeMap::from([("Thing".to_owned(), "three".to_owned())]);
        let expected: BTreeSet<String> = expected.iter().map(|&name| name.to_owned()).collect();
        let found = uses(text, &Context { modules: &modules, exports: &exports, root: &[], depth });
        assert_eq!(found, expected, "in {text}");
    };
    check("use crate::one::A;", 1, &["one"]);
    check("use crate::{one::{A, B}, two, Thing};", 1, &["one", "two", "three"]);
    check("let x = crate::two::run();", 1, &["two"]);
    check("use super::one;\nuse super::{two::X};", 1, &["one", "two"]);
    check("use super::one;", 2, &[]);
    check("use super::super::one;", 2, &["one"]);
    check("// use crate::one;\n/// [`crate::two`]", 1, &[]);
    check("#[cfg(test)]\nmod tests {\n    use crate::one::A;\n}", 1, &[]);
}

// --- Reading -----------------------------------------------------------------------------------

struct Context<'a> {
    modules: &'a BTreeSet<String>,
    /// Names that the root re-exports, with the module that defines them.
    exports: &'a BTreeMap<String, String>,
    /// The path of the root module below the crate.
    root: &'a [&'a str],
    /// How many `super` lead from the file to the root.
    depth: usize,
}

fn read_graph(folder: &Path, root: &[&str]) -> Graph {
    let files = rust_files(folder);
    let name_of = |path: &Path| -> Option<String> {
        let first = path.strip_prefix(folder).ok()?.iter().next()?.to_str()?;
        let name = first.trim_end_matches(".rs");
        (!["lib", "mod", "main"].contains(&name)).then(|| name.to_owned())
    };
    let modules: BTreeSet<String> = files.iter().filter_map(|path| name_of(path)).collect();
    let exports = read_exports(folder, &modules);
    let mut graph = Graph::new();
    for path in &files {
        let Some(module) = name_of(path) else { continue };
        // Tests may look at everything.
        if path.iter().any(|part| part == "tests")
            || path.to_str().is_some_and(|path| path.ends_with("tests.rs"))
        {
            continue;
        }
        let parts = path.strip_prefix(folder).map_or(0, |path| path.iter().count());
        let depth = if path.ends_with("mod.rs") { parts - 1 } else { parts };
        let text = fs::read_to_string(path).expect("a source file");
        let mut found = uses(&text, &Context { modules: &modules, exports: &exports, root, depth });
        found.remove(&module);
        graph.entry(module).or_default().extend(found);
    }
    graph
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a source folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    files
}

/// Reads `pub use module::{Name, …}` of the root: `Name` belongs to `module`.
fn read_exports(folder: &Path, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let root = ["lib.rs", "mod.rs"].iter().map(|name| folder.join(name)).find(|path| path.exists());
    let text = root.map(|path| fs::read_to_string(path).expect("the root module")).unwrap_or_default();
    let mut exports = BTreeMap::new();
    for statement in text.split("pub use ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        let module: String = statement.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if modules.contains(&module) {
            let names = statement[module.len()..].split(|c: char| !c.is_alphanumeric() && c != '_');
            exports
                .extend(names.filter(|name| !name.is_empty()).map(|name| (name.to_owned(), module.clone())));
        }
    }
    exports
}

/// The top-level modules that a file uses.
fn uses(text: &str, context: &Context<'_>) -> BTreeSet<String> {
    let code = without_tests_and_comments(text);
    let mut found = BTreeSet::new();
    let crate_prefix: String =
        ["crate"].iter().chain(context.root).map(|part| format!("{part}::")).collect::<String>();
    let super_prefix = "super::".repeat(context.depth);
    for prefix in [crate_prefix.as_str(), super_prefix.as_str()] {
        if prefix.is_empty() {
            continue;
        }
        for (start, _) in code.match_indices(prefix) {
            // `super::super::one` also contains `super::one`, which means another module.
            if prefix.starts_with("super") && code[..start].ends_with("super::") {
                continue;
            }
            for name in first_names(&code[start + prefix.len()..]) {
                if context.modules.contains(&name) {
                    found.insert(name);
                } else if let Some(module) = context.exports.get(&name) {
                    found.insert(module.clone());
                }
            }
        }
    }
    found
}

/// The first names of a path or of each path of a group: `{a::B, c}` has `a` and `c`.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut depth, mut names, mut is_start) = (0, Vec::new(), true);
    for (position, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            _ if is_start && !letter.is_whitespace() => {
                names.push(name(&group[position..]));
                is_start = false;
            }
            _ => {}
        }
    }
    names
}

/// Removes comments, and everything from the first inline test module on: it is the last item of a
/// file by convention.
fn without_tests_and_comments(text: &str) -> String {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    match code.find("#[cfg(test)]\nmod tests {") {
        Some(start) => code[..start].to_owned(),
        None => code,
    }
}

// --- Graphs ------------------------------------------------------------------------------------

/// Returns a cycle, its first module repeated at the end.
fn find_cycle(graph: &Graph) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    graph.keys().find_map(|start| visit(graph, start, &mut Vec::new(), &mut done))
}

fn visit(
    graph: &Graph,
    module: &str,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(start) = path.iter().position(|name| name == module) {
        return Some(path[start..].iter().cloned().chain([module.to_owned()]).collect());
    }
    if done.contains(module) {
        return None;
    }
    path.push(module.to_owned());
    let cycle = graph.get(module).into_iter().flatten().find_map(|next| visit(graph, next, path, done));
    path.pop();
    done.insert(module.to_owned());
    cycle
}
