//! Checks settings that a server reads at its start and that no other check uses: files, folders and values that have to
//! be of a form, and variables that are none of the settings.

use emergent_api::server;
use emergent_llm::Models;
use emergent_wire::diagnostics::SettingView;

use super::{Finding, ok_finding, problem_finding, warning_finding};
use crate::{
    config::{self, Settings},
    datadir,
    error::Error,
    settings_report,
};

/// The section of what is found about settings.
pub const SECTION: &str = "configuration";
const FIX: &str = "correct the setting it names";

/// The findings about the settings of a server that would be started here.
pub fn check(settings: &Settings) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tls(settings).into_iter().collect();
    let errors = [judge(settings), datadir::check_given_admin_token(&settings.data_dir)];
    let problems = errors.into_iter().filter_map(Result::err);
    findings.extend(problems.map(|error| problem_finding(SECTION, error.describe(), FIX)));
    findings.extend(folders(&settings.describe()));
    findings
}

/// A warning for each variable of this terminal that looks like a setting and is none, as a server logs it.
pub fn unknown_variables() -> Vec<Finding> {
    let sentences = settings_report::unknown_variables(&config::env_names());
    sentences.into_iter().map(|sentence| warning_finding(SECTION, sentence)).collect()
}

/// Whether the certificate and its key can be read and belong together, as at the start of a server.
fn tls(settings: &Settings) -> Option<Finding> {
    let files = settings.tls.as_ref()?;
    Some(match server::check_tls(files) {
        Ok(()) => ok_finding("tls", format!("{} and its key can be used", files.certificate.display())),
        Err(error) => {
            let found = settings.tls_error(&error).describe();
            let [certificate, key] = ["EMERGENT_TLS_CERT", "EMERGENT_TLS_KEY"].map(|variable| {
                settings.origins.name_in_file(variable).unwrap_or_else(|| variable.to_owned())
            });
            problem_finding("tls", found, format!("correct {certificate} and {key}, or the files they name"))
        }
    })
}

/// Whether the judge is a model of a provider that there is.
fn judge(settings: &Settings) -> Result<(), Error> {
    let Some(judge) = settings.coordination()?.judge else { return Ok(()) };
    // What keeps the models from being set up is in the section about them.
    let Ok(models) = Models::from_settings(&settings.models()) else { return Ok(()) };
    models.check_provider(&judge).map_err(|error| settings.setting_error("EMERGENT_JUDGE_MODEL", error))
}

/// A warning for each folder that a setting names and that cannot be read.
fn folders(settings: &[SettingView]) -> Vec<Finding> {
    let sentences = settings_report::missing_folders(settings).into_iter();
    let warnings = sentences.map(|found| Finding {
        fix: Some("make the folder, or correct the setting".to_owned()),
        ..warning_finding(SECTION, found)
    });
    warnings.collect()
}
