//! The settings of a server or command: from flags, else `EMERGENT_*` variables, else `emergent.toml`, else
//! defaults.

mod environment;
mod file;
mod services;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use clap::Args;
use emergent_api::{AllowedHosts, server::TlsFiles};
use emergent_domain::mcp_server::ProgramPatterns;
use emergent_executor::webhooks::{self, ServerWebhook};
use emergent_secrets::Secret;
use emergent_store::TimeLimits;

use self::{
    environment::{env_bool, env_number, seconds, similarity},
    file::ConfigFile,
};
pub use self::{
    environment::{env_names, env_value, parse_duration},
    file::log_settings,
};
use crate::{
    error::{Error, Result},
    logs,
    settings_report::SettingOrigins,
};

pub const DEFAULT_LISTEN: &str = "127.0.0.1:4400";
const DEFAULT_MAX_RUNS: usize = 256;
const DEFAULT_MAX_TASKS: usize = 256;
const DEFAULT_INVOKE_RATE: usize = 60;
const DEFAULT_DELETED_PROJECT_RETENTION: &str = "30d";
const DEFAULT_DATABASE_CONNECTIONS: usize = 32;

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
    /// How many runs a minute one token may start of one external agent.
    pub invoke_rate: usize,
    /// The `emergent.toml` that was read, if there is one.
    pub file: Option<PathBuf>,
    /// Where the values came from.
    pub origins: SettingOrigins,
}

impl Settings {
    /// Loads the settings. `listen` is the flag of `emergent serve`.
    pub fn load(store: &StoreFlags, listen: Option<String>) -> Result<Self> {
        let (file, table, path) = file::read()?;
        let origins = SettingOrigins { flags: flag_values(store, listen.as_deref()), file: table };
        Self::from_file(store, listen, file, path, origins.clone())
            .map_err(|error| error.naming_source(&origins))
    }

    /// Refuses a data folder that is a file. Only what uses the folder asks: a command with `--server` does not.
    pub fn check_data_folder(&self) -> Result<()> {
        if !self.data_dir.is_file() {
            return Ok(());
        }
        let way_out = match self.origins.place("EMERGENT_DATA_DIR") {
            Some(place) => format!("{place} has to name a folder"),
            None => "move it away, or name a folder with --data-dir".to_owned(),
        };
        Err(Error::Usage(format!("the data folder `{}` is a file: {way_out}", self.data_dir.display())))
    }

    /// The settings with those of the file, which was read from `path`.
    fn from_file(
        store: &StoreFlags,
        listen: Option<String>,
        file: ConfigFile,
        path: Option<PathBuf>,
        origins: SettingOrigins,
    ) -> Result<Self> {
        check_log_settings()?;
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
        let allowed_hosts = env_value("EMERGENT_ALLOWED_HOSTS").or(file.allowed_hosts);
        if let Some(names) = &allowed_hosts {
            AllowedHosts::check_names(names)
                .map_err(|reason| Error::setting("EMERGENT_ALLOWED_HOSTS", reason))?;
        }
        let database_connections = env_number("EMERGENT_DATABASE_CONNECTIONS")?
            .or(file.database_connections)
            .unwrap_or(DEFAULT_DATABASE_CONNECTIONS);
        if database_connections == 0 {
            return Err(Error::setting("EMERGENT_DATABASE_CONNECTIONS", "must be 1 or more"));
        }
        let invoke_rate =
            env_number("EMERGENT_INVOKE_RATE")?.or(file.invoke_rate).unwrap_or(DEFAULT_INVOKE_RATE);
        if invoke_rate == 0 {
            return Err(Error::setting("EMERGENT_INVOKE_RATE", "must be 1 or more, in runs a minute"));
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
            database_connections,
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
            github_url: http_url(
                "EMERGENT_GITHUB_URL",
                env_value("EMERGENT_GITHUB_URL").or(file.github_url),
            )?,
            tls: tls_files(
                env_value("EMERGENT_TLS_CERT").map(PathBuf::from).or(file.tls_cert),
                env_value("EMERGENT_TLS_KEY").map(PathBuf::from).or(file.tls_key),
            )?,
            allowed_hosts,
            webhook: server_webhook(
                env_value("EMERGENT_WEBHOOK_URL").or(file.webhook_url),
                env_value("EMERGENT_WEBHOOK_SECRET"),
            )?,
            invoke_rate,
            data_dir,
            file: path,
            origins,
        })
    }
}

/// Refuses settings of the logs that cannot be used. Logging has started already, with the defaults in their place.
fn check_log_settings() -> Result<()> {
    let (filter, format) = log_settings();
    if let Some(problem) = filter.as_deref().and_then(logs::filter_problem) {
        return Err(Error::setting("EMERGENT_LOG", problem));
    }
    match format.as_deref().and_then(logs::format_problem) {
        Some(problem) => Err(Error::setting("EMERGENT_LOG_FORMAT", problem)),
        None => Ok(()),
    }
}

/// An address of another server, which has to be a URL.
fn http_url(name: &'static str, value: Option<String>) -> Result<Option<String>> {
    let Some(text) = value else { return Ok(None) };
    let is_http = reqwest::Url::parse(&text)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    match is_http {
        true => Ok(Some(text)),
        false => Err(Error::setting(name, "has to be an http or https URL")),
    }
}

/// The files for TLS. Only one of the two is an error: to serve without TLS instead would send tokens
/// unencrypted.
fn tls_files(certificate: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<TlsFiles>> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(Error::setting("EMERGENT_TLS_KEY", "is missing; the certificate needs its key"))
        }
        (None, Some(_)) => Err(Error::setting(
            "EMERGENT_TLS_CERT",
            "is missing; the key is of no use without its certificate",
        )),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_folder_that_is_a_file_is_refused_with_the_place_that_names_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let flags = StoreFlags { data_dir: Some(file.path().to_owned()), database_url: None };
        let mut settings = Settings::load(&flags, None).unwrap();
        let refused = |settings: &Settings| settings.check_data_folder().unwrap_err().to_string();
        let by_flag = refused(&settings);
        assert!(by_flag.ends_with("is a file: `--data-dir` has to name a folder"), "{by_flag}");
        settings.origins.flags.clear();
        let by_default = refused(&settings);
        assert!(by_default.ends_with("move it away, or name a folder with --data-dir"), "{by_default}");
        settings.origins.file.insert("data-dir".to_owned(), "x".into());
        let by_file = refused(&settings);
        assert!(by_file.ends_with("`data-dir` in `emergent.toml` has to name a folder"), "{by_file}");
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
