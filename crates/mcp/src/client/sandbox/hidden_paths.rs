//! What the hidden paths of a sandbox lead to. The server opens its files by these paths again and again, so a
//! program that replaces a symbolic link on the way decides what the server reads, and what the sandbox of the next
//! program would hide. Therefore links are followed one by one, and their folders are protected like those of the
//! hidden files. What a path led to when the server started stays hidden, whatever it leads to later.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use rustix::io::Errno;

/// The maximum number of links on the way to one file. It is that of Linux.
const MAX_LINKS: usize = 40;

/// What a path leads to. Neither of these paths has links in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ResolvedPath {
    target: PathBuf,
    /// The folders of the links on the way, and those that `..` leads back to. A process that can rename the entries of
    /// one of them decides what the path leads to.
    link_folders: BTreeSet<PathBuf>,
}

/// Folders and files that programs may neither read nor change, with what their paths led to when this was made. The
/// server makes it when it starts and keeps it, because later a link may have been replaced. A path that leads to
/// nothing, then and when a program starts, is left out.
#[derive(Debug, Clone, Default)]
pub struct Hidden(Arc<BTreeMap<PathBuf, Option<ResolvedPath>>>);

impl Hidden {
    /// Notes what these paths lead to now.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let resolved = paths.into_iter().map(|path| {
            let first = resolve(&path).ok();
            (path, first)
        });
        Self(Arc::new(resolved.collect()))
    }
}

/// What is hidden from a program that starts now. None of these paths has links in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HiddenPaths {
    /// Folders and files that the program may neither read nor change.
    pub targets: BTreeSet<PathBuf>,
    /// Folders whose entries the program may not create, rename or remove.
    pub link_folders: BTreeSet<PathBuf>,
}

impl HiddenPaths {
    /// Resolves the paths for a program that starts now: what each of them leads to, and what it led to first. Fails if
    /// one of them led to something, and no longer does: nobody knows then what it will lead to while the program runs.
    pub fn resolve(paths: &Hidden) -> io::Result<Self> {
        let mut hidden = Self::default();
        for (path, first) in &*paths.0 {
            match resolve(path) {
                Ok(current) => hidden.add(current),
                Err(error) if first.is_some() => return Err(vanished(path, &error)),
                Err(_) => {}
            }
            // Whoever replaced a link may have removed its former target too, so it does not have to exist.
            if let Some(first) = first {
                resolve(&first.target).into_iter().for_each(|former| hidden.add(former));
                let folders = first.link_folders.iter().flat_map(|folder| folder.canonicalize());
                hidden.link_folders.extend(folders);
            }
        }
        Ok(hidden)
    }

    fn add(&mut self, path: ResolvedPath) {
        self.targets.insert(path.target);
        self.link_folders.extend(path.link_folders);
    }
}

fn vanished(path: &Path, error: &io::Error) -> io::Error {
    io::Error::other(format!(
        "`{}` has to be hidden from programs, and cannot be resolved any more ({error}); no program is started until it \
         leads to a file or folder again, as it did when the server started",
        path.display()
    ))
}

/// Follows a path component by component, as the kernel does.
fn resolve(path: &Path) -> io::Result<ResolvedPath> {
    let mut target = PathBuf::new();
    let mut link_folders = BTreeSet::new();
    let mut links = 0;
    let mut rest = components_backwards(&std::path::absolute(path)?);
    while let Some(component) = rest.pop() {
        if component == ".." {
            target.pop();
            link_folders.insert(target.clone());
            continue;
        }
        // The root replaces what it is joined to, so absolute links need no case of their own.
        let entry = target.join(&component);
        if !entry.symlink_metadata()?.is_symlink() {
            target = entry;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        rest.extend(components_backwards(&entry.read_link()?));
        link_folders.insert(target.clone());
    }
    Ok(ResolvedPath { target, link_folders })
}

/// The components of a path, the first one last.
fn components_backwards(path: &Path) -> Vec<OsString> {
    let components = path.components().rev().filter(|component| *component != Component::CurDir);
    components.map(|component| component.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use tempfile::TempDir;

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::client::sandbox::{Enforcement, Sandbox};

    /// The files of an operator that are reached through links, in a folder without links in its path.
    fn linked_files() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["keys", "live", "archive", "run", "conf", "state/data", "work"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["archive/key1.pem", "archive/key2.pem", "state/data/admin-token", "conf/emergent.toml"] {
            fs::write(root.join(name), "secret").unwrap();
        }
        fs::write(root.join("keys/public.pem"), "for everybody").unwrap();
        symlink(root.join("live/./key.pem"), root.join("keys/key.pem")).unwrap();
        symlink("../archive/key1.pem", root.join("live/key.pem")).unwrap();
        symlink("../state/data", root.join("run/data")).unwrap();
        symlink("../conf/emergent.toml", root.join("run/emergent.toml")).unwrap();
        (folder, root)
    }

    fn set<const N: usize>(root: &Path, names: [&str; N]) -> BTreeSet<PathBuf> {
        names.iter().map(|name| root.join(name)).collect()
    }

    #[test]
    fn links_are_followed_one_by_one() {
        let (_folder, root) = linked_files();
        symlink("state", root.join("current")).unwrap();
        for (path, target, folders) in [
            ("archive/key1.pem", "archive/key1.pem", set(&root, [])),
            ("run/data", "state/data", set(&root, ["run"])),
            ("current/data/admin-token", "state/data/admin-token", set(&root, [])),
            ("keys/key.pem", "archive/key1.pem", set(&root, ["keys", "live"])),
            ("work/../run/data/../data", "state/data", set(&root, ["run", "state"])),
        ] {
            let found = resolve(&root.join(path)).unwrap();
            assert_eq!(found.target, root.join(path).canonicalize().unwrap(), "{path}");
            assert_eq!(found.target, root.join(target), "{path}");
            // `current` and `..` add the folder of them all, which is asserted below.
            let inner: BTreeSet<PathBuf> =
                found.link_folders.into_iter().filter(|one| *one != root).collect();
            assert_eq!(inner, folders, "{path}");
        }
        assert!(resolve(&root.join("current/data")).unwrap().link_folders.contains(&root));
        symlink("second", root.join("work/first")).unwrap();
        symlink("first", root.join("work/second")).unwrap();
        for path in ["work/first", "keys/no-such-file"] {
            assert!(resolve(&root.join(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn the_former_target_of_a_replaced_link_stays_hidden() {
        let (_folder, root) = linked_files();
        let paths = [root.join("keys/key.pem"), root.join("keys/no-such-file")];
        let paths = Hidden::new(paths);
        fs::remove_file(root.join("live/key.pem")).unwrap();
        let error = HiddenPaths::resolve(&paths).unwrap_err().to_string();
        assert!(error.contains("keys/key.pem` has to be hidden from programs"), "{error}");
        symlink("../archive/key2.pem", root.join("live/key.pem")).unwrap();
        let hidden = HiddenPaths::resolve(&paths).unwrap();
        assert_eq!(hidden.targets, set(&root, ["archive/key1.pem", "archive/key2.pem"]));
        assert!(hidden.link_folders.is_superset(&set(&root, ["keys", "live"])), "{hidden:?}");
        fs::remove_file(root.join("archive/key1.pem")).unwrap();
        let hidden = HiddenPaths::resolve(&paths).unwrap();
        assert_eq!(hidden.targets, set(&root, ["archive/key2.pem"]), "the former target may be removed");
    }

    /// Runs a script in the folder `root`, in a sandbox that hides the paths.
    #[cfg(target_os = "linux")]
    fn run(hidden: &Hidden, root: &Path, script: &str) -> (Enforcement, std::process::Output) {
        let sandbox = Sandbox { hidden: hidden.clone(), ..Sandbox::default() };
        let (root, script) = (root.to_owned(), script.to_owned());
        let thread = std::thread::spawn(move || {
            let enforced = sandbox.restrict_thread().unwrap();
            let done = std::process::Command::new("sh").args(["-c", &script]).current_dir(root).output();
            (enforced, done.unwrap())
        });
        thread.join().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_can_neither_replace_a_link_nor_read_what_it_led_to() {
        let (_folder, root) = linked_files();
        let hidden =
            Hidden::new(["run/data", "keys/key.pem", "run/emergent.toml"].map(|name| root.join(name)));
        if run(&hidden, &root, "true").0 == Enforcement::Unavailable {
            eprintln!("this kernel has no Landlock: nothing to test");
            return;
        }
        for attempt in [
            "mv keys/key.pem keys/was",
            "rm live/key.pem",
            "ln -sfn ../work/own live/key.pem",
            "mv run/data run/wasdata",
            "mv run/emergent.toml work/emergent.toml",
            "mkdir run/new",
            "echo x > keys/new",
            "mv live lived",
            "cat keys/key.pem",
            "cat run/data/admin-token",
        ] {
            assert!(!run(&hidden, &root, attempt).1.status.success(), "{attempt}");
        }
        for link in ["keys/key.pem", "live/key.pem", "run/data", "run/emergent.toml"] {
            assert!(root.join(link).is_symlink(), "{link}");
        }
        let (_, beside) = run(&hidden, &root, "cat keys/public.pem && echo x > work/new");
        assert_eq!(String::from_utf8_lossy(&beside.stdout), "for everybody", "{beside:?}");

        // As if a process outside of the sandbox had replaced the links.
        for link in ["keys/key.pem", "run/data", "run/emergent.toml"] {
            fs::rename(root.join(link), root.join(format!("{link}.was"))).unwrap();
        }
        fs::create_dir(root.join("run/data")).unwrap();
        fs::write(root.join("run/emergent.toml"), "max-runs = 1").unwrap();
        fs::write(root.join("keys/key.pem"), "another key").unwrap();
        for attempt in [
            "cat archive/key1.pem",
            "cat live/key.pem",
            "cat keys/key.pem.was",
            "cat state/data/admin-token",
            "cat conf/emergent.toml",
            "cat run/emergent.toml",
            "cat keys/key.pem",
            "mv keys/key.pem keys/second",
        ] {
            let (_, second) = run(&hidden, &root, attempt);
            assert!(!second.status.success() && second.stdout.is_empty(), "{attempt}: {second:?}");
        }

        fs::remove_dir(root.join("run/data")).unwrap();
        let sandbox = Sandbox { hidden: hidden.clone(), ..Sandbox::default() };
        let error = std::thread::spawn(move || sandbox.restrict_thread()).join().unwrap().unwrap_err();
        assert!(error.to_string().contains("run/data` has to be hidden from programs"), "{error}");
    }
}
