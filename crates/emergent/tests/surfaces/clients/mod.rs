//! Programs that use the clients of other protocols, and where these are installed.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

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
