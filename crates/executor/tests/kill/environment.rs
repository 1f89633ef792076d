//! What outlives the servers: the database, and the observer they report to.

use std::{
    fs::OpenOptions,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use emergent_store::{Db, DbConfig};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    agent_scripts::Task,
    observer::Observer,
    wire::{Database, ROLE, Role, Start},
};

pub struct Environment {
    pub observer: Observer,
    pub dice: StdRng,
    pub kills: usize,
    /// How many runs a server drives concurrently.
    pub slots: usize,
    /// The lease of the servers; `None` for the default.
    pub lease: Option<Duration>,
    database: Database,
    /// Dropped together with the environment; `None` on SQLite.
    _postgres: Option<emergent_testkit::PostgresDatabase>,
    servers: usize,
    tasks: usize,
    folder: tempfile::TempDir,
}

impl Environment {
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("emergent.db");
        Self::on(Database::Sqlite(path), folder)
    }

    pub async fn postgres() -> Self {
        let postgres = emergent_testkit::migrated_postgres_database().await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let env = Self::on(Database::Postgres(postgres.url()), folder);
        Self { _postgres: Some(postgres), ..env }
    }

    fn on(database: Database, folder: tempfile::TempDir) -> Self {
        let seed = seed();
        let observer = Observer::open(folder.path(), seed);
        let dice = StdRng::seed_from_u64(seed);
        // There are fewer slots than runs, so that some runs wait in the queue and parents release their
        // slots.
        Self {
            observer,
            dice,
            kills: 0,
            slots: 8,
            lease: None,
            database,
            _postgres: None,
            servers: 0,
            tasks: 0,
            folder,
        }
    }

    /// Whether several servers can use the database.
    pub fn is_shared(&self) -> bool {
        matches!(self.database, Database::Postgres(_))
    }

    /// Starts a server without waiting for it. A server that runs alone need not wait until the leases of
    /// earlier servers expire.
    pub fn launch(&mut self, alone: bool) -> Server {
        self.servers += 1;
        let process = self.servers;
        let (observer, database) = (self.observer.path.clone(), self.database.clone());
        let lease_ms = self.lease.map(|lease| u64::try_from(lease.as_millis()).expect("a short time"));
        let role = Role { process, observer, database, alone, slots: self.slots, lease_ms };
        let path = self.folder.path().join("log");
        let log = OpenOptions::new().create(true).append(true).open(&path).expect("a log file");
        let child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--ignored", "--exact", "server::server", "--nocapture"])
            .env(ROLE, serde_json::to_string(&role).expect("a role"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("this binary runs");
        Server { child, process, log: path }
    }

    /// Starts a server; it drives runs when this returns.
    pub async fn open(&mut self, alone: bool) -> Server {
        let before = self.observer.observations().ready;
        let server = self.launch(alone);
        let ready =
            self.observer.wait(Duration::from_secs(30), |observations| observations.ready > before).await;
        assert!(ready, "the server did not start: {}", server.log());
        server
    }

    pub fn kill(&mut self, server: Server) {
        self.kills += 1;
        drop(server);
    }

    /// Requests the start of an agent on whichever server asks first.
    pub fn start(&mut self, agent: &str, steps: usize) {
        self.tasks += 1;
        let task = Task::new(format!("r{}", self.tasks), steps);
        self.observer.start(Start { agent: agent.to_owned(), task });
    }

    /// Requests the start of a few agents of all kinds.
    pub fn start_some(&mut self, count: usize) {
        for _ in 0..count {
            let agent = match self.dice.random_range(0..10) {
                0..=2 => "writer",
                3..=5 => "caller",
                6 => "boss",
                7 | 8 => "relay",
                _ => "endless",
            };
            let steps = if agent == "boss" { 3 } else { self.dice.random_range(1..10) };
            self.start(agent, steps);
        }
    }

    /// Waits until no run is queued or running any more.
    pub async fn all_ended(&mut self, server: &Server, limit: Duration) {
        self.observer.take_back();
        // A start request that was fetched last may not be committed yet.
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.observer.observations().left.clear();
        let ended = self
            .observer
            .wait(limit, |observations| observations.left.get(&server.process) == Some(&0))
            .await;
        let left = self.observer.observations().left.get(&server.process).copied();
        assert!(ended, "{left:?} runs did not end within {limit:?}: {}", server.log());
    }

    pub async fn db(&self) -> Db {
        let config = match &self.database {
            Database::Sqlite(path) => DbConfig::Sqlite { path: path.clone() },
            Database::Postgres(url) => {
                DbConfig::Postgres { url: url.clone(), connections: 4, statement_cache: true }
            }
        };
        Db::open(config).await.expect("the database")
    }
}

/// A server under test. Dropping it sends SIGKILL, so it neither shuts down nor flushes anything.
pub struct Server {
    child: Child,
    pub process: usize,
    log: PathBuf,
}

impl Server {
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("`kill` is there").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The seed of the random choices: a new one, or `EMERGENT_TEST_SEED` to repeat a test.
fn seed() -> u64 {
    let seed = match std::env::var("EMERGENT_TEST_SEED") {
        Ok(text) => text.parse().expect("EMERGENT_TEST_SEED is a number"),
        Err(_) => rand::random(),
    };
    eprintln!("EMERGENT_TEST_SEED={seed}");
    seed
}
