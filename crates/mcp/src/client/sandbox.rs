//! The sandbox of programs that run as MCP servers. Such a program cannot access Emergent's data folder, the
//! files with its credentials or the memory of its process, and its use of files and memory is limited.
//!
//! Landlock restricts the calling thread and every process that this thread starts. It can only grant access
//! to folders and files, not deny it to one. So access is granted to everything beside the paths to what is
//! hidden: in each parent folder, to all entries except those on such a path. The parent folders themselves are
//! not granted, so files that are created directly in one of them later cannot be opened. Where symbolic links lead
//! to what is hidden, this is also true for the folders of these links; see `hidden_paths`. A restricted program can
//! also not read the memory or environment of processes outside its sandbox. If it runs as root, the
//! capabilities that would circumvent this are dropped.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
};

pub use hidden_paths::Hidden;
use hidden_paths::HiddenPaths;

mod hidden_paths;

/// The maximum number of entries of one parent folder that are granted; programs cannot access the others.
const MAX_ENTRIES: usize = 10_000;

/// The restrictions of one program.
#[derive(Debug, Clone, Default)]
pub struct Sandbox {
    /// Folders and files that the program may neither read nor change.
    pub hidden: Hidden,
    /// A folder of the program's own, which may be in the hidden one: the program may change everything in it. Package
    /// runners keep there what they download.
    pub cache: Option<PathBuf>,
    /// A binary that calls [`super::run_supervisor_if_requested`], usually this one. It is started in place of the
    /// program, and ends every process that the program started, together with it. Linux only.
    pub supervisor: Option<PathBuf>,
}

/// Whether a restriction is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    InForce,
    /// The kernel has no Landlock, or it is switched off.
    Unavailable,
}

impl Sandbox {
    /// Restricts the calling thread, and the processes that it starts from now on.
    #[cfg(target_os = "linux")]
    pub(super) fn restrict_thread(&self) -> std::io::Result<Enforcement> {
        use landlock::{
            AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
            path_beneath_rules,
        };

        let hidden = HiddenPaths::resolve(&self.hidden)?;
        if hidden.targets.is_empty() {
            return Ok(Enforcement::InForce);
        }
        // Rights that are not in this list, such as listing folders and executing files, are not restricted.
        let rights = AccessFs::ReadFile
            | AccessFs::WriteFile
            | AccessFs::Truncate
            | AccessFs::RemoveFile
            | AccessFs::RemoveDir
            | AccessFs::MakeSym
            | AccessFs::MakeReg
            | AccessFs::MakeDir
            | AccessFs::MakeFifo
            | AccessFs::MakeSock
            | AccessFs::MakeChar
            | AccessFs::MakeBlock
            | AccessFs::Refer;
        let restricted = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(rights)
            .and_then(Ruleset::create)
            .and_then(|rules| rules.add_rules(path_beneath_rules(entries_beside(&hidden), rights)))
            .and_then(|rules| rules.add_rules(path_beneath_rules(&self.cache, rights)))
            .and_then(|rules| rules.restrict_self())
            .map_err(std::io::Error::other)?;
        drop_capabilities()?;
        if restricted.ruleset == RulesetStatus::NotEnforced {
            return Ok(Enforcement::Unavailable);
        }
        hidden.targets.iter().try_for_each(|path| check_hidden(path))?;
        Ok(Enforcement::InForce)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn restrict_thread(&self) -> std::io::Result<Enforcement> {
        let hidden = HiddenPaths::resolve(&self.hidden)?;
        Ok(if hidden.targets.is_empty() { Enforcement::InForce } else { Enforcement::Unavailable })
    }
}

/// Keeps the calling thread, and the processes that it starts from now on, from sending signals to other
/// processes. Does nothing where the kernel cannot do that (before Linux 6.12).
#[cfg(target_os = "linux")]
pub(super) fn restrict_signals() {
    use landlock::{
        AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope,
        path_beneath_rules,
    };

    // The kernel refuses to move and link files between folders in every ruleset that does not grant it, whatever the
    // ruleset is about. The ruleset of `Sandbox::restrict_thread` decides about files, so this one grants it everywhere.
    let moves = AccessFs::Refer;
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(moves)
        .and_then(|rules| rules.scope(Scope::Signal))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(["/"], moves)))
        .and_then(|rules| rules.restrict_self());
    if let Err(error) = restricted {
        tracing::debug!(%error, "signals of a program are not restricted");
    }
}

/// Drops the capabilities of root that circumvent Landlock, for the calling thread and the processes that it
/// starts. With `CAP_PERFMON`, for example, newer kernels let a process read the environment of any other. A
/// program cannot regain them, because Landlock sets `no_new_privs`.
#[cfg(target_os = "linux")]
fn drop_capabilities() -> std::io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

    let dropped = CapabilitySet::SYS_PTRACE
        | CapabilitySet::SYS_ADMIN
        | CapabilitySet::SYS_MODULE
        | CapabilitySet::SYS_RAWIO
        | CapabilitySet::PERFMON
        | CapabilitySet::BPF
        | CapabilitySet::CHECKPOINT_RESTORE;
    let current = capabilities(None)?;
    let reduced = CapabilitySets {
        effective: current.effective.difference(dropped),
        permitted: current.permitted.difference(dropped),
        inheritable: current.inheritable.difference(dropped),
    };
    Ok(set_capabilities(None, reduced)?)
}

/// Fails if the calling thread can still open a hidden file, or a file in a hidden folder, for example through a
/// mount that shows the folder under a second path.
#[cfg(target_os = "linux")]
fn check_hidden(hidden: &Path) -> std::io::Result<()> {
    let files: Vec<PathBuf> = match hidden.is_dir() {
        true => std::fs::read_dir(hidden)?.flatten().map(|entry| entry.path()).collect(),
        false => vec![hidden.to_owned()],
    };
    let mut files = files.iter().filter(|path| path.is_file());
    match files.find(|path| std::fs::File::open(path).is_ok()) {
        Some(path) => Err(std::io::Error::other(format!(
            "the program could read `{}`, because its folder has a second path; no program is started",
            path.display()
        ))),
        None => Ok(()),
    }
}

/// Returns the siblings of the hidden folders and files and of each of their parents, up to the root, and the entries of
/// the folders of links. Links and mounts that lead back to one of these are left out, whatever their name.
fn entries_beside(hidden: &HiddenPaths) -> Vec<PathBuf> {
    let HiddenPaths { targets, link_folders } = hidden;
    let protected = targets.iter().chain(link_folders).flat_map(|path| path.ancestors());
    let on_path: HashSet<_> = protected.filter_map(identity).collect();
    // What is beside a path inside of a hidden folder stays hidden.
    let is_hidden = |folder: &Path| folder.ancestors().any(|parent| targets.contains(parent));
    let folders = targets.iter().filter_map(|path| path.parent());
    let folders =
        folders.chain(link_folders.iter().map(PathBuf::as_path)).filter(|folder| !is_hidden(folder));
    let parents: BTreeSet<&Path> = folders.flat_map(|folder| folder.ancestors()).collect();
    let mut beside = Vec::new();
    for parent in parents {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_beside = |path: &PathBuf| identity(path).is_some_and(|entry| !on_path.contains(&entry));
        beside.extend(entries.filter(is_beside).take(MAX_ENTRIES));
    }
    beside
}

/// Returns what identifies a file or folder under every path that leads to it: its device and its inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    path.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// Limits core dumps, open files, memory and file sizes of the calling process. It is called between fork and
/// exec, so it only makes system calls.
#[cfg(unix)]
pub(super) fn limit_resources() -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    const GIB: u64 = 1 << 30;
    for (resource, limit) in [
        (Resource::Core, 0),
        (Resource::Nofile, 4_096),
        (Resource::Data, 8 * GIB),
        (Resource::Fsize, 4 * GIB),
    ] {
        let allowed = getrlimit(resource).maximum;
        let limit = Some(allowed.map_or(limit, |allowed| allowed.min(limit)));
        setrlimit(resource, Rlimit { current: limit, maximum: limit })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_of_the_hidden_folder_and_its_parents_are_granted() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for name in ["a/data/own", "a/other", "b/keys", "c"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["a/data/token", "b/keys/tls.pem", "b/keys/other.pem"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        // A link beside a hidden file leads to it, as in a folder of secrets that is mounted.
        std::os::unix::fs::symlink("tls.pem", root.join("b/keys/current.pem")).unwrap();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("d/plain"), "x").unwrap();
        std::os::unix::fs::symlink("../b/keys/tls.pem", root.join("d/link.pem")).unwrap();
        let targets = ["a/data", "a/data/token", "b/keys/tls.pem"].map(|name| root.join(name)).into();
        let link_folders = ["d", "a/data/own"].map(|name| root.join(name)).into();
        let beside = entries_beside(&HiddenPaths { targets, link_folders });
        for name in ["a/other", "b/keys/other.pem", "c", "d/plain"] {
            assert!(beside.contains(&root.join(name)), "{name}");
        }
        for name in ["a", "a/data", "a/data/own", "a/data/token", "b", "b/keys", "d"] {
            assert!(!beside.contains(&root.join(name)), "{name}");
        }
        for name in ["b/keys/tls.pem", "b/keys/current.pem", "d/link.pem"] {
            assert!(!beside.contains(&root.join(name)), "{name}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_can_access_what_is_beside_the_hidden_folder_and_files_and_nothing_in_them() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        std::fs::create_dir(&data).unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        std::fs::write(data.join("admin-token"), "secret").unwrap();
        std::fs::write(root.path().join("work/notes"), "plain").unwrap();
        // A link beside the folder leads to its parent, as `current` does in many deployments.
        std::os::unix::fs::symlink(root.path(), root.path().join("current")).unwrap();
        std::fs::create_dir_all(data.join("caches/own")).unwrap();
        std::fs::create_dir_all(data.join("caches/other")).unwrap();
        std::fs::write(data.join("caches/other/package"), "of another").unwrap();
        std::fs::create_dir(root.path().join("keys")).unwrap();
        for file in ["emergent.toml", "keys/tls.pem", "keys/public.pem"] {
            std::fs::write(root.path().join(file), "of the operator").unwrap();
        }
        std::os::unix::fs::symlink("../keys/tls.pem", root.path().join("work/tls.pem")).unwrap();
        let hidden =
            ["data", "emergent.toml", "keys/tls.pem", "no-such-file"].map(|name| root.path().join(name));
        let cache = Some(data.join("caches/own"));
        let sandbox = Sandbox { hidden: Hidden::new(hidden), cache, supervisor: None };
        let run = move |script: &str| {
            let (sandbox, script, data) = (sandbox.clone(), script.to_owned(), data.clone());
            let thread = std::thread::spawn(move || {
                let enforced = sandbox.restrict_thread().unwrap();
                let done = std::process::Command::new("sh").args(["-c", &script]).current_dir(data).output();
                (enforced, done.unwrap())
            });
            thread.join().unwrap()
        };
        let (enforced, read) = run("cat admin-token");
        if enforced == Enforcement::Unavailable {
            eprintln!("this kernel has no Landlock: nothing to test");
            return;
        }
        assert!(!read.status.success() && read.stdout.is_empty(), "{read:?}");
        assert!(!run("cat ../current/data/admin-token").1.status.success(), "a link leads to the folder");
        for attempt in [
            "rm admin-token",
            "echo x > admin-token",
            "ln -s /tmp server",
            "ln admin-token second",
            "mkfifo pipe",
            "mkdir folder",
            "mv ../data ../stolen",
            "cat caches/other/package",
            "echo x > caches/other/package",
            "echo x > caches/other/new",
            "mkdir caches/third",
            "rm -r caches/own",
            "mv caches/own caches/mine",
            "cd caches/own && ln ../../admin-token token",
            "cd caches/own && mv ../other/package package",
            "cd caches/own && ln -s ../../admin-token token && cat token",
            "cd caches/own && ln -s ../other folder && cat folder/package",
            "cat ../emergent.toml",
            "echo x > ../emergent.toml",
            "mv ../emergent.toml ../work/settings",
            "ln ../emergent.toml ../work/settings",
            "cat ../keys/tls.pem",
            "cat ../work/tls.pem",
            "rm ../keys/tls.pem",
            "echo x > ../keys/new.pem",
        ] {
            assert!(!run(attempt).1.status.success(), "{attempt}");
        }
        let (_, own) = run(
            "cd caches/own && mkdir -p npm && echo kept > npm/package && mv npm/package npm/second && cat npm/second",
        );
        assert_eq!(String::from_utf8_lossy(&own.stdout), "kept\n", "{own:?}");
        let (_, beside) = run("cat ../work/notes && echo more > ../work/new && rm ../work/new");
        assert_eq!(String::from_utf8_lossy(&beside.stdout), "plain", "{beside:?}");
        let (_, public) = run("cat ../keys/public.pem");
        assert_eq!(String::from_utf8_lossy(&public.stdout), "of the operator", "{public:?}");
        let (_, environment) = run(&format!("cat /proc/{}/environ", std::process::id()));
        assert!(environment.stdout.is_empty(), "a program must not read the server's environment");
    }

    /// Package runners download to one folder of their cache and rename what they have into another. `mv` would copy
    /// where the kernel refuses that, so this calls rename(2) and link(2) itself.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_moves_files_between_its_folders_and_none_out_of_or_into_a_hidden_one() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for folder in ["data/other", "data/own/tmp", "data/own/archive", "work", "out"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        let files = ["data/admin-token", "data/other/package", "data/own/tmp/a", "data/own/tmp/b", "work/a"];
        for file in files {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let hiding = Sandbox {
            hidden: Hidden::new([root.join("data")]),
            cache: Some(root.join("data/own")),
            supervisor: None,
        };
        // As in the server: the second restriction is that of the supervisor.
        let in_sandbox = |sandbox: Sandbox, work: fn(&Path)| {
            let root = root.clone();
            let thread = std::thread::spawn(move || {
                let enforced = sandbox.restrict_thread().unwrap();
                restrict_signals();
                work(&root);
                enforced
            });
            thread.join().unwrap()
        };
        let enforced = in_sandbox(hiding.clone(), |root| {
            for (from, to) in [
                ("data/own/tmp/a", "data/own/archive/a"),
                ("work/a", "out/a"),
                ("data/own/archive/a", "out/from-cache"),
            ] {
                std::fs::rename(root.join(from), root.join(to))
                    .unwrap_or_else(|error| panic!("{from}: {error}"));
            }
            std::fs::hard_link(root.join("data/own/tmp/b"), root.join("data/own/archive/b")).unwrap();
            std::fs::rename(root.join("out/a"), root.join("work/a")).unwrap();
        });
        in_sandbox(Sandbox::default(), |root| {
            std::fs::rename(root.join("work/a"), root.join("out/a")).unwrap();
            std::fs::hard_link(root.join("out/a"), root.join("work/a")).unwrap();
        });
        if enforced == Enforcement::Unavailable {
            eprintln!("this kernel has no Landlock: nothing is hidden");
            return;
        }
        in_sandbox(hiding, |root| {
            for (from, to) in [
                ("data/admin-token", "out/token"),
                ("data/admin-token", "data/own/token"),
                ("data/other/package", "data/own/archive/package"),
                ("data/other", "out/other"),
                ("work/a", "data/a"),
                ("work/a", "data/other/a"),
                ("data/own/tmp/b", "data/other/b"),
                ("data/own/archive", "data/archive"),
            ] {
                let (from, to) = (root.join(from), root.join(to));
                assert!(std::fs::rename(&from, &to).is_err(), "rename {}", from.display());
                assert!(std::fs::hard_link(&from, &to).is_err(), "link {}", from.display());
            }
        });
    }
}
