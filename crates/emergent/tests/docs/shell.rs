//! One bash for a whole page: variables, functions and the working directory of a block are there
//! for the next one, as in the reader's terminal.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use crate::sandbox::Sandbox;

/// How long one block may take.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the servers of a page may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the names of scripts and sources them; a script that fails ends the shell. The descriptors
/// of the loop are closed for the scripts, so that a server in the background does not hold them.
const LOOP: &str = r#"
set -eEu -o pipefail
exec 3<&0 4>&1 0</dev/null
stop_servers() {
    [ ! -f "$DOCS_STATE/server.pid" ] || kill "$(cat "$DOCS_STATE/server.pid")" 2>/dev/null || true
    wait
}
trap 'status=$?; echo "$DOCS_PAGE:$((DOCS_LINE + LINENO)): \`$BASH_COMMAND\` ended with status $status" >&2' ERR
trap 'stop_servers' EXIT
while IFS=' ' read -r -u 3 DOCS_PAGE DOCS_LINE DOCS_SCRIPT; do
    source "$DOCS_SCRIPT" >"$DOCS_SCRIPT.out" 2>"$DOCS_SCRIPT.err" 3<&- 4>&-
    echo done >&4
done
"#;

pub struct Shell {
    child: Child,
    scripts: Option<ChildStdin>,
    done: Receiver<()>,
    blocks: PathBuf,
    page: String,
    count: usize,
}

pub struct Output {
    pub stdout: String,
    pub stderr: String,
    /// Why the script did not get to its end.
    pub failure: Option<String>,
}

impl Shell {
    pub fn start(sandbox: &mut Sandbox, page: &str) -> Self {
        let mut child = sandbox
            .command("bash")
            .args(["-c", LOOP])
            // A group of its own: what a block leaves running ends with the page.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("bash");
        let scripts = child.stdin.take();
        let stdout = child.stdout.take().expect("a pipe");
        let (send, done) = mpsc::channel();
        std::thread::spawn(move || {
            for _ in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(());
            }
        });
        Self { child, scripts, done, blocks: sandbox.blocks(), page: page.to_owned(), count: 0 }
    }

    /// Runs a script that begins after `line` of the page.
    pub fn run(&mut self, line: usize, script: &str) -> Output {
        self.count += 1;
        let file = self.blocks.join(format!("{}.sh", self.count));
        fs::write(&file, script).expect("a new file");
        let scripts = self.scripts.as_mut().expect("a shell that runs");
        let sent = writeln!(scripts, "{} {line} {}", self.page, file.display());
        let failure = match sent.map(|()| self.done.recv_timeout(BLOCK_TIMEOUT)) {
            Ok(Ok(())) => None,
            Ok(Err(RecvTimeoutError::Timeout)) => {
                Some(format!("no end within {} s", BLOCK_TIMEOUT.as_secs()))
            }
            Ok(Err(RecvTimeoutError::Disconnected)) | Err(_) => Some("it ended with an error".to_owned()),
        };
        let read = |ending: &str| {
            let path = self.blocks.join(format!("{}.sh.{ending}", self.count));
            String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
        };
        Output { stdout: read("out"), stderr: read("err"), failure }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.scripts = None;
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        // Whatever is left of the group, such as a block that takes too long.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}
