//! Starts programs so that none of them outlives this process, however it ends.
//!
//! Most programs exit when their input is closed. Some do not, and a killed process cannot signal them,
//! so the kernel is asked to do it (`PR_SET_PDEATHSIG`). That signal depends on the thread that started
//! the program rather than on its process. The threads of a runtime come and go, so one permanent
//! thread starts all programs.

use std::{
    io,
    sync::{OnceLock, mpsc},
    thread,
};

use tokio::process::{Child, Command};

type SpawnJob = Box<dyn FnOnce() + Send>;

/// Like [`Command::spawn`], within the caller's runtime.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    #[cfg(target_os = "linux")]
    kill_with_parent(&mut command);
    let runtime = tokio::runtime::Handle::current();
    let (sender, receiver) = mpsc::sync_channel(1);
    let job = move || {
        let _within = runtime.enter();
        let _ = sender.send(command.spawn());
    };
    spawn_thread()?.send(Box::new(job)).map_err(|_| thread_gone_error())?;
    receiver.recv().map_err(|_| thread_gone_error())?
}

fn spawn_thread() -> io::Result<&'static mpsc::Sender<SpawnJob>> {
    static STARTER: OnceLock<mpsc::Sender<SpawnJob>> = OnceLock::new();
    if let Some(starter) = STARTER.get() {
        return Ok(starter);
    }
    let (send, jobs) = mpsc::channel::<SpawnJob>();
    // Two callers that come first at the same time start two threads, and the thread without a sender ends.
    thread::Builder::new()
        .name("mcp-programs".into())
        .spawn(move || jobs.into_iter().for_each(|job| job()))?;
    Ok(STARTER.get_or_init(|| send))
}

fn thread_gone_error() -> io::Error {
    io::Error::other("the thread that starts programs has ended")
}

#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "only code between fork and exec can set the signal, and `pre_exec` is unsafe"
)]
fn kill_with_parent(command: &mut Command) {
    use rustix::{
        io::Errno,
        process::{Signal, getpid, getppid, set_parent_process_death_signal},
    };

    let ours = getpid();
    // SAFETY: between fork and exec, the closure makes two system calls; it takes no lock and allocates no
    // memory.
    unsafe {
        command.pre_exec(move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // If this process ended before the signal was set, the signal will never arrive.
            if getppid() == Some(ours) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
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
            spawn(command)
        });
        let mut child = asking.join().unwrap().unwrap();
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
        let error = spawn(Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
