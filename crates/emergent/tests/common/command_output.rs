//! What a command said, and whether it went well.

use std::process::Output;

use serde_json::Value;

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it printed, when it went well.
#[track_caller]
pub fn command_output(output: Output) -> String {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
pub fn json_of(output: Output) -> Value {
    serde_json::from_str(&command_output(output)).expect("JSON")
}

/// What it complained of, when it failed.
#[track_caller]
pub fn failed(output: &Output) -> String {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}
