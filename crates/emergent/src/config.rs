//! The settings of a server or command: from flags, else `EMERGENT_*` variables, else `emergent.toml`, else
//! defaults.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use emergent_api::server::TlsFiles;
use emergent_domain::{agent::ModelConfig, mcp_server::ProgramPatterns};
use emergent_executor::webhooks::{self, ServerWebhook};
use emergent_llm::{Credentials, EmbedderSpec, ModelSettings};
use emergent_secrets::Secret;
use emergent_store::{DbConfig, TimeLimits};
use emergent_wire::diagnostics::SettingView;
use serde::Deserialize;

use crate::{
    datadir::DATABASE,
    error::{Error, Result},
    settings_report::{SettingOrigins, describe_settings},
};

pub const DEFAULT_LISTEN: &str = "127.0.0.1:4400";
const DEFAULT_MAX_RUNS: usize = 256;
const DEFAULT_MAX_TASKS: usize = 256;
const DEFAULT_DELETED_PROJECT_RETENTION: &str = "30d";
const DEFAULT_DATABASE_CONNECTIONS: usize = 32;
const CONFIG_FILE: &str = "emergent.toml";

// Where the data is. These flags are global.
#[derive(Debug, Clone, Default, Args)]
pub struct StoreFlags {
    /// Folder of the embedded database, the admin token and the keys [default: ./data]
    #[arg(long, global = true, env = "EMERGENT_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// PostgreSQL with pgvector, instead of the embedded database
    #[arg(long, global = true, env = "EMERGENT_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<String>,
}

/// The content of `emergent.toml` in the working directory. Unknown names are refused: otherwise a misspelt
/// setting would silently have no effect.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ConfigFile {
    listen: Option<String>,
    data_dir: Option<PathBuf>,
    database_url: Option<String>,
    database_connections: Option<usize>,
    statement_cache: Option<bool>,
    query_timeout: Option<usize>,
    write_timeout: Option<usize>,
    embeddings: Option<String>,
    min_similarity: Option<f64>,
    min_passage_similarity: Option<f64>,
    model: Option<String>,
    model_calls: Option<usize>,
    model_prices: Option<String>,
    rehearsals: Option<String>,
    recordings: Option<String>,
    max_runs: Option<usize>,
    max_project_runs: Option<usize>,
    max_tasks: Option<usize>,
    deleted_project_retention: Option<String>,
    judge_model: Option<String>,
    allow_stdio: Option<bool>,
    stdio_programs: Option<String>,
    allow_private_hosts: Option<bool>,
    github_url: Option<String>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    allowed_hosts: Option<String>,
    webhook_url: Option<String>,
}

/// The effective settings.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: String,
    pub data_dir: PathBuf,
    pub database_url: Option<String>,
    pub database_connections: usize,
    pub statement_cache: bool,
    /// How long a read and a write of the database may take.
    pub time_limits: TimeLimits,
    pub embeddings: String,
    /// The cosine below which a hit by meaning is dropped; `None` for the embedder's own.
    pub min_similarity: Option<f64>,
    /// The same for passages of documents.
    pub min_passage_similarity: Option<f64>,
    /// Runs that this process drives concurrently.
    pub max_runs: usize,
    /// How many of them may belong to one project; `None` for three quarters.
    pub max_project_runs: Option<usize>,
    /// How long the rows of a deleted project are kept.
    pub deleted_project_retention: Duration,
    /// Tasks of workflows that this process runs concurrently.
    pub max_tasks: usize,
    /// The model that chooses agents and judges results where rules do not decide, as `provider/name`.
    pub judge_model: Option<String>,
    /// A model that replaces the model of every agent, as `provider/name`.
    pub model: Option<String>,
    /// How many calls to one provider may be in flight at once.
    pub model_calls: Option<String>,
    pub model_prices: Option<String>,
    /// Folders of rehearsal scripts, separated as in `PATH`.
    pub rehearsals: String,
    pub recordings: Option<String>,
    /// Whether MCP servers may be programs that this server starts.
    pub allow_stdio: bool,
    /// The programs that tokens of one project may configure as MCP servers.
    pub stdio_programs: ProgramPatterns,
    /// Whether requests to loopback, link-local and private addresses are allowed where a user gives a URL.
    pub allow_private_hosts: bool,
    /// The base URL used in place of GitHub's.
    pub github_url: Option<String>,
    /// The certificate and its key; without them the server speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// Host names that requests may have in their `Host` header, separated by commas.
    pub allowed_hosts: Option<String>,
    /// Where notices of the inboxes of all projects are sent, and what signs them.
    pub webhook: Option<ServerWebhook>,
    /// The `emergent.toml` that was read, if there is one.
    pub file: Option<PathBuf>,
    /// Where the values came from.
    pub origins: SettingOrigins,
}

impl Settings {
    /// Loads the settings. `listen` is the flag of `emergent serve`.
    pub fn load(store: &StoreFlags, listen: Option<String>) -> Result<Self> {
        let (file, table, path) = read_file(Path::new(CONFIG_FILE))?;
        let origins = SettingOrigins { flags: flag_values(store, listen.as_deref()), file: table };
        let data_dir = store.data_dir.clone().or(file.data_dir).unwrap_or_else(|| PathBuf::from("data"));
        let defaults = TimeLimits::default();
        let max_runs = env_number("EMERGENT_MAX_RUNS")?.or(file.max_runs).unwrap_or(DEFAULT_MAX_RUNS);
        if max_runs == 0 {
            return Err(Error::setting("EMERGENT_MAX_RUNS", "must be 1 or more"));
        }
        let max_project_runs = env_number("EMERGENT_MAX_PROJECT_RUNS")?.or(file.max_project_runs);
        if max_project_runs.is_some_and(|of_project| of_project == 0 || of_project > max_runs) {
            let range = format!("must be 1 to {max_runs}, the limit of all projects (EMERGENT_MAX_RUNS)");
            return Err(Error::setting("EMERGENT_MAX_PROJECT_RUNS", range));
        }
        let deleted_project_retention = env_value("EMERGENT_DELETED_PROJECT_RETENTION")
            .or(file.deleted_project_retention)
            .unwrap_or_else(|| DEFAULT_DELETED_PROJECT_RETENTION.to_owned());
        let deleted_project_retention = parse_duration(&deleted_project_retention).ok_or_else(|| {
            let text = format!("`{deleted_project_retention}` is not a time such as `30d`, `12h` or `0s`");
            Error::setting("EMERGENT_DELETED_PROJECT_RETENTION", text)
        })?;
        let max_tasks = env_number("EMERGENT_MAX_TASKS")?.or(file.max_tasks).unwrap_or(DEFAULT_MAX_TASKS);
        if max_tasks == 0 {
            return Err(Error::setting("EMERGENT_MAX_TASKS", "must be 1 or more"));
        }
        Ok(Self {
            listen: listen
                .or_else(|| env_value("EMERGENT_LISTEN"))
                .or(file.listen)
                .unwrap_or_else(|| DEFAULT_LISTEN.to_owned()),
            database_url: store
                .database_url
                .clone()
                .or_else(|| env_value("DATABASE_URL"))
                .or(file.database_url),
            database_connections: env_number("EMERGENT_DATABASE_CONNECTIONS")?
                .or(file.database_connections)
                .unwrap_or(DEFAULT_DATABASE_CONNECTIONS),
            statement_cache: env_bool("EMERGENT_STATEMENT_CACHE")?.or(file.statement_cache).unwrap_or(true),
            time_limits: TimeLimits {
                read: seconds("EMERGENT_QUERY_TIMEOUT", file.query_timeout, defaults.read)?,
                write: seconds("EMERGENT_WRITE_TIMEOUT", file.write_timeout, defaults.write)?,
            },
            embeddings: env_value("EMERGENT_EMBEDDINGS")
                .or(file.embeddings)
                .unwrap_or_else(|| "builtin".to_owned()),
            min_similarity: similarity("EMERGENT_MIN_SIMILARITY", file.min_similarity)?,
            min_passage_similarity: similarity(
                "EMERGENT_MIN_PASSAGE_SIMILARITY",
                file.min_passage_similarity,
            )?,
            max_runs,
            max_project_runs,
            deleted_project_retention,
            max_tasks,
            judge_model: env_value("EMERGENT_JUDGE_MODEL").or(file.judge_model),
            model: env_value("EMERGENT_MODEL").or(file.model),
            model_calls: env_value("EMERGENT_MODEL_CALLS")
                .or(file.model_calls.map(|calls| calls.to_string())),
            model_prices: env_value("EMERGENT_MODEL_PRICES").or(file.model_prices),
            rehearsals: env_value("EMERGENT_REHEARSALS")
                .or(file.rehearsals)
                .unwrap_or_else(|| data_dir.join("rehearsals").to_string_lossy().into_owned()),
            recordings: env_value("EMERGENT_RECORDINGS").or(file.recordings),
            allow_stdio: env_bool("EMERGENT_ALLOW_STDIO")?.or(file.allow_stdio).unwrap_or(true),
            stdio_programs: env_value("EMERGENT_STDIO_PROGRAMS")
                .or(file.stdio_programs)
                .map(|text| ProgramPatterns::parse(&text))
                .transpose()
                .map_err(|error| Error::setting("EMERGENT_STDIO_PROGRAMS", error))?
                .unwrap_or_default(),
            allow_private_hosts: env_bool("EMERGENT_ALLOW_PRIVATE_HOSTS")?
                .or(file.allow_private_hosts)
                .unwrap_or(false),
            github_url: env_value("EMERGENT_GITHUB_URL").or(file.github_url),
            tls: tls_files(
                env_value("EMERGENT_TLS_CERT").map(PathBuf::from).or(file.tls_cert),
                env_value("EMERGENT_TLS_KEY").map(PathBuf::from).or(file.tls_key),
            )?,
            allowed_hosts: env_value("EMERGENT_ALLOWED_HOSTS").or(file.allowed_hosts),
            webhook: server_webhook(
                env_value("EMERGENT_WEBHOOK_URL").or(file.webhook_url),
                env_value("EMERGENT_WEBHOOK_SECRET"),
            )?,
            data_dir,
            file: path,
            origins,
        })
    }

    pub fn database(&self) -> DbConfig {
        match &self.database_url {
            Some(url) => DbConfig::Postgres {
                url: url.clone(),
                connections: self.database_connections,
                statement_cache: self.statement_cache,
            },
            None => DbConfig::Sqlite { path: self.data_dir.join(DATABASE) },
        }
    }

    /// Describes every setting in force and its source, without secret values.
    pub fn describe(&self) -> Vec<SettingView> {
        describe_settings(&self.origins, &self.data_dir)
    }

    pub fn cleanup(&self) -> emergent_graph::cleanup::CleanupSettings {
        let deleted_project_retention = self.deleted_project_retention;
        emergent_graph::cleanup::CleanupSettings { deleted_project_retention }
    }

    pub fn external_servers(&self) -> emergent_tools::remote::RemoteSettings {
        emergent_tools::remote::RemoteSettings {
            allow_stdio: self.allow_stdio,
            programs: self.stdio_programs.clone(),
            hidden_folder: Some(self.data_dir.clone()),
            // This path names the running binary, also after a newer one has taken its place.
            supervisor: cfg!(target_os = "linux").then(|| PathBuf::from("/proc/self/exe")),
            allow_private_hosts: self.allow_private_hosts,
            ..Default::default()
        }
    }

    pub fn coordination(&self) -> Result<emergent_coordination::Settings> {
        let judge = self.judge_model.as_deref().map(|text| {
            let model = text.parse::<ModelConfig>();
            model.map_err(|error| Error::setting("EMERGENT_JUDGE_MODEL", error.to_string()))
        });
        Ok(emergent_coordination::Settings {
            max_tasks: self.max_tasks,
            judge: judge.transpose()?,
            ..Default::default()
        })
    }

    pub fn products(&self) -> emergent_products::Settings {
        emergent_products::Settings {
            allow_stdio: self.allow_stdio,
            programs: self.stdio_programs.clone(),
            allow_private_hosts: self.allow_private_hosts,
            github_url: self.github_url.clone(),
        }
    }

    pub fn embedder(&self) -> Result<EmbedderSpec> {
        self.embeddings.parse().map_err(|source| Error::setting("EMERGENT_EMBEDDINGS", source))
    }

    /// How the models of agents are reached. Keys come from the environment only, because a configuration
    /// file is easily copied or committed.
    pub fn models(&self) -> ModelSettings {
        let gcloud = env_value("HOME")
            .map(|home| format!("{home}/.config/gcloud/application_default_credentials.json"));
        ModelSettings {
            model: self.model.clone(),
            calls_at_once: self.model_calls.clone(),
            prices: self.model_prices.clone(),
            rehearsals: Some(self.rehearsals.clone()),
            recordings: self.recordings.clone(),
            gemini_api_key: env_value("GEMINI_API_KEY"),
            google_base_url: env_value("EMERGENT_GOOGLE_BASE_URL"),
            vertex_credentials: env_value("GOOGLE_APPLICATION_CREDENTIALS"),
            gcloud_credentials: gcloud,
            vertex_project: env_value("GOOGLE_CLOUD_PROJECT"),
            vertex_location: env_value("GOOGLE_CLOUD_LOCATION"),
            vertex_base_url: env_value("EMERGENT_VERTEX_BASE_URL"),
            metadata_host: env_value("GCE_METADATA_HOST"),
            openai_api_key: env_value("OPENAI_API_KEY"),
            openai_base_url: env_value("EMERGENT_OPENAI_BASE_URL"),
            anthropic_api_key: env_value("ANTHROPIC_API_KEY"),
            anthropic_base_url: env_value("EMERGENT_ANTHROPIC_BASE_URL"),
            anthropic_version: env_value("EMERGENT_ANTHROPIC_VERSION"),
            ollama_host: env_value("OLLAMA_HOST"),
        }
    }

    /// The credentials of embedding providers, from the variables that each provider's own tools use.
    pub fn credentials() -> Credentials {
        Credentials {
            gemini_api_key: env_value("GEMINI_API_KEY"),
            google_base_url: env_value("EMERGENT_GOOGLE_BASE_URL"),
            openai_api_key: env_value("OPENAI_API_KEY"),
            openai_base_url: env_value("EMERGENT_OPENAI_BASE_URL"),
            ollama_host: env_value("OLLAMA_HOST"),
        }
    }
}

/// The files for TLS. Only one of the two is an error: to serve without TLS instead would send tokens
/// unencrypted.
fn tls_files(certificate: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<TlsFiles>> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(Error::setting("EMERGENT_TLS_KEY", "is missing; EMERGENT_TLS_CERT needs its key"))
        }
        (None, Some(_)) => {
            Err(Error::setting("EMERGENT_TLS_CERT", "is missing; EMERGENT_TLS_KEY is of no use without it"))
        }
    }
}

/// The webhook of the server. Notices are always signed, so an address without a secret is an error.
fn server_webhook(url: Option<String>, secret: Option<String>) -> Result<Option<ServerWebhook>> {
    match (url, secret) {
        (Some(url), Some(secret)) => {
            // The operator names the address, so it may be a private one.
            webhooks::check_url(&url, true)
                .map_err(|reason| Error::setting("EMERGENT_WEBHOOK_URL", reason))?;
            Ok(Some(ServerWebhook { url, secret: Secret::new(secret) }))
        }
        (None, None) => Ok(None),
        (Some(_), None) => {
            let message =
                "`EMERGENT_WEBHOOK_SECRET` is missing: it signs what is sent to EMERGENT_WEBHOOK_URL";
            Err(Error::Usage(message.to_owned()))
        }
        (None, Some(_)) => {
            let message =
                "`EMERGENT_WEBHOOK_URL` is missing: EMERGENT_WEBHOOK_SECRET is of no use without it";
            Err(Error::Usage(message.to_owned()))
        }
    }
}

/// The value of an environment variable; `None` when it is unset or empty.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub fn env_value(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The names of all environment variables.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub fn env_names() -> Vec<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
}

fn env_number(name: &str) -> Result<Option<usize>> {
    env_value(name)
        .map(|text| text.parse().map_err(|_| Error::setting(name, format!("`{text}` is not a whole number"))))
        .transpose()
}

/// A time in whole seconds.
fn seconds(name: &str, in_file: Option<usize>, default: Duration) -> Result<Duration> {
    match env_number(name)?.or(in_file) {
        None => Ok(default),
        Some(0) => Err(Error::setting(name, "must be 1 or more")),
        Some(seconds) => Ok(Duration::from_secs(seconds as u64)),
    }
}

fn env_bool(name: &str) -> Result<Option<bool>> {
    env_value(name)
        .map(|text| match text.as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(Error::setting(name, format!("`{text}` is neither true nor false"))),
        })
        .transpose()
}

/// A whole number of days, hours, minutes or seconds, at most a hundred years.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds: u64 = match unit {
        "d" => 24 * 60 * 60,
        "h" => 60 * 60,
        "m" => 60,
        "s" => 1,
        _ => return None,
    };
    let total = number.parse::<u64>().ok()?.checked_mul(seconds)?;
    (total <= 36_500 * 24 * 60 * 60).then(|| Duration::from_secs(total))
}

/// The flags of the command line that were given, by setting.
fn flag_values(store: &StoreFlags, listen: Option<&str>) -> BTreeMap<&'static str, String> {
    let data_dir = store.data_dir.as_ref().map(|path| path.to_string_lossy().into_owned());
    let flags = [
        ("data-dir", data_dir),
        ("database-url", store.database_url.clone()),
        ("listen", listen.map(str::to_owned)),
    ];
    flags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn similarity(name: &'static str, in_file: Option<f64>) -> Result<Option<f64>> {
    let value = match env_value(name) {
        Some(text) => {
            Some(text.parse().map_err(|_| Error::setting(name, format!("`{text}` is not a number")))?)
        }
        None => in_file,
    };
    match value {
        Some(min) if !(-1.0..=1.0).contains(&min) => Err(Error::setting(name, "must be -1 to 1")),
        value => Ok(value),
    }
}

/// The content of the configuration file, also as a table, with its path; defaults without a path when there
/// is no file.
fn read_file(path: &Path) -> Result<(ConfigFile, toml::Table, Option<PathBuf>)> {
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

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, seconds) in [("30d", 2_592_000), ("12h", 43_200), ("5m", 300), ("0s", 0)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "30", "-1d", "1.5d", "30 d", "99999999999d", "1é"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn flags_win_over_defaults() {
        let flags = StoreFlags { data_dir: Some("elsewhere".into()), database_url: None };
        let settings = Settings::load(&flags, Some("127.0.0.1:1".to_owned())).unwrap();
        assert_eq!(
            (settings.listen.as_str(), settings.data_dir),
            ("127.0.0.1:1", PathBuf::from("elsewhere"))
        );
    }
}
