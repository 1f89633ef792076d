//! `emergent restore`: puts a copy that `emergent backup` made into a new data folder.

use std::path::{Path, PathBuf};

use emergent_domain::author::Author;
use emergent_graph::Actor;
use emergent_secrets::{KeySource, Keyring};
use emergent_store::backup::{self, CheckDepth, Contents};
use serde_json::json;

use super::{contents_json, copy_file, counted, describe, postgres};
use crate::{
    config::{Settings, StoreFlags},
    datadir::{self, DATABASE, DataDir},
    error::{Error, Result},
    output, progress,
    services::{self, Services},
};

/// The name of the database while it is being copied.
const PARTIAL: &str = "emergent.db.restoring";

/// Checks the file, and copies it into the data folder (--data-dir), which must be new or empty. Nothing is
/// written before the check, and the database appears in the folder when it is complete.
///
/// A server that starts on the folder continues the runs and workflows of the copy, as after a crash: a call to
/// an external tool that was under way is not repeated. If the original server still runs, both would work on
/// them. Stop the original first, or give --cancel-runs. Schedules and events start new runs on both.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Restore {
    /// A file that `emergent backup` wrote
    file: PathBuf,
    /// The key of the secrets, which is copied to the data folder
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Cancel the workflows and runs that were not over when the copy was made
    #[arg(long)]
    cancel_runs: bool,
}

/// What `--cancel-runs` cancelled.
#[derive(Default)]
struct Cancelled {
    workflows: u64,
    runs: u64,
}

impl Restore {
    pub async fn run(self, store: &StoreFlags, as_json: bool) -> Result<()> {
        let settings = Settings::load(store, None)?;
        if let Some(url) = &settings.database_url {
            return Err(Error::Usage(postgres::restore_advice(url, &self.file)));
        }
        let folder = settings.data_dir.as_path();
        datadir::check_restorable(folder)?;
        // The check and the copy block this thread; no other task of this command waits for it.
        let contents = tokio::task::block_in_place(|| check(&self.file))?;
        let ring = self.key.as_deref().map(|key| read_key(key, &contents)).transpose()?;
        let has_key = match &ring {
            Some(_) => true,
            None => has_keys(folder, &contents)?,
        };
        if self.cancel_runs && !has_key && !contents.secret_keys.is_empty() {
            return Err(Error::Usage(
                "--cancel-runs needs the key of the secrets: name its file with --key, or set \
                 EMERGENT_SECRET_KEY"
                    .to_owned(),
            ));
        }
        tokio::task::block_in_place(|| copy(&self.file, folder, ring.as_ref()))?;
        let cancelled = match self.cancel_runs {
            true => Some(cancel_active_work(&settings).await?),
            false => None,
        };
        if as_json {
            return output::print_json(&json!({
                "dataDir": folder,
                "hasKey": has_key,
                "cancelled": cancelled.map(|done| json!({ "workflows": done.workflows, "runs": done.runs })),
                "contents": contents_json(&contents),
            }));
        }
        print_summary(folder, &contents, has_key, cancelled.as_ref())
    }
}

fn check(file: &Path) -> Result<Contents> {
    if !file.is_file() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(Error::File { path: file.to_owned(), source: missing });
    }
    let bar = progress::bytes(None, "checking the file");
    let contents = backup::check(file, CheckDepth::Everything);
    bar.finish_and_clear();
    contents.map_err(Error::Restore)
}

/// Reads the given key file; fails if it does not open the secrets of the copy.
fn read_key(file: &Path, contents: &Contents) -> Result<Keyring> {
    let ring = KeySource::from_file(file).read()?.ok_or_else(|| {
        Error::Usage(format!("there is no key in `{}`; nothing was restored", file.display()))
    })?;
    let missing = ring.missing_keys(&contents.secret_keys);
    if missing.is_empty() {
        return Ok(ring);
    }
    Err(Error::Usage(format!(
        "the secrets of the copy need the key {}, which `{}` does not have; nothing was restored",
        missing.join(", "),
        file.display()
    )))
}

/// Whether the environment or the folder already has the keys of the copy.
fn has_keys(folder: &Path, contents: &Contents) -> Result<bool> {
    let ring = datadir::secret_keys(folder)?.read()?;
    Ok(ring.is_some_and(|ring| ring.missing_keys(&contents.secret_keys).is_empty()))
}

/// Copies the file, and the key if it is given, into the folder.
fn copy(file: &Path, folder: &Path, ring: Option<&Keyring>) -> Result<()> {
    let _lock = DataDir::open_for_restore(folder)?;
    let (partial, database) = (folder.join(PARTIAL), folder.join(DATABASE));
    // An earlier attempt may have been interrupted. The lock proves that it no longer runs.
    let _ = std::fs::remove_file(&partial);
    let restored = copy_file(file, &partial, "restoring").and_then(|()| {
        if let Some(ring) = ring {
            emergent_secrets::write_key_copy(&folder.join(datadir::KEY_FILE), ring)?;
        }
        std::fs::rename(&partial, &database)
            .and_then(|()| datadir::sync_folder_of(&database))
            .map_err(|source| Error::File { path: database.clone(), source })
    });
    if restored.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    restored
}

/// Cancels the workflows and runs that a server on the folder would continue.
async fn cancel_active_work(settings: &Settings) -> Result<Cancelled> {
    let Services { graph, executor, dispatcher, .. } = &services::open_services(settings).await?;
    let active = graph.db().read(backup::list_active).await?;
    let mut cancelled = Cancelled::default();
    for (project, id) in active.workflows {
        let actor = Actor { project, author: Author::System };
        dispatcher.cancel(actor, id).await.map_err(|error| not_cancelled(&error))?;
        cancelled.workflows += 1;
    }
    for (project, id) in active.runs {
        let actor = Actor { project, author: Author::System };
        match executor.cancel(actor, id).await {
            // It was cancelled with its workflow or with its parent.
            Ok(_) | Err(emergent_executor::Error::Conflict(_)) => cancelled.runs += 1,
            Err(error) => return Err(not_cancelled(&error)),
        }
    }
    Ok(cancelled)
}

fn not_cancelled(error: &dyn std::error::Error) -> Error {
    let reason = emergent_net::errors::error_chain(error);
    Error::Usage(format!(
        "the copy is restored, but not all of its runs are cancelled: {reason}; cancel them with `emergent run \
         cancel` before you start a server on the folder"
    ))
}

fn print_summary(
    folder: &Path,
    contents: &Contents,
    has_key: bool,
    cancelled: Option<&Cancelled>,
) -> Result<()> {
    output::print_line(&format!("restored to {} ({})", folder.display(), describe(contents)))?;
    let (runs, workflows) = (contents.active_runs, contents.active_workflows);
    match cancelled {
        Some(done) => output::print_line(&format!(
            "cancelled: {}, {}",
            counted(done.workflows, "workflow"),
            counted(done.runs, "run")
        ))?,
        None if runs + workflows > 0 => output::print_line(&format!(
            "A server on this folder continues {} and {}. Make sure that the original server does not run, so \
             that nothing is done twice.",
            counted(runs, "run"),
            counted(workflows, "workflow")
        ))?,
        None => {}
    }
    if !has_key && !contents.secret_keys.is_empty() {
        output::print_line(&format!(
            "Before you start a server, put the key of the secrets ({}) into {}, or set EMERGENT_SECRET_KEY.",
            contents.secret_keys.join(", "),
            folder.join(datadir::KEY_FILE).display()
        ))?;
    }
    output::print_line(&format!("Start it: emergent serve --data-dir {}", folder.display()))
}
