//! Reads and validates product manifests in local files, which a server cannot read.

use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
};

use emergent_domain::{foreign_json, tool_name};
use emergent_llm::Script;
use emergent_products::{
    ManifestProblem, ManifestSource, ProjectState, ToolForecast,
    validate::{InstallContext, core_version, parse_json, parse_with_problems, validate as check},
};
use emergent_tools::ToolPool;
use emergent_wire::product::InstallProduct;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    messages,
    output::{self, green, red},
};

/// The request to install from a source: with the manifest when the source is a local file, else with the
/// source for the server to fetch.
pub fn install_request(source: &str) -> Result<InstallProduct> {
    let path = Path::new(source);
    if source == "-" || path.exists() {
        let (_, text) = read_manifest(source)?;
        let manifest: Value = foreign_json::from_slice(&text)
            .map_err(|error| Error::Usage(format!("`{source}` is not JSON: {error}")))?;
        messages::remember_file(path);
        return Ok(InstallProduct { manifest: Some(manifest), ..InstallProduct::default() });
    }
    match source.parse::<ManifestSource>() {
        Ok(_) => Ok(InstallProduct { source: Some(source.to_owned()), ..InstallProduct::default() }),
        Err(error) => Err(Error::Usage(format!("there is no file `{source}`, and {error}"))),
    }
}

/// The text of a manifest and its folder; no folder when it comes from standard input.
fn read_manifest(source: &str) -> Result<(Option<PathBuf>, Vec<u8>)> {
    if source == "-" {
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text)?;
        return Ok((None, text));
    }
    let path = PathBuf::from(source);
    let file = if path.is_dir() { path.join("manifest.json") } else { path };
    let text = std::fs::read(&file).map_err(|source| Error::input_file(&file, source))?;
    Ok((file.parent().map(Path::to_path_buf), text))
}

/// Validates a manifest, and the rehearsal script beside it, without a server; prints the problems.
pub fn validate(source: &str, as_json: bool) -> Result<()> {
    let (folder, text) = read_manifest(source)?;
    let (name, mut problems) = match parse_json(&text).and_then(parse_with_problems) {
        Ok(manifest) => {
            let tools = ToolForecast::after_change(&builtin_tools(), &ProjectState::default(), &manifest)
                .available_names(&manifest);
            let context = InstallContext {
                core: core_version(),
                tools,
                agents: BTreeMap::new(),
                providers: Vec::new(),
            };
            (format!("{} {}", manifest.name, manifest.version), check(&manifest, &context))
        }
        Err(problems) => (source.to_owned(), problems),
    };
    problems.extend(folder.and_then(|folder| rehearsal_problem(&folder)));
    if as_json {
        let problems_json: Vec<_> = problems.iter().map(ProblemJson::new).collect();
        output::print_json(&json!({ "valid": problems.is_empty(), "problems": problems_json }))?;
    } else {
        for problem in &problems {
            output::print_item(&format!("{} ", red("✗")), &problem.to_string())?;
        }
        if problems.is_empty() {
            output::print_line(&format!("{} {name} is fine", green("✓")))?;
        }
    }
    match problems.len() {
        0 => Ok(()),
        1 => Err(Error::Usage("one thing is wrong with the manifest".to_owned())),
        count => Err(Error::Usage(format!("{count} things are wrong with the manifest"))),
    }
}

/// The tools that every project has. Tools of a project's MCP servers are known only to that project.
fn builtin_tools() -> Vec<String> {
    let tools = emergent_tools::builtin::tools().into_iter().chain(emergent_coordination::tools::tools());
    let mut names = ToolPool::new(tools.collect::<Vec<_>>()).builtin_names();
    names.extend(tool_name::COORDINATION_TOOLS.iter().map(|name| (*name).to_owned()));
    names
}

/// The problem with the rehearsal script in a folder; `None` when there is no script or it is valid.
fn rehearsal_problem(folder: &Path) -> Option<ManifestProblem> {
    let text = std::fs::read_to_string(folder.join("rehearsal.yaml")).ok()?;
    let error = Script::parse(&text).err()?;
    Some(ManifestProblem::new("", format!("the rehearsal.yaml beside it cannot be played: {error}")))
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
