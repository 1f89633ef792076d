//! Puts messages of the API into the words of the command line. The API names fields of a request; a person typed
//! flags.

use std::{ffi::OsStr, path::PathBuf};

use clap::{ArgMatches, Command, parser::ValueSource};
use parking_lot::Mutex;

use crate::{commands::suggestion, hints};

/// The flags that this process was given on the command line; empty in tests.
static FLAGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The folders of rehearsal scripts, when this process looks for them itself or knows the server that does.
static REHEARSALS: Mutex<Option<String>> = Mutex::new(None);

/// The fields whose flag has another name. All others have the name of their flag: `maxSteps` is `--max-steps`.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("labels", "label"),
    ("maxDepth", "depth"),
    ("pinPolicy", "pin"),
    ("relationshipTypes", "type"),
    ("rootTaskId", "root"),
    ("taskIds", "task"),
    ("timeoutSeconds", "timeout"),
    ("types", "type"),
    ("workflowId", "workflow"),
];

/// How the models name the folders of rehearsal scripts. Who uses the API does not see the paths of the server.
const REHEARSALS_FOLDER: &str =
    "the folder of `EMERGENT_REHEARSALS`, which is `rehearsals` in the data folder unless it is set";
/// Among so many scripts the one that was probably meant is searched.
const MAX_SCRIPTS: usize = 1_000;
/// How the models begin the message about a script that does not exist.
const UNKNOWN_SCRIPT: &str = "there is no rehearsal script `";

/// Remembers the flags of this process for later messages.
pub fn set_flags(command: &Command, matches: &ArgMatches) {
    *FLAGS.lock() = given_flags(command, matches);
}

/// Remembers the folders in which this process, or the server of the same data folder, looks for rehearsal scripts.
pub fn set_rehearsals(folders: &str) {
    *REHEARSALS.lock() = Some(folders.to_owned());
}

/// The message in the words of this command.
pub fn translate(message: &str) -> String {
    let message = name_commands(&name_flags(message, &FLAGS.lock()));
    match &*REHEARSALS.lock() {
        Some(folders) if message.contains(UNKNOWN_SCRIPT) => {
            name_rehearsals(&message, folders, &script_names(folders))
        }
        _ => message,
    }
}

/// Names the folders of rehearsal scripts, and the script that was probably meant.
fn name_rehearsals(message: &str, folders: &str, scripts: &[String]) -> String {
    let message = message
        .replace(REHEARSALS_FOLDER, &format!("`{folders}` (`EMERGENT_REHEARSALS` names another folder)"));
    let Some((before, rest)) = message.split_once(UNKNOWN_SCRIPT) else { return message };
    let Some((name, after)) = rest.split_once('`') else { return message };
    let nearest = suggestion(name, scripts.iter().map(String::as_str));
    format!("{before}{UNKNOWN_SCRIPT}{name}`{nearest}{after}").replace("?; put", "? Or put")
}

/// The names of the scripts in these folders, which are separated as in `PATH`.
fn script_names(folders: &str) -> Vec<String> {
    let files = std::env::split_paths(folders).filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let paths = files.filter_map(|file| Some(file.ok()?.path()));
    let is_script = |path: &PathBuf| {
        path.extension().is_some_and(|end| ["yaml", "yml", "json"].map(OsStr::new).contains(&end))
    };
    let names = paths.filter(is_script).take(MAX_SCRIPTS);
    names.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect()
}

/// Says with commands and flags what the API says with products and fields.
fn name_commands(message: &str) -> String {
    let location = hints::location_flags();
    let is_unknown_name = message.ends_with("` here") || message.ends_with("`?");
    if message.starts_with("there is no project `") && is_unknown_name {
        return format!("{message} (`emergent project list{location}` lists them)");
    }
    if message.starts_with("there is no agent `") && is_unknown_name {
        return format!("{message} (`{}` lists them)", hints::command("agent list --internal"));
    }
    let planner = format!(
        "`{}` installs one, --planner names another agent, and --tasks FILE needs none",
        hints::command("product install emergent.code")
    );
    message.replace("install emergent.code, name another planner, or give `tasks`", &planner)
}

/// The long names of the flags of the subcommand that were typed. A value from the environment or a default is not
/// what the person can correct in the command.
fn given_flags(command: &Command, matches: &ArgMatches) -> Vec<String> {
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        return given_flags(command, matches);
    }
    let is_given = |id: &str| {
        matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let given = command.get_arguments().filter(|argument| is_given(argument.get_id().as_str()));
    given.filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

/// Replaces the fields that a message begins a line with by the flags that set them. Other fields, such as those of
/// a file, stay.
fn name_flags(message: &str, flags: &[String]) -> String {
    let lines = message.split('\n').map(|line| {
        let text = line.trim_start();
        let (indent, rest) = line.split_at(line.len() - text.len());
        let Some((field, reason)) = rest.strip_prefix('`').and_then(|rest| rest.split_once("`: ")) else {
            return line.to_owned();
        };
        let flag = flag_of_field(field);
        match flags.contains(&flag) {
            true => format!("{indent}--{flag}: {reason}"),
            false => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn flag_of_field(field: &str) -> String {
    if let Some((_, flag)) = OTHER_NAMES.iter().find(|(name, _)| *name == field) {
        return (*flag).to_owned();
    }
    field.chars().fold(String::new(), |mut flag, letter| {
        if letter.is_ascii_uppercase() {
            flag.push('-');
        }
        flag.push(letter.to_ascii_lowercase());
        flag
    })
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn a_field_is_named_by_the_flag_that_was_typed() {
        let flags = ["depth", "as-of", "limit"].map(str::to_owned);
        let check = |message, expected| assert_eq!(name_flags(message, &flags), expected);
        check("`maxDepth`: must be 0 to 16", "--depth: must be 0 to 16");
        check("`asOf`: expected a time", "--as-of: expected a time");
        check(
            "2 fields are wrong\n  `limit`: must be 1\n  `tasks[0].key`: is empty",
            "2 fields are wrong\n  --limit: must be 1\n  `tasks[0].key`: is empty",
        );
        check("`timeoutSeconds`: must be 1 to 86400", "`timeoutSeconds`: must be 1 to 86400");
        check("there is no `depth`: really", "there is no `depth`: really");
    }

    #[test]
    fn a_way_out_is_named_by_its_command() {
        assert_eq!(
            name_commands("there is no project `x` here"),
            "there is no project `x` here (`emergent project list` lists them)"
        );
        assert_eq!(
            name_commands("there is no agent `scrib` here; did you mean `scribe`?"),
            "there is no agent `scrib` here; did you mean `scribe`? (`emergent agent list --internal` lists them)"
        );
        let message = "`planner`: there is no agent `task-planner`: install emergent.code, name another planner, or give `tasks`";
        assert_eq!(
            name_commands(message),
            "`planner`: there is no agent `task-planner`: `emergent product install emergent.code` installs one, \
             --planner names another agent, and --tasks FILE needs none"
        );
    }

    #[test]
    fn a_rehearsal_that_does_not_exist_is_answered_with_the_folder_and_the_nearest_script() {
        let message = format!(
            "`model`: there is no rehearsal script `serch`; put `serch.yaml` into {REHEARSALS_FOLDER}, or use `rehearsal/echo`"
        );
        let named = |scripts: &[&str]| {
            let scripts: Vec<String> = scripts.iter().map(|name| (*name).to_owned()).collect();
            name_rehearsals(&message, "data/rehearsals", &scripts)
        };
        let rest = "put `serch.yaml` into `data/rehearsals` (`EMERGENT_REHEARSALS` names another folder), or use `rehearsal/echo`";
        assert_eq!(named(&["other"]), format!("`model`: there is no rehearsal script `serch`; {rest}"));
        assert_eq!(
            named(&["workflow", "search"]),
            format!("`model`: there is no rehearsal script `serch`; did you mean `search`? Or {rest}")
        );
        assert_eq!(name_rehearsals("the folder is gone", "x", &[]), "the folder is gone");
    }

    #[test]
    fn only_flags_of_the_command_line_count() {
        let traverse = Command::new("traverse")
            .arg(Arg::new("object"))
            .arg(Arg::new("types").long("type"))
            .arg(Arg::new("depth").long("depth").default_value("1"));
        let command = Command::new("emergent").subcommand(Command::new("graph").subcommand(traverse));
        let given =
            |args: &[&str]| given_flags(&command, &command.clone().try_get_matches_from(args).unwrap());
        assert_eq!(given(&["emergent", "graph", "traverse", "x", "--type", "a"]), ["type"]);
        assert_eq!(given(&["emergent", "graph", "traverse", "x", "--depth", "2"]), ["depth"]);
    }
}
