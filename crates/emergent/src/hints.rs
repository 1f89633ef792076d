//! Commands that messages suggest. Each has the flags that this command was given, because without them it
//! would concern another data folder, server or project.

use std::path::Path;

use clap::{ArgMatches, parser::ValueSource};
use parking_lot::Mutex;

/// What stands for the token of the command line in a suggested command.
const TOKEN_FLAG: &str = " --token \"$TOKEN\"";

/// The flags of this process; empty in tests.
static FLAGS: Mutex<HintFlags> = Mutex::new(HintFlags {
    data_dir: String::new(),
    server: String::new(),
    project: String::new(),
    token: String::new(),
});
/// The words of the subcommand of this process, such as `run show`; empty in tests.
static SUBCOMMAND: Mutex<String> = Mutex::new(String::new());

/// The global flags that were given on the command line, each with a leading space. Flags whose value comes
/// from the environment are left out: the next command has them as well. A token is not repeated, because what is
/// printed is kept and shown to others: a variable stands in its place.
#[derive(Debug, Default, PartialEq, Eq)]
struct HintFlags {
    data_dir: String,
    server: String,
    project: String,
    token: String,
}

impl HintFlags {
    fn from_matches(matches: &ArgMatches) -> Self {
        let flag = |id: &str, name: &str| {
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                return String::new();
            }
            let values = matches.get_raw(id).into_iter().flatten();
            values
                .last()
                .map_or(String::new(), |value| format!(" {name} {}", quoted(&value.to_string_lossy())))
        };
        let has_token = matches.value_source("token") == Some(ValueSource::CommandLine);
        Self {
            data_dir: flag("data_dir", "--data-dir"),
            server: flag("server", "--server"),
            project: flag("project", "--project"),
            token: if has_token { TOKEN_FLAG.to_owned() } else { String::new() },
        }
    }
}

/// Remembers the flags of this process for later suggestions.
pub fn set_flags(matches: &ArgMatches) {
    *FLAGS.lock() = HintFlags::from_matches(matches);
    *SUBCOMMAND.lock() = subcommand_words(matches).join(" ");
}

/// The words of the subcommand of this process, without arguments.
pub fn subcommand() -> String {
    SUBCOMMAND.lock().clone()
}

fn subcommand_words(matches: &ArgMatches) -> Vec<&str> {
    let mut words = Vec::new();
    let mut matches = matches;
    while let Some((word, inner)) = matches.subcommand() {
        words.push(word);
        matches = inner;
    }
    words
}

/// Makes suggestions name this data folder and project, for a command that chooses them itself.
pub fn set_location(data_dir: &Path, project: Option<&str>) {
    let mut flags = FLAGS.lock();
    flags.data_dir = format!(" --data-dir {}", quoted(&data_dir.to_string_lossy()));
    flags.project = project.map(|project| format!(" --project {}", quoted(project))).unwrap_or_default();
}

/// A command of this program, such as `run show ID`, with the flags that this process was given.
pub fn command(text: &str) -> String {
    let HintFlags { data_dir, server, project, token } = &*FLAGS.lock();
    format!("emergent {text}{data_dir}{server}{project}{token}")
}

/// The flags of this process that name a data folder or a server, and the token for it.
pub fn location_flags() -> String {
    let HintFlags { data_dir, server, token, .. } = &*FLAGS.lock();
    format!("{data_dir}{server}{token}")
}

/// A command that works on the data folder itself, such as `serve`.
pub fn local_command(text: &str) -> String {
    format!("emergent {text}{}", FLAGS.lock().data_dir)
}

/// The text as one word of a shell.
pub fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&byte) || byte >= 0x80;
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn flags(args: &[&str]) -> HintFlags {
        let global = |id: &'static str, name: &'static str| Arg::new(id).long(name).global(true);
        let command = Command::new("emergent")
            .arg(global("data_dir", "data-dir"))
            .arg(global("server", "server").default_value("http://from-elsewhere"))
            .arg(global("project", "project"))
            .arg(global("token", "token").default_value("from-elsewhere"))
            .subcommand(Command::new("run").subcommand(Command::new("show")));
        HintFlags::from_matches(&command.try_get_matches_from(args).unwrap())
    }

    #[test]
    fn suggestions_repeat_the_flags_of_the_command_line_wherever_they_stand() {
        let expected = HintFlags { data_dir: " --data-dir 'my data'".to_owned(), ..HintFlags::default() };
        assert_eq!(flags(&["emergent", "--data-dir", "my data", "run", "show"]), expected);
        assert_eq!(flags(&["emergent", "run", "show", "--data-dir", "my data"]), expected);
        let both = flags(&["emergent", "run", "--server", "http://a:1", "show", "--project", "p"]);
        assert_eq!((both.server.as_str(), both.project.as_str()), (" --server http://a:1", " --project p"));
    }

    #[test]
    fn suggestions_have_a_variable_in_the_place_of_a_token_that_was_typed() {
        let typed = flags(&["emergent", "run", "show", "--token", "emt_secret"]);
        assert_eq!(typed, HintFlags { token: " --token \"$TOKEN\"".to_owned(), ..HintFlags::default() });
        assert_eq!(flags(&["emergent", "run", "show"]), HintFlags::default(), "a token from elsewhere");
    }

    #[test]
    fn a_word_with_a_quote_stays_one_word() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("plain-./x"), "plain-./x");
        assert_eq!(quoted(""), "''");
    }
}
