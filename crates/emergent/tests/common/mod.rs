//! The real binary, started, killed and asked by tests. Everything here is bounded in time, stays
//! on loopback, and leaves no process behind.

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part of this")]

mod api;
mod command_output;
mod kills;

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

pub use api::{Answer, Api};
pub use command_output::{command_output, failed, json_of, text};
pub use kills::{kills, wait_for_progress};

pub const TOKEN: &str = "emt_of_the_tests";
const KEY: &str = "dGhlIGtleSBvZiB0aGUgdGVzdHMgb2YgdGhlIEFQSSE=";
const PATIENCE: Duration = Duration::from_secs(60);
/// How many times as long everything may take on a machine that others use as well. Only a test that fails waits so
/// long.
const BUSY_MACHINE: u32 = 4;

/// What outlives a server: its data folder, and its database when that is PostgreSQL.
pub struct Home {
    dir: tempfile::TempDir,
    pub postgres: Option<String>,
    /// Dropped with the home that created it; homes that share the database only have its URL.
    database: Option<emergent_testkit::PostgresDatabase>,
    env: Vec<(&'static str, String)>,
}

impl Home {
    pub fn sqlite() -> Self {
        let env = vec![("EMERGENT_ADMIN_TOKEN", TOKEN.to_owned())];
        Self { dir: tempfile::tempdir().expect("a temporary folder"), postgres: None, database: None, env }
    }

    pub async fn postgres() -> Self {
        let database = emergent_testkit::migrated_postgres_database().await;
        let home = Self::on(database.url());
        Self { database: Some(database), ..home }
    }

    /// A data folder of its own on a database that others use as well.
    pub fn on(url: String) -> Self {
        // Servers of one database need one key, and their folders are apart.
        Self { postgres: Some(url), ..Self::sqlite() }.with("EMERGENT_SECRET_KEY", KEY)
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// Without the token of the tests: the server makes its own.
    pub fn without_token(mut self) -> Self {
        self.env.retain(|(name, _)| *name != "EMERGENT_ADMIN_TOKEN");
        self
    }

    /// With a key that the server makes, also on PostgreSQL.
    pub fn without_key(mut self) -> Self {
        self.env.retain(|(name, _)| *name != "EMERGENT_SECRET_KEY");
        self
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The binary in an environment that holds nothing of the caller's.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        let foreign = std::env::vars_os().map(|(name, _)| name).filter(|name| {
            let name = name.to_string_lossy();
            name.starts_with("EMERGENT_")
                || name.starts_with("OTEL_")
                || name.ends_with("_API_KEY")
                || name == "DATABASE_URL"
        });
        for name in foreign {
            command.env_remove(name);
        }
        command.args(args).current_dir(self.folder()).stdin(Stdio::null()).envs(self.env.iter().cloned());
        if let Some(url) = &self.postgres {
            command.env("EMERGENT_DATABASE_URL", url);
        }
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        finish(self.command(args))
    }

    pub async fn start(&self) -> Server {
        self.start_with(&[]).await
    }

    pub async fn start_with(&self, args: &[&str]) -> Server {
        let mut launched = self.launch(args);
        let ready = tokio::task::spawn_blocking(move || {
            launched.address().expect("the server starts");
            launched
        });
        let launched = ready.await.expect("a server that starts");
        let api = Api::new(launched.address.as_deref().unwrap_or_default(), TOKEN);
        Server { launched, api }
    }

    /// Starts a server and does not wait for it.
    pub fn launch(&self, args: &[&str]) -> Launched {
        let mut command = self.command(&["serve", "--listen", "127.0.0.1:0"]);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder().join("log"));
        let log = log.expect("a log file");
        command.args(args).stdout(Stdio::piped()).stderr(log);
        if !self.env.iter().any(|(name, _)| *name == "EMERGENT_LOG") {
            command.env("EMERGENT_LOG", "warn");
        }
        let child = command.spawn().expect("the binary runs");
        // A greeting ends with an empty line; one with things to try has others before and after them.
        let greeting = if args.contains(&"--sample") { 3 } else { 1 };
        Launched { child, address: None, said: String::new(), greeting, log: self.folder().join("log") }
    }
}

/// The binary of this build, or the one that `EMERGENT_BIN` names, such as one of a release.
fn binary() -> PathBuf {
    std::env::var_os("EMERGENT_BIN").map_or_else(|| env!("CARGO_BIN_EXE_emergent").into(), PathBuf::from)
}

/// Runs to the end, or not longer than anybody would wait.
pub fn finish(command: Command) -> Output {
    finish_within(command, PATIENCE)
}

/// Runs to the end, or not longer than `limit`.
pub fn finish_within(mut command: Command, limit: Duration) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let (mut out, mut err) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    let out = std::thread::spawn(move || read_all(&mut out));
    let err = std::thread::spawn(move || read_all(&mut err));
    let status = wait(&mut child, limit);
    let (stdout, stderr) = (out.join().expect("its output"), err.join().expect("its output"));
    let Some(status) = status else {
        panic!("{command:?} did not end: {}", String::from_utf8_lossy(&stderr))
    };
    Output { status, stdout, stderr }
}

fn read_all(from: &mut impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = from.read_to_end(&mut all);
    all
}

/// How it ended; `None` when it had to be killed.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// A server that was started; gone when this is dropped.
pub struct Launched {
    child: Child,
    address: Option<String>,
    /// How it greeted.
    pub said: String,
    greeting: usize,
    log: PathBuf,
}

impl Launched {
    /// Waits until it listens; `Err` with its log when it ended instead.
    pub fn address(&mut self) -> Result<&str, String> {
        let (send, lines) = mpsc::channel();
        let out = self.child.stdout.take().expect("asked once");
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| send.send(line)).ok();
        });
        let end = Instant::now() + PATIENCE;
        let mut empty = 0;
        while empty < self.greeting
            && let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            empty += usize::from(line.is_empty());
            if let Some((_, rest)) = line.split_once("listens on ") {
                self.address = rest.split_whitespace().next().map(str::to_owned);
            }
            self.said.push_str(&line);
            self.said.push('\n');
        }
        // Somebody reads on to the end, so that the server never prints into a closed pipe.
        std::thread::spawn(move || lines.into_iter().for_each(drop));
        match &self.address {
            Some(address) => Ok(address),
            None => Err(self.log()),
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: no goodbye, no flush.
    pub fn kill(mut self) {
        self.child.kill().expect("a child of ours");
        self.child.wait().expect("a child of ours");
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(sent.expect("`kill` is there").success());
    }

    /// How it ended; it has to end by itself.
    pub fn ended(&mut self) -> ExitStatus {
        wait(&mut self.child, PATIENCE).unwrap_or_else(|| panic!("the server did not end: {}", self.log()))
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

/// A server that listens.
pub struct Server {
    pub launched: Launched,
    pub api: Api,
}

impl Server {
    pub fn kill(self) {
        self.launched.kill();
    }

    pub fn url(&self) -> &str {
        self.launched.address.as_deref().unwrap_or_default()
    }
}

/// Puts something else where the database was.
pub fn ruin_database(home: &Home) {
    for beside in ["emergent.db-wal", "emergent.db-shm"] {
        let _ = std::fs::remove_file(home.data().join(beside));
    }
    let nonsense = "this is not a database, and it is longer than the header of one".repeat(100);
    std::fs::write(home.data().join("emergent.db"), nonsense).expect("a file");
}

/// The seed of this run's dice: chosen now, or `EMERGENT_TEST_SEED` to see a run again.
pub fn seed() -> u64 {
    let seed = match std::env::var("EMERGENT_TEST_SEED") {
        Ok(text) => text.parse().expect("EMERGENT_TEST_SEED is a number"),
        Err(_) => rand::random(),
    };
    eprintln!("EMERGENT_TEST_SEED={seed}");
    seed
}

/// Asks until the answer is yes. `limit` is for a machine that has nothing else to do.
pub async fn eventually<F: Future<Output = bool>>(what: &str, limit: Duration, mut asked: impl FnMut() -> F) {
    let limit = limit * BUSY_MACHINE;
    let start = Instant::now();
    while !asked().await {
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
