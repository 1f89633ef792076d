//! The data folder: one process at a time, a token and a note of where the server listens.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Write},
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use emergent_secrets::KeySource;
use rand::RngCore;

use crate::{
    config::env_value,
    error::{Error, Result},
};

/// The name of the embedded database in the folder.
pub const DATABASE: &str = "emergent.db";

pub struct DataDir {
    path: PathBuf,
    /// Held while the process lives; the system lets go of it whatever kills the process. The
    /// embedded database is one process's; on PostgreSQL several share the folder.
    lock: Option<File>,
}

impl DataDir {
    /// Makes the folder if needed, and shares it with other processes.
    pub fn open_shared(path: &Path) -> Result<Self> {
        create_private_folder(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), lock: None })
    }

    /// Makes the folder if needed and takes it for this process.
    pub fn open_exclusive(path: &Path) -> Result<Self> {
        let failed = |source| Error::File { path: path.to_owned(), source };
        create_private_folder(path).map_err(failed)?;
        create_private_database(path).map_err(failed)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {
                let taken = Self { path: path.to_owned(), lock: Some(lock) };
                // Left by a server that was killed: nobody may take it for the next one's.
                taken.remove_address();
                Ok(taken)
            }
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Whether no other process uses what is in it.
    pub fn is_exclusive(&self) -> bool {
        self.lock.is_some()
    }

    /// The admin token: from the environment, or from the folder, or made now. The second part
    /// says that it was made now, so that it is shown once.
    pub fn admin_token(&self) -> Result<(String, bool)> {
        if let Some(token) = env_value("EMERGENT_ADMIN_TOKEN") {
            return Ok((token, false));
        }
        let path = self.path.join("admin-token");
        if let Some(token) = read_secret(&path)? {
            return Ok((token, false));
        }
        let mut bytes = [0; 32];
        rand::rng().fill_bytes(&mut bytes);
        let token = format!("emt_{}", BASE64_URL_SAFE_NO_PAD.encode(bytes));
        match write_secret(&path, &token) {
            // Another server that shares the folder was first: its token is the token.
            Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => {
                Ok((read_secret(&path)?.unwrap_or(token), false))
            }
            written => written.map(|()| (token, true)),
        }
    }

    /// Where the key of the secrets is: in the environment, or in the folder.
    pub fn secret_keys(&self) -> Result<KeySource> {
        match env_value("EMERGENT_SECRET_KEY") {
            Some(text) => Ok(KeySource::from_env_value(&text)?),
            None => Ok(KeySource::from_file(self.path.join("secret-key"))),
        }
    }

    /// Leaves the address where commands on this folder look for it.
    pub fn write_address(&self, address: &str) -> Result<()> {
        if !self.is_exclusive() {
            return Ok(());
        }
        let path = self.path.join("server");
        std::fs::write(&path, address).map_err(|source| Error::File { path, source })
    }

    pub fn remove_address(&self) {
        if !self.is_exclusive() {
            return;
        }
        let _ = std::fs::remove_file(self.path.join("server"));
    }
}

/// Makes the folder if needed. Only its owner may look into it, also when an older version made it. A
/// folder with other things in it that is used as data folder for the first time keeps its mode: others
/// may need what is in it.
fn create_private_folder(path: &Path) -> std::io::Result<()> {
    let is_ours = !path.exists() || [DATABASE, "admin-token"].iter().any(|name| path.join(name).exists());
    std::fs::create_dir_all(path)?;
    #[cfg(unix)]
    if is_ours {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    }
    Ok(())
}

/// Only the owner may read the database. SQLite gives its log and its index of the log the mode of the
/// database itself, so an empty file with that mode is made first.
fn create_private_database(folder: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(folder.join(DATABASE))?;
    #[cfg(unix)]
    for name in [DATABASE, "emergent.db-wal", "emergent.db-shm"] {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        match std::fs::set_permissions(folder.join(name), private) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Where the server that holds this folder listens, with its token.
pub fn running_server(path: &Path) -> Option<(String, Option<String>)> {
    let address = std::fs::read_to_string(path.join("server")).ok()?;
    let token =
        env_value("EMERGENT_ADMIN_TOKEN").or_else(|| read_secret(&path.join("admin-token")).ok().flatten());
    Some((address.trim().to_owned(), token))
}

fn read_secret(path: &Path) -> Result<Option<String>> {
    let mut text = String::new();
    match File::open(path).and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) => Ok(Some(text.trim().to_owned()).filter(|secret| !secret.is_empty())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path: path.to_owned(), source }),
    }
}

fn write_secret(path: &Path, secret: &str) -> Result<()> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // Only the owner reads it, from the moment it exists.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(failed)?;
    writeln!(file, "{secret}").and_then(|()| file.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_one_process_and_keeps_its_token() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        let data = DataDir::open_exclusive(&dir).unwrap();
        assert!(matches!(DataDir::open_exclusive(&dir), Err(Error::Locked { .. })));
        let (token, new) = data.admin_token().unwrap();
        assert!(new && token.starts_with("emt_"));
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
