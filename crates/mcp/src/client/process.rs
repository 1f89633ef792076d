//! The process of a stdio server. It is started with only the given environment, in its own process
//! group, and ended together with all its descendants. If this process is killed, the operating system
//! ends it (see `spawner`). With a supervisor, this is also true for descendants that left the process group.

use std::{
    any::Any, collections::BTreeMap, ffi::OsString, path::Path, process::Stdio, sync::Arc, time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::watch,
    time::timeout,
};
use tracing::debug;

#[cfg(target_os = "linux")]
use super::supervisor;
use super::{
    Error,
    sandbox::Sandbox,
    spawner::{self, ProgramThread},
};

/// How often it is checked whether the descendants of a program have ended.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How much longer than the program itself its supervisor may take to end.
const SUPERVISOR_TIME: Duration = Duration::from_secs(5);

/// A program with its arguments and environment.
#[derive(Clone)]
pub struct Program {
    pub command: String,
    pub args: Vec<String>,
    /// The whole environment besides what [`Inherited`] has and the cache folder. Values may be secret, so it is never printed.
    pub env: BTreeMap<String, String>,
    /// How long the program has to end by itself, and again after SIGTERM.
    pub grace: Duration,
    pub sandbox: Sandbox,
    /// What the caller lends to the program. It is kept until the process has ended.
    pub kept: Option<Arc<dyn Any + Send + Sync>>,
}

/// The standard streams of a started program.
pub struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

/// A handle on a running program. The program is ended by [`Process::stop`], or when the handle is dropped.
pub struct Process {
    stop: watch::Sender<bool>,
    /// How the process ended; `None` while it runs.
    exit: watch::Receiver<Option<String>>,
}

impl Process {
    /// Starts the program and a task that supervises it.
    pub fn start(program: &Program) -> Result<(Self, Pipes), Error> {
        let failed = |reason: String| Error::Start { command: program.command.clone(), why: reason };
        #[expect(
            clippy::disallowed_methods,
            reason = "not a setting: a program finds others where this server does"
        )]
        let inherited = Inherited::new(|name| std::env::var_os(name));
        let is_supervised = program.sandbox.supervisor.is_some();
        let mut command = build_command(program, &inherited).map_err(|error| failed(error.to_string()))?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(!is_supervised);
        let (mut child, thread) =
            spawner::spawn(command, &program.sandbox).map_err(|error| failed(error.to_string()))?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (Some(stdin), Some(stdout), Some(stderr), Some(group)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take(), group)
        else {
            return Err(failed("the process has no pipes".into()));
        };
        let (stop, stopped) = watch::channel(false);
        let (exit_sender, exit) = watch::channel(None);
        let group = ProcessGroup { id: group, is_supervised };
        #[expect(
            clippy::disallowed_methods,
            reason = "the task ends the program when the `Process` is stopped or dropped, and then returns"
        )]
        tokio::spawn({
            let (kept, grace) = (program.kept.clone(), program.grace);
            async move {
                let reason = supervise(child, thread, group, stopped, grace).await;
                drop(kept);
                debug!("an MCP server stopped: {reason}");
                exit_sender.send_replace(Some(reason));
            }
        });
        Ok((Self { stop, exit }, Pipes { stdin, stdout, stderr }))
    }

    /// Requests the end of the process; [`Process::exited`] waits for it.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits for the end of the process and describes it.
    pub async fn exited(&self) -> String {
        let mut exit = self.exit.clone();
        let reason = exit.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_else(|| "its process ended".into())
    }
}

/// The variables besides `PATH` that a program gets from this process. Programs such as `npx` keep their packages below
/// `HOME`; without it they take the home folder of the user, which a user without rights does not have. The others name
/// the certificates that this machine trusts: behind an authority of one's own, a package runner could otherwise download
/// nothing. Variables of proxies are left out, because they may hold passwords.
const INHERITED: [&str; 4] = ["HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"];

/// The variables that a program gets from this process, unless it has its own.
struct Inherited {
    path: OsString,
    /// Those of [`INHERITED`] that are set.
    others: Vec<(&'static str, OsString)>,
}

impl Inherited {
    /// What programs get of an environment.
    fn new(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let path = variable("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
        let others = INHERITED.into_iter().filter_map(|name| Some((name, variable(name)?)));
        // An empty name of a file would be an error for some programs.
        let others = others.filter(|(_, value)| !value.is_empty());
        Self { path, others: others.collect() }
    }

    /// The environment of a program.
    fn environment(&self, program: &Program) -> BTreeMap<String, OsString> {
        let path = ("PATH".to_owned(), self.path.clone());
        let others = self.others.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let own = program.env.iter().map(|(name, value)| (name.clone(), OsString::from(value)));
        // npm takes the names of its variables in any case.
        let is_own = |name: &str| program.env.keys().any(|own| own.eq_ignore_ascii_case(name));
        let cache = program.sandbox.cache.as_deref().map(cache_variables).into_iter().flatten();
        let cache = cache.filter(|(name, _)| !is_own(name));
        [path].into_iter().chain(others).chain(cache).chain(own).collect()
    }
}

/// The variables that make package runners use a cache folder. Without them they use the home folder, where the program
/// may not be able to create a folder, and where the programs of other projects could change what is executed.
fn cache_variables(cache: &Path) -> impl Iterator<Item = (String, OsString)> {
    let folders = [
        ("XDG_CACHE_HOME", "xdg"),
        ("npm_config_cache", "npm"),
        ("UV_CACHE_DIR", "uv"),
        ("UV_PYTHON_INSTALL_DIR", "uv-python"),
        ("BUN_INSTALL_CACHE_DIR", "bun"),
    ];
    folders.map(|(name, folder)| (name.to_owned(), cache.join(folder).into_os_string())).into_iter()
}

/// The command that starts the program, or its supervisor.
#[cfg(target_os = "linux")]
fn build_command(program: &Program, inherited: &Inherited) -> std::io::Result<Command> {
    let Some(binary) = &program.sandbox.supervisor else { return Ok(plain_command(program, inherited)) };
    // The supervisor could only report a missing program by its exit code.
    find_program(&program.command, &inherited.path)?;
    let mut command = Command::new(binary);
    command.args(supervisor::arguments(program.grace, &program.command, &program.args)).env_clear().envs(
        inherited.environment(program).into_iter().map(|(name, value)| (supervisor::variable(&name), value)),
    );
    Ok(command)
}

#[cfg(not(target_os = "linux"))]
fn build_command(program: &Program, inherited: &Inherited) -> std::io::Result<Command> {
    Ok(plain_command(program, inherited))
}

fn plain_command(program: &Program, inherited: &Inherited) -> Command {
    let mut command = Command::new(&program.command);
    command.args(&program.args).env_clear().envs(inherited.environment(program));
    command
}

/// Fails if there is no such program, as starting it would.
#[cfg(target_os = "linux")]
fn find_program(command: &str, path: &std::ffi::OsStr) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let candidates: Vec<_> = match command.contains('/') {
        true => vec![command.into()],
        false => std::env::split_paths(path).map(|folder| folder.join(command)).collect(),
    };
    let files: Vec<_> =
        candidates.iter().filter_map(|file| file.metadata().ok()).filter(|found| found.is_file()).collect();
    match files.iter().any(|found| found.permissions().mode() & 0o111 != 0) {
        true => Ok(()),
        false if files.is_empty() => Err(rustix::io::Errno::NOENT.into()),
        false => Err(rustix::io::Errno::ACCESS.into()),
    }
}

/// The process group of a program or of its supervisor. Dropping it kills the processes that are still alive, for
/// example when the runtime ends.
struct ProcessGroup {
    id: Pid,
    /// Whether the group has only the supervisor, which kills the others.
    is_supervised: bool,
}

impl ProcessGroup {
    /// Sends a signal to all processes of the group. Returns false if there are none.
    fn signal(&self, signal: Signal) -> bool {
        kill_process_group(self.id, signal).is_ok()
    }

    /// How long the group may take to end after SIGTERM. A supervisor kills the program after `grace`.
    fn time_to_end(&self, grace: Duration) -> Duration {
        if self.is_supervised { grace + SUPERVISOR_TIME } else { grace }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(if self.is_supervised { Signal::HUP } else { Signal::KILL });
    }
}

/// Waits for the end of the program, or ends it when it is stopped: first by waiting, since its input is
/// closed, then with SIGTERM, then with SIGKILL. Descendants that outlive it are ended as well. Describes the end.
async fn supervise(
    mut child: Child,
    _thread: ProgramThread,
    group: ProcessGroup,
    mut stopped: watch::Receiver<bool>,
    grace: Duration,
) -> String {
    let ended = tokio::select! {
        ended = child.wait() => Some(ended),
        // This branch is also taken when the `Process` was dropped.
        _ = stopped.wait_for(|stop| *stop) => None,
    };
    let reason = match ended {
        Some(ended) => exit_reason(ended),
        None => {
            // The input of the program is closed by now, so most servers end by themselves.
            match timeout(grace, child.wait()).await {
                Ok(ended) => exit_reason(ended),
                Err(_) => {
                    group.signal(Signal::TERM);
                    match timeout(group.time_to_end(grace), child.wait()).await {
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
    // Descendants may outlive the program: the children of a shell, or the server of a package runner. A
    // supervisor has ended them already.
    if group.signal(Signal::TERM) {
        let deadline = tokio::time::Instant::now() + grace;
        while group.signal(Signal::TERM) && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(EXIT_POLL_INTERVAL).await;
        }
    }
    reason
}

/// Describes the end of a process, for error messages that start with the name of the server.
fn exit_reason(ended: std::io::Result<std::process::ExitStatus>) -> String {
    match ended {
        Ok(status) => format!("its process ended ({status})"),
        Err(error) => format!("its process could not be waited for: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_the_home_folder_of_the_server_unless_it_has_its_own() {
        assert_eq!(environment(None, &[]), "HOME=/var/cache/emergent PATH=/bin");
        assert_eq!(environment(None, &[("HOME", "/own"), ("KEY", "x")]), "HOME=/own KEY=x PATH=/bin");
    }

    #[test]
    fn a_program_trusts_the_certificates_that_the_server_trusts_and_gets_no_proxy() {
        let server = [
            ("PATH", "/bin"),
            ("SSL_CERT_FILE", "/etc/own-ca.pem"),
            ("SSL_CERT_DIR", "/etc/certs"),
            ("NODE_EXTRA_CA_CERTS", "/etc/own-ca.pem"),
            ("HTTPS_PROXY", "http://user:password@proxy"),
            ("GEMINI_API_KEY", "key"),
        ];
        assert_eq!(
            environment_of(&server, None, &[]),
            "NODE_EXTRA_CA_CERTS=/etc/own-ca.pem PATH=/bin SSL_CERT_DIR=/etc/certs SSL_CERT_FILE=/etc/own-ca.pem"
        );
        let own = environment_of(&server, None, &[("SSL_CERT_FILE", "/other.pem")]);
        assert!(own.ends_with("SSL_CERT_FILE=/other.pem"), "{own}");
        assert_eq!(environment_of(&[("PATH", "/bin"), ("SSL_CERT_FILE", "")], None, &[]), "PATH=/bin");
    }

    #[test]
    fn package_runners_use_the_cache_of_the_program_unless_it_names_another() {
        let cache = Some("/data/program-caches/1");
        assert_eq!(
            environment(cache, &[]),
            "BUN_INSTALL_CACHE_DIR=/data/program-caches/1/bun HOME=/var/cache/emergent PATH=/bin \
             UV_CACHE_DIR=/data/program-caches/1/uv UV_PYTHON_INSTALL_DIR=/data/program-caches/1/uv-python \
             XDG_CACHE_HOME=/data/program-caches/1/xdg npm_config_cache=/data/program-caches/1/npm"
        );
        let own = environment(cache, &[("NPM_CONFIG_CACHE", "/shared"), ("UV_CACHE_DIR", "/uv")]);
        assert!(own.contains("NPM_CONFIG_CACHE=/shared") && own.contains("UV_CACHE_DIR=/uv "), "{own}");
        assert!(!own.contains("npm_config_cache"), "{own}");
    }

    fn environment(cache: Option<&str>, env: &[(&str, &str)]) -> String {
        environment_of(&[("PATH", "/bin"), ("HOME", "/var/cache/emergent")], cache, env)
    }

    fn environment_of(server: &[(&str, &str)], cache: Option<&str>, env: &[(&str, &str)]) -> String {
        let value =
            |name: &str| server.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).into());
        let inherited = Inherited::new(value);
        let program = Program {
            command: "npx".into(),
            args: Vec::new(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            grace: Duration::ZERO,
            sandbox: Sandbox { cache: cache.map(Into::into), ..Sandbox::default() },
            kept: None,
        };
        let all = inherited.environment(&program).into_iter();
        let texts: Vec<String> =
            all.map(|(name, value)| format!("{name}={}", value.to_string_lossy())).collect();
        texts.join(" ")
    }
}
