//! Finds the commit that is built, for `emergent --version`: from `EMERGENT_COMMIT`, else from the git
//! directory around these sources, else from `commit.txt`, which `git archive` fills in. It runs no program,
//! so it works where git is not installed; without any of the three, the version has no commit.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// How many digits of a commit are shown.
const DIGITS: usize = 12;

fn main() {
    println!("cargo:rerun-if-env-changed=EMERGENT_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=commit.txt");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = env::var("EMERGENT_COMMIT").ok().and_then(|text| parse_commit(&text));
    match commit.or_else(commit_in_git).or_else(commit_in_archive) {
        Some(commit) => {
            println!("cargo:rustc-env=EMERGENT_BUILD_COMMIT={commit}");
            println!("cargo:rustc-env=EMERGENT_BUILD_VERSION={version} ({commit})");
        }
        None => println!("cargo:rustc-env=EMERGENT_BUILD_VERSION={version}"),
    }
}

/// The first digits of a commit; `None` for anything else.
fn parse_commit(text: &str) -> Option<String> {
    let text = text.trim();
    let is_commit = (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| text.chars().take(DIGITS).collect())
}

/// The commit of the git directory two folders above this package.
fn commit_in_git() -> Option<String> {
    let dot_git = Path::new("../../.git");
    // In a worktree, `.git` is a file that names the directory.
    let folder = match fs::read_to_string(dot_git) {
        Ok(text) => Path::new("../..").join(text.trim().strip_prefix("gitdir:")?.trim()),
        Err(_) => dot_git.to_owned(),
    };
    let head = read_watched(&folder.join("HEAD"))?;
    let Some(reference) = head.trim().strip_prefix("ref:").map(str::trim) else {
        return parse_commit(&head);
    };
    // The branches of a worktree are in the directory that it shares with the others.
    let shared: PathBuf = match fs::read_to_string(folder.join("commondir")) {
        Ok(text) => folder.join(text.trim()),
        Err(_) => folder,
    };
    if let Some(commit) = read_watched(&shared.join(reference)) {
        return parse_commit(&commit);
    }
    let packed = read_watched(&shared.join("packed-refs"))?;
    let line = packed.lines().find(|line| line.ends_with(&format!(" {reference}")))?;
    parse_commit(line.split(' ').next()?)
}

/// Reads a file, and lets cargo run this script again when it changes.
fn read_watched(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo:rerun-if-changed={}", path.display());
    Some(text)
}

fn commit_in_archive() -> Option<String> {
    parse_commit(&fs::read_to_string("commit.txt").ok()?)
}
