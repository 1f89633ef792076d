//! `emergent doctor`: what is configured, what is reachable, what is wrong and the fix.

use emergent_llm::{EmbedTask, EmbedderSpec, Models};
use emergent_store::Db;
use serde::Serialize;

use crate::{
    client,
    config::{Settings, StoreFlags},
    datadir::{self, DataDir},
    error::{Error, Result},
    output,
};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    what: &'static str,
    ok: bool,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

fn good(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { what, ok: true, found: found.into(), fix: None }
}

fn bad(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { what, ok: false, found: found.into(), fix: Some(fix.into()) }
}

/// Looks at everything; fails when something is wrong, after showing all of it.
pub async fn run(store: &StoreFlags, as_json: bool) -> Result<()> {
    let mut findings = vec![good("version", env!("CARGO_PKG_VERSION"))];
    match Settings::load(store, None) {
        Err(error) => {
            findings.push(bad("configuration", error.tell(), "correct emergent.toml or the variable"))
        }
        Ok(settings) => {
            let file = settings
                .file
                .as_ref()
                .map_or("no emergent.toml".to_owned(), |path| path.display().to_string());
            findings.push(good("configuration", file));
            let (folder, taken) = data_folder(&settings);
            findings.push(folder);
            findings.push(database(&settings, taken).await);
            findings.push(server(&settings).await);
            findings.push(embeddings(&settings).await);
            findings.push(models(&settings));
        }
    }
    if as_json {
        output::json(&findings)?;
    } else {
        for finding in &findings {
            let mark = if finding.ok { "✓" } else { "✗" };
            output::line(&format!("{mark} {:<14} {}", finding.what, finding.found))?;
            if let Some(fix) = &finding.fix {
                output::line(&format!("  {:<14} {}", "", output::bold(&format!("→ {fix}"))))?;
            }
        }
    }
    match findings.iter().filter(|finding| !finding.ok).count() {
        0 => Ok(()),
        1 => Err(Error::Usage("one thing is wrong".to_owned())),
        count => Err(Error::Usage(format!("{count} things are wrong"))),
    }
}

/// The folder, and the hold on it if it is there and free.
fn data_folder(settings: &Settings) -> (Finding, Option<DataDir>) {
    let path = settings.data_dir.display().to_string();
    if !settings.data_dir.exists() {
        return (good("data folder", format!("{path} (made at the first start)")), None);
    }
    let taken = match settings.database_url {
        Some(_) => DataDir::share(&settings.data_dir),
        None => DataDir::take(&settings.data_dir),
    };
    match taken {
        Ok(taken) => (good("data folder", path), Some(taken)),
        Err(Error::Locked { .. }) => (good("data folder", format!("{path}, in use by a server")), None),
        Err(error) => {
            let fix = "make the folder writable, or choose another with --data-dir";
            (bad("data folder", error.tell(), fix), None)
        }
    }
}

async fn database(settings: &Settings, taken: Option<DataDir>) -> Finding {
    let embedded = settings.database_url.is_none();
    // Opening the file takes the hold on its folder: a server that has it knows better than we do.
    if embedded && (taken.is_none() || !settings.data_dir.join("emergent.db").exists()) {
        return good("database", "embedded SQLite in the data folder");
    }
    match Db::open(settings.database()).await {
        Ok(_) if embedded => good("database", "embedded SQLite opens, its schema is up to date"),
        Ok(_) => good("database", "PostgreSQL answers, its schema is up to date"),
        Err(error) if embedded => bad(
            "database",
            Error::from(error).tell(),
            "put a backup of emergent.db in its place, or choose another folder with --data-dir",
        ),
        Err(error) => bad(
            "database",
            Error::from(error).tell(),
            "check EMERGENT_DATABASE_URL, and that the extension `vector` can be created",
        ),
    }
}

async fn server(settings: &Settings) -> Finding {
    let Some((address, _)) = datadir::running_server(&settings.data_dir) else {
        return good("server", "none on this data folder");
    };
    let answer = match client::http_client(&address) {
        Ok(client) => client.get(format!("{address}/health")).send().await,
        Err(error) => return bad("server", error.tell(), "look at this machine's certificates"),
    };
    match answer {
        Ok(answer) if answer.status().is_success() => good("server", format!("{address} answers")),
        Ok(answer) => {
            bad("server", format!("{address} answers {}", answer.status()), "look at the server's log")
        }
        Err(_) => good("server", format!("none (the last one listened on {address})")),
    }
}

/// Which providers agents can use. Nobody is asked: that would cost money.
fn models(settings: &Settings) -> Finding {
    let models = match Models::from_settings(&settings.models()) {
        Ok(models) => models,
        Err(error) => return bad("models", Error::Models(error).tell(), "correct the setting it names"),
    };
    let (ready, missing): (Vec<_>, Vec<_>) = models.status().into_iter().partition(|one| one.configured);
    let ready: Vec<_> = ready.into_iter().map(|one| one.name).collect();
    let missing: Vec<_> =
        missing.iter().map(|one| format!("{} ({})", one.name, one.setting.unwrap_or("–"))).collect();
    let mut found = format!("configured: {}", ready.join(", "));
    if !missing.is_empty() {
        found.push_str(&format!("; not: {}", missing.join(", ")));
    }
    let Some(everything) = &settings.model else { return good("models", found) };
    let chosen = everything.parse().map_err(|error| format!("{error}"));
    match chosen.and_then(|model| models.choose(Some(&model)).map_err(|error| error.to_string())) {
        Ok(model) => good("models", format!("{model} for everything; {found}")),
        Err(why) => {
            bad("models", why, "set EMERGENT_MODEL to a model of a configured provider, or not at all")
        }
    }
}

async fn embeddings(settings: &Settings) -> Finding {
    let fix = "set EMERGENT_EMBEDDINGS to `builtin`, `off`, `local:<dir>` or `provider/model`, with the provider's key";
    let spec = match settings.embedder() {
        Ok(EmbedderSpec::Off) => return good("embeddings", "off: search is by text alone"),
        Ok(spec) => spec,
        Err(error) => return bad("embeddings", error.tell(), fix),
    };
    let embedder = match emergent_llm::embedder(&spec, &Settings::credentials()) {
        Ok(Some(embedder)) => embedder,
        Ok(None) => return good("embeddings", "off: search is by text alone"),
        Err(error) => return bad("embeddings", Error::from(error).tell(), fix),
    };
    match embedder.embed(&["hello".to_owned()], EmbedTask::Query).await {
        Ok(vectors) => {
            let dims = vectors.first().map_or(0, Vec::len);
            good("embeddings", format!("{} answers, {dims} dimensions", embedder.model()))
        }
        Err(error) => bad("embeddings", Error::from(error).tell(), fix),
    }
}
