//! Checks what a server needs to start: data folder, database, models and embeddings, and whether a server
//! is running.

use std::{path::Path, time::Duration};

use emergent_llm::{EmbedTask, EmbedderSpec, Models, ProviderStatus};
use emergent_store::{
    Db,
    damage::{self, Damage},
};
use emergent_wire::diagnostics::{ModelProviderView, ProbeStatus, ProbeView};

use super::{
    Finding, ok_finding, problem_finding, server_state, usable_models::UsableModels, warning_finding,
};
use crate::{
    client,
    config::Settings,
    database_error,
    datadir::{self, DataDir},
    error::Error,
    hints, logs, private_files, server_file,
};

/// How long a provider of models has to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the embedder has for one word. A local model may have to be read from the disk first.
const EMBED_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the pages of the embedded database are checked: enough for some gigabytes.
const DAMAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks the data folder. Returns it opened, or `None` when it has no database, is in use or unusable. Nothing is
/// created: a check must not leave a database behind that later commands would use.
pub fn data_folder(settings: &Settings) -> (Finding, Option<DataDir>) {
    let path = settings.data_dir.display().to_string();
    if let Err(error) = settings.check_data_folder() {
        let fix = "name a folder with --data-dir, or move the file away";
        return (problem_finding("data folder", error.describe(), fix), None);
    }
    if !settings.data_dir.exists() {
        let finding = match check_creatable(&settings.data_dir) {
            Ok(()) => ok_finding("data folder", format!("{path} (made at the first start)")),
            Err(error) => {
                let fix = "make the folder above it writable, or choose another with --data-dir";
                problem_finding("data folder", format!("{path} cannot be made: {error}"), fix)
            }
        };
        return (finding, None);
    }
    let opened = match settings.database_url {
        Some(_) => DataDir::open_shared(&settings.data_dir).map(Some),
        None if datadir::has_database(&settings.data_dir) => {
            DataDir::open_existing(&settings.data_dir).map(Some)
        }
        None => Ok(None),
    };
    match opened {
        Ok(data_dir) => match check_writable(&settings.data_dir) {
            Ok(()) => (ok_finding("data folder", format!("{path}, writable")), data_dir),
            Err(error) => {
                let fix =
                    "make the folder writable and the disk large enough, or choose another with --data-dir";
                let found = format!("{path} cannot be written: {error}");
                (problem_finding("data folder", found, fix), data_dir)
            }
        },
        Err(Error::Locked { .. }) => (ok_finding("data folder", format!("{path}, in use by a server")), None),
        Err(error) => {
            let fix = "make the folder writable, or choose another with --data-dir";
            (problem_finding("data folder", error.describe(), fix), None)
        }
    }
}

/// The problem with files of the data folder that other users of this machine can read; `None` if there are none.
pub fn exposed_secrets(settings: &Settings) -> Option<Finding> {
    let files = private_files::exposed_secrets(&settings.data_dir);
    let names: Vec<_> = files.iter().map(|file| hints::quoted(&file.to_string_lossy())).collect();
    let found = format!("other users of this machine can read {}", names.join(" and "));
    let fix = format!(
        "`chmod 600 {}`; if somebody else may have read it, replace what is in it. The next start of a server sets the mode, too",
        names.join(" ")
    );
    (!files.is_empty()).then(|| problem_finding("data folder", found, fix))
}

/// Makes and removes a folder where the first missing folder of the path would be made. The path itself is not made:
/// a check must leave nothing behind that a later command would use.
fn check_creatable(folder: &Path) -> std::io::Result<()> {
    let existing = folder.ancestors().skip(1).find(|ancestor| ancestor.exists()).unwrap_or(Path::new(""));
    let parent = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let trial = parent.join(format!(".emergent-doctor-{}", std::process::id()));
    std::fs::create_dir(&trial)?;
    std::fs::remove_dir(&trial)
}

/// Writes and removes a small file: a folder may be readable only, and a disk full.
fn check_writable(folder: &Path) -> std::io::Result<()> {
    let file = folder.join(format!("doctor-{}", std::process::id()));
    let written = std::fs::write(&file, [0; 4_096]);
    let removed = std::fs::remove_file(&file);
    written.and(removed)
}

/// Checks the database. Also returns where its contents can be checked.
pub async fn database(settings: &Settings, data_dir: Option<DataDir>) -> (Finding, DataLocation) {
    let embedded = settings.database_url.is_none();
    if embedded && !datadir::has_database(&settings.data_dir) {
        let found = "no database yet: embedded SQLite, made at the first start";
        return (ok_finding("database", found), DataLocation::None);
    }
    // Only the process that holds the lock of the folder may open the embedded database.
    if embedded && data_dir.is_none() {
        return (ok_finding("database", "embedded SQLite in the data folder"), DataLocation::OnServer);
    }
    let fix = match embedded {
        true => "put a backup of emergent.db in its place, or choose another folder with --data-dir",
        false => {
            "correct what the line above names; the page `installation` of the documentation sets up PostgreSQL"
        }
    };
    if let Err(error) = database_error::check_address(settings) {
        return (problem_finding("database", error.describe(), fix), DataLocation::None);
    }
    match Db::open(settings.database()).await {
        Ok(db) if embedded => match undamaged(&settings.data_dir.join(datadir::DATABASE)) {
            Ok(finding) => (finding, DataLocation::Local(db)),
            // What is read from a damaged database says nothing.
            Err(found) => {
                let fix =
                    "restore the newest backup to a new folder: `emergent restore FILE --data-dir FOLDER`";
                (problem_finding("database", found, fix), DataLocation::None)
            }
        },
        Ok(db) => {
            (ok_finding("database", "PostgreSQL answers, its schema is up to date"), DataLocation::Local(db))
        }
        Err(error) if embedded => {
            (problem_finding("database", Error::from(error).describe(), fix), DataLocation::None)
        }
        // The same sentences as those of `serve`.
        Err(error) => {
            let found = database_error::describe_open_error(settings, error).describe();
            (problem_finding("database", found, fix), DataLocation::None)
        }
    }
}

/// Looks for damaged pages in the embedded database; the error says what is damaged.
fn undamaged(file: &Path) -> Result<Finding, String> {
    let opens = "embedded SQLite opens, its schema is up to date";
    match tokio::task::block_in_place(|| damage::look_for(file, DAMAGE_TIMEOUT)) {
        Ok(Damage::None) => Ok(ok_finding("database", format!("{opens}, no page is damaged"))),
        Ok(Damage::Unknown) => {
            let seconds = DAMAGE_TIMEOUT.as_secs();
            let found =
                format!("{opens}; no page that was read in {seconds} seconds is damaged, and there are more");
            Ok(warning_finding("database", found))
        }
        Ok(Damage::Found(problem)) => Err(format!("{} is damaged: {problem}", file.display())),
        Err(error) => Err(Error::from(error).describe()),
    }
}

/// Where the contents of the projects can be checked.
pub enum DataLocation {
    /// There is no data, or it cannot be opened.
    None,
    /// A running server uses the data folder.
    OnServer,
    /// This process has opened the database.
    Local(Db),
}

/// Checks whether a server runs on the data folder and responds. Returns its address when it does.
pub async fn server(settings: &Settings) -> (Finding, Option<String>) {
    let Some(found) = server_file::read(&settings.data_dir) else {
        return (ok_finding("server", "none on this data folder"), None);
    };
    let address = found.address.clone();
    if !found.has_database(settings.database_url.as_deref()) {
        let database = found.database.as_deref().unwrap_or("the embedded database");
        let state = if found.is_running { "runs" } else { "ran" };
        let text =
            format!("none on this database; the one of the data folder, {address}, {state} on {database}");
        return (ok_finding("server", text), None);
    }
    if !found.is_running && found.database.is_some() {
        return (ok_finding("server", format!("none (the last one listened on {address})")), None);
    }
    let response = match client::http_client(&address, client::Certificates::AnyOnLoopback) {
        Ok(client) => client.get(format!("{address}/health")).send().await,
        Err(error) => {
            let fix = "look at this machine's certificates";
            return (problem_finding("server", error.describe(), fix), None);
        }
    };
    match response {
        Ok(response) if response.status().is_success() => {
            (ok_finding("server", format!("{address} answers")), Some(address))
        }
        Ok(response) => {
            let found = format!("{address} answers {}", response.status());
            (problem_finding("server", found, "look at the server's log"), None)
        }
        Err(_) => (ok_finding("server", format!("none (the last one listened on {address})")), None),
    }
}

/// A warning for each folder in which the server of the data folder looks for rehearsal scripts and that does not exist.
/// The one of the data folder is made when it is needed.
pub fn missing_server_folders(settings: &Settings) -> Vec<Finding> {
    let folders =
        server_file::read(&settings.data_dir).and_then(|server| server.rehearsals).unwrap_or_default();
    let default = server_file::absolute_folders(&settings.data_dir.join("rehearsals").to_string_lossy());
    let missing = std::env::split_paths(&folders)
        .filter(|folder| !folder.as_os_str().is_empty() && *folder != *default && !folder.is_dir());
    let warnings = missing.map(|folder| Finding {
        fix: Some("make the folder, or correct EMERGENT_REHEARSALS and start the server again".to_owned()),
        ..warning_finding(
            "configuration",
            format!("the server looks for rehearsal scripts in {}, which is no folder", folder.display()),
        )
    });
    warnings.collect()
}

/// Checks which model providers are configured, and whether they can be reached with their keys. No model is
/// called, because that would cost money. Also returns what agents can use; `None` if a server would not start.
pub async fn models(settings: &Settings) -> (Vec<Finding>, Option<UsableModels>) {
    let models = match Models::from_settings(&settings.models()) {
        Ok(models) => models,
        Err(error) => {
            let found = settings.models_error(error).describe();
            return (vec![problem_finding("models", found, "correct the setting it names")], None);
        }
    };
    let probes = models.status().into_iter().map(|provider| probe_provider(&models, provider));
    let providers = futures_util::future::join_all(probes).await;
    let mut findings = server_state::providers(&providers, &settings.describe(), settings.model.as_deref());
    findings.extend(server_state::judge(&providers, &settings.describe(), settings.model.as_deref()));
    let usable = Some(UsableModels::without_server(settings.model.clone(), &providers));
    let Some(model_for_all) = &settings.model else { return (findings, usable) };
    let chosen = model_for_all.parse().map_err(|error| format!("{error}"));
    findings.push(
        match chosen.and_then(|model| models.choose(Some(&model)).map_err(|error| error.to_string())) {
            Ok(model) => ok_finding("models", format!("{model} for everything")),
            Err(error) => problem_finding(
                "models",
                error,
                "set EMERGENT_MODEL to a model of a configured provider, or not at all",
            ),
        },
    );
    (findings, usable)
}

/// Asks a configured provider whether it accepts the credentials.
async fn probe_provider(models: &Models, provider: ProviderStatus) -> ModelProviderView {
    let ProviderStatus { name, configured, setting } = provider;
    let started = tokio::time::Instant::now();
    let answer = match configured {
        true => tokio::time::timeout(PROBE_TIMEOUT, models.probe(&name)).await,
        false => Ok(None),
    };
    let (status, message) = match answer {
        Ok(None) => (ProbeStatus::NotProbed, None),
        Ok(Some(Ok(found))) => (ProbeStatus::Ok, Some(found)),
        Ok(Some(Err(error))) => {
            let error = emergent_net::errors::error_chain(&error);
            // What a provider answers may repeat a key.
            (ProbeStatus::Failed, Some(logs::redactor().redact_text(&error).into_owned()))
        }
        Err(_) => {
            let seconds = PROBE_TIMEOUT.as_secs();
            (ProbeStatus::Failed, Some(format!("no answer within {seconds} seconds")))
        }
    };
    let millis = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let probe = ProbeView { status, message, millis };
    ModelProviderView { provider: name, configured, setting: setting.map(str::to_owned), probe }
}

/// Checks the embedder by embedding one word.
pub async fn embeddings(settings: &Settings) -> Finding {
    let fix = "set EMERGENT_EMBEDDINGS to `builtin`, `off`, `local:<dir>` or `provider/model`, with the provider's key";
    let spec = match settings.embedder() {
        Ok(EmbedderSpec::Off) => return ok_finding("embeddings", "off: search is by text alone"),
        Ok(spec) => spec,
        Err(error) => return problem_finding("embeddings", error.describe(), fix),
    };
    let embedder = match emergent_llm::embedder(&spec, &Settings::credentials()) {
        Ok(Some(embedder)) => embedder,
        Ok(None) => return ok_finding("embeddings", "off: search is by text alone"),
        Err(error) => return problem_finding("embeddings", Error::from(error).describe(), fix),
    };
    let words = ["hello".to_owned()];
    let Ok(embedded) = tokio::time::timeout(EMBED_TIMEOUT, embedder.embed(&words, EmbedTask::Query)).await
    else {
        let seconds = EMBED_TIMEOUT.as_secs();
        let found = format!("{} did not answer within {seconds} seconds", embedder.model());
        return problem_finding("embeddings", found, fix);
    };
    match embedded {
        Ok(vectors) => {
            let dims = vectors.first().map_or(0, Vec::len);
            ok_finding("embeddings", format!("{} answers, {dims} dimensions", embedder.model()))
        }
        Err(error) => problem_finding("embeddings", Error::from(error).describe(), fix),
    }
}
