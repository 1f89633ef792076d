//! Programs that use the clients of other protocols, where these are installed, and the agents that they talk to.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::common::{Home, command_output};

/// Writes the script of a model, and returns the folder of the server.
pub fn with_script(home: Home, name: &str, script: &str) -> Home {
    let scripts = home.data().join("rehearsals");
    std::fs::create_dir_all(&scripts).expect("a folder");
    std::fs::write(scripts.join(format!("{name}.yaml")), script).expect("a script");
    home
}

/// Creates an agent from its definition.
pub fn create_agent(home: &Home, definition: &Value) {
    std::fs::write(home.folder().join("agent.json"), definition.to_string()).expect("a file");
    command_output(home.run(&["agent", "create", "agent.json"]));
}

/// The folder of a set of clients, which `scripts/surface-clients` installs if it is missing.
pub fn installed(set: &str) -> PathBuf {
    try_install(set).unwrap_or_else(|failed| panic!("{failed}"))
}

/// Like [`installed`]; an error if the set cannot be installed here.
pub fn try_install(set: &str) -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/surface-clients");
    let output = Command::new(script).arg(set).stderr(Stdio::inherit()).output().expect("it runs");
    match output.status.success() {
        true => Ok(PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())),
        false => Err(format!("scripts/surface-clients {set} failed")),
    }
}
