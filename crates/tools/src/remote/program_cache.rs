//! The cache folders of programs that run as MCP servers. Package runners such as `npx` and `uvx` keep what they
//! download there. Each server has a folder of its own, below the data folder: its program may change it, and no
//! other program can read the files in it or put something into it. The folder is removed with the server.
//!
//! A program may be hostile: [`folder_tree`] follows no links, and a folder is neither emptied nor removed before the
//! process that used it has ended. A folder that is to be emptied is renamed, which takes no time, and removed later, so
//! that the start of no program waits for it.

use std::{
    collections::{HashMap, HashSet},
    fs,
    hash::Hash,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use emergent_domain::ids::{McpServerId, ProjectId};
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard, watch},
    time::{Instant, timeout},
};
use uuid::Uuid;

mod folder_tree;

use folder_tree::{Limits, is_within, remove_tree};

/// A cache that is larger when its program starts is emptied first.
const LIMITS: Limits = Limits { bytes: 2 << 30, entries: 200_000 };
/// How the names of folders begin that were renamed to be removed.
const REMOVED_PREFIX: &str = "removed-";
/// How long one folder is removed before it is the turn of the next. The rest is removed in the next round.
const MAX_REMOVAL_TIME: Duration = Duration::from_secs(10);

/// The cache folders of all programs.
pub struct ProgramCaches {
    root: PathBuf,
    /// Who uses the folder of a server: its program, until the process has ended, or whoever removes the folder.
    uses: Locks<McpServerId>,
    /// One folder of a project is measured at a time, so that a project with large ones delays only itself.
    turns: Locks<ProjectId>,
}

type Locks<K> = Mutex<HashMap<K, Weak<AsyncMutex<()>>>>;

/// The use of a cache folder, which ends when it is dropped. A program keeps it until its process has ended.
pub type CacheUse = Arc<OwnedMutexGuard<()>>;

/// What is in the folder of all caches.
#[derive(Default)]
pub struct FoundCaches {
    pub servers: HashSet<McpServerId>,
    /// The names of folders that were renamed to be removed.
    removed: Vec<String>,
}

impl FoundCaches {
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.removed.is_empty()
    }
}

impl ProgramCaches {
    pub fn new(root: PathBuf) -> Self {
        // Variables of the programs name the folders, and a program may start elsewhere or change its folder. The path
        // is relative only where the current folder cannot be read.
        let root = std::path::absolute(&root).unwrap_or(root);
        Self { root, uses: Mutex::default(), turns: Mutex::default() }
    }

    /// The folder of a server.
    pub fn folder_of(&self, server: McpServerId) -> PathBuf {
        self.root.join(server.to_string())
    }

    /// Creates the folder of a program that is about to start, or empties it if it has grown too large. Waits until an
    /// earlier process of the program has ended.
    pub async fn prepare(
        &self,
        project: ProjectId,
        server: McpServerId,
        max_wait: Duration,
    ) -> io::Result<CacheUse> {
        let cache_use = timeout(max_wait, lock_of(&self.uses, server).lock_owned()).await;
        let in_use = |_| io::Error::new(io::ErrorKind::TimedOut, "an earlier process still uses it");
        let cache_use = cache_use.map_err(in_use)?;
        let turn = lock_of(&self.turns, project).lock_owned().await;
        let (root, folder) = (self.root.clone(), self.folder_of(server));
        run_blocking(move || {
            // Both end with the work, even if the caller was dropped.
            let (_turn, cache_use) = (turn, cache_use);
            prepare_within(&root, &folder, LIMITS)?;
            Ok(Arc::new(cache_use))
        })
        .await
    }

    /// Lists the folders.
    pub async fn list(&self) -> io::Result<FoundCaches> {
        let root = self.root.clone();
        run_blocking(move || {
            let mut found = FoundCaches::default();
            let entries = match fs::read_dir(&root) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
                entries => entries?,
            };
            for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
                if name.starts_with(REMOVED_PREFIX) {
                    found.removed.push(name);
                } else if let Ok(server) = name.parse() {
                    found.servers.insert(server);
                }
            }
            Ok(found)
        })
        .await
    }

    /// Removes these folders until `stop` becomes true, except those of programs whose processes have not ended. Returns
    /// the first error, after it has tried all of them. What takes too long is continued by the next call.
    pub async fn remove(&self, caches: FoundCaches, stop: watch::Receiver<bool>) -> io::Result<()> {
        let unused = caches.servers.into_iter().filter_map(|server| {
            let cache_use = lock_of(&self.uses, server).try_lock_owned().ok()?;
            Some((self.folder_of(server), Some(cache_use)))
        });
        let removed = caches.removed.into_iter().map(|name| (self.root.join(name), None));
        let folders: Vec<_> = unused.chain(removed).collect();
        run_blocking(move || {
            let mut failure = None;
            for (folder, _cache_use) in folders {
                let until = Instant::now() + MAX_REMOVAL_TIME;
                let is_over = || Instant::now() >= until || *stop.borrow();
                match remove_tree(&folder, &is_over) {
                    Err(error) if error.kind() != io::ErrorKind::TimedOut => {
                        failure.get_or_insert(named_error(&folder, &error));
                    }
                    _ => {}
                }
            }
            failure.map_or(Ok(()), Err)
        })
        .await
    }
}

/// The lock that belongs to a key. It exists as long as somebody has it or waits for it.
fn lock_of<K: Hash + Eq>(locks: &Locks<K>, key: K) -> Arc<AsyncMutex<()>> {
    let mut locks = locks.lock();
    if let Some(lock) = locks.get(&key).and_then(Weak::upgrade) {
        return lock;
    }
    locks.retain(|_, lock| lock.strong_count() > 0);
    let lock = Arc::new(AsyncMutex::default());
    locks.insert(key, Arc::downgrade(&lock));
    lock
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    #[expect(
        clippy::disallowed_methods,
        reason = "awaited here; one folder of a project is measured at a time, and one task removes folders"
    )]
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other)?
}

fn prepare_within(root: &Path, folder: &Path, limits: Limits) -> io::Result<()> {
    if !is_within(folder, limits) {
        let removed = root.join(format!("{REMOVED_PREFIX}{}", Uuid::now_v7()));
        match fs::rename(folder, removed) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    create_private(folder)
}

fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn named_error(folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const MAX_WAIT: Duration = Duration::from_millis(50);

    fn few(bytes: u64, entries: usize) -> Limits {
        Limits { bytes, entries }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    async fn remove_all(caches: &ProgramCaches) -> io::Result<()> {
        let found = caches.list().await.unwrap();
        caches.remove(found, watch::channel(false).1).await
    }

    #[test]
    fn a_cache_stays_until_it_is_too_large() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().join("caches");
        let cache = root.join("one");
        prepare_within(&root, &cache, few(1_000, 10)).unwrap();
        fs::create_dir_all(cache.join("npm/a")).unwrap();
        fs::write(cache.join("npm/a/package"), [0; 500]).unwrap();
        prepare_within(&root, &cache, few(100_000, 10)).unwrap();
        assert!(cache.join("npm/a/package").exists());
        for limits in [few(400, 10), few(100_000, 2)] {
            fs::create_dir_all(cache.join("npm/a")).unwrap();
            fs::write(cache.join("npm/a/package"), [0; 500]).unwrap();
            prepare_within(&root, &cache, limits).unwrap();
            assert!(cache.is_dir() && !cache.join("npm").exists());
        }
        assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn programs_get_absolute_paths_although_the_data_folder_is_relative() {
        let caches = ProgramCaches::new(PathBuf::from("data/program-caches"));
        let folder = caches.folder_of(McpServerId::new());
        let current = std::env::current_dir().unwrap();
        assert!(folder.starts_with(current.join("data/program-caches")), "{}", folder.display());
    }

    #[tokio::test]
    async fn a_cache_that_is_too_large_is_renamed_at_once_and_removed_later() {
        let root = tempfile::tempdir().unwrap();
        let caches = ProgramCaches::new(root.path().to_owned());
        let cache = caches.folder_of(McpServerId::new());
        fs::create_dir(&cache).unwrap();
        fs::write(cache.join("package"), "x").unwrap();
        prepare_within(root.path(), &cache, few(0, 0)).unwrap();
        assert_eq!(names(&cache), Vec::<String>::new());
        let removed = names(root.path()).into_iter().find(|name| name.starts_with(REMOVED_PREFIX)).unwrap();
        assert_eq!(names(&root.path().join(&removed)), ["package"]);
        let mut found = caches.list().await.unwrap();
        found.servers.clear();
        caches.remove(found, watch::channel(false).1).await.unwrap();
        assert!(cache.exists() && !root.path().join(&removed).exists());
    }

    /// Root is not kept from anything, so that this shows something only for other users.
    #[tokio::test]
    async fn a_cache_that_may_not_be_read_neither_locks_out_its_server_nor_stops_the_removal_of_others() {
        let root = tempfile::tempdir().unwrap();
        let caches = ProgramCaches::new(root.path().to_owned());
        let servers: Vec<_> = (0..3).map(|_| McpServerId::new()).collect();
        for server in &servers {
            drop(caches.prepare(ProjectId::new(), *server, MAX_WAIT).await.unwrap());
            fs::create_dir(caches.folder_of(*server).join("npm")).unwrap();
        }
        for folder in [caches.folder_of(servers[0]).join("npm"), caches.folder_of(servers[1])] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o000)).unwrap();
        }
        for server in &servers {
            drop(caches.prepare(ProjectId::new(), *server, MAX_WAIT).await.unwrap());
            fs::write(caches.folder_of(*server).join("file"), "x").unwrap();
        }
        // What cannot be removed at all: here because it is no folder.
        fs::write(root.path().join(format!("{REMOVED_PREFIX}file")), "x").unwrap();
        assert!(remove_all(&caches).await.is_err());
        assert_eq!(names(root.path()), [format!("{REMOVED_PREFIX}file")]);
    }

    #[tokio::test]
    async fn a_cache_is_neither_prepared_nor_removed_while_an_earlier_process_uses_it() {
        let root = tempfile::tempdir().unwrap();
        let caches = ProgramCaches::new(root.path().to_owned());
        let (project, server) = (ProjectId::new(), McpServerId::new());
        let earlier = caches.prepare(project, server, MAX_WAIT).await.unwrap();
        let error = caches.prepare(project, server, MAX_WAIT).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        remove_all(&caches).await.unwrap();
        assert!(caches.folder_of(server).exists());
        drop(earlier);
        drop(caches.prepare(project, server, MAX_WAIT).await.unwrap());
        remove_all(&caches).await.unwrap();
        assert!(!caches.folder_of(server).exists());
    }

    #[tokio::test]
    async fn the_caches_of_one_project_delay_no_program_of_another() {
        let root = tempfile::tempdir().unwrap();
        let caches = ProgramCaches::new(root.path().to_owned());
        let (busy, other) = (ProjectId::new(), ProjectId::new());
        let _measured = lock_of(&caches.turns, busy).lock_owned().await;
        let waiting = caches.prepare(busy, McpServerId::new(), MAX_WAIT);
        assert!(timeout(MAX_WAIT, waiting).await.is_err(), "one folder of a project at a time");
        caches.prepare(other, McpServerId::new(), MAX_WAIT).await.unwrap();
    }
}
