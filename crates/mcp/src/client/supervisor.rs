//! The supervisor of a program: a small process between the server and the program, so that no process that the
//! program started outlives it, not even one that left its process group and its parent (a daemon).
//!
//! The supervisor is the same binary, started with [`ARGUMENT`]. The kernel gives it every process below it that
//! loses its parent (`PR_SET_CHILD_SUBREAPER`), so all of them are found by their parents. When the program ends,
//! or when the supervisor is asked to end it, the supervisor ends all of them, and then itself with the status of
//! the program. It cannot be killed by the program where Landlock can restrict signals (Linux 6.12 and later).
//!
//! | signal | meaning |
//! |---|---|
//! | SIGTERM | end the program: SIGTERM, and after the grace period SIGKILL |
//! | SIGHUP | kill everything at once; also sent by the kernel when the server is killed |

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    process::{Command, ExitCode},
    sync::mpsc,
    time::Duration,
};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait,
};
use tokio::{
    signal::unix::{self, SignalKind},
    time::{Instant, timeout},
};

use super::{sandbox, spawner};

/// The first argument of the binary when it is started as a supervisor.
const ARGUMENT: &str = "supervise-program";
/// The exit code when the program could not be started, as in shells.
const NOT_STARTED: u8 = 127;
/// How often it is checked whether the processes have ended, if no signal arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often the processes are listed to stop those that appear while the others are stopped.
const MAX_STOP_ROUNDS: usize = 100;

/// The variables of the program have this prefix in the environment of the supervisor, so that they do not affect
/// the supervisor itself.
const ENV_PREFIX: &str = "PROGRAM_ENV_";

/// The name of a variable of the program in the environment of the supervisor.
pub fn variable(name: &str) -> String {
    format!("{ENV_PREFIX}{name}")
}

/// The arguments that make the binary supervise a program.
pub fn arguments(grace: Duration, command: &str, args: &[String]) -> Vec<OsString> {
    let fixed = [ARGUMENT.to_owned(), grace.as_millis().to_string(), command.to_owned()];
    fixed.iter().chain(args).map(OsString::from).collect()
}

/// Supervises a program if the arguments of this process say so, and returns its exit code. `None` if this
/// process is not a supervisor. The binary calls this before anything else.
pub fn run_if_requested(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != ARGUMENT {
        return None;
    }
    let grace = args.next().and_then(|text| text.to_str()?.parse().ok()).map(Duration::from_millis);
    let (Some(grace), Some(command)) = (grace, args.next()) else {
        eprintln!("{ARGUMENT} needs a grace period in milliseconds and a command");
        return Some(ExitCode::from(NOT_STARTED));
    };
    let mut program = Command::new(&command);
    program.args(args).env_clear().envs(program_environment());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let status = runtime.and_then(|runtime| runtime.block_on(supervise(program, grace)));
    Some(match status {
        Ok(status) => end_like(status),
        Err(error) => {
            eprintln!("could not start `{}`: {error}", command.display());
            ExitCode::from(NOT_STARTED)
        }
    })
}

#[expect(clippy::disallowed_methods, reason = "not settings: the environment is passed on to the program")]
fn program_environment() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(ENV_PREFIX.as_bytes())?;
        Some((OsStr::from_bytes(name).to_owned(), value))
    })
}

/// Ends this process as the program ended: by the same signal, or with the same exit code.
fn end_like(status: WaitStatus) -> ExitCode {
    if let Some(number) = status.terminating_signal() {
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = kill_process(getpid(), signal);
        }
        return ExitCode::from(u8::try_from(128 + number).unwrap_or(NOT_STARTED));
    }
    ExitCode::from(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(NOT_STARTED))
}

/// How the program is ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Graceful,
    AtOnce,
}

/// Starts the program, waits for its end, and ends everything that it started.
async fn supervise(program: Command, grace: Duration) -> io::Result<WaitStatus> {
    set_child_subreaper(Some(getpid()))?;
    let mut child_ended = unix::signal(SignalKind::child())?;
    let mut terminated = unix::signal(SignalKind::terminate())?;
    let mut hung_up = unix::signal(SignalKind::hangup())?;
    let (main, _thread) = start_program(program)?;
    release_streams()?;
    let mut children = Children { main, status: None };
    let mut ending = loop {
        if children.reap() == Remaining::None || children.status.is_some() {
            break Ending::Graceful;
        }
        tokio::select! {
            _ = child_ended.recv() => {}
            _ = terminated.recv() => break Ending::Graceful,
            _ = hung_up.recv() => break Ending::AtOnce,
        }
    };
    if ending == Ending::Graceful {
        let deadline = Instant::now() + grace;
        descendants().into_iter().for_each(|pid| send(pid, Signal::TERM));
        while children.reap() == Remaining::Some && Instant::now() < deadline && ending == Ending::Graceful {
            tokio::select! {
                _ = timeout(POLL_INTERVAL, child_ended.recv()) => {}
                _ = hung_up.recv() => ending = Ending::AtOnce,
            }
        }
    }
    while children.reap() == Remaining::Some {
        kill_all();
        let _ = timeout(POLL_INTERVAL, child_ended.recv()).await;
    }
    children.status.ok_or_else(|| io::Error::other("its end was not reported"))
}

/// Starts the program in its own process group, in a thread that lives as long as the returned sender.
fn start_program(mut program: Command) -> io::Result<(Pid, mpsc::Sender<()>)> {
    program.process_group(0);
    spawner::kill_with_this_process(&mut program);
    let (sender, receiver) = mpsc::sync_channel(1);
    let (end_sender, end_receiver) = mpsc::channel::<()>();
    // The restriction applies to this thread and the program only: the supervisor has to send signals.
    std::thread::Builder::new().name("program".into()).spawn(move || {
        sandbox::restrict_signals();
        let started = program.spawn().map(|child| child.id());
        if sender.send(started).is_ok() {
            // Nothing is ever sent: this waits until the other end is dropped.
            let _ = end_receiver.recv();
        }
    })?;
    let pid = receiver.recv().map_err(|_| io::Error::other("the thread that starts it has ended"))??;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or_else(|| io::Error::other("it has no process id"))?, end_sender))
}

/// Closes the streams of the program in this process. Otherwise the server would not see when the program closes
/// its output.
fn release_streams() -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// Whether this process has children, running or ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remaining {
    Some,
    None,
}

/// The program, and the processes that the kernel gave to this process.
struct Children {
    main: Pid,
    /// How the program ended; `None` while it runs.
    status: Option<WaitStatus>,
}

impl Children {
    /// Takes note of all children that have ended.
    fn reap(&mut self) -> Remaining {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.status = Some(status),
                Ok(Some(_)) => {}
                Ok(None) => return Remaining::Some,
                Err(error) if error == rustix::io::Errno::INTR => {}
                Err(_) => return Remaining::None,
            }
        }
    }
}

fn send(pid: Pid, signal: Signal) {
    // The process may have ended meanwhile.
    let _ = kill_process(pid, signal);
}

/// Kills all processes below this one. They are stopped first, so that none of them starts another one while the
/// others are killed.
fn kill_all() {
    let mut stopped = HashSet::new();
    for _ in 0..MAX_STOP_ROUNDS {
        let new: Vec<Pid> = descendants().into_iter().filter(|pid| stopped.insert(*pid)).collect();
        if new.is_empty() {
            break;
        }
        new.into_iter().for_each(|pid| send(pid, Signal::STOP));
    }
    descendants().into_iter().for_each(|pid| send(pid, Signal::KILL));
}

/// Lists all processes below this one.
fn descendants() -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent_of(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut level = vec![getpid().as_raw_nonzero().get()];
    while let Some(parent) = level.pop() {
        for pid in children.remove(&parent).unwrap_or_default() {
            found.extend(Pid::from_raw(pid));
            level.push(pid);
        }
    }
    found
}

/// The parent in the text of `/proc/PID/stat`: `PID (NAME) STATE PARENT …`. The name may contain anything.
fn parent_of(stat: &[u8]) -> Option<i32> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_read_whatever_the_name_of_the_process() {
        assert_eq!(parent_of(b"12 (cat) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parent_of(b"12 (a) S 9 (b) R 7 12"), Some(7));
        assert_eq!(parent_of(b"12 (cat"), None);
        assert_eq!(parent_of(b""), None);
    }

    #[test]
    fn only_the_argument_makes_a_supervisor() {
        let run = |args: &[&str]| run_if_requested(args.iter().map(OsString::from));
        assert!(run(&["emergent"]).is_none());
        assert!(run(&["emergent", "serve"]).is_none());
        assert_eq!(
            arguments(Duration::from_secs(2), "cat", &["-u".into()]),
            ["supervise-program", "2000", "cat", "-u"]
        );
    }
}
