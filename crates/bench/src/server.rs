//! The real binary: its start time, its import speed and its memory.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Options,
    baseline::Baseline,
    http::Http,
    report::{Goal, Report, p50},
};

pub const TOKEN: &str = "emt_bench_of_this_run";

pub struct Server {
    child: Child,
    pub address: String,
    pub engine: &'static str,
    binary: PathBuf,
    postgres: Option<String>,
    pub dir: tempfile::TempDir,
    pub ready_ms: f64,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub fn start(binary: &Path, dir: tempfile::TempDir, postgres: Option<&str>, embeddings: &str) -> Self {
        Self::start_with(binary, dir, postgres, embeddings, &[])
    }

    /// Like [`Server::start`], with additional environment variables.
    pub fn start_with(
        binary: &Path,
        dir: tempfile::TempDir,
        postgres: Option<&str>,
        embeddings: &str,
        settings: &[(&str, String)],
    ) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .expect("a port")
            .port();
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new(binary);
        command
            .args(["serve", "--listen", &address, "--data-dir"])
            .arg(dir.path())
            .env("EMERGENT_ADMIN_TOKEN", TOKEN)
            // All servers share one database, and each has its own folder.
            .env("EMERGENT_SECRET_KEY", "dGhlIGtleSBvZiB0aGUgYmVuY2ggb2YgdGhlIEFQSSE=")
            .env("EMERGENT_EMBEDDINGS", embeddings)
            .env("EMERGENT_LOG", "error")
            .envs(settings.iter().map(|(name, value)| (*name, value.as_str())))
            .stdout(Stdio::null());
        if let Some(url) = postgres {
            command.args(["--database-url", url]);
        }
        let start = Instant::now();
        let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", binary.display()));
        while !healthy(&address) {
            assert!(start.elapsed() < Duration::from_secs(30), "the server does not answer");
            std::thread::sleep(Duration::from_micros(500));
        }
        let ready_ms = start.elapsed().as_secs_f64() * 1e3;
        let engine = if postgres.is_some() { "postgres" } else { "sqlite" };
        Self {
            child,
            address,
            engine,
            binary: binary.to_owned(),
            postgres: postgres.map(str::to_owned),
            dir,
            ready_ms,
        }
    }

    pub fn http(&self) -> Http {
        Http::connect(&self.address, TOKEN)
    }

    /// Returns the resident memory in megabytes.
    pub fn memory_mb(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or("VmRSS: 0 kB");
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
    }

    /// Returns the processor time used so far, in milliseconds.
    pub fn cpu_ms(&self) -> f64 {
        // The threads report nanoseconds; the process total counts in ticks of ten milliseconds.
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).into_iter().flatten().flatten();
        let spent = threads.filter_map(|thread| {
            let stat = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            stat.split_whitespace().next()?.parse::<f64>().ok()
        });
        spent.sum::<f64>() / 1e6
    }

    /// Returns the size of the embedded database with its log, in bytes.
    pub fn database_bytes(&self) -> f64 {
        let connection =
            rusqlite::Connection::open(self.dir.path().join("emergent.db")).expect("the database");
        let pragma =
            |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap_or(0);
        ((pragma("page_count") - pragma("freelist_count")) * pragma("page_size")) as f64
    }

    /// Asks the server to stop (SIGTERM), and returns the seconds that it took to end.
    pub fn terminate(mut self) -> f64 {
        let start = Instant::now();
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "the server cannot be signalled");
        while self.child.try_wait().expect("a child of this process").is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
        start.elapsed().as_secs_f64()
    }

    /// Kills the server (SIGKILL): it can neither finish nor release anything.
    pub fn kill(self) {
        drop(self);
    }

    /// Kills the server, and starts one with the same data.
    pub fn restart(mut self, embeddings: &str) -> Self {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let dir = std::mem::replace(&mut self.dir, tempfile::tempdir().expect("a folder"));
        Server::start(&self.binary.clone(), dir, self.postgres.clone().as_deref(), embeddings)
    }
}

fn healthy(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let _ = stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).is_ok() && answer.starts_with("HTTP/1.1 200")
}

/// Measures the time from `exec` to the first response with an empty folder, and the memory of the idle
/// server.
pub fn measure_start(report: &mut Report, binary: &Path, postgres: Option<&str>) {
    if !report.wants("start") && !report.wants("memory") {
        return;
    }
    // The first start in a folder creates the schema; the later ones are the usual start.
    let mut times = Vec::new();
    let mut memory = 0.0;
    for _ in 0..7 {
        let server = Server::start(binary, tempfile::tempdir().expect("a folder"), postgres, "builtin");
        times.push(server.ready_ms);
        std::thread::sleep(Duration::from_millis(200));
        memory = server.memory_mb();
    }
    report.add("start, empty, p50", "sqlite", p50(times), "ms", None, &Goal::Below(50.0));
    report.add("memory, idle", "sqlite", memory, "MB", None, &Goal::Below(30.0));
}

/// Imports the dataset over HTTP, including the full-text index, then embeds it.
pub fn import(report: &mut Report, options: &Options, raw: &Baseline, postgres: Option<&str>) -> Server {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(&options.binary, dir, postgres, "off");
    let start = Instant::now();
    let answer = upload(&server, &options.dataset);
    let seconds = start.elapsed().as_secs_f64();
    assert!(answer.contains("\"done\":true"), "the import failed: {answer}");
    let goal = if postgres.is_none() { Goal::AtMostTimes(2.0) } else { Goal::None };
    report.add("bulk import, indexed for text", server.engine, seconds, "s", Some(raw.import_seconds), &goal);

    let server = server.restart("builtin");
    let start = Instant::now();
    wait_until_embedded(&mut server.http(), start);
    report.add(
        "embed everything, built-in",
        server.engine,
        start.elapsed().as_secs_f64(),
        "s",
        None,
        &Goal::None,
    );
    if let Some(url) = postgres {
        wait_for_vector_index(url);
        let seconds = start.elapsed().as_secs_f64();
        report.add("… until its index of vectors is built", server.engine, seconds, "s", None, &Goal::None);
    }
    server
}

/// Waits until all objects have a vector. The wait began at `start`.
pub fn wait_until_embedded(http: &mut Http, start: Instant) {
    loop {
        let answer = String::from_utf8_lossy(http.get("/api/graph/embeddings")).into_owned();
        if answer.contains("\"pending\":0") && !answer.contains("\"done\":0") {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(600), "embedding does not end: {answer}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until PostgreSQL has the index of the vectors of the built-in embedder. Until then searches are exact.
pub fn wait_for_vector_index(url: &str) {
    let wait = async {
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the database");
        let connection = tokio::spawn(connection);
        let sql = "SELECT count(*) FROM pg_index
                   WHERE indexrelid = to_regclass('kb.graph_embeddings_hnsw_384') AND indisvalid";
        let start = Instant::now();
        while client.query_one(sql, &[]).await.expect("a row").get::<_, i64>(0) == 0 {
            assert!(start.elapsed() < Duration::from_secs(600), "the index of vectors is not built");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        drop(client);
        let _ = connection.await;
    };
    tokio::runtime::Runtime::new().expect("a runtime").block_on(wait);
}

/// Streams the file as one request and returns the last line of the response.
pub fn upload(server: &Server, file: &Path) -> String {
    let body = fs::read(file).expect("the dataset");
    let mut stream = TcpStream::connect(&server.address).expect("the server listens");
    let head = format!(
        "POST /api/graph/import HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut sender = stream.try_clone().expect("a second handle");
    let sending = std::thread::spawn(move || {
        sender.write_all(head.as_bytes()).and_then(|()| sender.write_all(&body)).expect("the server reads");
    });
    let mut last = String::new();
    for line in BufReader::new(&mut stream).lines() {
        let line = line.expect("an answer");
        if line.starts_with('{') {
            last = line;
        }
    }
    sending.join().expect("everything was sent");
    last
}

/// Measures start and memory with the dataset, after the queries have warmed it up.
pub fn measure_loaded_start(report: &mut Report, server: Server) {
    report.add(
        "memory, dataset loaded and warm",
        "sqlite",
        server.memory_mb(),
        "MB",
        None,
        &Goal::Below(250.0),
    );
    let mut times = Vec::new();
    let mut server = server;
    for _ in 0..5 {
        server = server.restart("builtin");
        times.push(server.ready_ms);
    }
    report.add("start, with the dataset, p50", "sqlite", p50(times), "ms", None, &Goal::Below(300.0));
}
