//! Where the key is kept: in the environment, or in a file beside the database that this program
//! makes by itself and may therefore also change.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{Error, Keyring, Result};

/// The environment's keys are what they are; a file's are read when they are needed.
pub enum KeySource {
    Environment(Keyring),
    File(KeyFile),
}

impl KeySource {
    /// The value of `EMERGENT_SECRET_KEY`.
    pub fn from_env_value(text: &str) -> Result<Self> {
        let place = "EMERGENT_SECRET_KEY".to_owned();
        Ok(Self::Environment(Keyring::parse(text).map_err(|reason| Error::BadKey { place, reason })?))
    }

    /// A file that is made at the first start.
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self::File(KeyFile { path: path.into() })
    }

    pub(crate) fn location(&self) -> String {
        match self {
            Self::Environment(_) => "EMERGENT_SECRET_KEY".to_owned(),
            Self::File(file) => format!("`{}`", file.path.display()),
        }
    }

    pub(crate) fn read(&self) -> Result<Option<Keyring>> {
        match self {
            Self::Environment(ring) => Ok(Some(ring.clone())),
            Self::File(file) => file.read(),
        }
    }
}

/// A file of keys, one a line, that only its owner reads.
#[derive(Clone)]
pub struct KeyFile {
    path: PathBuf,
}

/// The file is this one's to change until this is dropped.
pub(crate) struct LockedKeyFile {
    file: KeyFile,
    _lock: File,
}

impl KeyFile {
    /// `None` when there is no key yet.
    pub(crate) fn read(&self) -> Result<Option<Keyring>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => zeroize::Zeroizing::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.failed(source)),
        };
        if text.trim().is_empty() {
            return Ok(None);
        }
        let place = format!("`{}`", self.path.display());
        Keyring::parse(&text).map(Some).map_err(|reason| Error::BadKey { place, reason })
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
    /// The old keys or the new ones, whatever happens meanwhile; when this returns, on the disk.
    pub(crate) fn write(&self, ring: &Keyring) -> Result<()> {
        let path = &self.file.path;
        let beside = path.with_extension("new");
        let written = (|| {
            // Left by a process that was killed here.
            match fs::remove_file(&beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            // Only the owner reads it, from the moment it exists.
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&beside)?;
            file.write_all(ring.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)?;
            sync_folder(path)
        })();
        written.map_err(|source| self.file.failed(source))
    }

    /// Takes back what was made in vain.
    pub(crate) fn remove(&self) -> Result<()> {
        fs::remove_file(&self.file.path).map_err(|source| self.file.failed(source))
    }
}

/// A name is on the disk when its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if cfg!(unix) { File::open(folder.unwrap_or(Path::new(".")))?.sync_all() } else { Ok(()) }
}
