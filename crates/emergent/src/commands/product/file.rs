//! Manifests in files and folders: only this side can read them.

use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
};

use emergent_domain::tool_name;
use emergent_llm::Script;
use emergent_products::{
    ManifestProblem, ManifestSource, ProjectState, ToolForecast,
    validate::{InstallContext, core_version, parse, validate as check},
};
use emergent_tools::ToolPool;
use emergent_wire::product::InstallProduct;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    output::{self, green, red},
};

/// What to install from a source: the manifest itself when it is a file, else where it is.
pub fn install_request(source: &str, dry_run: bool) -> Result<InstallProduct> {
    let path = Path::new(source);
    if source == "-" || path.exists() {
        let text = read_manifest(source)?.1;
        let manifest: Value = serde_json::from_slice(&text)
            .map_err(|error| Error::Usage(format!("`{source}` is not JSON: {error}")))?;
        return Ok(InstallProduct { manifest: Some(manifest), source: None, dry_run });
    }
    match source.parse::<ManifestSource>() {
        Ok(_) => Ok(InstallProduct { manifest: None, source: Some(source.to_owned()), dry_run }),
        Err(why) => Err(Error::Usage(format!("there is no file `{source}`, and {why}"))),
    }
}

/// The text of a manifest, and the folder it stands in.
fn read_manifest(source: &str) -> Result<(Option<PathBuf>, Vec<u8>)> {
    if source == "-" {
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text)?;
        return Ok((None, text));
    }
    let path = PathBuf::from(source);
    let file = if path.is_dir() { path.join("manifest.json") } else { path };
    let text = std::fs::read(&file).map_err(|source| Error::File { path: file.clone(), source })?;
    Ok((file.parent().map(Path::to_path_buf), text))
}

pub fn validate(source: &str, as_json: bool) -> Result<()> {
    let (folder, text) = read_manifest(source)?;
    let (name, mut problems) = match parse(&text) {
        Ok(manifest) => {
            let tools = ToolForecast::after_change(&builtin_tools(), &ProjectState::default(), &manifest)
                .available_names(&manifest);
            let around = InstallContext { core: core_version(), tools, agents: BTreeMap::new() };
            (format!("{} {}", manifest.name, manifest.version), check(&manifest, &around))
        }
        Err(problems) => (source.to_owned(), problems),
    };
    problems.extend(folder.and_then(|folder| rehearsal_problem(&folder)));
    if as_json {
        let told: Vec<_> = problems.iter().map(ProblemJson::new).collect();
        output::print_json(&json!({ "valid": problems.is_empty(), "problems": told }))?;
    } else {
        for problem in &problems {
            output::print_line(&format!("{} {problem}", red("✗")))?;
        }
        if problems.is_empty() {
            output::print_line(&format!("{} {name} is fine", green("✓")))?;
        }
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err(Error::Usage("one thing is wrong with the manifest".to_owned())),
        several => Err(Error::Usage(format!("{several} things are wrong with the manifest"))),
    }
}

/// The tools that every project has. Those of a project's own servers are known to the project.
fn builtin_tools() -> Vec<String> {
    let all = emergent_tools::builtin::tools().into_iter().chain(emergent_coordination::tools::tools());
    let mut names = ToolPool::new(all.collect::<Vec<_>>()).builtin_names();
    names.extend(tool_name::COORDINATION_TOOLS.iter().map(|name| (*name).to_owned()));
    names
}

/// What is wrong with the script beside a manifest, if there is one.
fn rehearsal_problem(folder: &Path) -> Option<ManifestProblem> {
    let text = std::fs::read_to_string(folder.join("rehearsal.yaml")).ok()?;
    let why = Script::parse(&text).err()?;
    Some(ManifestProblem::new("", format!("the rehearsal.yaml beside it cannot be played: {why}")))
}

/// A problem as `--json` prints it.
#[derive(Serialize)]
struct ProblemJson<'a> {
    pointer: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
}

impl<'a> ProblemJson<'a> {
    fn new(problem: &'a ManifestProblem) -> Self {
        Self { pointer: &problem.pointer, message: &problem.message, fix: problem.fix.as_deref() }
    }
}
