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

use rustix::process::Signal;
use tokio::process::{Child, Command};
use tracing::warn;

use super::sandbox::{self, Enforcement, Sandbox};

/// The thread that started a program. Dropping this ends the thread, and thereby kills the program.
pub struct ProgramThread(#[expect(dead_code, reason = "dropping it ends the thread")] mpsc::Sender<()>);

/// Like [`Command::spawn`], within the caller's runtime and the sandbox. With a supervisor in the sandbox, the
/// command is the supervisor's.
pub fn spawn(mut command: Command, sandbox: &Sandbox) -> io::Result<(Child, ProgramThread)> {
    // A supervisor has to outlive this process for as long as it takes to end the program.
    let signal = if sandbox.supervisor.is_some() { Signal::HUP } else { Signal::KILL };
    prepare_child(&mut command, signal);
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
            warn!(
                "this kernel has no Landlock: programs that run as MCP servers can read the data folder and the files \
                 with credentials"
            );
        });
    }
}

#[expect(
    unsafe_code,
    reason = "only code between fork and exec can set limits and the signal, and `pre_exec` is unsafe"
)]
fn prepare_child(command: &mut Command, signal: Signal) {
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec, the closure only makes system calls; it takes no lock and allocates no
    // memory.
    unsafe {
        command.pre_exec(move || {
            close_other_files();
            sandbox::limit_resources()?;
            signal_with_parent(parent, signal)
        });
    }
}

/// Makes the kernel kill the program when this process ends.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "only code between fork and exec can set the signal, and `pre_exec` is unsafe"
)]
pub fn kill_with_this_process(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec, the closure only makes system calls; it takes no lock and allocates no
    // memory.
    unsafe {
        command.pre_exec(move || signal_with_parent(parent, Signal::KILL));
    }
}

/// Closes all files except the standard streams when the program is executed. Files of this process are closed
/// then anyway; this is for those that it inherited from the process that started it.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "there is no safe function for this system call")]
fn close_other_files() {
    let (first, last) = (3_u32, u32::MAX);
    // SAFETY: the call has no pointers. It only marks file descriptors as to be closed by exec, so those that
    // are used until then stay open.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) };
}

#[cfg(not(target_os = "linux"))]
fn close_other_files() {}

/// Asks the kernel to send this process a signal when the thread that started it ends.
#[cfg(target_os = "linux")]
fn signal_with_parent(parent: rustix::process::Pid, signal: Signal) -> io::Result<()> {
    use rustix::{
        io::Errno,
        process::{getppid, set_parent_process_death_signal},
    };
    set_parent_process_death_signal(Some(signal))?;
    // If the parent ended before the signal was set, the signal will never arrive.
    if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

#[cfg(not(target_os = "linux"))]
fn signal_with_parent(_: rustix::process::Pid, _: Signal) -> io::Result<()> {
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

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_program_gets_only_its_standard_streams() {
        use std::{io::Write, os::fd::AsRawFd};

        let mut secret = tempfile::tempfile().unwrap();
        secret.write_all(b"of another program").unwrap();
        // As if the process that started this one had left the file open.
        rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
        let mut command = Command::new("ls");
        command.arg("/proc/self/fd").stdout(Stdio::piped()).stdin(Stdio::null()).stderr(Stdio::null());
        let (mut child, _thread) = spawn(command, &Sandbox::default()).unwrap();
        let mut output = String::new();
        child.stdout.take().unwrap().read_to_string(&mut output).await.unwrap();
        assert!(child.wait().await.unwrap().success());
        let open: Vec<&str> = output.lines().collect();
        assert!(open.starts_with(&["0", "1", "2"]), "{open:?}");
        assert!(!open.contains(&secret.as_raw_fd().to_string().as_str()), "{open:?}");
    }

    #[tokio::test]
    async fn a_program_that_does_not_exist_is_an_error() {
        let error = spawn(Command::new("/no/such/program"), &Sandbox::default()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
