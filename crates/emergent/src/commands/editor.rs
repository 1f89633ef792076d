//! Lets a person change a text in the editor of `$VISUAL` or `$EDITOR`.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    config::env_value,
    error::{Error, Result},
};

/// The editor where no variable names one.
const DEFAULT_EDITOR: &str = "vi";
/// What a shell ends with if it does not find a program.
const COMMAND_NOT_FOUND: i32 = 127;

/// Opens a text in the editor, under a file name that ends with `name`. `None` if it was not changed.
pub fn edit_text(name: &str, text: &str) -> Result<Option<String>> {
    let file = write_private_file(&std::env::temp_dir(), name, text)?;
    let edited = open_editor(&file).and_then(|()| {
        std::fs::read_to_string(&file).map_err(|source| Error::File { path: file.clone(), source })
    });
    let _ = std::fs::remove_file(&file);
    Ok(Some(edited?).filter(|edited| edited != text))
}

/// Writes a file for an editor that only this user can read. Its name ends with `name`.
pub fn write_private_file(folder: &Path, name: &str, content: &str) -> Result<PathBuf> {
    use std::io::Write;
    let path = folder.join(format!("emergent-{}-{name}", uuid::Uuid::now_v7().simple()));
    let failed = |source| Error::File { path: path.clone(), source };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&path).and_then(|mut file| file.write_all(content.as_bytes())).map_err(failed)?;
    Ok(path)
}

/// The command of the editor. The default one needs a terminal; one that was chosen may be a script.
fn choose_editor(chosen: Option<String>, has_terminal: bool) -> Result<String> {
    match chosen {
        Some(editor) => Ok(editor),
        None if has_terminal => Ok(DEFAULT_EDITOR.to_owned()),
        None => Err(Error::Usage(
            "an edit needs a terminal, or $EDITOR with a command that needs none; nothing was changed"
                .to_owned(),
        )),
    }
}

/// Runs the editor and waits until it is closed.
pub fn open_editor(file: &Path) -> Result<()> {
    let editor = choose_editor(
        env_value("VISUAL").or_else(|| env_value("EDITOR")),
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal(),
    )?;
    // The variable may have arguments, such as `code --wait`, so a shell splits it.
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file)
        .stdin(Stdio::inherit())
        .status()
        .map_err(Error::Io)?;
    if status.success() {
        return Ok(());
    }
    if status.code() == Some(COMMAND_NOT_FOUND) {
        return Err(Error::Usage(format!(
            "could not start the editor `{editor}`: set $EDITOR to one that is installed; nothing was changed"
        )));
    }
    Err(Error::Usage(format!(
        "the editor `{editor}` ended with {status}, so nothing was changed; $EDITOR chooses another one"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_an_edit_needs_an_editor_that_was_chosen() {
        assert_eq!(choose_editor(None, true).unwrap(), "vi");
        assert_eq!(choose_editor(Some("sed -i s/a/b/".to_owned()), false).unwrap(), "sed -i s/a/b/");
        let refused = choose_editor(None, false).unwrap_err().to_string();
        assert!(refused.contains("needs a terminal, or $EDITOR"), "{refused}");
    }
}
