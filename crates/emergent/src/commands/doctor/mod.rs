//! `emergent doctor`: checks the configuration, the server and the projects, and prints a fix for each
//! problem.

mod contents;
mod products;
mod secrets;
mod servers;
mod setup;
mod triggers;

use serde::Serialize;

use crate::{
    config::{Settings, StoreFlags},
    error::{Error, Result},
    output,
};

/// The result of one check. Its fields are printed as JSON with `--json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    /// The section, such as `database`.
    what: &'static str,
    ok: bool,
    /// What the check found, in words.
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

fn ok_finding(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { what, ok: true, found: found.into(), fix: None }
}

fn problem_finding(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { what, ok: false, found: found.into(), fix: Some(fix.into()) }
}

/// Runs all checks and prints their findings; fails when one of them is a problem.
pub async fn run(store: &StoreFlags, as_json: bool) -> Result<()> {
    let mut findings = vec![ok_finding("version", env!("CARGO_PKG_VERSION"))];
    match Settings::load(store, None) {
        Err(error) => findings.push(problem_finding(
            "configuration",
            error.describe(),
            "correct emergent.toml or the variable",
        )),
        Ok(settings) => {
            let file = settings
                .file
                .as_ref()
                .map_or("no emergent.toml".to_owned(), |path| path.display().to_string());
            findings.push(ok_finding("configuration", file));
            let (finding, data_dir) = setup::data_folder(&settings);
            findings.push(finding);
            let (database, data) = setup::database(&settings, data_dir).await;
            findings.push(database);
            findings.push(setup::server(&settings).await);
            findings.push(setup::embeddings(&settings).await);
            findings.push(setup::models(&settings));
            findings.extend(contents::check_contents(&settings, data).await);
        }
    }
    if as_json {
        output::print_json(&findings)?;
    } else {
        for finding in &findings {
            let mark = if finding.ok { "✓" } else { "✗" };
            output::print_line(&format!("{mark} {:<14} {}", finding.what, finding.found))?;
            if let Some(fix) = &finding.fix {
                output::print_line(&format!("  {:<14} {}", "", output::bold(&format!("→ {fix}"))))?;
            }
        }
    }
    match findings.iter().filter(|finding| !finding.ok).count() {
        0 => Ok(()),
        1 => Err(Error::Usage("one thing is wrong".to_owned())),
        count => Err(Error::Usage(format!("{count} things are wrong"))),
    }
}
