//! Measures and removes a folder tree that a hostile program may change meanwhile. Every step starts from an open folder
//! and follows no link: a folder that the program replaces by a link at the right moment leads nowhere else. Removal by
//! paths would follow it, and delete what the program itself cannot reach, such as the data folder.

use std::{
    ffi::{CStr, CString},
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat},
    io::Errno,
    path::Arg,
};
use uuid::Uuid;

/// A tree with more levels counts as too large. One folder of each level is open while the tree is measured.
const MAX_MEASURED_LEVELS: usize = 100;

/// The size of a tree.
#[derive(Clone, Copy)]
pub struct Limits {
    pub bytes: u64,
    pub entries: usize,
}

/// Whether a folder has at most so many bytes and entries. One that cannot be read counts as too large, and one that
/// does not exist is within all limits.
pub fn is_within(folder: &Path, limits: Limits) -> bool {
    match open_folder(CWD, folder) {
        Err(Errno::NOENT) => true,
        root => root.and_then(|root| measure(root, limits)).unwrap_or(false),
    }
}

fn measure(root: OwnedFd, mut left: Limits) -> Result<bool, Errno> {
    let Some(level) = read_level(root, &mut left)? else { return Ok(false) };
    let mut levels = vec![level];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.subfolders.pop() else {
            levels.pop();
            continue;
        };
        let folder = open_folder(&level.folder, &name)?;
        match read_level(folder, &mut left)? {
            Some(level) if levels.len() < MAX_MEASURED_LEVELS => levels.push(level),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// An open folder with the names of the folders in it that are not measured yet.
struct Level {
    folder: OwnedFd,
    subfolders: Vec<CString>,
}

/// Subtracts the entries of a folder from what is left. `None` if they are too many.
fn read_level(folder: OwnedFd, left: &mut Limits) -> Result<Option<Level>, Errno> {
    let mut subfolders = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dots(name) {
            continue;
        }
        let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let bytes = left.bytes.checked_sub(u64::try_from(found.st_size).unwrap_or(u64::MAX));
        let (Some(bytes), Some(entries)) = (bytes, left.entries.checked_sub(1)) else { return Ok(None) };
        *left = Limits { bytes, entries };
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            subfolders.push(name.to_owned());
        }
    }
    Ok(Some(Level { folder, subfolders }))
}

/// Removes a folder with everything in it; links are removed, and what they lead to stays. What cannot be removed does
/// not keep the rest from being removed. When `is_over` becomes true, the error is [`io::ErrorKind::TimedOut`], and a
/// later call continues.
///
/// The folders in the tree are moved up to its root before they are emptied, so that a deep tree needs neither a deep
/// stack nor many open folders.
pub fn remove_tree(path: &Path, is_over: &dyn Fn() -> bool) -> io::Result<()> {
    let root = match open_for_removal(CWD, path) {
        Err(Errno::NOENT) => return Ok(()),
        root => root?,
    };
    let mut removal = Removal { root: root.as_fd(), is_over, is_timed_out: false, changes: 0, failure: None };
    loop {
        let changes_before = removal.changes;
        removal.empty_root();
        let is_progressing = removal.changes > changes_before;
        match (fs::remove_dir(path), removal.failure.take()) {
            (Ok(()), _) => return Ok(()),
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            (Err(_), _) if removal.is_timed_out => return Err(io::ErrorKind::TimedOut.into()),
            // Folders were moved to the root, or the program has created others.
            (Err(_), _) if is_progressing => {}
            (Err(error), failure) => return Err(failure.map_or(error, io::Error::from)),
        }
    }
}

struct Removal<'a> {
    root: BorrowedFd<'a>,
    is_over: &'a dyn Fn() -> bool,
    is_timed_out: bool,
    /// How many entries were removed or moved.
    changes: usize,
    /// Why the first entry that could not be removed was not.
    failure: Option<Errno>,
}

impl Removal<'_> {
    /// Removes the entries of the root. The folders in its folders are moved to the root.
    fn empty_root(&mut self) {
        let root = self.root;
        self.for_each_entry(root, |removal, name| {
            if unlink(root, name)? == Unlinked::IsFolder {
                let folder = open_for_removal(root, name)?;
                removal.empty_folder(folder.as_fd());
                unlinkat(root, name, AtFlags::REMOVEDIR)?;
            }
            Ok(())
        });
    }

    /// Removes the entries of a folder of the root, and moves its folders to the root.
    fn empty_folder(&mut self, folder: BorrowedFd<'_>) {
        let root = self.root;
        self.for_each_entry(folder, |_, name| {
            if unlink(folder, name)? == Unlinked::IsFolder {
                // A folder that its owner may not change cannot be moved either.
                open_for_removal(folder, name)?;
                // The program cannot have foreseen this name.
                renameat(folder, name, root, Uuid::now_v7().to_string())?;
            }
            Ok(())
        });
    }

    fn for_each_entry(
        &mut self,
        folder: BorrowedFd<'_>,
        mut remove: impl FnMut(&mut Self, &CStr) -> Result<(), Errno>,
    ) {
        let entries = match Dir::read_from(folder) {
            Ok(entries) => entries,
            Err(error) => return self.record_failure(error),
        };
        for entry in entries {
            if (self.is_over)() {
                self.is_timed_out = true;
                return;
            }
            let removed = match &entry {
                Ok(entry) if is_dots(entry.file_name()) => continue,
                Ok(entry) => remove(self, entry.file_name()),
                Err(error) => Err(*error),
            };
            match removed {
                Ok(()) => self.changes += 1,
                Err(error) => self.record_failure(error),
            }
        }
    }

    fn record_failure(&mut self, error: Errno) {
        self.failure.get_or_insert(error);
    }
}

#[derive(PartialEq, Eq)]
enum Unlinked {
    Removed,
    IsFolder,
}

/// Removes an entry that is not a folder.
fn unlink(folder: BorrowedFd<'_>, name: &CStr) -> Result<Unlinked, Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(Unlinked::Removed),
        Err(Errno::ISDIR) => Ok(Unlinked::IsFolder),
        // What other systems than Linux say of a folder.
        Err(Errno::PERM) => {
            let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => Ok(Unlinked::IsFolder),
                _ => Err(Errno::PERM),
            }
        }
        Err(error) => Err(error),
    }
}

fn open_folder(at: impl AsFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// Opens a folder whose entries are to be removed. Its mode may forbid that even to its owner.
fn open_for_removal(at: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd, Errno> {
    let folder = match open_folder(&at, name) {
        Err(Errno::ACCESS) => {
            allow_owner(&at, name)?;
            open_folder(&at, name)?
        }
        folder => folder?,
    };
    if !Mode::from_raw_mode(fstat(&folder)?.st_mode).contains(Mode::RWXU) {
        fchmod(&folder, Mode::RWXU)?;
    }
    Ok(folder)
}

/// Lets the owner of a folder read and change it. What a link leads to is left as it is.
#[cfg(target_os = "linux")]
fn allow_owner(at: impl AsFd, name: impl Arg) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;

    // Such a descriptor needs no right to the folder itself. Only its path in `/proc` can be given another mode.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(at, name, flags, Mode::empty())?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU)
}

#[cfg(not(target_os = "linux"))]
fn allow_owner(at: impl AsFd, name: impl Arg) -> Result<(), Errno> {
    rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt, symlink},
        sync::atomic::{AtomicBool, Ordering},
        time::{Duration, Instant},
    };

    use super::*;

    fn remove(path: &Path) -> io::Result<()> {
        remove_tree(path, &|| false)
    }

    fn few(bytes: u64, entries: usize) -> Limits {
        Limits { bytes, entries }
    }

    #[test]
    fn what_a_link_leads_to_stays() {
        let root = tempfile::tempdir().unwrap();
        let (cache, other) = (root.path().join("cache"), root.path().join("other"));
        fs::create_dir_all(&other).unwrap();
        fs::create_dir_all(&cache).unwrap();
        fs::write(other.join("file"), [0; 10_000]).unwrap();
        symlink(&other, cache.join("folder")).unwrap();
        symlink(other.join("file"), cache.join("file")).unwrap();
        assert!(is_within(&cache, few(9_000, 3)), "what is elsewhere does not count");
        remove(&cache).unwrap();
        assert!(!cache.exists() && other.join("file").exists());
        remove(&cache).unwrap();
    }

    /// A program that is still alive exchanges a folder of its cache with a link to the data folder, again and again, so
    /// that the paths of the folders in it lead through the link for a part of the time.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_becomes_a_link_while_it_is_removed_leads_nowhere() {
        use rustix::fs::{RenameFlags, renameat_with};

        let root = tempfile::tempdir().unwrap();
        let (cache, data) = (root.path().join("caches/one"), root.path().join("data"));
        let data_files: Vec<_> =
            (0..50).map(|number| data.join(format!("deep/{number}/emergent.db"))).collect();
        for file in &data_files {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "kept").unwrap();
        }
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let swapping = scope.spawn(|| {
                let (folder, link) = (cache.join("folder"), cache.join("link"));
                while !is_done.load(Ordering::Relaxed) {
                    // The names of the folders are the same below both, so that their paths are valid in either case.
                    for number in 0..50 {
                        let _ = fs::create_dir_all(folder.join(format!("deep/{number}")));
                        let _ = fs::write(folder.join(format!("deep/{number}/package")), "x");
                    }
                    let _ = symlink(&data, &link);
                    for _ in 0..200 {
                        let _ = renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE);
                    }
                }
            });
            let until = Instant::now() + Duration::from_secs(3);
            while Instant::now() < until {
                let _ = fs::create_dir_all(&cache);
                is_within(&cache, few(1 << 30, 10_000));
                let _ = remove_tree(&cache, &|| Instant::now() >= until);
            }
            is_done.store(true, Ordering::Relaxed);
            swapping.join().unwrap();
        });
        for file in data_files {
            assert!(file.exists(), "{}", file.display());
        }
    }

    #[test]
    fn a_tree_that_is_deeper_than_any_path_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache");
        let name = "a".repeat(40);
        let make = |folder: &str| {
            let mut deepest = cache.join(folder);
            for _ in 0..90 {
                deepest.push(&name);
            }
            fs::create_dir_all(&deepest).unwrap();
            fs::write(deepest.join("file"), "x").unwrap();
            deepest
        };
        // No program can name the deepest folder, but one can move a folder into another.
        for folder in ["second", "third"] {
            let deepest = make("first");
            make(folder);
            fs::rename(cache.join(folder), deepest.join(folder)).unwrap();
        }
        assert!(!is_within(&cache, few(1 << 30, 100_000)), "no package runner has so many levels");
        remove(&cache).unwrap();
        assert!(!cache.exists());
    }

    /// Package runners make folders that may not be changed, and a program may make some that may not even be read. Root
    /// is not kept from anything, so that this shows something only for other users.
    #[test]
    fn folders_that_may_not_be_read_or_changed_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache");
        for (folder, mode) in [("closed", 0), ("readonly", 0o555), ("listed", 0o444), ("passed", 0o111)] {
            let inner = cache.join(folder).join("inner");
            fs::create_dir_all(&inner).unwrap();
            fs::write(inner.join("file"), "x").unwrap();
            for folder in [inner, cache.join(folder)] {
                fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        fs::set_permissions(&cache, fs::Permissions::from_mode(0o000)).unwrap();
        remove(&cache).unwrap();
        assert!(!cache.exists());
    }

    #[test]
    fn a_removal_that_takes_too_long_is_continued_later() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache");
        for number in 0..10 {
            fs::create_dir_all(cache.join(format!("{number}/a/b"))).unwrap();
        }
        let asked = std::cell::Cell::new(0);
        let is_over = || asked.replace(asked.get() + 1) >= 12;
        assert_eq!(remove_tree(&cache, &is_over).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(cache.exists());
        remove(&cache).unwrap();
        assert!(!cache.exists());
    }
}
