//! The process of a stdio server. It is started with only the given environment, in its own process
//! group, and ended together with all its descendants. If this process is killed, the operating system
//! ends it (see `spawner`).

use std::{collections::BTreeMap, ffi::OsString, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::watch,
    time::timeout,
};
use tracing::debug;

use super::{
    Error,
    sandbox::Sandbox,
    spawner::{self, ProgramThread},
};

/// A program with its arguments and environment.
#[derive(Clone)]
pub struct Program {
    pub command: String,
    pub args: Vec<String>,
    /// The whole environment besides `PATH`. Values may be secret, so it is never printed.
    pub env: BTreeMap<String, String>,
    /// How long the program has to end by itself, and again after SIGTERM.
    pub grace: Duration,
    pub sandbox: Sandbox,
}

pub struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

/// Ends the process on request, or when it is dropped.
pub struct Process {
    stop: watch::Sender<bool>,
    exit: watch::Receiver<Option<String>>,
}

impl Process {
    pub fn start(program: &Program) -> Result<(Self, Pipes), Error> {
        let failed = |reason: String| Error::Start { command: program.command.clone(), why: reason };
        #[expect(
            clippy::disallowed_methods,
            reason = "not a setting: a program finds others where this server does"
        )]
        let path = std::env::var_os("PATH");
        let mut command = Command::new(&program.command);
        command
            .args(&program.args)
            .env_clear()
            .env("PATH", path.unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin")))
            .envs(&program.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let (mut child, thread) =
            spawner::spawn(command, &program.sandbox).map_err(|error| failed(error.to_string()))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (Some(stdin), Some(stdout), Some(stderr), Some(group)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take(), group)
        else {
            return Err(failed("it has no pipes".into()));
        };
        let (stop, stopped) = watch::channel(false);
        let (tell, gone) = watch::channel(None);
        let guard = Group(group);
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends after its program, which it ends when the `Process` is stopped or dropped"
        )]
        tokio::spawn(supervise(child, thread, guard, stopped, tell, program.grace));
        Ok((Self { stop, exit: gone }, Pipes { stdin, stdout, stderr }))
    }

    /// Requests the end of the process; [`Process::exited`] waits for it.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits for the end of the process and describes it.
    pub async fn exited(&self) -> String {
        let mut gone = self.exit.clone();
        let ended = gone.wait_for(Option::is_some).await;
        ended.ok().and_then(|how| how.clone()).unwrap_or_else(|| "it ended".into())
    }
}

/// The process group. If it is dropped while processes are alive, because the runtime ends, they are
/// killed.
struct Group(Pid);

impl Group {
    /// Returns false if no process is left.
    fn signal(&self, signal: Signal) -> bool {
        kill_process_group(self.0, signal).is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn supervise(
    mut child: Child,
    _thread: ProgramThread,
    group: Group,
    mut stopped: watch::Receiver<bool>,
    tell: watch::Sender<Option<String>>,
    grace: Duration,
) {
    let ended = tokio::select! {
        ended = child.wait() => Some(ended),
        // This branch is also taken when the `Process` was dropped.
        _ = stopped.wait_for(|stop| *stop) => None,
    };
    let how = match ended {
        Some(ended) => exit_reason(ended),
        None => {
            // The input of the program is closed by now, so most servers end by themselves.
            match timeout(grace, child.wait()).await {
                Ok(ended) => exit_reason(ended),
                Err(_) => {
                    group.signal(Signal::TERM);
                    match timeout(grace, child.wait()).await {
                        Ok(ended) => exit_reason(ended),
                        Err(_) => {
                            group.signal(Signal::KILL);
                            exit_reason(child.wait().await)
                        }
                    }
                }
            }
        }
    };
    // Descendants may outlive the program: the children of a shell, or the server of a package runner.
    if group.signal(Signal::TERM) {
        let patience = tokio::time::Instant::now() + grace;
        while group.signal(Signal::TERM) && tokio::time::Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    drop(group);
    debug!("an MCP server's process ended: {how}");
    tell.send_replace(Some(how));
}

fn exit_reason(ended: std::io::Result<std::process::ExitStatus>) -> String {
    match ended {
        Ok(status) => format!("its process ended ({status})"),
        Err(error) => format!("its process could not be waited for: {error}"),
    }
}
