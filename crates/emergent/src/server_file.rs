//! The file `server` of a data folder: the address of the server that uses the folder, its database, and the folders of
//! its rehearsal scripts. The server holds a lock on the file, which the operating system releases however the process ends. So a command
//! knows that the address is of a running server, and sends the admin token of the folder to no other program.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::Write,
    path::{Path, PathBuf},
};

use emergent_store::db::without_password;

use crate::error::{Error, Result};

/// How the embedded database is named in the file.
const EMBEDDED: &str = "sqlite";

/// What the file of a folder says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFile {
    pub address: String,
    /// The URL of its PostgreSQL database without the password; `None` for the embedded database.
    pub database: Option<String>,
    /// The folders in which the server looks for rehearsal scripts, separated as in `PATH`; `None` if an older version
    /// wrote the file.
    pub rehearsals: Option<String>,
    /// Whether the process that wrote the file still runs.
    pub is_running: bool,
}

impl ServerFile {
    /// Whether the server uses the database of this URL. Without a URL, the database is whichever the server has.
    pub fn has_database(&self, url: Option<&str>) -> bool {
        url.is_none_or(|url| self.database.as_deref() == Some(without_password(url).as_str()))
    }
}

/// The path of the file.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("server")
}

/// Writes the file and locks it. The lock lasts as long as the returned file is open.
pub fn write(folder: &Path, address: &str, database_url: Option<&str>, rehearsals: &str) -> Result<File> {
    let path = self::path(folder);
    let database = database_url.map_or(EMBEDDED.to_owned(), without_password);
    let rehearsals =
        Some(absolute_folders(rehearsals)).filter(|folders| !folders.contains('\n')).unwrap_or_default();
    // Another server may share the folder, and commands may read the file now. So the file is locked under another
    // name first, and then takes the place of the old one.
    let new = folder.join(format!("server.{}", std::process::id()));
    let written = || {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&new)?;
        file.lock()?;
        writeln!(file, "{address}\n{database}\n{rehearsals}")?;
        std::fs::rename(&new, &path)?;
        Ok(file)
    };
    written().map_err(|source| {
        let _ = std::fs::remove_file(&new);
        Error::File { path: path.clone(), source }
    })
}

/// These folders as a process in another folder names them.
pub fn absolute_folders(folders: &str) -> String {
    let paths = std::env::split_paths(folders).map(|path| std::path::absolute(&path).unwrap_or(path));
    match std::env::join_paths(paths) {
        Ok(joined) => joined.to_string_lossy().into_owned(),
        Err(_) => folders.to_owned(),
    }
}

/// Reads the file; `None` when there is none, or it is empty.
pub fn read(folder: &Path) -> Option<ServerFile> {
    let path = self::path(folder);
    let text = std::fs::read_to_string(&path).ok()?;
    let mut lines = text.lines().map(str::trim);
    let address = lines.next().filter(|address| !address.is_empty())?;
    let database = lines.next().filter(|database| !database.is_empty() && *database != EMBEDDED);
    let rehearsals = lines.next().filter(|folders| !folders.is_empty());
    Some(ServerFile {
        // A server that listens on every address is reached on the loopback address.
        address: address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:"),
        database: database.map(str::to_owned),
        rehearsals: rehearsals.map(str::to_owned),
        is_running: is_locked(&path),
    })
}

/// Removes the file, unless another process that runs has written it.
pub fn remove_stale(folder: &Path) {
    let path = self::path(folder);
    if !is_locked(&path) {
        let _ = std::fs::remove_file(path);
    }
}

/// Removes the file that this process wrote. Another server on the same folder may have replaced it meanwhile.
pub fn remove_own(folder: &Path, own: &File) {
    let path = self::path(folder);
    #[cfg(unix)]
    let is_own = {
        use std::os::unix::fs::MetadataExt;
        let inode = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let own = own.metadata().map(inode).ok();
        own.is_some() && own == std::fs::metadata(&path).map(inode).ok()
    };
    #[cfg(not(unix))]
    let is_own = own.metadata().is_ok();
    if is_own {
        let _ = std::fs::remove_file(path);
    }
}

/// Whether a process holds the lock of the file.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // The lock of this process ends when the file is closed, at the end of this function.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "postgres://me:secret@host:5432/emergent";

    #[test]
    fn the_file_says_whether_its_server_runs_and_on_which_database() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        assert_eq!(read(path), None);
        let own = write(path, "http://0.0.0.0:4400", Some(URL), "/first:/second").unwrap();
        let found = read(path).unwrap();
        assert_eq!(found.rehearsals.as_deref(), Some("/first:/second"));
        assert_eq!(found.address, "http://127.0.0.1:4400");
        assert!(found.is_running && found.has_database(Some(URL)) && found.has_database(None));
        assert!(!found.has_database(Some("postgres://me:secret@host:5432/other")));
        let text = std::fs::read_to_string(path.join("server")).unwrap();
        assert!(!text.contains("secret"), "{text}");
        remove_stale(path);
        assert!(read(path).is_some(), "the server runs");

        drop(own);
        assert!(!read(path).unwrap().is_running);
        remove_stale(path);
        assert_eq!(read(path), None);
    }

    #[test]
    fn a_server_removes_only_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let first = write(path, "http://127.0.0.1:1", None, "x").unwrap();
        let second = write(path, "http://127.0.0.1:2", None, "x").unwrap();
        remove_own(path, &first);
        let found = read(path).unwrap();
        assert_eq!((found.address.as_str(), found.is_running), ("http://127.0.0.1:2", true));
        assert!(!found.has_database(Some(URL)));
        remove_own(path, &second);
        assert_eq!(read(path), None);
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
    }
}
