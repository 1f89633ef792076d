//! Starts programs so that none of them outlives this process, however it ends, and so that none of them
//! reaches what its sandbox hides.
//!
//! Most programs exit when their input is closed. Some do not, and a killed process cannot signal them,
//! so the kernel is asked to do it (`PR_SET_PDEATHSIG`). That signal depends on the thread that started
//! the program rather than on its process, and the threads of a runtime come and go. So each program has a
//! thread of its own, which starts it and lives as long as it. The sandbox restricts that thread, and
//! thereby the program.

use std::{
    io,
    sync::{Once, mpsc},
    thread,
};

use tokio::process::{Child, Command};
use tracing::warn;

use super::sandbox::{self, Enforcement, Sandbox};

/// The thread of a program. The program is killed when this is dropped before its end.
pub struct ProgramThread(#[expect(dead_code, reason = "dropping it ends the thread")] mpsc::Sender<()>);

/// Like [`Command::spawn`], within the caller's runtime and the sandbox.
pub fn spawn(mut command: Command, sandbox: &Sandbox) -> io::Result<(Child, ProgramThread)> {
    #[cfg(unix)]
    prepare_child(&mut command);
    let (runtime, sandbox) = (tokio::runtime::Handle::current(), sandbox.clone());
    let (sender, receiver) = mpsc::sync_channel(1);
    let (keep, ended) = mpsc::channel();
    thread::Builder::new().name("mcp-program".into()).spawn(move || {
        let _within = runtime.enter();
        let started = sandbox.restrict_thread().inspect(warn_if_unavailable).and_then(|_| command.spawn());
        let is_started = started.is_ok();
        if sender.send(started).is_ok() && is_started {
            // Nothing is ever sent: this waits until the other end is dropped.
            let _ = ended.recv();
        }
    })?;
    let gone = |_| io::Error::other("the thread that starts the program has ended");
    let child = receiver.recv().map_err(gone)??;
    Ok((child, ProgramThread(keep)))
}

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
    let ours = rustix::process::getpid();
    // SAFETY: between fork and exec, the closure only makes system calls; it takes no lock and allocates no
    // memory.
    unsafe {
        command.pre_exec(move || {
            sandbox::limit_resources()?;
            kill_with_parent(ours)
        });
    }
}

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
    async fn a_program_outlives_the_thread_that_asked_for_it() {
        let runtime = Handle::current();
        let asking = thread::spawn(move || {
            let _within = runtime.enter();
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            spawn(command, &Sandbox::default())
        });
        let (mut child, _thread) = asking.join().unwrap().unwrap();
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
    async fn a_program_that_is_not_there_is_an_error() {
        let error = spawn(Command::new("/no/such/program"), &Sandbox::default()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
