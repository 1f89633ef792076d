//! Agents of another system, made with the Python SDK of A2A, for tests that call them.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The agents `echo`, `repeater`, `slow`, `guarded` and `asker`, which run until the value is dropped.
#[derive(Debug)]
pub struct A2aAgents {
    program: Child,
    base: String,
}

impl A2aAgents {
    /// Starts the agents. The SDK is installed first if it is not there.
    pub fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/a2a_agents.py");
        let mut program = Command::new(sdk_folder().join("bin/python"))
            .arg(script)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the Python of the SDK starts");
        let mut base = String::new();
        let output = program.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut base).expect("a line");
        assert!(base.starts_with("http://"), "the agents did not start: see above");
        Self { program, base: base.trim().to_owned() }
    }

    /// The address of an agent, below which its card is.
    pub fn url(&self, agent: &str) -> String {
        format!("{}/{agent}", self.base)
    }
}

impl Drop for A2aAgents {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// The folder of the SDK, which `scripts/surface-clients` installs if it is missing.
fn sdk_folder() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/surface-clients");
    let output = Command::new(script).arg("a2a").stderr(Stdio::inherit()).output().expect("it runs");
    assert!(output.status.success(), "scripts/surface-clients a2a failed");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}
