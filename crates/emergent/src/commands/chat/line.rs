//! What a person types in a chat: a message, or a command that begins with a slash.

/// What each command does, for `/help`.
pub const HELP: &[(&str, &str)] = &[
    ("/new", "begin a new conversation with the same agent"),
    (
        "/agents",
        "list the agents; `/agents NAME` begins a new conversation with one, `/agents -` without one",
    ),
    ("/open RUN", "show a run: its id, the end of its id, or `last`, the run of the newest answer"),
    ("/history", "show this conversation"),
    ("/follow", "go on with an answer that is still being written"),
    ("/stop", "stop the answer at once; Ctrl-C does so as well, and a second Ctrl-C leaves"),
    ("/help", "show this list"),
    ("/quit", "leave at once, also while an answer is written; Ctrl-D leaves after the answer"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    Empty,
    Message(String),
    New,
    /// Lists the agents, or begins a conversation with one.
    Agents(Option<String>),
    Open(Option<String>),
    History,
    Follow,
    Stop,
    Help,
    Quit,
    Unknown(String),
}

impl Line {
    /// A message that begins with a slash is written with two.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let Some(command) = text.strip_prefix('/') else {
            return if text.is_empty() { Self::Empty } else { Self::Message(text.to_owned()) };
        };
        if command.starts_with('/') {
            return Self::Message(command.to_owned());
        }
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let argument = Some(argument.trim()).filter(|argument| !argument.is_empty()).map(str::to_owned);
        match (name, argument) {
            ("agents" | "agent", agent) => Self::Agents(agent),
            ("open", run) => Self::Open(run),
            ("new", None) => Self::New,
            ("history", None) => Self::History,
            ("follow", None) => Self::Follow,
            ("stop", None) => Self::Stop,
            ("help" | "?", None) => Self::Help,
            ("quit" | "exit" | "q", None) => Self::Quit,
            _ => Self::Unknown(text.to_owned()),
        }
    }
}

/// Joins the lines of a message: a line that ends with a backslash goes on with the next one.
#[derive(Debug, Default)]
pub struct Continuation(String);

impl Continuation {
    /// Whether a line was begun that is not complete.
    pub fn is_open(&self) -> bool {
        !self.0.is_empty()
    }

    /// The whole text when this line completes it.
    pub fn push(&mut self, line: &str) -> Option<String> {
        match line.strip_suffix('\\') {
            Some(start) => {
                self.0.push_str(start);
                self.0.push('\n');
                None
            }
            None => Some(std::mem::take(&mut self.0) + line),
        }
    }

    /// Forgets what was begun.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_begins_a_command_and_two_a_message() {
        assert_eq!(Line::parse("  "), Line::Empty);
        assert_eq!(Line::parse(" Hello, you "), Line::Message("Hello, you".to_owned()));
        assert_eq!(Line::parse("//etc is a folder"), Line::Message("/etc is a folder".to_owned()));
        assert_eq!(Line::parse("/agents"), Line::Agents(None));
        assert_eq!(
            Line::parse("/agents  graph-query-agent"),
            Line::Agents(Some("graph-query-agent".to_owned()))
        );
        assert_eq!(Line::parse("/open 4f1c09ab"), Line::Open(Some("4f1c09ab".to_owned())));
        assert_eq!(Line::parse("/stop"), Line::Stop);
        assert_eq!(Line::parse("/quit"), Line::Quit);
        assert_eq!(Line::parse("/stop it"), Line::Unknown("/stop it".to_owned()));
        assert_eq!(Line::parse("/nwe"), Line::Unknown("/nwe".to_owned()));
    }

    #[test]
    fn every_command_of_the_help_is_one() {
        for (command, _) in HELP {
            let parsed = Line::parse(command);
            assert!(!matches!(parsed, Line::Unknown(_) | Line::Message(_)), "{command}: {parsed:?}");
        }
    }

    #[test]
    fn a_backslash_at_the_end_goes_on_with_the_next_line() {
        let mut text = Continuation::default();
        assert_eq!(text.push("one\\"), None);
        assert!(text.is_open());
        assert_eq!(text.push("two"), Some("one\ntwo".to_owned()));
        assert_eq!(text.push("three"), Some("three".to_owned()));
    }
}
