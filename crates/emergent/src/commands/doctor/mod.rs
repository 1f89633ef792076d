//! `emergent doctor`: checks the configuration, the server and the projects, and prints a fix for each
//! problem. A running server is asked, because its settings and its reach count; without one, the checks run in
//! this process.

mod address;
mod agents;
mod configuration;
mod contents;
mod packs;
mod products;
mod secrets;
mod server_state;
mod servers;
mod setup;
mod triggers;
mod usable_models;

use console::measure_text_width;
use serde::Serialize;
pub use usable_models::{MODEL_FIELD, UsableModels, fix_of_model_warning};

use crate::{
    build_info,
    client::{Client, DataAccess, ServerFlags, TokenSource},
    config::{Settings, StoreFlags},
    error::{Error, Result},
    output,
    text::indent_lines,
};

/// The spaces between the columns of the table of settings.
const COLUMN_GAPS: usize = 4;
/// The section of settings, which are printed as a table.
const SETTING: &str = "setting";

/// The result of one check. Its fields are printed as JSON with `--json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    /// The section, such as `database`.
    what: &'static str,
    /// Whether it is no problem. A warning is none.
    ok: bool,
    /// How it is marked; in JSON, its level.
    #[serde(rename = "level", serialize_with = "Mark::serialize_level")]
    mark: Mark,
    /// What the check found, in words.
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    /// Where the value of a setting comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

/// How a finding is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Good,
    /// Neither good nor bad.
    Neutral,
    /// It may be a problem.
    Warning,
    /// It is a problem.
    Problem,
}

impl Mark {
    /// The mark of a line.
    fn symbol(self) -> &'static str {
        match self {
            Self::Good => "✓",
            Self::Neutral => "–",
            Self::Warning => "!",
            Self::Problem => "✗",
        }
    }

    /// The word for it in JSON. What is neither good nor bad needs nobody's attention.
    fn level(self) -> &'static str {
        match self {
            Self::Good | Self::Neutral => "ok",
            Self::Warning => "warning",
            Self::Problem => "error",
        }
    }

    fn serialize_level<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.level())
    }
}

/// A finding that is neither good nor bad.
fn neutral_finding(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { mark: Mark::Neutral, ..ok_finding(what, found) }
}

/// A finding that may be a problem.
fn warning_finding(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { mark: Mark::Warning, ..ok_finding(what, found) }
}

fn ok_finding(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { what, ok: true, mark: Mark::Good, found: found.into(), fix: None, source: None }
}

fn problem_finding(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { what, ok: false, mark: Mark::Problem, found: found.into(), fix: Some(fix.into()), source: None }
}

/// Runs all checks and prints their findings; fails when one of them is a problem.
pub async fn run(server: &ServerFlags, store: &StoreFlags, as_json: bool) -> Result<()> {
    let mut findings = vec![ok_finding("version", build_info::VERSION)];
    findings.extend(match &server.server {
        Some(address) => check_server(server, store, address).await,
        None => check_local(store).await,
    });
    // Every command reads the variables of this terminal, also one that asks a server.
    let at = findings.iter().position(|finding| finding.what == configuration::SECTION).unwrap_or(0) + 1;
    findings.splice(at..at, configuration::unknown_variables());
    print(&findings, as_json)?;
    match findings.iter().filter(|finding| !finding.ok).count() {
        0 => Ok(()),
        1 => Err(Error::Usage("one thing is wrong".to_owned())),
        count => Err(Error::Usage(format!("{count} things are wrong"))),
    }
}

/// Checks a server that was named, and its projects.
async fn check_server(server: &ServerFlags, store: &StoreFlags, address: &str) -> Vec<Finding> {
    let fix = "check --server and --token";
    // The projects are checked one by one, whichever the flag names.
    let flags = ServerFlags { project: None, ..server.clone() };
    let client = match Client::connect(&flags, store, DataAccess::Existing).await {
        Ok(client) => client,
        Err(error) => return vec![problem_finding("server", error.describe(), fix)],
    };
    check_client(client, address, fix).await
}

/// Checks what the server at this address says about itself, then its projects.
async fn check_client(client: Client, address: &str, fix: &str) -> Vec<Finding> {
    let (mut findings, settings, models) = match server_state::load(&client).await {
        Ok(Some(state)) => (
            server_state::findings(address, &state),
            server_state::settings(&state.settings),
            Some(UsableModels::from_server(&state)),
        ),
        Ok(None) => {
            let found = "it does not describe its settings, because it is of an older version";
            (vec![ok_finding("server", found)], Vec::new(), None)
        }
        Err(error) => return vec![refused_finding(client.token_source(), address, &error, fix)],
    };
    findings.extend(contents::check_server_contents(client, models.as_ref()).await);
    findings.extend(settings);
    findings
}

/// The finding about a server that answers a request with this error.
fn refused_finding(source: &TokenSource, address: &str, error: &Error, fix: &str) -> Finding {
    match (source.name(), error) {
        (Some(name), Error::Refused { code, .. }) if code == "unauthorized" => problem_finding(
            "server",
            format!(
                "{address} answers, and does not accept the token of {name}: it is not known there, was revoked or has \
                 expired"
            ),
            source.way_out(),
        ),
        _ => problem_finding("server", error.describe(), fix),
    }
}

/// Checks the data folder of this machine, or the server that uses it.
async fn check_local(store: &StoreFlags) -> Vec<Finding> {
    let settings = match Settings::load(store, None) {
        Ok(settings) => settings,
        Err(error) => {
            let fix = "correct emergent.toml or the variable";
            return vec![problem_finding("configuration", error.describe(), fix)];
        }
    };
    let file =
        settings.file.as_ref().map_or("no emergent.toml".to_owned(), |path| path.display().to_string());
    let mut findings = vec![ok_finding("configuration", file)];
    let of_configuration = findings.len();
    let (finding, data_dir) = setup::data_folder(&settings);
    findings.push(finding);
    findings.extend(setup::exposed_secrets(&settings));
    let (database, data) = setup::database(&settings, data_dir).await;
    findings.push(database);
    let (server, address) = setup::server(&settings).await;
    findings.push(server);
    // What the server of the folder says about itself counts more than the settings of this terminal.
    if let Some(address) = address
        && let Ok(client) = Client::for_data_dir(&settings).await
    {
        let of_server = check_client(client, &address, "look at the server's log").await;
        // What the server says takes the place of what was found from outside.
        findings.retain(|finding| of_server.iter().all(|other| other.what != finding.what));
        findings.extend(server_state::ignored_variables(&settings.describe()));
        findings.extend(setup::missing_server_folders(&settings));
        findings.extend(of_server);
        return findings;
    }
    findings.splice(of_configuration..of_configuration, configuration::check(&settings));
    findings.push(address::check(&settings).await);
    findings.push(setup::embeddings(&settings).await);
    let (of_models, models) = setup::models(&settings).await;
    findings.extend(of_models);
    let contents = contents::check_contents(&settings, data, models.as_ref()).await;
    // A setting that keeps the projects from being checked has been named already.
    let is_known = |finding: &Finding| findings.iter().any(|known| known.found == finding.found);
    let contents: Vec<Finding> = contents.into_iter().filter(|finding| !is_known(finding)).collect();
    findings.extend(contents);
    findings.extend(server_state::settings(&settings.describe()));
    findings
}

fn print(findings: &[Finding], as_json: bool) -> Result<()> {
    if as_json {
        return output::print_json(&findings);
    }
    let (settings, checks): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| finding.what == SETTING);
    for finding in &checks {
        let mark = finding.mark.symbol();
        // A reason of a server may have several lines.
        output::print_item(&format!("{mark} {:<14} ", finding.what), &indent_lines(&finding.found))?;
        if let Some(fix) = &finding.fix {
            output::print_item(&format!("  {:<14} ", ""), &format!("→ {fix}"))?;
        }
    }
    if settings.is_empty() {
        return Ok(());
    }
    output::print_line("")?;
    if checks.iter().any(|finding| finding.found.starts_with(server_state::SERVER_CONFIGURATION)) {
        output::print_line("The settings of the running server:")?;
    }
    let rows: Vec<_> = settings
        .iter()
        .map(|finding| {
            let (name, value) = finding.found.split_once(" = ").unwrap_or((&finding.found, ""));
            vec![name.to_owned(), value.to_owned(), finding.source.clone().unwrap_or_default()]
        })
        .collect();
    // The name of a setting is there to be copied, so no column of it is made narrower.
    let width = |column: usize| rows.iter().map(|row| measure_text_width(&row[column])).max().unwrap_or(0);
    match output::terminal_width() {
        Some(columns) if width(0) + width(1) + width(2) + COLUMN_GAPS > columns => {
            let line = |row: &Vec<String>| format!("{} = {}  ({})", row[0], row[1], row[2]);
            rows.iter().try_for_each(|row| output::print_item("  ", &line(row)))
        }
        _ => output::print_table(&["SETTING", "VALUE", "FROM"], &rows),
    }
}
