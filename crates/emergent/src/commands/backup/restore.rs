//! `emergent restore`: puts a copy that `emergent backup` made into a new data folder.

use std::path::{Path, PathBuf};

use emergent_coordination::Dispatcher;
use emergent_domain::{author::Author, time::Clock};
use emergent_executor::Executor;
use emergent_graph::{Actor, Graph};
use emergent_llm::Models;
use emergent_secrets::{KeySource, Keyring};
use emergent_store::{
    Db, DbConfig, TimeLimits,
    backup::{self, CheckDepth, Contents},
};
use emergent_tools::ToolPool;
use serde_json::json;

use super::{
    contents_json, copy_file, counted, describe,
    digest::{self, DigestCheck},
    postgres,
};
use crate::{
    client::ServerFlags,
    config::{Settings, StoreFlags},
    datadir::{self, DATABASE, DataDir, PARTIAL, PARTIAL_LOG, PARTIAL_SHARED_MEMORY},
    error::{Error, Result},
    local_commands, output, progress,
};

/// Put a backup into a new data folder
///
/// Checks the file, and copies it into the data folder (--data-dir), which must be new or empty. Nothing is
/// written before the check, and the database appears in the folder when it is complete.
///
/// A server that starts on the folder continues the runs and workflows of the copy, as after a crash: a call to
/// an external tool that was under way is not repeated. If the original server still runs, both would work on
/// them. Stop the original first, or give --cancel-runs: the copy then starts nothing because of the past. Later
/// times of schedules and later changes start new runs on both.
#[derive(Debug, clap::Args)]
pub struct Restore {
    /// A file that `emergent backup` wrote
    file: PathBuf,
    /// The key of the secrets, which is copied to the data folder
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Cancel the workflows and runs that were not over when the copy was made, also workflows that wait for a
    /// person, and skip what triggers had not started
    #[arg(long)]
    cancel_runs: bool,
}

/// What `--cancel-runs` cancelled.
#[derive(Default)]
struct Cancelled {
    workflows: u64,
    runs: u64,
    /// Firings of triggers that had not started a run.
    firings: u64,
    /// Schedules that were due, and now continue with their next time.
    schedules: u64,
}

impl Restore {
    pub async fn run(self, server: &ServerFlags, store: &StoreFlags, as_json: bool) -> Result<()> {
        let settings = Settings::load(store, None)?;
        local_commands::note_unused_server("restore", server, &settings);
        if let Some(url) = &settings.database_url {
            return Err(Error::OtherPrograms(postgres::restore_advice(url, &self.file)));
        }
        settings.check_data_folder()?;
        let folder = settings.data_dir.as_path();
        datadir::check_restorable(folder)?;
        // The check and the copy block this thread; no other task of this command waits for it.
        let (contents, has_digest) = tokio::task::block_in_place(|| check(&self.file))?;
        let ring = self.key.as_deref().map(|key| read_key(key, &contents)).transpose()?;
        let has_key = match &ring {
            Some(_) => true,
            None => has_keys(folder, &contents)?,
        };
        let cancelled = self.restore(&settings, folder, ring.as_ref()).await?;
        if as_json {
            return output::print_json(&json!({
                "dataDir": folder,
                "hasKey": has_key,
                "hasDigest": has_digest,
                "cancelled": cancelled.map(|done| json!({
                    "workflows": done.workflows, "runs": done.runs, "firings": done.firings,
                    "schedules": done.schedules,
                })),
                "contents": contents_json(&contents),
            }));
        }
        if !has_digest {
            output::print_text(
                "The file has no digest, because an earlier version made it: its structure was checked, but not its \
                 texts and vectors.",
            )?;
        }
        print_summary(folder, &contents, has_key, cancelled.as_ref())
    }

    /// Copies the file, and the key if it is given, into the folder. The database appears there when it is
    /// complete: what is to be cancelled is cancelled before.
    async fn restore(
        &self,
        settings: &Settings,
        folder: &Path,
        ring: Option<&Keyring>,
    ) -> Result<Option<Cancelled>> {
        let _lock = DataDir::open_for_restore(folder)?;
        // An earlier attempt may have been interrupted. The lock proves that it no longer runs.
        remove_partial(folder);
        let restored = self.restore_locked(settings, folder, ring).await;
        if restored.is_err() {
            remove_partial(folder);
        }
        restored
    }

    async fn restore_locked(
        &self,
        settings: &Settings,
        folder: &Path,
        ring: Option<&Keyring>,
    ) -> Result<Option<Cancelled>> {
        let (partial, database) = (folder.join(PARTIAL), folder.join(DATABASE));
        tokio::task::block_in_place(|| {
            copy_file(&self.file, &partial, "restoring")?;
            // The digest of the file is not copied.
            backup::set_digest_mark(&partial, false).map_err(Error::Restore)
        })?;
        let mut cancelled = None;
        if self.cancel_runs {
            cancelled =
                Some(cancel_active_work(settings, &partial).await.map_err(|error| not_cancelled(&error))?);
            backup::merge_log(&partial).await.map_err(Error::Restore)?;
        }
        if let Some(ring) = ring {
            emergent_secrets::write_key_copy(&folder.join(datadir::KEY_FILE), ring)?;
        }
        std::fs::rename(&partial, &database)
            .and_then(|()| datadir::sync_folder_of(&database))
            .map_err(|source| Error::File { path: database.clone(), source })?;
        Ok(cancelled)
    }
}

fn remove_partial(folder: &Path) {
    for name in [PARTIAL, PARTIAL_LOG, PARTIAL_SHARED_MEMORY] {
        let _ = std::fs::remove_file(folder.join(name));
    }
}

/// Returns what the file contains, and whether its digest was compared.
fn check(file: &Path) -> Result<(Contents, bool)> {
    if !file.is_file() {
        return Err(Error::Usage(format!("there is no file `{}`; nothing was restored", file.display())));
    }
    let bar = progress::bytes(file.metadata().ok().map(|found| found.len()), "checking the file");
    let checked = digest::check(file, |read| bar.set_position(read))
        .map_err(|source| Error::File { path: file.to_owned(), source })
        .and_then(|digest| {
            let contents = backup::check(file, CheckDepth::Everything).map_err(Error::Restore)?;
            match digest {
                DigestCheck::Differs => Err(Error::Restore(unusable(file, CHANGED))),
                DigestCheck::Matches => Ok((contents, true)),
                DigestCheck::Missing if backup::has_digest_mark(file).map_err(Error::Restore)? => {
                    Err(Error::Restore(unusable(file, LAST_LINE_MISSING)))
                }
                DigestCheck::Missing => Ok((contents, false)),
            }
        });
    bar.finish_and_clear();
    checked
}

const CHANGED: &str = "it is damaged or was changed: its content has another digest than when the backup was made. Use \
                       another backup";
const LAST_LINE_MISSING: &str = "it is cut: its last line, the digest of its content, is missing, so nobody can tell \
                                 whether the rest is as it was. Use another backup";

fn unusable(file: &Path, reason: &str) -> emergent_store::Error {
    emergent_store::Error::UnusableBackup { place: file.display().to_string(), reason: reason.to_owned() }
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

/// Cancels in the copy what a server on it would continue or start because of the past. Needs no key: nothing of
/// it opens a secret.
async fn cancel_active_work(settings: &Settings, database: &Path) -> Result<Cancelled> {
    let config = DbConfig::Sqlite { path: database.to_owned() };
    let db = Db::open_with(config, TimeLimits::ALONE).await?;
    let embedder = emergent_llm::embedder(&settings.embedder()?, &Settings::credentials())?;
    let models = Models::from_settings(&settings.models()).map_err(Error::Models)?;
    let graph = Graph::new(db, Clock::system(), embedder);
    let tools = ToolPool::new(emergent_tools::builtin::tools());
    let executor = Executor::new(graph.clone(), models, tools, emergent_executor::Settings::default());
    let dispatcher = Dispatcher::new(executor.clone(), settings.coordination()?);
    let active = graph.db().read(backup::list_active).await?;
    let mut cancelled = Cancelled::default();
    for (project, id) in active.workflows {
        let actor = Actor { project, author: Author::System };
        dispatcher.cancel(actor, id).await.map_err(|error| describe_failure(&error))?;
        cancelled.workflows += 1;
    }
    for (project, id) in active.runs {
        let actor = Actor { project, author: Author::System };
        match executor.cancel(actor, id).await {
            // It was cancelled with its workflow or with its parent.
            Ok(_) | Err(emergent_executor::Error::Conflict(_)) => cancelled.runs += 1,
            Err(error) => return Err(describe_failure(&error)),
        }
    }
    for project in active.deleted_projects {
        graph.end_work(project).await?;
    }
    // The last step, because cancelling a workflow changes its tasks, which can trigger agents.
    let skipped = executor.skip_past_triggers().await.map_err(Error::Triggers)?;
    (cancelled.firings, cancelled.schedules) = (skipped.firings, skipped.schedules);
    Ok(cancelled)
}

fn describe_failure(error: &dyn std::error::Error) -> Error {
    Error::Usage(emergent_net::errors::error_chain(error))
}

fn not_cancelled(error: &Error) -> Error {
    Error::Usage(format!(
        "nothing was restored, because not everything of the copy could be cancelled: {}; without --cancel-runs \
         it is restored as it is",
        error.describe()
    ))
}

fn print_summary(
    folder: &Path,
    contents: &Contents,
    has_key: bool,
    cancelled: Option<&Cancelled>,
) -> Result<()> {
    output::print_text(&format!("restored to {} ({})", folder.display(), describe(contents)))?;
    let (runs, workflows) = (contents.active_runs, contents.active_workflows);
    match cancelled {
        Some(done) => output::print_text(&format!(
            "cancelled: {}, {}; skipped: {}, {}",
            counted(done.workflows, "workflow"),
            counted(done.runs, "run"),
            counted(done.firings, "pending firing"),
            counted(done.schedules, "due schedule")
        ))?,
        None if runs + workflows > 0 => output::print_text(&format!(
            "A server on this folder continues {} and {}. Make sure that the original server does not run, so \
             that nothing is done twice.",
            counted(runs, "run"),
            counted(workflows, "workflow")
        ))?,
        None => {}
    }
    if !has_key && !contents.secret_keys.is_empty() {
        output::print_text(&format!(
            "Before you start a server, put the key of the secrets ({}) into {}, or set EMERGENT_SECRET_KEY.",
            contents.secret_keys.join(", "),
            folder.join(datadir::KEY_FILE).display()
        ))?;
    }
    output::print_line(&format!("Start it: emergent serve --data-dir {}", folder.display()))
}
