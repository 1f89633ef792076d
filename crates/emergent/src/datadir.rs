//! The data folder: its lock, its admin token, the key of the secrets, and the address of the server that
//! uses it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use emergent_graph::tokens::MIN_ADMIN_TOKEN_CHARS;
use emergent_secrets::KeySource;
use rand::RngCore;

use crate::{
    config::{Settings, env_value},
    error::{Error, Result},
    hints, lock_holder, private_files,
    server_file::{self, ServerFile},
};

/// The file name of the embedded database in the data folder.
pub const DATABASE: &str = "emergent.db";
/// The folder with the caches of the programs that run as MCP servers.
pub const PROGRAM_CACHES: &str = "program-caches";
/// The file name of the admin token.
pub const ADMIN_TOKEN_FILE: &str = "admin-token";
/// The file that a process locks that has the folder to itself.
pub const LOCK_FILE: &str = "lock";
/// The file name of the key of the secrets.
pub const KEY_FILE: &str = "secret-key";
/// How long a server or a command waits for another process to release the data folder.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the lock of the data folder is tried meanwhile.
pub const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// The name of the database while it is being restored, and the files that SQLite adds to it.
pub const PARTIAL: &str = "emergent.db.restoring";
pub const PARTIAL_LOG: &str = "emergent.db.restoring-wal";
pub const PARTIAL_SHARED_MEMORY: &str = "emergent.db.restoring-shm";
/// What may be in a folder that a backup is restored to.
const ALLOWED_BEFORE_RESTORE: &[&str] = &[
    "lock",
    KEY_FILE,
    "secret-key.lock",
    "rehearsals",
    PARTIAL,
    PARTIAL_LOG,
    PARTIAL_SHARED_MEMORY,
    "lost+found",
];

pub struct DataDir {
    path: PathBuf,
    /// The locked file `lock`; the operating system releases it however the process ends. `None` with
    /// PostgreSQL, where several processes share the folder; the embedded database allows only one.
    lock: Option<File>,
    /// The file with the address of the server of this process; it is locked while the process runs.
    server_file: OnceLock<File>,
}

impl DataDir {
    /// Opens the folder without a lock, for use with PostgreSQL. Creates it if needed.
    pub fn open_shared(path: &Path) -> Result<Self> {
        private_files::create_folder(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        Ok(Self::new(path, None))
    }

    fn new(path: &Path, lock: Option<File>) -> Self {
        Self { path: path.to_owned(), lock, server_file: OnceLock::new() }
    }

    /// Opens the folder of a database that exists, and locks it for this process; creates no database.
    pub fn open_existing(path: &Path) -> Result<Self> {
        Self::lock(path)
    }

    /// Opens the folder and locks it for this process. Creates it if needed; fails with `Error::Locked` when
    /// another process uses it.
    pub fn open_exclusive(path: &Path) -> Result<Self> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        private_files::create_folder(path).map_err(failed)?;
        private_files::create_database(path).map_err(failed)?;
        Self::lock(path)
    }

    /// Opens and locks a folder for a database that is about to be put there. Fails when it has data.
    pub fn open_for_restore(path: &Path) -> Result<Self> {
        check_restorable(path)?;
        private_files::create_folder(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        let data_dir = Self::lock(path)?;
        // Another process may have put data there before the folder was locked.
        check_restorable(path)?;
        Ok(data_dir)
    }

    /// Locks the folder for this process.
    fn lock(path: &Path) -> Result<Self> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK_FILE))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {
                lock_holder::write(&lock, &hints::subcommand());
                // A server that was killed leaves its address behind, and nobody listens there now. A server on
                // PostgreSQL may use the folder too.
                server_file::remove_stale(path);
                Ok(Self::new(path, Some(lock)))
            }
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Whether this process holds the lock, so that no other process uses the embedded database.
    pub fn is_exclusive(&self) -> bool {
        self.lock.is_some()
    }

    /// The admin token: from the environment, from the folder, or created now. The flag is true when it was
    /// created now; the caller then shows it, once.
    pub fn admin_token(&self) -> Result<(String, bool)> {
        let path = self.path.join(ADMIN_TOKEN_FILE);
        if let Some(token) = env_value("EMERGENT_ADMIN_TOKEN") {
            check_admin_token(&token, &path)?;
            return Ok((token, false));
        }
        if let Some(token) = read_secret(&path)? {
            return Ok((token, false));
        }
        let mut bytes = [0; 32];
        rand::rng().fill_bytes(&mut bytes);
        let token = format!("emt_{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
        match write_secret(&path, &token) {
            // Another server that shares the folder created the file first: its token is valid.
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => {
                Ok((read_secret(&path)?.unwrap_or(token), false))
            }
            result => result.map(|()| (token, true)),
        }
    }

    /// Where the encryption key of the secrets is: in `EMERGENT_SECRET_KEY`, or in a file of the folder.
    pub fn secret_keys(&self) -> Result<KeySource> {
        secret_keys(&self.path)
    }

    /// Writes the server's address to the file where commands on this folder find it.
    pub fn write_address(&self, address: &str, settings: &Settings) -> Result<()> {
        let url = settings.database_url.as_deref();
        let file = server_file::write(&self.path, address, url, &settings.rehearsals)?;
        // A server writes its address once.
        let _ = self.server_file.set(file);
        Ok(())
    }

    pub fn remove_address(&self) {
        if let Some(file) = self.server_file.get() {
            server_file::remove_own(&self.path, file);
        }
    }
}

/// Checks `EMERGENT_ADMIN_TOKEN`, if it is set, for the server of this folder.
pub fn check_given_admin_token(folder: &Path) -> Result<()> {
    match env_value("EMERGENT_ADMIN_TOKEN") {
        Some(token) => check_admin_token(&token, &folder.join(ADMIN_TOKEN_FILE)),
        None => Ok(()),
    }
}

/// Refuses a value of `EMERGENT_ADMIN_TOKEN` that is too short; `file` is where a server keeps one that it made.
fn check_admin_token(token: &str, file: &Path) -> Result<()> {
    let length = token.len();
    if length >= MIN_ADMIN_TOKEN_CHARS {
        return Ok(());
    }
    let reason = format!(
        "it has {length} characters and needs at least {MIN_ADMIN_TOKEN_CHARS}; `openssl rand -hex 32` makes one, and \
         without this variable `emergent serve` makes one and keeps it in `{}`",
        file.display()
    );
    Err(Error::setting("EMERGENT_ADMIN_TOKEN", reason))
}

/// Where the encryption key of the secrets is: in `EMERGENT_SECRET_KEY`, or in a file of this folder.
pub fn secret_keys(folder: &Path) -> Result<KeySource> {
    match env_value("EMERGENT_SECRET_KEY") {
        Some(text) => Ok(KeySource::from_env_value(&text)?),
        None => Ok(KeySource::from_file(folder.join(KEY_FILE))),
    }
}

/// Where the encryption key of the secrets is, for messages.
pub fn key_location(folder: &Path) -> String {
    match env_value("EMERGENT_SECRET_KEY") {
        Some(_) => "EMERGENT_SECRET_KEY".to_owned(),
        None => folder.join(KEY_FILE).display().to_string(),
    }
}

/// Fails if the folder has data, so that a restored database would replace or mix with it.
pub fn check_restorable(folder: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::File { path: folder.to_owned(), source }),
    };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let mut others =
        names.iter().filter(|name| !ALLOWED_BEFORE_RESTORE.iter().any(|allowed| *name == allowed));
    // Of what is in a data folder, the database is what would be lost.
    let database = names.iter().find(|name| *name == DATABASE);
    match database.or_else(|| others.next()) {
        Some(name) if name == DATABASE => Err(Error::Usage(format!(
            "`{}` is not empty: it has the database `{DATABASE}`. A backup is restored to a new folder; --data-dir chooses it",
            folder.display()
        ))),
        Some(name) => Err(Error::Usage(format!(
            "`{}` is not empty: it has `{}`. A backup is restored to a new folder; --data-dir chooses it",
            folder.display(),
            name.display()
        ))),
        None => Ok(()),
    }
}

/// Makes a new or renamed file durable under its name.
pub fn sync_folder_of(file: &Path) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    if cfg!(unix) { File::open(folder.unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
}

/// The server that uses this folder now; `None` when none does.
pub fn running_server(folder: &Path) -> Option<ServerFile> {
    server_file::read(folder).filter(|server| server.is_running)
}

/// The admin token that commands on this folder send to its server, if it is readable.
pub fn server_token(folder: &Path) -> Option<String> {
    env_value("EMERGENT_ADMIN_TOKEN").or_else(|| read_secret(&folder.join(ADMIN_TOKEN_FILE)).ok().flatten())
}

/// Whether there is an embedded database in the folder. A file without content is none yet.
pub fn has_database(folder: &Path) -> bool {
    folder.join(DATABASE).metadata().is_ok_and(|found| found.len() > 0)
}

/// Reads a secret from a file; `None` when the file is missing or empty.
fn read_secret(path: &Path) -> Result<Option<String>> {
    let mut text = String::new();
    match open_secret(path).and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) => Ok(Some(text.trim().to_owned()).filter(|secret| !secret.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path: path.to_owned(), source }),
    }
}

/// Opens the file of a secret. It has to be a regular file with one name: a link or a pipe was put there by
/// somebody else, to have another text used as the secret.
fn open_secret(path: &Path) -> std::io::Result<File> {
    let found = std::fs::symlink_metadata(path)?;
    #[cfg(unix)]
    let is_only_name = std::os::unix::fs::MetadataExt::nlink(&found) == 1;
    #[cfg(not(unix))]
    let is_only_name = true;
    if !found.is_file() || !is_only_name {
        return Err(std::io::Error::other("is a link, or not a regular file; remove it, and start again"));
    }
    File::open(path)
}

/// Writes a secret to a new file; fails when the file exists.
fn write_secret(path: &Path, secret: &str) -> Result<()> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // The mode is set at creation, so that nobody else can read the file at any moment.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(failed)?;
    writeln!(file, "{secret}").and_then(|()| file.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_folder_is_locked_and_its_token_is_stable() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        let data = DataDir::open_exclusive(&dir).unwrap();
        let locked = DataDir::open_exclusive(&dir).err().expect("it is locked");
        assert!(matches!(locked, Error::Locked { .. }));
        assert!(
            locked.to_string().contains(&format!("another process ({})", std::process::id())),
            "{locked}"
        );
        let (token, is_new) = data.admin_token().unwrap();
        assert!(is_new && token.starts_with("emt_"));
        assert_eq!(data.admin_token().unwrap(), (token, false));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&dir), 0o700);
            assert_eq!(mode(&dir.join("admin-token")), 0o600);
            assert_eq!(mode(&dir.join(DATABASE)), 0o600);
        }
        drop(data);
        assert!(DataDir::open_exclusive(&dir).is_ok());
    }
}
