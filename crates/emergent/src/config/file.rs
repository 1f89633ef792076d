//! The configuration file.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::{Error, Result};

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
    let file = toml::from_str(&text).map_err(|source| Error::setting(CONFIG_FILE, source))?;
    let table = toml::from_str(&text).map_err(|source| Error::setting(CONFIG_FILE, source))?;
    Ok((file, table, Some(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_setting_in_the_file_is_refused_by_name() {
        let error = toml::from_str::<ConfigFile>("listn = \"x\"").unwrap_err().to_string();
        assert!(error.contains("listn"), "{error}");
    }
}
