//! `emergent completions`: prints a script that completes commands and flags in a shell.

use clap::Command;
use clap_complete::{Shell, generate};

use crate::{error::Result, output};

pub fn print(shell: Shell, command: &mut Command) -> Result<()> {
    let mut script = Vec::new();
    generate(shell, command, "emergent", &mut script);
    output::print_part(&String::from_utf8_lossy(&script))
}
