//! What the settings mean for each service of the server.

use std::{iter, path::PathBuf};

use emergent_domain::agent::ModelConfig;
use emergent_llm::{Credentials, EmbedderSpec, ModelSettings};
use emergent_mcp::client::Hidden;
use emergent_store::DbConfig;
use emergent_wire::diagnostics::SettingView;

use super::{Settings, env_value};
use crate::{
    commands::suggestion,
    datadir::{DATABASE, PROGRAM_CACHES},
    error::{Error, Result},
    settings_report::describe_settings,
};

impl Settings {
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

    /// The error for a setting that cannot be used; it names the variable, or the key in the file.
    pub fn setting_error(&self, variable: &str, reason: impl ToString) -> Error {
        Error::setting(variable, with_nearest_provider(&reason.to_string())).naming_source(&self.origins)
    }

    /// The error for a certificate and its key that cannot be used. It names the setting of the file that is to blame.
    pub fn tls_error(&self, error: &emergent_net::tls::Error) -> Error {
        let variable = match error {
            emergent_net::tls::Error::Key { .. } => "EMERGENT_TLS_KEY",
            _ => "EMERGENT_TLS_CERT",
        };
        self.setting_error(variable, error)
    }

    /// The error for models that cannot be set up. One about a value of the file names its key.
    pub fn models_error(&self, error: emergent_llm::Error) -> Error {
        let text = with_nearest_provider(&error.to_string());
        let error = match error {
            emergent_llm::Error::Config(_) => emergent_llm::Error::Config(text.clone()),
            other => other,
        };
        let named = text.strip_prefix('`').and_then(|text| text.split_once("`: "));
        match named.filter(|(variable, _)| self.origins.name_in_file(variable).is_some()) {
            Some((variable, reason)) => self.setting_error(variable, reason),
            None => Error::Models(error),
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

    /// How MCP servers are reached. The server calls this when it starts, before it starts any program.
    pub fn external_servers(&self) -> emergent_tools::remote::RemoteSettings {
        // No program runs yet, so the links on the way to these files are still those of the operator.
        let hidden = Hidden::new(self.hidden_from_programs(env_value("GOOGLE_APPLICATION_CREDENTIALS")));
        emergent_tools::remote::RemoteSettings {
            allow_stdio: self.allow_stdio,
            programs: self.stdio_programs.clone(),
            hidden,
            cache_folder: Some(self.data_dir.join(PROGRAM_CACHES)),
            // This path names the running binary, also after a newer one has taken its place.
            supervisor: cfg!(target_os = "linux").then(|| PathBuf::from("/proc/self/exe")),
            allow_private_hosts: self.allow_private_hosts,
            ..Default::default()
        }
    }

    /// The data folder, and the files with credentials that the settings name: programs may neither read nor change
    /// them. `credentials` is the file with those of Google.
    fn hidden_from_programs(&self, credentials: Option<String>) -> Vec<PathBuf> {
        let files = [
            self.tls.as_ref().map(|files| files.key.clone()),
            self.file.clone(),
            credentials.map(PathBuf::from),
        ];
        iter::once(self.data_dir.clone()).chain(files.into_iter().flatten()).collect()
    }

    pub fn coordination(&self) -> Result<emergent_coordination::Settings> {
        let judge = self.judge_model.as_deref().map(|text| {
            let model = text.parse::<ModelConfig>();
            model.map_err(|error| self.setting_error("EMERGENT_JUDGE_MODEL", error))
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
        self.embeddings.parse().map_err(|source| self.setting_error("EMERGENT_EMBEDDINGS", source))
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

/// How the models begin the message about a provider that there is not, and the list of those that there are.
const UNKNOWN_PROVIDER: &str = "has the unknown provider `";
const PROVIDERS: &str = "`; the providers are `";

/// The message about an unknown provider with the one that was probably meant.
fn with_nearest_provider(message: &str) -> String {
    let parts = message.split_once(UNKNOWN_PROVIDER).and_then(|(_, rest)| rest.split_once(PROVIDERS));
    let Some((name, names)) = parts else { return message.to_owned() };
    let nearest = suggestion(name, names.trim_end_matches('`').split("`, `"));
    match nearest.is_empty() {
        true => message.to_owned(),
        false => message.replace(PROVIDERS, &format!("`{nearest} The providers are `")),
    }
}

#[cfg(test)]
mod tests {
    use emergent_api::server::TlsFiles;

    use super::*;
    use crate::config::StoreFlags;

    #[test]
    fn programs_see_neither_the_data_folder_nor_the_files_with_credentials() {
        let flags = StoreFlags { data_dir: Some("/srv/data".into()), database_url: None };
        let mut settings = Settings::load(&flags, None).unwrap();
        settings.file = None;
        assert_eq!(settings.hidden_from_programs(None), [PathBuf::from("/srv/data")]);
        settings.file = Some("emergent.toml".into());
        settings.tls = Some(TlsFiles { certificate: "/etc/tls.pem".into(), key: "/etc/tls.key".into() });
        let hidden = settings.hidden_from_programs(Some("/etc/google.json".into()));
        assert_eq!(
            hidden,
            ["/srv/data", "/etc/tls.key", "emergent.toml", "/etc/google.json"].map(PathBuf::from)
        );
    }

    #[test]
    fn an_unknown_provider_is_answered_with_the_nearest() {
        let message = |name: &str| {
            with_nearest_provider(&format!(
                "the model has the unknown provider `{name}`; the providers are `google`, `rehearsal`"
            ))
        };
        assert_eq!(
            message("rehersal"),
            "the model has the unknown provider `rehersal`; did you mean `rehearsal`? The providers are `google`, `rehearsal`"
        );
        assert_eq!(
            message("zzz"),
            "the model has the unknown provider `zzz`; the providers are `google`, `rehearsal`"
        );
    }
}
