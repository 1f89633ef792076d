//! Fails when a retired name comes back. `docs/vocabulary.md` has the words of this codebase; the
//! names below are metaphors, bare participles and pronouns that it replaced.
//!
//! The test reads source text line by line. That is enough, because a definition always has its
//! keyword and its name on one line.

use std::{
    fs,
    path::{Path, PathBuf},
};

const RETIRED_TYPES: &[&str] = &[
    "Among", "Bill", "Door", "Doorman", "Duty", "Fresh", "Hands", "Heard", "Known", "Late", "Lines", "News",
    "Passage", "Place", "Purse", "Said", "Shelf", "Shift", "Shop", "Talk", "Told", "Walk", "Wanted", "Whose",
    "Wish",
];

const RETIRED_FUNCTIONS: &[&str] = &["of", "told", "tell", "hear", "say", "look", "go", "give", "see"];

const RETIRED_FILES: &[&str] = &[
    "ended", "fresh", "hands", "kept", "known", "late", "look", "passage", "place", "purse", "said", "shelf",
    "steer", "talk", "tell", "telling", "think", "walk", "way",
];

const TYPE_KEYWORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];

#[test]
fn no_definition_has_a_retired_name() {
    let mut problems = Vec::new();
    for file in source_files() {
        let text = fs::read_to_string(&file).expect("a readable source file");
        for (index, line) in text.lines().enumerate() {
            if let Some(name) = retired_name(line) {
                problems.push(format!("{}:{}: `{name}`", file.display(), index + 1));
            }
        }
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let folder =
            file.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
        if let Some(name) = [stem, folder].into_iter().find(|name| RETIRED_FILES.contains(name)) {
            problems.push(format!("{}: the file or folder name `{name}`", file.display()));
        }
    }
    assert!(
        problems.is_empty(),
        "retired names; docs/vocabulary.md has the words to use instead:\n{}",
        problems.join("\n")
    );
}

#[test]
fn a_retired_definition_is_found_however_it_is_written() {
    check("pub(crate) struct Doorman<'a> {", Some("Doorman"));
    check("    pub async fn tell(&self) {", Some("tell"));
    check("pub const fn of(text: &str) -> Self {", Some("of"));
    check("type Known = HashMap<u8, u8>;", Some("Known"));
    check("pub struct KnownTools;", None);
    check("fn offset() {}", None);
    check("/// A struct Door is no definition when it stands in a comment.", None);
    check("let of = 1;", None);
}

#[track_caller]
fn check(line: &str, expected: Option<&str>) {
    assert_eq!(retired_name(line), expected, "{line}");
}

/// Returns the retired name that a line defines, if it defines one.
fn retired_name(line: &str) -> Option<&str> {
    if line.trim_start().starts_with("//") {
        return None;
    }
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        let retired = match word {
            "fn" => RETIRED_FUNCTIONS,
            word if TYPE_KEYWORDS.contains(&word) => RETIRED_TYPES,
            // Only visibility and qualifiers stand before a definition's keyword.
            "pub" | "crate" | "super" | "in" | "async" | "const" | "unsafe" | "extern" => continue,
            _ => return None,
        };
        return words.next().filter(|name| retired.contains(name));
    }
    None
}

/// Every Rust file below `crates/*/src`.
fn source_files() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).expect("the folder of all crates") {
        collect(&entry.expect("an entry").path().join("src"), &mut files);
    }
    assert!(!files.is_empty(), "no Rust files below {}", crates.display());
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
