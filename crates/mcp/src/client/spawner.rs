//! Starts programs in their sandbox, and so that none of them outlives this process, even if this process is
//! killed.
//!
//! Most programs exit when their input is closed. Some do not, and a killed process cannot signal them, so
//! the kernel does it (`PR_SET_PDEATHSIG`). The kernel sends that signal when the thread that started the
//! program ends, and the threads of a runtime can end at any time. So each program has its own thread, which
//! starts it and lives as long as the program. The sandbox restricts that thread, and thereby the program.

use std::{
    io,
    sync::{Once, mpsc},
    thread,
};

use tokio::process::{Child, Command};
use tracing::warn;

use super::sandbox::{self, Enforcement, Sandbox};

/// The thread that started a program. Dropping this ends the thread, and thereby kills the program.
pub struct ProgramThread(#[expect(dead_code, reason = "dropping it ends the thread")] mpsc::Sender<()>);

/// Like [`Command::spawn`], within the caller's runtime and the sandbox.
pub fn spawn(mut command: Command, sandbox: &Sandbox) -> io::Result<(Child, ProgramThread)> {
    #[cfg(unix)]
    prepare_child(&mut command);
    let (runtime, sandbox) = (tokio::runtime::Handle::current(), sandbox.clone());
    let (sender, receiver) = mpsc::sync_channel(1);
    let (end_sender, end_receiver) = mpsc::channel();
    thread::Builder::new().name("mcp-program".into()).spawn(move || {
        let _runtime = runtime.enter();
        let started = sandbox.restrict_thread().inspect(warn_if_unavailable).and_then(|_| command.spawn());
        let is_started = started.is_ok();
        if sender.send(started).is_ok() && is_started {
            // Nothing is ever sent: this waits until the other end is dropped.
            let _ = end_receiver.recv();
        }
    })?;
    let thread_ended = |_| io::Error::other("the thread that starts the program has ended");
    let child = receiver.recv().map_err(thread_ended)??;
    Ok((child, ProgramThread(end_sender)))
}

/// Warns once per process that the sandbox cannot be enforced.
fn warn_if_unavailable(enforcement: &Enforcement) {
    static WARNED: Once = Once::new();
    if *enforcement == Enforcement::Unavailable {
        WARNED.call_once(|| {
            warn!("this kernel has no Landlock: programs that run as MCP servers can read the data folder");
        });
    }
}

#[cfg(unix)]
#[expect(
    unsafe_code,
    reason = "only code between fork and exec can set limits and the signal, and `pre_exec` is unsafe"
)]
fn prepare_child(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec, the closure only makes system calls; it takes no lock and allocates no
    // memory.
    unsafe {
        command.pre_exec(move || {
            sandbox::limit_resources()?;
            kill_with_parent(parent)
        });
    }
}

/// Asks the kernel to kill this process when the thread that started it ends.
#[cfg(target_os = "linux")]
fn kill_with_parent(parent: rustix::process::Pid) -> io::Result<()> {
    use rustix::{
        io::Errno,
        process::{Signal, getppid, set_parent_process_death_signal},
    };
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If the parent ended before the signal was set, the signal will never arrive.
    if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn kill_with_parent(_: rustix::process::Pid) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{process::Stdio, time::Duration};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        runtime::Handle,
    };

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_program_outlives_the_thread_that_called_spawn() {
        let runtime = Handle::current();
        let calling_thread = thread::spawn(move || {
            let _runtime = runtime.enter();
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            spawn(command, &Sandbox::default())
        });
        let (mut child, _thread) = calling_thread.join().unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"still here").await.unwrap();
        drop(input);
        let mut output = String::new();
        child.stdout.take().unwrap().read_to_string(&mut output).await.unwrap();
        assert_eq!(output, "still here");
        assert!(child.wait().await.unwrap().success());
    }

    #[tokio::test]
    async fn a_program_that_does_not_exist_is_an_error() {
        let error = spawn(Command::new("/no/such/program"), &Sandbox::default()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
