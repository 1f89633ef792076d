//! The source of the encryption key: the environment, or a file next to the database that the
//! server creates and can therefore also change.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{Error, Keyring, Result};

/// The keys of the environment are fixed for the process. Those of a file are read when they are
/// needed.
pub enum KeySource {
    Environment(Keyring),
    File(KeyFile),
}

impl KeySource {
    /// Parses the value of `EMERGENT_SECRET_KEY`.
    pub fn from_env_value(text: &str) -> Result<Self> {
        let location = "EMERGENT_SECRET_KEY".to_owned();
        Ok(Self::Environment(Keyring::parse(text).map_err(|reason| Error::BadKey { location, reason })?))
    }

    /// Uses a file, which is created at the first start.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self::File(KeyFile { path: path.into() })
    }

    /// Where the key is configured, for error messages.
    pub(crate) fn location(&self) -> String {
        match self {
            Self::Environment(_) => "EMERGENT_SECRET_KEY".to_owned(),
            Self::File(file) => format!("`{}`", file.path.display()),
        }
    }

    /// Returns the configured keys; `None` if the key file has no key yet.
    pub fn read(&self) -> Result<Option<Keyring>> {
        match self {
            Self::Environment(ring) => Ok(Some(ring.clone())),
            Self::File(file) => file.read(),
        }
    }
}

/// A file with one key per line that only its owner can read.
#[derive(Clone)]
pub struct KeyFile {
    path: PathBuf,
}

/// An exclusive lock on the key file. It is released when the value is dropped.
pub(crate) struct LockedKeyFile {
    file: KeyFile,
    _lock: File,
}

impl KeyFile {
    /// Returns `None` if there is no key yet.
    pub(crate) fn read(&self) -> Result<Option<Keyring>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => zeroize::Zeroizing::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed(source)),
        };
        if text.trim().is_empty() {
            return Ok(None);
        }
        let location = format!("`{}`", self.path.display());
        Keyring::parse(&text).map(Some).map_err(|reason| Error::BadKey { location, reason })
    }

    /// Waits until no other process that shares the folder is changing the file.
    pub(crate) fn lock(&self) -> Result<LockedKeyFile> {
        let path = self.path.with_extension("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let lock = lock.map_err(|source| self.failed(source))?;
        lock.lock().map_err(|source| self.failed(source))?;
        Ok(LockedKeyFile { file: self.clone(), _lock: lock })
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::File { path: self.path.clone(), source }
    }
}

impl LockedKeyFile {
    /// Replaces the keys atomically. They are on disk when the call returns.
    pub(crate) fn write(&self, ring: &Keyring) -> Result<()> {
        let path = &self.file.path;
        let new_file = path.with_extension("new");
        let result = (|| {
            // A process that was killed before the rename has left its file behind.
            match fs::remove_file(&new_file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            write_new(&new_file, ring)?;
            fs::rename(&new_file, path)?;
            sync_folder(path)
        })();
        result.map_err(|source| self.file.failed(source))
    }

    /// Deletes the key file. Used if another server stored its key in the database first.
    pub(crate) fn remove(&self) -> Result<()> {
        fs::remove_file(&self.file.path).map_err(|source| self.file.failed(source))
    }
}

/// Writes a copy of the keys to a new file that only its owner can read. Fails if the file exists.
pub fn write_key_copy(path: &Path, ring: &Keyring) -> Result<()> {
    write_new(path, ring)
        .and_then(|()| sync_folder(path))
        .map_err(|source| Error::File { path: path.to_owned(), source })
}

fn write_new(path: &Path, ring: &Keyring) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    // Only the owner can read the file, from the moment it exists.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(ring.to_text().as_bytes())?;
    file.sync_all()
}

/// The entry of a new file is durable only once its folder is synced.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if cfg!(unix) { File::open(folder.unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
}
