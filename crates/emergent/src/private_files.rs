//! The modes of the data folder and of its files: only their owner may read them.

use std::{
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
};

use tracing::warn;

use crate::datadir::{ADMIN_TOKEN_FILE, DATABASE, KEY_FILE};

/// The files whose contents give whoever reads them all rights.
const SECRET_FILES: [&str; 2] = [ADMIN_TOKEN_FILE, KEY_FILE];

/// Creates the data folder if needed, and lets only its owner into it. A folder that exists gets that mode too, unless it
/// belongs to somebody else, or is for everybody, as `/tmp` is: then the log warns.
pub fn create_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    #[cfg(unix)]
    unix::make_folder_private(path)?;
    Ok(())
}

/// Makes files with secrets private that others can read, and warns of each. Only the start of a server does so: a command
/// that looks, such as `doctor`, changes nothing.
pub fn protect_secrets(folder: &Path) {
    for file in exposed_secrets(folder) {
        let path = file.display();
        match set_private(&file) {
            Ok(()) => warn!(
                file = %path,
                "other users of this machine could read `{path}`; only its owner can now. If somebody else may have read \
                 it, replace what is in it"
            ),
            Err(error) => warn!(
                file = %path, cause = %error,
                "other users of this machine can read `{path}`, and its mode cannot be changed: make its owner the user \
                 of this server, with `chmod 600`"
            ),
        }
    }
}

/// Creates the database file so that only its owner can read it. SQLite gives its write-ahead log and
/// shared-memory file the mode of the database file, so an empty file with that mode comes first.
pub fn create_database(folder: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(folder.join(DATABASE))?;
    for name in [DATABASE, "emergent.db-wal", "emergent.db-shm"] {
        match set_private(&folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The files with secrets of a data folder that other users may read or write.
pub fn exposed_secrets(folder: &Path) -> Vec<PathBuf> {
    let files = SECRET_FILES.iter().map(|name| folder.join(name));
    files.filter(|file| is_exposed(file)).collect()
}

/// Whether users besides the owner have any right to the file. A link is not followed: who reads a secret refuses it.
fn is_exposed(file: &Path) -> bool {
    #[cfg(unix)]
    return std::fs::symlink_metadata(file).is_ok_and(|found| found.is_file() && unix::is_open(&found));
    #[cfg(not(unix))]
    return false;
}

fn set_private(file: &Path) -> io::Result<()> {
    #[cfg(unix)]
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(())
}

#[cfg(unix)]
mod unix {
    use std::{
        fs::Metadata,
        io,
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::Path,
    };

    use tracing::warn;

    /// The bit of folders in which everybody may create files.
    const STICKY: u32 = 0o1000;

    pub fn make_folder_private(path: &Path) -> io::Result<()> {
        let found = std::fs::metadata(path)?;
        if !is_open(&found) {
            return Ok(());
        }
        if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & STICKY == 0 {
            return std::fs::set_permissions(path, PermissionsExt::from_mode(0o700));
        }
        warn!(
            folder = %path.display(),
            "other users of this machine can open the data folder `{}`, and it is not this user's alone: choose a folder \
             of its own with --data-dir", path.display()
        );
        Ok(())
    }

    /// Whether users besides the owner have any right.
    pub fn is_open(found: &Metadata) -> bool {
        found.mode() & 0o077 != 0
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_exists_and_files_that_others_can_read_are_made_private() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("data");
        std::fs::create_dir(&folder).unwrap();
        for name in ["notes.txt", ADMIN_TOKEN_FILE, KEY_FILE] {
            std::fs::write(folder.join(name), "text").unwrap();
            set_mode(&folder.join(name), 0o666);
        }
        set_mode(&folder, 0o755);
        assert_eq!(exposed_secrets(&folder).len(), 2);
        create_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        protect_secrets(&folder);
        assert_eq!(exposed_secrets(&folder), Vec::<PathBuf>::new());
        assert_eq!(mode(&folder.join(ADMIN_TOKEN_FILE)), 0o600);
        assert_eq!(mode(&folder.join("notes.txt")), 0o666, "it is no file of Emergent");
    }

    #[test]
    fn a_folder_for_everybody_keeps_its_mode() {
        let parent = tempfile::tempdir().unwrap();
        set_mode(parent.path(), 0o1777);
        create_folder(parent.path()).unwrap();
        assert_eq!(mode(parent.path()), 0o1777);
    }
}
