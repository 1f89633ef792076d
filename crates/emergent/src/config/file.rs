//! The configuration file.

use std::path::{Path, PathBuf};

use emergent_domain::{pack::with_nearest_name, parse_message::in_plain_words};
use serde::Deserialize;

use super::env_value;
use crate::{
    error::{Error, Result},
    settings_report,
};

const CONFIG_FILE: &str = "emergent.toml";

/// The content of `emergent.toml` in the working directory. Unknown names are refused: otherwise a misspelt
/// setting would silently have no effect.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ConfigFile {
    pub listen: Option<String>,
    pub data_dir: Option<PathBuf>,
    pub database_url: Option<String>,
    pub database_connections: Option<usize>,
    pub statement_cache: Option<bool>,
    pub query_timeout: Option<usize>,
    pub write_timeout: Option<usize>,
    pub embeddings: Option<String>,
    pub min_similarity: Option<f64>,
    pub min_passage_similarity: Option<f64>,
    pub model: Option<String>,
    pub model_calls: Option<usize>,
    pub model_prices: Option<String>,
    pub rehearsals: Option<String>,
    pub recordings: Option<String>,
    pub max_runs: Option<usize>,
    pub max_project_runs: Option<usize>,
    pub max_tasks: Option<usize>,
    pub deleted_project_retention: Option<String>,
    pub judge_model: Option<String>,
    pub allow_stdio: Option<bool>,
    pub stdio_programs: Option<String>,
    pub allow_private_hosts: Option<bool>,
    pub github_url: Option<String>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub allowed_hosts: Option<String>,
    pub webhook_url: Option<String>,
    pub invoke_rate: Option<usize>,
    // Logging starts before the settings are loaded, so `log_settings` reads these two.
    #[expect(dead_code, reason = "`log_settings` reads it")]
    log: Option<String>,
    #[expect(dead_code, reason = "`log_settings` reads it")]
    log_format: Option<String>,
}

/// The content of the configuration file, also as a table, with its path; defaults without a path when there
/// is no file.
pub(super) fn read() -> Result<(ConfigFile, toml::Table, Option<PathBuf>)> {
    let path = Path::new(CONFIG_FILE);
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok((ConfigFile::default(), toml::Table::new(), None));
        }
        Err(source) => return Err(Error::File { path: path.to_owned(), source }),
    };
    let (file, table) = parse(&text)?;
    Ok((file, table, Some(path.to_owned())))
}

fn parse(text: &str) -> Result<(ConfigFile, toml::Table)> {
    let unusable = |error: toml::de::Error| {
        Error::setting(CONFIG_FILE, in_plain_words(&with_nearest_name(&error.to_string())))
    };
    let table: toml::Table = toml::from_str(text).map_err(unusable)?;
    for name in table.keys() {
        if let Some(variable) = settings_report::environment_variable(name) {
            let reason = format!(
                "`{name}` is not read from the file, which is easily copied or committed: set {variable} in the \
                 environment"
            );
            return Err(Error::setting(CONFIG_FILE, reason));
        }
    }
    Ok((toml::from_str(text).map_err(unusable)?, table))
}

/// The filter and the format of the logs: from the environment, else from the file. A file that cannot be used is
/// reported when the settings are loaded.
pub fn log_settings() -> (Option<String>, Option<String>) {
    let text = std::fs::read_to_string(CONFIG_FILE).unwrap_or_default();
    let table: toml::Table = toml::from_str(&text).unwrap_or_default();
    let in_file = |name: &str| table.get(name).and_then(toml::Value::as_str).map(str::to_owned);
    (
        env_value("EMERGENT_LOG").or_else(|| in_file("log")),
        env_value("EMERGENT_LOG_FORMAT").or_else(|| in_file("log-format")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_the_file_is_refused_with_its_variable() {
        for (text, variable) in [
            ("admin-token = \"x\"", "EMERGENT_ADMIN_TOKEN"),
            ("secret-key = \"x\"", "EMERGENT_SECRET_KEY"),
            ("webhook-secret = \"x\"", "EMERGENT_WEBHOOK_SECRET"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("set {variable} in the environment")), "{error}");
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused_in_plain_words() {
        for (text, expected) in [
            ("max-runs = \"x\"", "a whole number"),
            ("max-runs = -1", "a whole number"),
            ("min-similarity = true", "a number"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("expected {expected}")), "{error}");
        }
        assert!(parse("log = \"debug\"\nlog-format = \"json\"").is_ok());
    }

    #[test]
    fn a_misspelt_setting_in_the_file_is_refused_by_name() {
        let error = parse("listn = \"x\"").unwrap_err().to_string();
        assert!(error.contains("unknown field `listn` (did you mean `listen`?)"), "{error}");
    }
}
