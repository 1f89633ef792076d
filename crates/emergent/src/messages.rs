//! Puts messages of the API into the words of the command line. The API names fields of a request; a person typed
//! flags.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Command, parser::ValueSource};
use parking_lot::Mutex;

use emergent_domain::text;

use crate::{
    commands::suggestion,
    file_fields::{FileFields, name_file_fields},
    hints,
};

/// The flags that this process was given on the command line; empty in tests.
static FLAGS: Mutex<Vec<GivenFlag>> = Mutex::new(Vec::new());
/// The flags that this command has, given or not; empty in tests.
static KNOWN_FLAGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The names of fields in the files that this process has read.
static FILE_FIELDS: Mutex<FileFields> = Mutex::new(FileFields::new());
/// The file that the request is read from.
static FILE: Mutex<Option<String>> = Mutex::new(None);
/// The folders of rehearsal scripts, when this process looks for them itself or knows the server that does.
static REHEARSALS: Mutex<Option<String>> = Mutex::new(None);

/// Whether no server runs on the data folder.
static WITHOUT_SERVER: Mutex<bool> = Mutex::new(false);

/// The fields whose flag has another name. All others have the name of their flag: `maxSteps` is `--max-steps`.
const OTHER_NAMES: [(&str, &str); 27] = [
    ("agentDefinitionId", "agent"),
    ("agentId", "agent"),
    ("assignedAgent", "agent"),
    ("conversationId", "conversation"),
    ("discussions.phases", "discussion-phase"),
    ("discussions.kind", "discussion-kind"),
    ("discussions.quorum", "discussion-quorum"),
    ("discussions.rounds", "discussion-rounds"),
    ("discussions.threshold", "discussion-threshold"),
    ("documentId", "document"),
    ("editedInput", "input"),
    ("filters", "where"),
    ("group.relationship", "group"),
    ("labels", "label"),
    ("maxDepth", "depth"),
    ("pinPolicy", "pin"),
    ("query.filters", "where"),
    ("query.labels", "label"),
    ("relationshipTypes", "type"),
    ("rootTaskId", "root"),
    ("selectionRules", "selection-rule"),
    ("taskId", "task"),
    ("taskIds", "task"),
    ("timeoutSeconds", "timeout"),
    ("types", "type"),
    ("webhook.url", "webhook"),
    ("workflowId", "workflow"),
];

/// How the models name the folders of rehearsal scripts. Who uses the API does not see the paths of the server.
const REHEARSALS_FOLDER: &str =
    "the folder of `EMERGENT_REHEARSALS`, which is `rehearsals` in the data folder unless it is set";
/// Among so many scripts the one that was probably meant is searched.
const MAX_SCRIPTS: usize = 1_000;
/// How the models begin the message about a script that does not exist.
const UNKNOWN_SCRIPT: &str = "there is no rehearsal script `";
/// How the API ends its refusal to start an agent from outside.
const NOT_EXTERNAL: &str = "` cannot be started from outside: its visibility is not `external`";
/// How the API asks for the workflow of a task.
const GIVE_WORKFLOW: &str = "give `workflowId`";
/// How the API refuses a workflow of the tasks in the graph if there are none.
const NO_PENDING_TASK: &str = "finds no pending task without a workflow";
/// How the API begins its refusal of a workflow if there are such tasks, and none is meant.
const NO_MATCHING_TASK: [&str; 2] = ["matches none of the ", "does not match the only pending task "];

/// How the API refuses a boolean in the place of a text.
const BOOLEAN: &str = "invalid type: boolean `";
const TEXT_EXPECTED: &str = "expected a string";

/// What stands before the words that a flag accepts, in messages about another word.
const BEFORE_WORDS: [&str; 3] = ["must be one of ", "is not one of ", "; the types are "];

/// A flag that was typed.
#[derive(Debug, PartialEq, Eq)]
struct GivenFlag {
    /// Its long name.
    name: String,
    values: Vec<String>,
}

/// Remembers the flags of this process for later messages.
pub fn set_flags(command: &Command, matches: &ArgMatches) {
    *FLAGS.lock() = given_flags(command, matches);
    *KNOWN_FLAGS.lock() = known_flags(command, matches);
}

/// Remembers how a file writes the names of its fields, for messages about them.
pub fn remember_fields(content: &serde_json::Value) {
    FILE_FIELDS.lock().add(content);
}

/// Remembers the file that the request is read from, for messages about what it has. Standard input has no name.
pub fn remember_file(path: &Path) {
    *FILE.lock() = (path.as_os_str() != "-").then(|| path.display().to_string());
}

/// The message about a request that is refused for what it has. It names the file of the request, unless a flag is meant.
pub fn name_file(message: &str) -> String {
    match &*FILE.lock() {
        Some(file) if !message.starts_with("--") => format!("`{file}`: {message}"),
        _ => message.to_owned(),
    }
}

/// Remembers the folders in which this process, or the server of the same data folder, looks for rehearsal scripts.
pub fn set_rehearsals(folders: &str) {
    *REHEARSALS.lock() = Some(folders.to_owned());
}

/// Remembers that this process calls the models itself, so that no server has to be started again.
pub fn set_without_server() {
    *WITHOUT_SERVER.lock() = true;
}

/// A message about settings of a server where none runs: the next command reads them.
pub fn without_server(message: &str) -> String {
    message
        .replace(", and start the server again", "")
        .replace(" and start the server again", "")
        .replace("start the server with", "set")
}

/// The message in the words of this command.
pub fn translate(message: &str) -> String {
    let message = &match *WITHOUT_SERVER.lock() {
        true => without_server(message),
        false => message.to_owned(),
    };
    let message = name_file_fields(&name_flags(message, &FLAGS.lock()), &FILE_FIELDS.lock());
    let message = name_commands(&explain_booleans(&message));
    // A file has the names of the API, or its own.
    let has_file = FILE.lock().is_some() || !FILE_FIELDS.lock().is_empty();
    let message = if has_file { message } else { name_known_flags(&message, &KNOWN_FLAGS.lock()) };
    match &*REHEARSALS.lock() {
        Some(folders) if message.contains(UNKNOWN_SCRIPT) => {
            name_rehearsals(&message, folders, &script_names(folders))
        }
        _ => message,
    }
}

/// Says why a word of a file is a boolean: YAML has further words for true and false.
fn explain_booleans(message: &str) -> String {
    let lines =
        message.split('\n').map(|line| match line.contains(BOOLEAN) && line.contains(TEXT_EXPECTED) {
            true => format!("{line}; put it in quotes: YAML reads y, n, yes, no, on and off as booleans"),
            false => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// Names the folders of rehearsal scripts, and the script that was probably meant.
fn name_rehearsals(message: &str, folders: &str, scripts: &[String]) -> String {
    let message = message
        .replace(REHEARSALS_FOLDER, &format!("`{folders}` (`EMERGENT_REHEARSALS` names another folder)"));
    let Some((before, rest)) = message.split_once(UNKNOWN_SCRIPT) else { return message };
    let Some((name, after)) = rest.split_once('`') else { return message };
    // A script with this very name may have been added a moment ago, or its folder may be another one.
    let others = scripts.iter().map(String::as_str).filter(|script| *script != name);
    let nearest = suggestion(name, others);
    let begin = format!("{before}{UNKNOWN_SCRIPT}{name}`{nearest}");
    match after.strip_prefix("; ").filter(|_| !nearest.is_empty()) {
        Some(rest) => text::append(&begin, "; ", &format!("or {rest}")),
        None => format!("{begin}{after}"),
    }
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

/// Whether the API says that the filters of a workflow of the tasks in the graph match none of them.
fn is_about_no_match(problem: &str) -> bool {
    NO_MATCHING_TASK.iter().any(|begin| problem.starts_with(begin))
}

/// Says with commands and flags what the API says with products and fields.
fn name_commands(message: &str) -> String {
    let location = hints::location_flags();
    let is_unknown_name = message.ends_with("` here") || message.ends_with("`?");
    if message.starts_with("there is no project `") && is_unknown_name {
        return format!("{message} (`emergent project list{location}` lists them)");
    }
    if is_about_unknown_agent(message) {
        return format!("{message} (`{}` lists them)", hints::command("agent list --internal"));
    }
    if message.ends_with(NO_PENDING_TASK) {
        return format!(
            "no pending task is outside a workflow: `{}` creates one, `{}` lists them",
            hints::command("task add KEY"),
            hints::command("task list")
        );
    }
    if let Some(found) = message.strip_prefix("`query`: ").filter(|found| is_about_no_match(found)) {
        let found = found.replace("without a workflow", "outside of workflows");
        return format!("what was asked for {found}: `{}` lists them", hints::command("task list"));
    }
    if let Some(advice) = advice_for_outside(message) {
        return format!("{message}: {advice}");
    }
    let message = &message.replace("store it with PUT /api/admin/secrets/NAME", &{
        format!("store it with `{}`", hints::command("secret set NAME"))
    });
    let message = &message.replace(GIVE_WORKFLOW, "name it with --workflow");
    let planner = format!(
        "`{}` installs one, --planner names another agent, and --tasks FILE needs none",
        hints::command("product install emergent.code")
    );
    let advice = "nstall emergent.code, name another planner, or give `tasks`";
    message.replace(&format!("i{advice}"), &planner).replace(&format!("I{advice}"), &planner)
}

/// Whether a message ends by saying that there is no agent of a name, with or without the one that was probably meant.
/// Those that go on with a list of the agents, or with what to do, need no hint.
fn is_about_unknown_agent(message: &str) -> bool {
    let Some((_, rest)) = message.rsplit_once("there is no agent `") else { return false };
    let Some((_, after)) = rest.split_once('`') else { return false };
    let after = after.strip_prefix(" here").unwrap_or(after);
    after.is_empty() || (after.starts_with("; did you mean `") && after.ends_with("`?"))
}

/// What to do about an agent that callers from outside cannot start.
fn advice_for_outside(message: &str) -> Option<String> {
    let name = message.strip_prefix("agent `")?.strip_suffix(NOT_EXTERNAL)?;
    let trigger = hints::command(&format!("agent trigger {}", hints::quoted(name)));
    Some(format!("set `visibility: external` in its definition, or start it with `{trigger}`"))
}

/// The flags of the subcommand that were typed. A value from the environment or a default is not what the person can
/// correct in the command.
fn given_flags(command: &Command, matches: &ArgMatches) -> Vec<GivenFlag> {
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        return given_flags(command, matches);
    }
    let is_given = |id: &str| {
        matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let values = |id: &str| {
        let raw = matches.try_get_raw(id).ok().flatten();
        raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned()).collect()
    };
    let given = command.get_arguments().filter(|argument| is_given(argument.get_id().as_str()));
    let flags = given.filter_map(|argument| Some((argument.get_long()?, argument.get_id().as_str())));
    flags.map(|(name, id)| GivenFlag { name: name.to_owned(), values: values(id) }).collect()
}

/// The long names of the flags of the subcommand that was called.
fn known_flags(command: &Command, matches: &ArgMatches) -> Vec<String> {
    if let Some((name, matches)) = matches.subcommand()
        && let Some(command) = command.find_subcommand(name)
    {
        return known_flags(command, matches);
    }
    command.get_arguments().filter_map(|flag| flag.get_long().map(str::to_owned)).collect()
}

/// Replaces fields that a message names anywhere, such as the one to give instead, by the flags that set them. Only names
/// that look like fields of the API (`maxCostUsd`) count: others may be what somebody typed.
fn name_known_flags(message: &str, flags: &[String]) -> String {
    let parts: Vec<&str> = message.split('`').collect();
    // Without a backtick at the end of each quotation, it is not known what is quoted.
    if parts.len().is_multiple_of(2) {
        return message.to_owned();
    }
    let is_field = |part: &str| {
        part.starts_with(|letter: char| letter.is_ascii_lowercase())
            && part.chars().any(|letter| letter.is_ascii_uppercase())
            && part.chars().all(|letter| letter.is_ascii_alphabetic())
    };
    let named = parts.iter().enumerate().map(|(index, part)| {
        let is_quoted = index % 2 == 1;
        let flag = || names_of_field(part).into_iter().find(|name| flags.contains(name));
        match is_quoted.then(flag).flatten().filter(|_| is_field(part)) {
            Some(flag) => format!("--{flag}"),
            None if is_quoted => format!("`{part}`"),
            None => (*part).to_owned(),
        }
    });
    named.collect()
}

/// Replaces the fields that a message begins a line with by the flags that set them, and adds the word that was probably
/// meant. Other fields, such as those of a file, stay.
fn name_flags(message: &str, flags: &[GivenFlag]) -> String {
    let lines = message.split('\n').map(|line| {
        let text = line.trim_start();
        let (indent, rest) = line.split_at(line.len() - text.len());
        let field = rest.strip_prefix('`').and_then(|rest| rest.split_once("`: "));
        let named = field.and_then(|(field, reason)| {
            let names = names_of_field(field);
            Some((flags.iter().find(|flag| names.contains(&flag.name))?, reason))
        });
        match named {
            Some((flag, reason)) => {
                format!("{indent}--{}: {reason}{}", flag.name, nearest_word(reason, &flag.values))
            }
            None => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// `; did you mean …?` for a value that is none of the words that a message lists, unless the message says so itself.
fn nearest_word(message: &str, values: &[String]) -> String {
    let list = BEFORE_WORDS.iter().find_map(|begin| Some(message.split_once(begin)?.1));
    let Some(list) = list.filter(|_| !message.contains("did you mean")) else { return String::new() };
    let words = list.split([',', ';']).map(|word| word.trim().trim_matches('`'));
    let words: Vec<&str> = words.filter(|word| !word.is_empty() && !word.contains(' ')).collect();
    let typed = values.iter().flat_map(|value| value.split(',')).map(str::trim);
    let unknown = typed.filter(|value| !words.contains(value));
    let mut suggestions = unknown.map(|value| suggestion(value, words.iter().copied()));
    suggestions.find(|suggestion| !suggestion.is_empty()).unwrap_or_default()
}

/// The long names that the flag of a field may have. A flag that is given several times has another name than the list of
/// its values: `labels[1]` is `--label`.
fn names_of_field(field: &str) -> Vec<String> {
    let list = field.split('[').next().unwrap_or(field);
    let other = OTHER_NAMES.iter().find(|(name, _)| *name == list);
    other.map(|(_, flag)| (*flag).to_owned()).into_iter().chain([with_hyphens(field)]).collect()
}

/// The name of a field as that of a flag: `maxSteps` and `max_steps` are `max-steps`.
fn with_hyphens(field: &str) -> String {
    field.chars().fold(String::new(), |mut flag, letter| {
        if letter.is_ascii_uppercase() {
            flag.push('-');
        }
        flag.push(if letter == '_' { '-' } else { letter.to_ascii_lowercase() });
        flag
    })
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn flag(name: &str, values: &[&str]) -> GivenFlag {
        GivenFlag { name: name.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    #[test]
    fn a_misspelt_word_of_a_flag_is_answered_with_the_nearest_one() {
        let flags = [flag("kind", &["aproval"]), flag("types", &["run,grph"]), flag("status", &["xyz"])];
        let check = |message, expected| assert_eq!(name_flags(message, &flags), expected);
        check(
            "`kind`: must be one of approval, question, client_tool",
            "--kind: must be one of approval, question, client_tool; did you mean `approval`?",
        );
        check(
            "`types`: has the unknown type `grph`; the types are run, graph",
            "--types: has the unknown type `grph`; the types are run, graph; did you mean `graph`?",
        );
        check("`status`: must be one of pending, decided", "--status: must be one of pending, decided");
        let told = "must be one of `approval`, or two; did you mean `approval`?";
        check(&format!("`kind`: {told}"), &format!("--kind: {told}"));
    }

    #[test]
    fn a_word_that_yaml_reads_as_a_boolean_is_to_be_put_in_quotes() {
        let refused = "`tasks[0].key`: invalid type: boolean `false`, expected a string";
        assert_eq!(
            explain_booleans(&format!("{refused}\n`tasks[1].title`: is required")),
            format!(
                "{refused}; put it in quotes: YAML reads y, n, yes, no, on and off as booleans\n`tasks[1].title`: is required"
            )
        );
        let other = "`dryRun`: invalid type: string \"no\", expected true or false";
        assert_eq!(explain_booleans(other), other);
    }

    #[test]
    fn a_field_is_named_by_the_flag_that_was_typed() {
        let flags = ["depth", "as-of", "limit"].map(|name| flag(name, &[]));
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
    fn a_field_is_named_by_its_flag_also_in_a_list_and_with_underscores() {
        let flags = ["label", "selection-rule", "max-concurrent", "where"].map(|name| flag(name, &[]));
        let check = |message, expected| assert_eq!(name_flags(message, &flags), expected);
        check("`labels[1]`: is empty", "--label: is empty");
        check("`selectionRules[0].agent`: there is none", "--selection-rule: there is none");
        check("`max_concurrent`: must be 1 to 1000", "--max-concurrent: must be 1 to 1000");
        check("`query.filters[0].path`: is empty", "--where: is empty");
    }

    #[test]
    fn a_field_to_give_instead_is_named_by_its_flag_where_the_command_has_one() {
        let flags = ["task", "root", "max-total-tokens", "as-of"].map(str::to_owned);
        let check = |message, expected| assert_eq!(name_known_flags(message, &flags), expected);
        check(
            "is required, or `tasks`, or tasks of the graph as `taskIds`, `rootTaskId` or `query`",
            "is required, or `tasks`, or tasks of the graph as --task, --root or `query`",
        );
        check("limit its tokens instead (`maxTotalTokens`)", "limit its tokens instead (--max-total-tokens)");
        check("must be absent with `asOf`", "must be absent with --as-of");
        check("`maxCostUsd`: is for another command", "`maxCostUsd`: is for another command");
        check("there is no agent `task`", "there is no agent `task`");
        check("an `asOf without its end", "an `asOf without its end");
    }

    #[test]
    fn no_server_is_started_again_where_none_runs() {
        assert_eq!(
            without_server(
                "the model `google/x` needs credentials: set `GEMINI_API_KEY` and start the server again, or start the \
                 server with `EMERGENT_MODEL=provider/name` to use another model for everything"
            ),
            "the model `google/x` needs credentials: set `GEMINI_API_KEY`, or set `EMERGENT_MODEL=provider/name` to use \
             another model for everything"
        );
        assert_eq!(
            without_server(
                "make that provider usable, or set EMERGENT_MODEL=x/y, and start the server again"
            ),
            "make that provider usable, or set EMERGENT_MODEL=x/y"
        );
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
        assert_eq!(
            name_commands("--agent: there is no agent `zzz` here"),
            "--agent: there is no agent `zzz` here (`emergent agent list --internal` lists them)"
        );
        for message in [
            "`tasks[0].assigned_agent`: there is no agent `implement-agent`",
            "`tasks[0].key`: is taken; `tasks[1].assigned_agent`: there is no agent `workr`; did you mean `worker`?",
        ] {
            let expected = format!("{message} (`emergent agent list --internal` lists them)");
            assert_eq!(name_commands(message), expected);
        }
        let listed = "`agent`: there is no agent `x`; there are a, b";
        assert_eq!(name_commands(listed), listed);
        assert_eq!(
            name_commands("agent `echo` cannot be started from outside: its visibility is not `external`"),
            "agent `echo` cannot be started from outside: its visibility is not `external`: set `visibility: external` \
             in its definition, or start it with `emergent agent trigger echo`"
        );
        assert_eq!(
            name_commands("store it with PUT /api/admin/secrets/NAME and write ${NAME}"),
            "store it with `emergent secret set NAME` and write ${NAME}"
        );
        assert_eq!(
            name_commands("`query`: finds no pending task without a workflow"),
            "no pending task is outside a workflow: `emergent task add KEY` creates one, `emergent task list` lists them"
        );
        assert_eq!(
            name_commands("`query`: matches none of the 3 pending tasks without a workflow"),
            "what was asked for matches none of the 3 pending tasks outside of workflows: `emergent task list` lists them"
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
        assert_eq!(named(&["serch"]), format!("`model`: there is no rehearsal script `serch`; {rest}"));
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
        assert_eq!(given(&["emergent", "graph", "traverse", "x", "--type", "a"]), [flag("type", &["a"])]);
        assert_eq!(given(&["emergent", "graph", "traverse", "x", "--depth", "2"]), [flag("depth", &["2"])]);
    }
}
