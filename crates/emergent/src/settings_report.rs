//! Describes every setting in force and where its value comes from, for `emergent doctor` and the API.
//! Secret values are left out.

use std::{collections::BTreeMap, path::Path};

use emergent_wire::diagnostics::{SettingSource, SettingView};

use crate::{commands::suggestion, config::env_value};

/// The sources of settings besides the environment: flags of the command line by setting, and the file.
#[derive(Debug, Clone, Default)]
pub struct SettingOrigins {
    pub flags: BTreeMap<&'static str, String>,
    pub file: toml::Table,
}

impl SettingOrigins {
    /// The name of the setting with this variable if its value is from `emergent.toml`; `None` otherwise.
    pub fn name_in_file(&self, variable: &str) -> Option<String> {
        let (name, source) = self.source(variable)?;
        (source == SettingSource::File).then(|| named_in_file(name))
    }

    /// How a message names the place that has the value of the setting with this variable: the flag, the variable or the
    /// file. `None` for a default.
    pub fn place(&self, variable: &str) -> Option<String> {
        let (name, source) = self.source(variable)?;
        match source {
            SettingSource::Flag => Some(format!("`--{name}`")),
            SettingSource::Environment => Some(format!("`{variable}`")),
            SettingSource::File => Some(named_in_file(name)),
            SettingSource::Default => None,
        }
    }

    /// The name of the setting with this variable, and where its value is from.
    fn source(&self, variable: &str) -> Option<(&'static str, SettingSource)> {
        let (name, ..) = DEFINITIONS.iter().find(|definition| definition.1 == variable)?;
        let (_, source) = find_value(name, variable, self, env_value(variable));
        Some((*name, source))
    }
}

/// How a message names a setting whose value is from `emergent.toml`.
pub fn named_in_file(name: &str) -> String {
    format!("`{name}` in `emergent.toml`")
}

/// What may be shown of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Visibility {
    Shown,
    /// A URL without user, password and query.
    Address,
    Hidden,
}

use Visibility::{Address, Hidden, Shown};

/// A setting: its name in `emergent.toml`, its variable, its default, and what may be shown of it. A setting
/// that only the environment has is named after its variable.
type Definition = (&'static str, &'static str, Option<&'static str>, Visibility);

const DEFINITIONS: [Definition; 54] = [
    ("allow-private-hosts", "EMERGENT_ALLOW_PRIVATE_HOSTS", Some("false"), Shown),
    ("allow-stdio", "EMERGENT_ALLOW_STDIO", Some("true"), Shown),
    ("allowed-hosts", "EMERGENT_ALLOWED_HOSTS", None, Shown),
    ("data-dir", "EMERGENT_DATA_DIR", Some("data"), Shown),
    ("database-connections", "EMERGENT_DATABASE_CONNECTIONS", Some("32"), Shown),
    ("database-url", "EMERGENT_DATABASE_URL", None, Address),
    ("deleted-project-retention", "EMERGENT_DELETED_PROJECT_RETENTION", Some("30d"), Shown),
    ("embeddings", "EMERGENT_EMBEDDINGS", Some("builtin"), Shown),
    ("github-url", "EMERGENT_GITHUB_URL", Some("https://github.com"), Address),
    ("invoke-rate", "EMERGENT_INVOKE_RATE", Some("60"), Shown),
    ("judge-model", "EMERGENT_JUDGE_MODEL", None, Shown),
    ("listen", "EMERGENT_LISTEN", Some(crate::config::DEFAULT_LISTEN), Shown),
    ("log", "EMERGENT_LOG", Some("info"), Shown),
    ("log-format", "EMERGENT_LOG_FORMAT", Some("text"), Shown),
    ("max-project-runs", "EMERGENT_MAX_PROJECT_RUNS", None, Shown),
    ("max-runs", "EMERGENT_MAX_RUNS", Some("256"), Shown),
    ("max-tasks", "EMERGENT_MAX_TASKS", Some("256"), Shown),
    ("min-passage-similarity", "EMERGENT_MIN_PASSAGE_SIMILARITY", None, Shown),
    ("min-similarity", "EMERGENT_MIN_SIMILARITY", None, Shown),
    ("model", "EMERGENT_MODEL", None, Shown),
    ("model-calls", "EMERGENT_MODEL_CALLS", Some("256"), Shown),
    ("model-prices", "EMERGENT_MODEL_PRICES", None, Shown),
    ("query-timeout", "EMERGENT_QUERY_TIMEOUT", Some("10"), Shown),
    ("recordings", "EMERGENT_RECORDINGS", None, Shown),
    ("rehearsals", "EMERGENT_REHEARSALS", None, Shown),
    ("statement-cache", "EMERGENT_STATEMENT_CACHE", Some("true"), Shown),
    ("stdio-programs", "EMERGENT_STDIO_PROGRAMS", None, Shown),
    ("tls-cert", "EMERGENT_TLS_CERT", None, Shown),
    ("tls-key", "EMERGENT_TLS_KEY", None, Shown),
    ("webhook-url", "EMERGENT_WEBHOOK_URL", None, Address),
    ("write-timeout", "EMERGENT_WRITE_TIMEOUT", Some("30"), Shown),
    variable("ANTHROPIC_API_KEY", Hidden),
    // It sets `database-url` where `EMERGENT_DATABASE_URL` does not.
    variable("DATABASE_URL", Address),
    variable("EMERGENT_ADMIN_TOKEN", Hidden),
    variable("EMERGENT_ANTHROPIC_BASE_URL", Address),
    variable("EMERGENT_ANTHROPIC_VERSION", Shown),
    variable("EMERGENT_GOOGLE_BASE_URL", Address),
    variable("EMERGENT_OPENAI_BASE_URL", Address),
    variable("EMERGENT_SECRET_KEY", Hidden),
    variable("EMERGENT_VERTEX_BASE_URL", Address),
    variable("EMERGENT_WEBHOOK_SECRET", Hidden),
    variable("GCE_METADATA_HOST", Shown),
    variable("GEMINI_API_KEY", Hidden),
    variable("GOOGLE_APPLICATION_CREDENTIALS", Shown),
    variable("GOOGLE_CLOUD_LOCATION", Shown),
    variable("GOOGLE_CLOUD_PROJECT", Shown),
    variable("OLLAMA_HOST", Address),
    variable("OPENAI_API_KEY", Hidden),
    variable("OTEL_EXPORTER_OTLP_ENDPOINT", Address),
    variable("OTEL_EXPORTER_OTLP_HEADERS", Hidden),
    variable("OTEL_EXPORTER_OTLP_PROTOCOL", Shown),
    variable("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", Shown),
    variable("OTEL_SDK_DISABLED", Shown),
    variable("OTEL_SERVICE_NAME", Shown),
];

/// The seconds that a write may take on the embedded database, unless the setting is lower.
const SQLITE_WRITE_TIMEOUT: &str = "2.5";

const fn variable(name: &'static str, visibility: Visibility) -> Definition {
    (name, name, None, visibility)
}

/// The variable of a setting that only the environment has, for its name as the file would have it, such as
/// `admin-token`.
pub fn environment_variable(name: &str) -> Option<&'static str> {
    let variable = format!("EMERGENT_{}", name.to_ascii_uppercase().replace('-', "_"));
    let definition = DEFINITIONS.iter().find(|definition| definition.1 == variable)?;
    Some(definition.1).filter(|variable| definition.0 == *variable)
}

/// The variables that only commands read.
const COMMAND_VARIABLES: [&str; 3] = ["EMERGENT_PROJECT", "EMERGENT_SERVER", "EMERGENT_TOKEN"];

/// A sentence for each folder that a setting names and that cannot be read. The first recording makes its folder.
pub fn missing_folders(settings: &[SettingView]) -> Vec<String> {
    let is_given = |setting: &&SettingView| {
        ["rehearsals", "recordings"].contains(&setting.name.as_str())
            && setting.source != SettingSource::Default
    };
    let mut sentences = Vec::new();
    for setting in settings.iter().filter(is_given) {
        let value = setting.value.as_deref().unwrap_or_default();
        let folders: Vec<_> = match setting.name.as_str() {
            "rehearsals" => std::env::split_paths(value).collect(),
            _ => vec![value.into()],
        };
        for folder in folders.iter().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
            let what = match Path::exists(folder) {
                true => "is not a folder",
                false if setting.name == "recordings" => continue,
                false => "does not exist",
            };
            sentences.push(format!("{}, which {} names, {what}", folder.display(), setting.variable));
        }
    }
    sentences
}

/// A sentence for each of these variables that looks like a setting and is none. A mistyped variable would
/// otherwise leave a default in force, such as programs that are allowed.
pub fn unknown_variables(names: &[String]) -> Vec<String> {
    let known: Vec<&str> =
        DEFINITIONS.iter().map(|(_, variable, _, _)| *variable).chain(COMMAND_VARIABLES).collect();
    names
        .iter()
        .filter(|name| name.starts_with("EMERGENT_") && !known.contains(&name.as_str()))
        .map(|name| {
            let nearest = suggestion(name, known.iter().copied());
            format!("the environment variable {name} is not a setting and is ignored{nearest}")
        })
        .collect()
}

/// Describes every setting. `data_dir` is the folder in use, on which a default depends.
pub fn describe_settings(origins: &SettingOrigins, data_dir: &Path) -> Vec<SettingView> {
    DEFINITIONS.iter().map(|definition| describe(definition, origins, data_dir)).collect()
}

fn describe(definition: &Definition, origins: &SettingOrigins, data_dir: &Path) -> SettingView {
    let (name, variable, default, visibility) = *definition;
    let default = match name {
        "rehearsals" => Some(data_dir.join("rehearsals").to_string_lossy().into_owned()),
        "write-timeout" if !has_database_url(origins) => Some(SQLITE_WRITE_TIMEOUT.to_owned()),
        "max-project-runs" => Some("three quarters of max-runs".to_owned()),
        "judge-model" => Some("none: rules decide".to_owned()),
        "min-similarity" | "min-passage-similarity" => Some("that of the embedder".to_owned()),
        _ => default.map(str::to_owned),
    };
    let (value, source) = find_value(name, variable, origins, env_value(variable));
    let value = value.or(default);
    SettingView {
        name: name.to_owned(),
        variable: variable.to_owned(),
        is_set: value.is_some(),
        secret: visibility == Hidden,
        value: value.and_then(|value| match visibility {
            Shown => Some(value),
            Address => Some(without_credentials(&value)),
            Hidden => None,
        }),
        source,
    }
}

/// Whether a database server is used instead of the embedded database.
fn has_database_url(origins: &SettingOrigins) -> bool {
    ["database-url", "DATABASE_URL"].iter().any(|name| {
        let variable = if *name == "database-url" { "EMERGENT_DATABASE_URL" } else { name };
        find_value(name, variable, origins, env_value(variable)).0.is_some()
    })
}

/// The value and its source. `in_environment` is the value of the variable. The command line parser also
/// takes a flag from the environment, so a flag with the same value as its variable was not given.
fn find_value(
    name: &str,
    variable: &str,
    origins: &SettingOrigins,
    in_environment: Option<String>,
) -> (Option<String>, SettingSource) {
    match origins.flags.get(name) {
        Some(flag) if in_environment.as_ref() != Some(flag) => {
            return (Some(flag.clone()), SettingSource::Flag);
        }
        _ => {}
    }
    if in_environment.is_some() {
        return (in_environment, SettingSource::Environment);
    }
    let in_file = if name == variable { None } else { origins.file.get(name) };
    match in_file {
        Some(toml::Value::String(text)) => (Some(text.clone()), SettingSource::File),
        Some(toml::Value::Integer(number)) => (Some(number.to_string()), SettingSource::File),
        Some(toml::Value::Float(number)) => (Some(number.to_string()), SettingSource::File),
        Some(toml::Value::Boolean(value)) => (Some(value.to_string()), SettingSource::File),
        // The file has no other types of values: it would have been refused.
        Some(_) => (None, SettingSource::File),
        None => (None, SettingSource::Default),
    }
}

/// A URL without user, password and query. A value that is not a URL may hold a password in any place, as in
/// `host=db password=…`, so only a plain host and port are shown.
fn without_credentials(text: &str) -> String {
    let is_host = |text: &str| {
        text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']'))
    };
    match text.split_once("://") {
        None if is_host(text) => text.to_owned(),
        None => "(hidden)".to_owned(),
        Some((scheme, rest)) => {
            let rest = rest.split(['?', '#']).next().unwrap_or_default();
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            // With an unescaped `/` in a password, a part of it would be taken for the host.
            match is_host(host) && !path.contains('@') {
                true => format!("{scheme}://{host}{path}"),
                false => format!("{scheme}://(hidden)"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_variable_is_told_with_the_one_that_was_meant() {
        let names = ["EMERGENT_ALOW_STDIO", "EMERGENT_LISTEN", "EMERGENT_TOKEN", "PATH"].map(str::to_owned);
        let told = unknown_variables(&names);
        assert_eq!(
            told,
            [
                "the environment variable EMERGENT_ALOW_STDIO is not a setting and is ignored; did you mean `EMERGENT_ALLOW_STDIO`?"
            ]
        );
    }

    #[test]
    fn an_error_about_a_value_of_the_file_names_its_key() {
        let file: toml::Table = "judge-model = \"nonsense\"".parse().unwrap();
        let origins = SettingOrigins { file, ..SettingOrigins::default() };
        let named =
            |variable| crate::error::Error::setting(variable, "why").naming_source(&origins).to_string();
        assert_eq!(named("EMERGENT_JUDGE_MODEL"), "`judge-model` in `emergent.toml` cannot be used: why");
        assert_eq!(named("EMERGENT_MODEL"), "`EMERGENT_MODEL` cannot be used: why");
    }

    #[test]
    fn the_source_of_a_value_is_flag_environment_file_or_default() {
        let mut origins =
            SettingOrigins { file: toml::from_str("listen = \"file\"").unwrap(), ..Default::default() };
        let find = |origins: &SettingOrigins, env: Option<&str>| {
            find_value("listen", "EMERGENT_LISTEN", origins, env.map(str::to_owned))
        };
        assert_eq!(find(&SettingOrigins::default(), None), (None, SettingSource::Default));
        assert_eq!(find(&origins, None), (Some("file".into()), SettingSource::File));
        assert_eq!(find(&origins, Some("env")), (Some("env".into()), SettingSource::Environment));
        origins.flags.insert("listen", "flag".to_owned());
        assert_eq!(find(&origins, Some("env")), (Some("flag".into()), SettingSource::Flag));
        assert_eq!(find(&origins, Some("flag")).1, SettingSource::Environment);
    }

    #[test]
    fn passwords_in_addresses_are_not_shown() {
        for (text, shown) in [
            ("postgres://me:secret@db:5432/emergent?password=secret", "postgres://db:5432/emergent"),
            ("postgres://me:sec/ret@db/emergent", "postgres://(hidden)"),
            ("postgres://me:sec ret/emergent", "postgres://(hidden)"),
            ("host=db password=secret", "(hidden)"),
            ("https://proxy.example/v1", "https://proxy.example/v1"),
            ("gpu:11434", "gpu:11434"),
        ] {
            assert_eq!(without_credentials(text), shown, "{text}");
        }
    }

    #[test]
    fn a_key_is_described_without_its_value() {
        for name in ["OPENAI_API_KEY", "EMERGENT_SECRET_KEY", "EMERGENT_ADMIN_TOKEN"] {
            let definition = DEFINITIONS.iter().find(|definition| definition.0 == name).unwrap();
            assert!(definition.3 == Hidden, "{name}");
        }
    }

    #[test]
    fn every_variable_that_the_configuration_reads_is_described() {
        let sources = [
            include_str!("config.rs"),
            include_str!("config/environment.rs"),
            include_str!("config/file.rs"),
            include_str!("config/services.rs"),
            include_str!("datadir.rs"),
            include_str!("telemetry.rs"),
            include_str!("logs.rs"),
            include_str!("serve.rs"),
        ];
        let not_settings = ["HOME", "NO_COLOR", "CARGO_PKG_VERSION"];
        for source in sources {
            for part in source.split('"').skip(1).step_by(2) {
                let is_variable = part.len() > 4
                    && part.contains('_')
                    && part.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit());
                if is_variable && !not_settings.contains(&part) {
                    assert!(DEFINITIONS.iter().any(|definition| definition.1 == part), "`{part}` is missing");
                }
            }
        }
    }

    #[test]
    fn the_settings_are_sorted_by_kind_and_name() {
        let names: Vec<&str> = DEFINITIONS.iter().map(|definition| definition.0).collect();
        let (in_file, variables): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| name.starts_with(|c: char| c.is_ascii_lowercase()));
        assert!(in_file.is_sorted() && variables.is_sorted());
        assert_eq!([in_file, variables].concat(), names);
    }
}
