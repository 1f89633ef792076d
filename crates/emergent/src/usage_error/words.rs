//! What each word of a command line is to the parser.

use clap::{Arg, Command};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Subcommand,
    /// An option or a flag. `has_values`: its values are the words that follow.
    Option {
        has_values: bool,
    },
    /// A value of the option before it.
    Value,
    Positional,
}

/// A command line: what its words are, and its innermost subcommand.
pub struct Words<'a> {
    pub kinds: Vec<Kind>,
    pub command: &'a Command,
    /// The words of the subcommand, such as `graph search`.
    pub path: String,
}

impl<'a> Words<'a> {
    pub fn new(root: &'a Command, arguments: &[String]) -> Self {
        let (mut kinds, mut command, mut path) = (Vec::new(), root, Vec::new());
        let (mut values_left, mut has_only_positionals) = (0, false);
        for argument in arguments {
            let kind = if has_only_positionals {
                Kind::Positional
            } else if argument.starts_with('-') && argument.len() > 1 {
                has_only_positionals = argument == "--";
                values_left = count_values(root, command, argument);
                Kind::Option { has_values: values_left > 0 }
            } else if values_left > 0 {
                values_left -= 1;
                Kind::Value
            } else if let Some(subcommand) = command.find_subcommand(argument) {
                path.push(argument.as_str());
                command = subcommand;
                Kind::Subcommand
            } else {
                Kind::Positional
            };
            kinds.push(kind);
        }
        Self { kinds, command, path: path.join(" ") }
    }

    /// The position of the first word that no argument of the subcommand takes.
    pub fn first_unexpected(&self) -> Option<usize> {
        let mut positionals = (0..self.kinds.len()).filter(|at| self.kinds[*at] == Kind::Positional);
        positionals.nth(self.command.get_positionals().count())
    }

    /// Whether the word before this one is an option that takes values.
    pub fn follows_option_with_values(&self, position: usize) -> bool {
        position.checked_sub(1).is_some_and(|before| self.kinds[before] == Kind::Option { has_values: true })
    }
}

/// How many of the next words are values of an option: none if its value is attached, as in `--limit=5` and `-pdemo`.
fn count_values(root: &Command, command: &Command, option: &str) -> usize {
    let is_meant = |argument: &&Arg| match option.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument
            .get_short()
            .is_some_and(|short| option.strip_prefix('-') == Some(short.to_string().as_str())),
    };
    let mut arguments = command.get_arguments().chain(root.get_arguments());
    match arguments.find(is_meant).filter(|argument| argument.get_action().takes_values()) {
        Some(argument) => argument.get_num_args().map_or(1, |count| count.max_values()),
        None => 0,
    }
}
