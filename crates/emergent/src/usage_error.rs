//! Errors of the command line in plain words. The parser of the command line says of a number what the parser of Rust
//! says, such as `invalid digit found in string`. Tips say what was probably meant.

mod words;

use std::{error::Error as _, process::ExitCode};

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use self::words::{Kind, Words};
use crate::hints;

/// The exit code of a command line that cannot be used.
const EXIT_CODE: u8 = 2;
/// What Rust says about a text that is no number, and what a person reads instead.
const REASONS: [(&str, &str); 6] = [
    ("invalid digit found in string", "it is not a whole number"),
    ("number too large to fit in target type", "it is too large"),
    ("number too small to fit in target type", "it is too small"),
    ("cannot parse integer from empty string", "it is empty"),
    ("invalid float literal", "it is not a number"),
    ("cannot parse float from empty string", "it is empty"),
];

/// What a person types who does not know the commands, and what it is called here.
const OTHER_NAMES: [(&str, &str); 10] = [
    ("ask", "`emergent chat 'QUESTION'` asks an agent"),
    ("find", "`emergent graph search 'WORDS'` searches the graph"),
    ("init", "`emergent serve` creates the data folder, and `emergent demo` shows what agents do"),
    (
        "search",
        "`emergent graph search 'WORDS'` searches the graph, `emergent document search` the documents",
    ),
    ("start", "`emergent serve` starts a server"),
    ("status", "`emergent doctor` checks what is configured and reachable"),
    ("stop", "Ctrl-C ends `emergent serve`; under systemd, `systemctl stop emergent`"),
    ("up", "`emergent serve` starts a server"),
    ("version", "`emergent --version` prints the version"),
    ("login", "`emergent login-link` prints a link that logs a browser in"),
];
/// The commands whose only positional argument is a text, which is put in quotes.
const TEXT_COMMANDS: [&str; 4] = ["chat", "dispatch", "document search", "graph search"];
/// The flags of `dispatch` that choose tasks of the graph. The parser names only the group of which `--from-graph` is one.
const WITH_FROM_GRAPH: [&str; 4] = ["--task", "--root", "--where", "--label"];
/// Commands that do without an argument, with what they need instead. The parser names only the argument.
const OTHER_WAYS: [(&str, &str); 3] = [
    ("run cancel", "for many runs, use --all-matching with conditions, such as --status running"),
    ("run resume", "for many runs, use --all-matching with conditions, such as --status paused"),
    ("mcp-server accept", "for every tool of the server that is held back, use --all"),
];
/// What other programs take as flags to add an MCP server.
const SERVER_FIELDS: [&str; 9] =
    ["--args", "--command", "--env", "--header", "--headers", "--name", "--transport", "--type", "--url"];
/// How the parser begins a tip of its own.
const TIP: &str = "tip:";

/// Prints why the command line cannot be used, or the help that was requested, and ends the process or returns its exit
/// code.
pub fn report(root: &Command, mut error: clap::Error) -> ExitCode {
    put_nearest_first(&mut error);
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let tip = tip(root, &arguments, &error);
    let reason = error.source().map(ToString::to_string).unwrap_or_default();
    let plain = REASONS.iter().find(|(said, _)| *said == reason);
    if tip.is_none() && plain.is_none() {
        error.exit();
    }
    let mut text = match console::colors_enabled_stderr() {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    if let Some((said, plain)) = plain {
        text = text.replacen(said, plain, 1);
    }
    if let Some(tip) = tip {
        text = with_tip(&text, &tip);
    }
    eprint!("{text}");
    ExitCode::from(EXIT_CODE)
}

/// Turns the similar subcommands around: the parser has the nearest one at the end.
fn put_nearest_first(error: &mut clap::Error) {
    let Some(ContextValue::Strings(similar)) = error.get(ContextKind::SuggestedSubcommand) else { return };
    let nearest_first = similar.iter().rev().cloned().collect();
    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(nearest_first));
}

/// What was probably meant; `None` where nothing better than the tip of the parser is known.
fn tip(root: &Command, arguments: &[String], error: &clap::Error) -> Option<String> {
    let word = |kind| match error.get(kind)? {
        ContextValue::String(word) => Some(word.clone()),
        _ => None,
    };
    let words = Words::new(root, arguments);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let unknown = word(ContextKind::InvalidSubcommand)?;
            // The subcommands of `graph` and others have names of their own.
            let is_first = words.path.is_empty();
            let (_, meaning) = OTHER_NAMES.iter().find(|(name, _)| is_first && *name == unknown)?;
            Some((*meaning).to_owned())
        }
        ErrorKind::UnknownArgument => {
            let unexpected = word(ContextKind::InvalidArg)?;
            if words.path == "mcp-server add" && SERVER_FIELDS.iter().any(|field| unexpected == *field) {
                let help = "`emergent mcp-server add --help` shows such files";
                return Some(format!(
                    "a server is described in a file, with `transport`, `command` or `url`: {help}"
                ));
            }
            match unexpected.strip_prefix('-') {
                Some(rest) if rest.parse::<f64>().is_ok() => {
                    // Elsewhere the number may be a text, and the parser says how to pass it.
                    let is_value =
                        |at: usize| arguments[at] == unexpected && words.follows_option_with_values(at);
                    (0..arguments.len())
                        .any(is_value)
                        .then(|| "a number below zero is not accepted here".to_owned())
                }
                Some(_) => None,
                None => quotes_tip(&words, arguments, &unexpected),
            }
        }
        ErrorKind::MissingRequiredArgument if words.path != "dispatch" => {
            let (_, other) = OTHER_WAYS.iter().find(|(command, _)| *command == words.path)?;
            Some((*other).to_owned())
        }
        ErrorKind::MissingRequiredArgument => {
            let is_given = |flag: &&&str| {
                let is_flag = |word: &String| word.split('=').next() == Some(**flag);
                arguments.iter().any(is_flag)
            };
            let flag = WITH_FROM_GRAPH.iter().find(is_given)?;
            Some(format!("{flag} needs --from-graph"))
        }
        _ => None,
    }
}

/// The tip to put the words of a text in quotes, if the words around the unexpected one are all of a text: the only
/// argument of a command, or the value of an option.
fn quotes_tip(words: &Words<'_>, arguments: &[String], unexpected: &str) -> Option<String> {
    let position = words.first_unexpected().filter(|position| arguments[*position] == unexpected)?;
    let is_positional = |at: &usize| words.kinds[*at] == Kind::Positional;
    let first = (0..=position).rev().take_while(is_positional).last()?;
    let end = (position..arguments.len()).take_while(is_positional).last()? + 1;
    let before = first.checked_sub(1)?;
    let text = |from: usize| hints::quoted(&arguments[from..end].join(" "));
    let is_taken = first < position;
    let quoted = match words.kinds[before] {
        // The words follow the value of an option.
        Kind::Value if !is_taken => format!("{} {}", arguments[before.checked_sub(1)?], text(before)),
        // The command takes the first of the words.
        _ if !is_taken || !TEXT_COMMANDS.contains(&words.path.as_str()) => return None,
        Kind::Subcommand => format!("emergent {} {}", words.path, text(first)),
        // Other options are not repeated: one of them may be a token.
        _ => text(first),
    };
    Some(format!("put several words in quotes: {quoted}"))
}

/// The message with this tip after its first paragraph, in the place of those of the parser.
fn with_tip(text: &str, tip: &str) -> String {
    let mut paragraphs: Vec<String> =
        text.split("\n\n").filter(|paragraph| !paragraph.contains(TIP)).map(str::to_owned).collect();
    paragraphs.insert(1.min(paragraphs.len()), format!("  {TIP} {tip}"));
    paragraphs.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tip_for(line: &str) -> Option<String> {
        let root = crate::command();
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let words = std::iter::once("emergent".to_owned()).chain(arguments.clone());
        let error = root.clone().try_get_matches_from(words).unwrap_err();
        tip(&root, &arguments, &error)
    }

    #[test]
    fn words_without_quotes_are_answered_with_the_quotes() {
        let check = |line: &str, expected: &str| {
            assert_eq!(tip_for(line).as_deref(), Some(&*format!("put several words in quotes: {expected}")));
        };
        check("dispatch Do the thing", "emergent dispatch 'Do the thing'");
        check("dispatch Do the thing --follow", "emergent dispatch 'Do the thing'");
        check("chat hello there", "emergent chat 'hello there'");
        check("graph search two words --limit 3", "emergent graph search 'two words'");
        check("agent trigger echo --input hello there", "--input 'hello there'");
        check("--project chat dispatch Do it", "emergent dispatch 'Do it'");
        check("chat a a", "emergent chat 'a a'");
        assert_eq!(tip_for("run show one two"), None, "an id has no words");
        assert_eq!(tip_for("chat Hello --json there"), None, "a flag has no value");
    }

    #[test]
    fn a_flag_that_chooses_tasks_of_the_graph_needs_from_graph() {
        for (line, tip) in [
            ("dispatch --task build", Some("--task needs --from-graph")),
            ("dispatch --where=kind=research --dry-run", Some("--where needs --from-graph")),
            ("dispatch --follow", None),
            ("dispatch words --task build", None),
        ] {
            assert_eq!(tip_for(line).as_deref(), tip, "{line}");
        }
    }

    #[test]
    fn a_server_that_is_described_by_flags_is_answered_with_the_file_that_describes_it() {
        for line in ["mcp-server add files --command npx", "mcp-server add --transport stdio files"] {
            let tip = tip_for(line).unwrap();
            assert!(tip.contains("described in a file") && tip.contains("mcp-server add --help"), "{tip}");
        }
    }

    #[test]
    fn a_missing_argument_is_answered_with_the_flag_that_takes_its_place() {
        for (line, flag) in [
            ("run cancel", "--all-matching"),
            ("run resume", "--all-matching"),
            ("mcp-server accept files", "--all"),
        ] {
            assert!(tip_for(line).is_some_and(|tip| tip.contains(flag)), "{line}");
        }
        assert_eq!(tip_for("run show"), None);
    }

    #[test]
    fn the_nearest_of_several_similar_commands_is_named_first() {
        for (typed, expected) in [
            ("agnet list", "'agent', 'budget'"),
            ("objct list", "'object', 'project', 'doctor'"),
            ("serv", "'serve', 'mcp-server', 'secret'"),
            ("graf search", "'graph'"),
        ] {
            let words = std::iter::once("emergent").chain(typed.split_whitespace());
            let mut error = crate::command().try_get_matches_from(words).unwrap_err();
            put_nearest_first(&mut error);
            let told = error.render().to_string();
            assert!(told.contains(&format!(": {expected}\n")), "{typed}: {told}");
        }
    }

    #[test]
    fn the_value_of_an_option_is_no_part_of_the_text_behind_it() {
        for (line, text) in [
            ("chat --agent echo hello there", "'hello there'"),
            ("dispatch -p demo Do the thing", "'Do the thing'"),
            ("dispatch -pdemo Do the thing", "'Do the thing'"),
            ("dispatch --project=demo Do the thing", "'Do the thing'"),
            ("dispatch --follow Do the thing", "'Do the thing'"),
        ] {
            assert_eq!(tip_for(line), Some(format!("put several words in quotes: {text}")), "{line}");
        }
    }

    #[test]
    fn a_number_below_zero_that_may_be_a_text_keeps_the_tip_of_the_parser() {
        for line in ["graph search -5", "chat -5"] {
            assert_eq!(tip_for(line), None, "{line}");
        }
        assert!(tip_for("graph search x --limit -5").is_some());
    }

    #[test]
    fn the_name_that_a_command_has_elsewhere_is_answered_with_the_one_it_has_here() {
        for (name, meant) in [
            ("search foo", "graph search"),
            ("stop", "Ctrl-C"),
            ("start", "emergent serve"),
            ("version", "--version"),
        ] {
            assert!(tip_for(name).is_some_and(|tip| tip.contains(meant)), "{name}");
        }
        assert_eq!(tip_for("graph start"), None);
    }

    #[test]
    fn a_number_below_zero_is_no_value_to_pass_in_another_way() {
        let tip = tip_for("agent trigger echo --input hi --timeout -5").unwrap();
        let shown =
            with_tip("error: unexpected argument '-5' found\n\n  tip: use '-- -5'\n\nUsage: x\n", &tip);
        assert_eq!(
            shown,
            "error: unexpected argument '-5' found\n\n  tip: a number below zero is not accepted here\n\nUsage: x\n"
        );
    }
}
