//! `emergent backup`: copies the whole embedded database to a file while a server uses it. `restore` is its
//! counterpart.

mod digest;
mod postgres;
pub mod restore;

use std::{
    fs::OpenOptions,
    path::{Path, PathBuf},
};

use emergent_domain::{
    text::counted,
    time::{Clock, Timestamp},
};
use emergent_net::errors::error_chain;
use emergent_secrets::{KeySource, Keyring};
use emergent_store::{
    StorageFault,
    backup::{self, CheckDepth, Contents},
};
use indicatif::HumanBytes;
use serde_json::{Value, json};

use crate::{
    client::ServerFlags,
    config::{Settings, StoreFlags},
    datadir::{self, DATABASE},
    error::{Error, Result},
    local_commands, output, progress,
};

/// How the file is named that `--with-key` writes beside the copy.
const KEY_EXTENSION: &str = "secret-key";

/// Copy everything to a file, while the server runs
///
/// One file has it all: the objects and relationships of all projects with their history, documents,
/// agents, runs, workflows, products, tokens (as hashes) and secrets (still encrypted). The server may run
/// meanwhile: the copy has what was committed when it began, and nobody waits for it.
///
/// The key of the secrets is not in the copy. Keep it apart from the copies: without it, a server does not
/// start on a restored copy. Files of the data folder besides the database, such as rehearsals, are not in it.
#[derive(Debug, clap::Args)]
pub struct Backup {
    /// The new file; in an existing folder, a file that is named after the time
    file: PathBuf,
    /// Also write the key of the secrets, to FILE.secret-key, which only you can read
    #[arg(long)]
    with_key: bool,
}

impl Backup {
    pub async fn run(self, server: &ServerFlags, store: &StoreFlags, as_json: bool) -> Result<()> {
        let settings = Settings::load(store, None)?;
        local_commands::note_unused_server("backup", server, &settings);
        if let Some(url) = &settings.database_url {
            return Err(Error::OtherPrograms(postgres::backup_advice(url, &self.file)));
        }
        settings.check_data_folder()?;
        let database = settings.data_dir.join(DATABASE);
        if !database.metadata().is_ok_and(|found| found.len() > 0) {
            let folder = settings.data_dir.display();
            return Err(Error::Usage(format!(
                "there is no database in `{folder}`; --data-dir chooses a folder"
            )));
        }
        let file = target_file(&self.file, Clock::system().now());
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(Error::Usage(format!(
                "there is no folder `{}`; make it first, or choose another",
                folder.display()
            )));
        }
        let key_file = self.with_key.then(|| with_suffix(&file, KEY_EXTENSION));
        for path in [Some(&file), key_file.as_ref()].into_iter().flatten() {
            if path.exists() {
                return Err(Error::Usage(format!(
                    "`{}` exists already; choose another name",
                    path.display()
                )));
            }
        }
        let keys = datadir::secret_keys(&settings.data_dir)?;
        // Copying blocks this thread; no other task of this command waits for it.
        let contents = tokio::task::block_in_place(|| {
            let keys_before = if key_file.is_some() { keys.read()? } else { None };
            let contents = copy_and_check(&database, &file)?;
            if let Some(key_file) = &key_file {
                write_keys(&keys, keys_before, &contents, key_file)?;
            }
            Ok::<_, Error>(contents)
        })?;
        if as_json {
            return output::print_json(&json!({
                "file": file, "keyFile": key_file, "contents": contents_json(&contents),
            }));
        }
        output::print_text(&format!("{} ({})", file.display(), describe(&contents)))?;
        output::print_text(&match key_file {
            Some(path) => format!(
                "The key of its secrets is in {}. Move it to another place: whoever has both can read the secrets.",
                path.display()
            ),
            None => format!(
                "The key of its secrets is not in it: keep a copy of {}, apart from the backups.",
                datadir::key_location(&settings.data_dir)
            ),
        })
    }
}

/// Copies the database to a new file that only its owner can read, adds its digest, and checks it. The file appears
/// under its name when it is complete.
fn copy_and_check(database: &Path, file: &Path) -> Result<Contents> {
    let partial = with_suffix(file, &format!("{}.partial", std::process::id()));
    let copied = copy_file(database, &partial, "copying").and_then(|()| {
        backup::set_digest_mark(&partial, true).map_err(Error::Backup)?;
        digest::append(&partial).map_err(|source| Error::File { path: partial.clone(), source })?;
        let contents = backup::check(&partial, CheckDepth::Structure).map_err(Error::Backup)?;
        std::fs::rename(&partial, file)
            .and_then(|()| datadir::sync_folder_of(file))
            .map_err(|source| Error::File { path: file.to_owned(), source })?;
        Ok(contents)
    });
    if copied.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    copied.map_err(|error| match error {
        Error::Backup(source) => copy_error(database, source),
        other => other,
    })
}

/// The error of a copy that cannot be used. It has the pages of the database, so the damage is in the database; the
/// copy is removed, and its name would help nobody.
fn copy_error(database: &Path, error: emergent_store::Error) -> Error {
    let reason = match &error {
        emergent_store::Error::UnusableBackup { reason, .. } => reason.clone(),
        other if other.storage_fault() == Some(StorageFault::Corrupt) => error_chain(other),
        _ => return Error::Backup(error),
    };
    Error::UnusableDatabase { path: database.to_owned(), reason }
}

/// Copies a database to a new, private file, with a progress bar on a terminal.
fn copy_file(from: &Path, to: &Path, activity: &str) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(to).map_err(|source| Error::File { path: to.to_owned(), source })?;
    let total = from.metadata().map(|found| found.len()).unwrap_or(0);
    let bar = progress::bytes(Some(total), activity);
    let copied = backup::copy(from, to, |progress| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.copied_bytes);
    });
    bar.finish_and_clear();
    copied.map_err(Error::Backup)
}

/// Writes the keys that open the secrets of the copy. The keys may be rotated while the copy is made, so those
/// from before and after it are both written.
fn write_keys(keys: &KeySource, before: Option<Keyring>, contents: &Contents, file: &Path) -> Result<()> {
    let ring = match (before, keys.read()?) {
        (Some(before), Some(after)) => after.merged_with(&before),
        (Some(ring), None) | (None, Some(ring)) => ring,
        (None, None) => return Err(Error::Usage("there is no key of the secrets to write yet".to_owned())),
    };
    let missing = ring.missing_keys(&contents.secret_keys);
    if !missing.is_empty() {
        return Err(Error::Usage(format!(
            "the backup was made, but its secrets need the key {}, which is not here: set EMERGENT_SECRET_KEY \
             as for the server, and run the backup again",
            missing.join(", ")
        )));
    }
    Ok(emergent_secrets::write_key_copy(file, &ring)?)
}

/// The file to write: the given one, or a new one in the given folder, such as `emergent-2026-11-16T06-10-35.db`.
fn target_file(given: &Path, now: Timestamp) -> PathBuf {
    if !given.is_dir() {
        return given.to_owned();
    }
    let seconds: String = now.to_string().chars().take("2026-11-16T06:10:35".len()).collect();
    given.join(format!("emergent-{}.db", seconds.replace(':', "-")))
}

/// `data.db` with the suffix `partial` is `data.db.partial`.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

fn contents_json(contents: &Contents) -> Value {
    json!({
        "bytes": contents.bytes,
        "schemaVersion": contents.schema_version,
        "projects": contents.projects,
        "objects": contents.objects,
        "relationships": contents.relationships,
        "documents": contents.documents,
        "agents": contents.agents,
        "runs": contents.runs,
        "activeRuns": contents.active_runs,
        "activeWorkflows": contents.active_workflows,
        "secrets": contents.secrets,
        "secretKeys": contents.secret_keys,
    })
}

/// `1.5 MiB: 2 projects, 120 objects, …`
fn describe(contents: &Contents) -> String {
    let counts = [
        (contents.projects, "project"),
        (contents.objects, "object"),
        (contents.relationships, "relationship"),
        (contents.documents, "document"),
        (contents.agents, "agent"),
        (contents.runs, "run"),
        (contents.secrets, "secret"),
    ];
    let counts: Vec<_> = counts.into_iter().map(|(count, name)| counted(count, name)).collect();
    format!("{}: {}", HumanBytes(contents.bytes), counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_in_a_folder_is_named_after_the_time() {
        let folder = tempfile::tempdir().unwrap();
        let now = "2026-11-16T06:10:35Z".parse().unwrap();
        assert_eq!(target_file(folder.path(), now), folder.path().join("emergent-2026-11-16T06-10-35.db"));
        assert_eq!(target_file(Path::new("copy.db"), now), Path::new("copy.db"));
    }
}
