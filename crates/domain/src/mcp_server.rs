//! External MCP servers: their description in a manifest or request, its validation, and the stored
//! row. A description contains references to secrets, never their values.

mod programs;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    agent::string_enum,
    ids::{McpServerId, ProjectId},
    invalid::Problem,
    time::Timestamp,
};

pub use programs::{ConfiguredBy, ProgramPatterns};

pub const DEFAULT_TIMEOUT: i64 = 60;
pub const MAX_TIMEOUT_SECONDS: i64 = 3_600;
const MAX_TEXT_CHARS: usize = 10_000;
const MAX_VALUE_CHARS: usize = 8_192;
const MAX_ENTRIES: usize = 100;
/// Headers that the MCP transport sets itself.
const RESERVED_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "content-type",
    "accept",
    "connection",
    "transfer-encoding",
    "upgrade",
    "last-event-id",
    "te",
];
/// Words in a name which show that the value is a secret. A value without a `${NAME}` reference is
/// then rejected as a plain-text secret.
const SECRET_WORDS: [&str; 10] = [
    "authorization",
    "token",
    "key",
    "apikey",
    "secret",
    "password",
    "passwd",
    "credential",
    "credentials",
    "cookie",
];

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
}

string_enum! {
    TransportKind {
        Stdio = "stdio",
        Sse = "sse",
        Http = "http",
    }
}

string_enum! {
    /// How a changed definition of a previously seen tool is handled.
    #[derive(Default)]
    PinPolicy {
        /// The tool is held back until somebody accepts the change.
        #[default]
        Pin = "pin",
        /// The new definition is used, and the change is reported.
        Warn = "warn",
        /// The new definition is used without a report.
        Off = "off",
    }
}

string_enum! {
    ToolStatus {
        /// The tool is as it was accepted.
        Live = "live",
        /// The server announced the tool after its first listing, and nobody accepted it yet. It is held back.
        New = "new",
        /// The definition differs from the accepted one. Under `pin` the tool is held back.
        Changed = "changed",
        /// The server no longer lists the tool.
        Gone = "gone",
    }
}

/// An MCP server of a project.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    pub id: McpServerId,
    pub project: ProjectId,
    /// The product that installed the server. `None` if the project added it itself.
    pub product: Option<String>,
    pub spec: ServerSpec,
    /// Who configured what the server is, or enabled it. A program is checked against this when it
    /// starts.
    pub configured_by: ConfiguredBy,
    /// The version whose secrets are sent without a binding, because it was configured before
    /// bindings were recorded.
    pub unbound_version: Option<i64>,
    /// Glob patterns that select which tools of the server the project can use.
    pub tool_filter: Vec<String>,
    pub pin_policy: PinPolicy,
    /// Whether new tools of the server are accepted as they come.
    pub trust: bool,
    pub timeout_seconds: i64,
    pub enabled: bool,
    /// Incremented when the description of the server changes. A connection belongs to one version,
    /// so a change forces a new connection.
    pub version: i64,
    /// When the tools were last listed. `None` if the server was never reached.
    pub listed_at: Option<Timestamp>,
    /// When all tools of a listing were accepted, because whoever configured the server consented to them.
    /// `None` before the first listing: the next one is accepted.
    pub tools_accepted_at: Option<Timestamp>,
    /// Why the last contact failed. `None` if it succeeded, or there was none.
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl McpServer {
    pub fn name(&self) -> &str {
        self.spec.name()
    }

    /// Whether the server was configured before the bindings of secrets were recorded, and has not
    /// changed since.
    pub fn predates_bindings(&self) -> bool {
        self.unbound_version == Some(self.version)
    }
}

/// A secret, and where a server sends it: an origin (`https://example.com`), or a program as
/// [`ServerSpec::program_line`] shows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretUse {
    pub name: String,
    pub target: String,
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
        let (Self::Stdio { name, .. } | Self::Sse { name, .. } | Self::Http { name, .. }) = self;
        name
    }

    pub fn description(&self) -> &str {
        let (Self::Stdio { description, .. }
        | Self::Sse { description, .. }
        | Self::Http { description, .. }) = self;
        description
    }

    pub fn transport(&self) -> TransportKind {
        match self {
            Self::Stdio { .. } => TransportKind::Stdio,
            Self::Sse { .. } => TransportKind::Sse,
            Self::Http { .. } => TransportKind::Http,
        }
    }

    /// Returns whether both are the same program with the same arguments, or the same address.
    pub fn has_same_target(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stdio { command, args, .. }, Self::Stdio { command: other, args: other_args, .. }) => {
                command == other && args == other_args
            }
            (Self::Sse { url, .. }, Self::Sse { url: other, .. })
            | (Self::Http { url, .. }, Self::Http { url: other, .. }) => url == other,
            _ => false,
        }
    }

    pub fn env(&self) -> &BTreeMap<String, String> {
        let (Self::Stdio { env, .. } | Self::Sse { env, .. } | Self::Http { env, .. }) = self;
        env
    }

    /// Returns every text that may contain `${NAME}` or `{{secrets.NAME}}`, with its field name.
    pub fn templates(&self) -> Vec<(String, &str)> {
        let env = self.env().iter().map(|(name, value)| (format!("env.{name}"), value.as_str()));
        let headers = match self {
            Self::Stdio { .. } => None,
            Self::Sse { headers, .. } | Self::Http { headers, .. } => Some(headers),
        };
        let headers = headers.into_iter().flatten();
        env.chain(headers.map(|(name, value)| (format!("headers.{name}"), value.as_str()))).collect()
    }

    /// Validates the description and returns all problems, each with its field.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add_problem = |field: &str, reason: String| problems.push(Problem::new(field, reason));
        if !is_valid_name(self.name()) {
            add_problem(
                "name",
                "must be 1 to 64 letters, digits, `-` or `_`, and begin with a letter or digit".into(),
            );
        }
        if self.description().len() > MAX_TEXT_CHARS || self.description().contains('\0') {
            add_problem(
                "description",
                format!("must be at most {MAX_TEXT_CHARS} bytes without NUL characters"),
            );
        }
        match self {
            Self::Stdio { command, args, .. } => check_command(command, args, &mut add_problem),
            Self::Sse { url, headers, .. } | Self::Http { url, headers, .. } => {
                if let Err(reason) = check_url(url) {
                    add_problem("url", reason);
                }
                check_headers(headers, &mut add_problem);
            }
        }
        check_env(self.env(), &mut add_problem);
        problems
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

fn is_valid_name(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.len() <= 64 && text.chars().all(fine) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Returns whether a text refers to a secret.
pub fn has_secret_reference(text: &str) -> bool {
    text.replace("$${", "").contains("${")
        || text.split("{{").skip(1).any(|inner| inner.trim_start().starts_with("secrets."))
}

fn check_command(command: &str, args: &[String], add_problem: &mut impl FnMut(&str, String)) {
    if command.trim().is_empty() {
        add_problem("command", "is empty: name the program to run".into());
    }
    if args.len() > MAX_ENTRIES {
        add_problem("args", format!("has more than {MAX_ENTRIES} entries"));
    }
    let all = std::iter::once(("command".to_owned(), command))
        .chain(args.iter().enumerate().map(|(index, arg)| (format!("args[{index}]"), arg.as_str())));
    for (field, text) in all {
        if text.len() > MAX_VALUE_CHARS || text.contains('\0') {
            add_problem(&field, format!("must be at most {MAX_VALUE_CHARS} bytes without NUL characters"));
        }
        if has_secret_reference(text) {
            add_problem(
                &field,
                "must not refer to a secret, since whoever lists processes would see it: \
                 hand it to the program in `env`"
                    .into(),
            );
        }
    }
}

fn check_url(url: &str) -> Result<(), String> {
    let authority = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(authority) = authority else {
        return Err("must begin with `https://` or `http://`".into());
    };
    let host = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() || url.len() > 2_048 || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must be a complete URL of at most 2048 bytes".into());
    }
    if host.contains('@') || has_secret_reference(url) {
        return Err(
            "must not contain a secret, because URLs are shown and logged: put it into `headers` as `${NAME}`"
                .into(),
        );
    }
    Ok(())
}

fn check_headers(headers: &BTreeMap<String, String>, add_problem: &mut impl FnMut(&str, String)) {
    if headers.len() > MAX_ENTRIES {
        add_problem("headers", format!("has more than {MAX_ENTRIES} entries"));
    }
    for (name, value) in headers.iter().take(MAX_ENTRIES) {
        let field = format!("headers.{name}");
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || name.len() > 128 || !name.chars().all(token) {
            add_problem(&field, "is not a valid header name".into());
        } else if RESERVED_HEADERS.contains(&lower.as_str()) || lower.starts_with("mcp-") {
            add_problem(&field, "is set by the MCP transport and cannot be overridden".into());
        }
        if value.len() > MAX_VALUE_CHARS || value.chars().any(|c| c.is_control()) {
            add_problem(
                &field,
                format!("must be at most {MAX_VALUE_CHARS} bytes without control characters"),
            );
        }
        check_secret(&field, name, value, add_problem);
    }
}

fn check_env(env: &BTreeMap<String, String>, add_problem: &mut impl FnMut(&str, String)) {
    if env.len() > MAX_ENTRIES {
        add_problem("env", format!("has more than {MAX_ENTRIES} entries"));
    }
    for (name, value) in env.iter().take(MAX_ENTRIES) {
        let field = format!("env.{name}");
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.len() > 128 || !name.chars().all(is_name_char) {
            add_problem(&field, "is not a valid variable name: use letters, digits and `_`".into());
        }
        if value.len() > MAX_VALUE_CHARS || value.contains('\0') {
            add_problem(&field, format!("must be at most {MAX_VALUE_CHARS} bytes without NUL characters"));
        }
        check_secret(&field, name, value, add_problem);
    }
}

fn check_secret(field: &str, name: &str, value: &str, add_problem: &mut impl FnMut(&str, String)) {
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    if !value.is_empty() && words.any(|word| SECRET_WORDS.contains(&word)) && !has_secret_reference(value) {
        // The message does not quote the value, because it may be the secret itself.
        add_problem(
            field,
            "looks like a secret in plain text: store it with PUT /api/admin/secrets/NAME and write ${NAME}"
                .into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(spec: serde_json::Value) -> Vec<String> {
        let spec: ServerSpec = serde_json::from_value(spec).unwrap();
        spec.check().into_iter().map(|problem| problem.field).collect()
    }

    #[test]
    fn the_servers_of_the_specification_are_fine() {
        for spec in [
            json!({"name": "web-tools", "transport": "stdio", "command": "npx",
                   "args": ["-y", "@anthropic/mcp-web-tools"], "env": {"SEARCH_API_KEY": "${SEARCH_API_KEY}"}}),
            json!({"name": "github", "transport": "sse", "url": "https://mcp.github.com/sse",
                   "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}}),
            json!({"name": "github", "transport": "sse", "url": "https://api.github.com/mcp",
                   "env": {"GITHUB_TOKEN": "{{secrets.GITHUB_TOKEN}}"}}),
            json!({"name": "a", "transport": "http", "url": "http://127.0.0.1:3001/mcp"}),
        ] {
            assert_eq!(problems(spec.clone()), Vec::<String>::new(), "{spec}");
        }
    }

    #[test]
    fn a_secret_in_plain_sight_is_refused_and_not_repeated() {
        let spec: ServerSpec = serde_json::from_value(json!({
            "name": "x", "transport": "http", "url": "https://x.test/",
            "headers": {"Authorization": "Bearer abc", "X-Api-Key": "abc", "X-Keyboard": "qwerty"},
            "env": {"A_TOKEN": "abc", "PLAIN": "abc"},
        }))
        .unwrap();
        let problems = spec.check();
        let fields: Vec<_> = problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["headers.Authorization", "headers.X-Api-Key", "env.A_TOKEN"]);
        assert!(problems.iter().all(|problem| !problem.reason.contains("abc")), "{problems:?}");
    }

    #[test]
    fn what_others_could_see_holds_no_reference() {
        let stdio = json!({"name": "x", "transport": "stdio", "command": "run", "args": ["--key", "${KEY}"]});
        assert_eq!(problems(stdio), ["args[1]"]);
        let escaped = json!({"name": "x", "transport": "stdio", "command": "run", "args": ["$${HOME}"]});
        assert_eq!(problems(escaped), Vec::<String>::new());
        let http = json!({"name": "x", "transport": "http", "url": "https://x.test/?key=${KEY}"});
        assert_eq!(problems(http), ["url"]);
        let user = json!({"name": "x", "transport": "http", "url": "https://u:p@x.test/"});
        assert_eq!(problems(user), ["url"]);
    }

    #[test]
    fn names_addresses_and_headers_are_checked() {
        let bad = json!({"name": "a.b", "transport": "http", "url": "ftp://x", "headers": {"Mcp-Method": "x",
                         "Bad Name": "x", "X-Fine": "a\nb"}, "env": {"A-B": "x"}});
        assert_eq!(
            problems(bad),
            ["name", "url", "headers.Bad Name", "headers.Mcp-Method", "headers.X-Fine", "env.A-B"]
        );
    }

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
