//! The description of a server, as manifests and requests have it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TransportKind;

/// The description of a server in a manifest. The field names are snake_case, and unknown fields
/// are rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case", deny_unknown_fields)]
pub enum ServerSpec {
    /// A local program, with which the client communicates over standard input and output.
    Stdio {
        name: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        description: String,
        command: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        args: Vec<String>,
        /// The environment of the program. It inherits nothing else except `PATH`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
    },
    /// HTTP with server-sent events, as specified on 2024-11-05.
    Sse {
        name: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        description: String,
        url: String,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
        /// The names that `headers` may reference as `${NAME}`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP.
    Http {
        name: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        description: String,
        url: String,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
    },
    /// An agent of another system, which speaks A2A. It has one tool: a message to the agent.
    A2a {
        name: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        description: String,
        /// The address of the agent card, or the address below which it has its well-known path.
        url: String,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, String>,
    },
}

impl ServerSpec {
    /// The program with its arguments, as a person would type it; `None` for servers at an address.
    pub fn command_line(&self) -> Option<String> {
        let Self::Stdio { command, args, .. } = self else { return None };
        // A command with `=` would look like a variable.
        let is_ambiguous = command.contains('=');
        let command = if is_ambiguous { json_string(command) } else { quoted(command) };
        let words = std::iter::once(command).chain(args.iter().map(|word| quoted(word)));
        Some(words.collect::<Vec<_>>().join(" "))
    }

    /// The program with its variables and arguments; `None` for servers at an address. Two programs
    /// that differ have different lines. Variables are part of it, because they decide what a program
    /// does with a secret (`API_URL=https://…`).
    pub fn program_line(&self) -> Option<String> {
        let Self::Stdio { env, .. } = self else { return None };
        let variables = env.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        Some(variables.chain(self.command_line()).collect::<Vec<_>>().join(" "))
    }

    pub fn name(&self) -> &str {
        let (Self::Stdio { name, .. }
        | Self::Sse { name, .. }
        | Self::Http { name, .. }
        | Self::A2a { name, .. }) = self;
        name
    }

    pub fn description(&self) -> &str {
        let (Self::Stdio { description, .. }
        | Self::Sse { description, .. }
        | Self::Http { description, .. }
        | Self::A2a { description, .. }) = self;
        description
    }

    pub fn transport(&self) -> TransportKind {
        match self {
            Self::Stdio { .. } => TransportKind::Stdio,
            Self::Sse { .. } => TransportKind::Sse,
            Self::Http { .. } => TransportKind::Http,
            Self::A2a { .. } => TransportKind::A2a,
        }
    }

    pub fn env(&self) -> &BTreeMap<String, String> {
        let (Self::Stdio { env, .. }
        | Self::Sse { env, .. }
        | Self::Http { env, .. }
        | Self::A2a { env, .. }) = self;
        env
    }

    /// The address and the headers of a server at an address; `None` for a program.
    pub fn endpoint(&self) -> Option<(&str, &BTreeMap<String, String>)> {
        match self {
            Self::Stdio { .. } => None,
            Self::Sse { url, headers, .. }
            | Self::Http { url, headers, .. }
            | Self::A2a { url, headers, .. } => Some((url, headers)),
        }
    }

    /// Returns every text that may contain `${NAME}` or `{{secrets.NAME}}`, with its field name.
    pub fn templates(&self) -> Vec<(String, &str)> {
        let env = self.env().iter().map(|(name, value)| (format!("env.{name}"), value.as_str()));
        let headers = self.endpoint().map(|(_, headers)| headers).into_iter().flatten();
        env.chain(headers.map(|(name, value)| (format!("headers.{name}"), value.as_str()))).collect()
    }
}

/// A word of a command line, in quotes if it would be ambiguous otherwise.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && is_visible(c) && !matches!(c, '"' | '\\');
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => json_string(word),
    }
}

/// A text in quotes, as in JSON, without characters that a terminal would not show as they are.
fn json_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            hidden if !is_visible(hidden) => quoted.extend(hidden.escape_unicode()),
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether a terminal shows the character, and does not reorder the text around it.
fn is_visible(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_that_differ_have_different_lines() {
        let line =
            |spec: serde_json::Value| serde_json::from_value::<ServerSpec>(spec).unwrap().program_line();
        let program =
            |args: &[&str]| json!({"name": "x", "transport": "stdio", "command": "run", "args": args});
        assert_eq!(line(program(&["-y", "a b"])).as_deref(), Some(r#"run -y "a b""#));
        assert_ne!(line(program(&["a b"])), line(program(&["\"a", "b\""])));
        assert_ne!(line(program(&[""])), line(program(&[])));
        assert_eq!(line(program(&["\u{202e}\u{1b}"])).as_deref(), Some(r#"run "\u{202e}\u{1b}""#));
        let with_env = json!({"name": "x", "transport": "stdio", "command": "run",
                              "env": {"API_URL": "https://x.test", "TOKEN": "${TOKEN}"}});
        assert_eq!(line(with_env).as_deref(), Some("API_URL=https://x.test TOKEN=${TOKEN} run"));
        let like_a_variable = json!({"name": "x", "transport": "stdio", "command": "A=b", "args": ["run"]});
        assert_eq!(line(like_a_variable).as_deref(), Some(r#""A=b" run"#));
        assert_eq!(line(json!({"name": "x", "transport": "http", "url": "https://x.test"})), None);
    }

    #[test]
    fn unknown_fields_and_transports_are_refused() {
        for text in [
            r#"{"name":"x","transport":"http","url":"http://x","command":"y"}"#,
            r#"{"name":"x","transport":"pigeon","url":"http://x"}"#,
            r#"{"name":"x","transport":"stdio"}"#,
        ] {
            assert!(serde_json::from_str::<ServerSpec>(text).is_err(), "{text}");
        }
    }
}
