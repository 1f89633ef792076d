//! What a description of a server may contain.

use std::collections::BTreeMap;

use super::{ServerSpec, TransportKind};
use crate::{
    ids::{NAME_IS_ID, is_id},
    invalid::Problem,
};

const MAX_TEXT_CHARS: usize = 10_000;
const MAX_VALUE_CHARS: usize = 8_192;
const MAX_ENTRIES: usize = 100;
/// Headers that the transports set themselves.
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

impl ServerSpec {
    /// Validates the description and returns all problems, each with its field.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add_problem = |field: &str, reason: String| problems.push(Problem::new(field, reason));
        if is_id(self.name()) {
            add_problem("name", NAME_IS_ID.into());
        } else if !is_valid_name(self.name()) {
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
        if let Self::Stdio { command, args, .. } = self {
            check_command(command, args, &mut add_problem);
        }
        if let Some((url, headers)) = self.endpoint() {
            if let Err(reason) = check_url(url) {
                add_problem("url", reason);
            }
            check_headers(headers, self.transport(), &mut add_problem);
        }
        check_env(self.env(), &mut add_problem);
        problems
    }
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

fn check_headers(
    headers: &BTreeMap<String, String>,
    transport: TransportKind,
    add_problem: &mut impl FnMut(&str, String),
) {
    let (protocol, prefix) = match transport {
        TransportKind::A2a => ("A2A", "a2a-"),
        _ => ("MCP", "mcp-"),
    };
    if headers.len() > MAX_ENTRIES {
        add_problem("headers", format!("has more than {MAX_ENTRIES} entries"));
    }
    for (name, value) in headers.iter().take(MAX_ENTRIES) {
        let field = format!("headers.{name}");
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let lower = name.to_ascii_lowercase();
        if name.is_empty() || name.len() > 128 || !name.chars().all(token) {
            add_problem(&field, "is not a valid header name".into());
        } else if RESERVED_HEADERS.contains(&lower.as_str()) || lower.starts_with(prefix) {
            add_problem(&field, format!("is set by the {protocol} transport and cannot be overridden"));
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
            json!({"name": "writer", "transport": "a2a", "url": "https://agents.example.com/writer",
                   "headers": {"Authorization": "Bearer ${WRITER_TOKEN}"}}),
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
        let versioned = json!({"name": "a", "transport": "a2a", "url": "https://x.test",
                               "headers": {"A2A-Version": "0.3", "Mcp-Method": "fine"}});
        assert_eq!(problems(versioned), ["headers.A2A-Version"]);
    }
}
