//! Who uses a data folder that is locked. The process that has the lock writes its number and its command into the file
//! `lock`, for the messages of others.

use std::{fs::File, io::Write, path::Path};

use crate::{
    datadir::{LOCK_FILE, running_server},
    hints,
};

/// The command of a server, which other commands use instead of the folder once it listens.
const SERVE: &str = "serve";
/// The longest command that a message names.
const MAX_COMMAND_CHARS: usize = 40;

/// Writes the number of this process and its subcommand into the locked file. Only the words of the subcommand are
/// written: arguments may be secrets. A folder without room for them is used all the same.
pub fn write(mut lock: &File, subcommand: &str) {
    let text = format!("{} {subcommand}", std::process::id());
    let _ = lock.set_len(0).and_then(|()| lock.write_all(text.trim_end().as_bytes()));
}

/// Who uses a folder that is locked: its server, or a process.
pub fn name(folder: &Path) -> String {
    if let Some(server) = running_server(folder) {
        return format!("the server at {}", server.address);
    }
    match read(folder) {
        (Some(id), Some(command)) => format!("`emergent {command}` (process {id})"),
        (Some(id), None) => format!("another process ({id})"),
        (None, _) => "another process".to_owned(),
    }
}

/// What can be done about a folder that is locked.
pub fn way_out(folder: &Path) -> String {
    let end = "end it, or choose another folder with --data-dir";
    let is_server = running_server(folder).is_some() || read(folder).1.as_deref() == Some(SERVE);
    match is_server {
        true => end.to_owned(),
        false => format!(
            "wait for it, {end}. While a server runs (`{}`), several commands work at once",
            hints::local_command(SERVE)
        ),
    }
}

/// The number of the process and its subcommand, as far as the file has them.
fn read(folder: &Path) -> (Option<u32>, Option<String>) {
    let text = std::fs::read_to_string(folder.join(LOCK_FILE)).unwrap_or_default();
    let (id, command) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let is_command = |command: &&str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || b"- ".contains(&byte);
        !command.is_empty() && command.len() <= MAX_COMMAND_CHARS && command.bytes().all(is_letter)
    };
    (id.parse().ok(), Some(command).filter(is_command).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_has_the_folder_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join(LOCK_FILE)).unwrap();
        write(&file, "agent trigger");
        let id = std::process::id();
        assert_eq!(name(folder.path()), format!("`emergent agent trigger` (process {id})"));
        assert!(way_out(folder.path()).contains("`emergent serve`"), "{}", way_out(folder.path()));
        std::fs::write(folder.path().join(LOCK_FILE), format!("{id} serve")).unwrap();
        assert!(!way_out(folder.path()).contains("several commands"), "a server is starting");
        std::fs::write(folder.path().join(LOCK_FILE), format!("{id} \x1b[31mX")).unwrap();
        assert_eq!(name(folder.path()), format!("another process ({id})"));
        std::fs::write(folder.path().join(LOCK_FILE), "").unwrap();
        assert_eq!(name(folder.path()), "another process");
    }
}
