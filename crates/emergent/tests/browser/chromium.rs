//! A headless Chromium, driven over its debugging pipe: commands and events are JSON, each ended by a NUL.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

pub struct Chromium {
    child: Child,
    commands: File,
    messages: mpsc::Receiver<Value>,
    next_id: u64,
    session: Option<String>,
    _folder: tempfile::TempDir,
}

/// The browser of this machine: `EMERGENT_TEST_CHROMIUM`, or one on the `PATH`.
pub fn find() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("EMERGENT_TEST_CHROMIUM") {
        return Some(path.into());
    }
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let mut found = std::env::split_paths(&folders).flat_map(|folder| names.map(|name| folder.join(name)));
    found.find(|path| path.is_file())
}

impl Chromium {
    pub fn start(program: PathBuf) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pipe = |name: &str| {
            let path = folder.path().join(name);
            assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
            path
        };
        let (input, output) = (pipe("in"), pipe("out"));
        // Chromium reads commands from descriptor 3 and writes to 4. The sandbox does not work for root.
        let child = Command::new("bash")
            .args([
                "-c",
                "exec \"$CHROMIUM\" \"$@\" 3<\"$IN\" 4>\"$OUT\"",
                "chromium",
                "--headless=new",
                "--no-sandbox",
            ])
            .args(["--disable-gpu", "--no-first-run", "--remote-debugging-pipe", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .envs([("CHROMIUM", program.as_path()), ("IN", &input), ("OUT", &output)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash");
        let commands = File::options().write(true).open(&input).expect("the pipe");
        let output = File::open(&output).expect("the pipe");
        let (send, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let parts = BufReader::new(output).split(0).map_while(Result::ok);
            parts
                .filter_map(|part| serde_json::from_slice(&part).ok())
                .try_for_each(|message| send.send(message))
                .ok();
        });
        let mut browser = Self { child, commands, messages, next_id: 0, session: None, _folder: folder };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).expect("a browser that listens");
        let end = Instant::now() + PATIENCE;
        loop {
            let wait = end.saturating_duration_since(Instant::now());
            let message =
                self.messages.recv_timeout(wait).unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// The value of an expression on the current page; a promise is awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        self.call("Runtime.evaluate", params)["result"]["value"].clone()
    }

    /// Opens a page and waits until it is there.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for(&format!(
            "document.readyState === 'complete' && location.href.startsWith({})",
            json!(url)
        ));
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.evaluate(expression) != json!(true) {
            assert!(Instant::now() < end, "{expression} is not true: {}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What the page says.
    pub fn text(&mut self) -> String {
        let text = self.evaluate("document.body ? document.body.innerText : ''");
        text.as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
