//! Names fields in messages of the API as a file writes them. A file of tasks or of an agent may have the names of a
//! manifest (`assigned_agent`), and the API names its own (`assignedAgent`).

use serde_json::Value;

use crate::commands::agent::word_to_camel_case;

/// The names of the fields of the files that a command has read.
#[derive(Debug, Default)]
pub struct FileFields {
    /// Names with underscores, as the API writes them and as the file does.
    renamed: Vec<(String, String)>,
    /// Whether a file uses names of the API that a manifest writes in another way.
    has_camel_case: bool,
}

impl FileFields {
    pub const fn new() -> Self {
        Self { renamed: Vec::new(), has_camel_case: false }
    }

    /// Whether no file was read that names fields.
    pub fn is_empty(&self) -> bool {
        self.renamed.is_empty() && !self.has_camel_case
    }

    /// Adds the names of the fields of a file. The content of `config` and of schemas is not renamed.
    pub fn add(&mut self, content: &Value) {
        match content {
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    let in_api = word_to_camel_case(name);
                    if in_api != *name {
                        self.renamed.push((in_api, name.clone()));
                    } else if name.contains(char::is_uppercase) {
                        self.has_camel_case = true;
                    }
                    if !matches!(name.as_str(), "config" | "output_schema" | "outputSchema") {
                        self.add(value);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether names that the file does not have are those of a manifest.
    fn is_manifest(&self) -> bool {
        !self.renamed.is_empty() && !self.has_camel_case
    }

    /// A name of the API as the file writes it; `None` if the file does not have it.
    fn written(&self, in_api: &str) -> Option<&str> {
        self.renamed.iter().find(|(name, _)| name == in_api).map(|(_, written)| written.as_str())
    }

    /// The path of a field (`tasks[0].assignedAgent`) as the file writes it.
    fn path(&self, path: &str) -> String {
        let parts = path.split('.').map(|part| {
            let (name, index) = part.split_at(part.find('[').unwrap_or(part.len()));
            match self.written(name) {
                Some(written) => format!("{written}{index}"),
                None if self.is_manifest() => format!("{}{index}", to_snake_case(name)),
                None => part.to_owned(),
            }
        });
        parts.collect::<Vec<_>>().join(".")
    }
}

/// Replaces the names of fields in a message: the field that a line begins with, the names that take the place of an
/// unknown one, and those of the file wherever they are quoted.
pub fn name_file_fields(message: &str, fields: &FileFields) -> String {
    if fields.renamed.is_empty() {
        return message.to_owned();
    }
    let lines = message.split('\n').map(|line| {
        let (line, is_unknown) = match field_of_line(line) {
            Some((before, field, reason)) => {
                let path = fields.path(field);
                match reason.strip_prefix("is not a known field; ") {
                    Some(rest) => {
                        let name = path.rsplit('.').next().unwrap_or(&path);
                        let rest = rest.trim_start();
                        let place = path.strip_suffix(name).map(|place| place.trim_end_matches('.'));
                        let place = place.filter(|place| !place.is_empty());
                        let place = place.map(|place| format!("`{place}`: ")).unwrap_or_default();
                        (format!("{before}{place}unknown field `{name}`, {rest}"), true)
                    }
                    None => (format!("{before}`{path}`: {reason}"), false),
                }
            }
            None => (line.to_owned(), false),
        };
        quoted_names(&line, |name, is_field| match fields.written(name) {
            Some(written) => Some(written.to_owned()),
            None if is_field => Some(fields.path(name)),
            None if is_unknown && fields.is_manifest() => Some(to_snake_case(name)),
            None => None,
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The space before a line, the field that it begins with, and the reason.
fn field_of_line(line: &str) -> Option<(&str, &str, &str)> {
    let text = line.trim_start();
    let before = &line[..line.len() - text.len()];
    let (field, reason) = text.strip_prefix('`')?.split_once("`: ")?;
    Some((before, field, reason))
}

/// Replaces words between backticks. The second argument of `replacement` says whether a problem begins with the word,
/// as each of several problems in one line does: `first`: is wrong; `second`: is wrong.
fn quoted_names(line: &str, replacement: impl Fn(&str, bool) -> Option<String>) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let replaced = parts.iter().enumerate().map(|(index, &part)| {
        let is_quoted = index % 2 == 1;
        let begins = index > 0 && ["; ", "? ", ". "].iter().any(|end| parts[index - 1].ends_with(end));
        let is_field = begins && parts.get(index + 1).is_some_and(|next| next.starts_with(": "));
        is_quoted.then(|| replacement(part, is_field)).flatten().unwrap_or_else(|| part.to_owned())
    });
    replaced.collect::<Vec<_>>().join("`")
}

fn to_snake_case(name: &str) -> String {
    let mut snake_case = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake_case.push('_');
        }
        snake_case.push(letter.to_ascii_lowercase());
    }
    snake_case
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(content: Value, message: &str) -> String {
        let mut fields = FileFields::new();
        fields.add(&content);
        name_file_fields(message, &fields)
    }

    #[test]
    fn a_field_is_named_as_the_file_writes_it() {
        let tasks = json!([{ "key": "a", "assigned_agent": "x", "blocked_by": [] }]);
        let message = "`tasks[0].assignedAgent`: there is no agent `x`; `blockedBy` names none";
        let expected = "`tasks[0].assigned_agent`: there is no agent `x`; `blocked_by` names none";
        assert_eq!(named(tasks.clone(), message), expected);
        assert_eq!(
            named(tasks.clone(), "\n  `tasks[0].maxRetries`: is too many"),
            "\n  `tasks[0].max_retries`: is too many"
        );
        assert_eq!(named(tasks, "there is no agent `myAgent`"), "there is no agent `myAgent`");
    }

    #[test]
    fn each_field_of_a_line_with_several_problems_is_named_as_the_file_writes_it() {
        let tasks = json!([{ "key": "a", "assigned_agent": "x", "blocked_by": ["b"] }]);
        let message = "`tasks[0].assignedAgent`: there is no agent `x`; did you mean `y.myAgent`? \
                       `tasks[0].blockedBy[0]`: there is no task `b`; `tasks[0].maxRetries`: must be 0 to 10";
        let expected = "`tasks[0].assigned_agent`: there is no agent `x`; did you mean `y.myAgent`? \
                        `tasks[0].blocked_by[0]`: there is no task `b`; `tasks[0].max_retries`: must be 0 to 10";
        assert_eq!(named(tasks, message), expected);
    }

    #[test]
    fn an_unknown_field_and_the_one_that_was_meant_are_named_in_the_same_way() {
        let body = json!({ "budjet_usd": 3, "tasks": [{ "key": "a", "blockd_by": [] }] });
        let unknown = "`budjetUsd`: is not a known field; did you mean `budgetUsd`?";
        assert_eq!(named(body.clone(), unknown), "unknown field `budjet_usd`, did you mean `budget_usd`?");
        let nested = "`tasks[0].blockdBy`: is not a known field; expected one of `blockedBy`, `key`";
        assert_eq!(
            named(body, nested),
            "`tasks[0]`: unknown field `blockd_by`, expected one of `blocked_by`, `key`"
        );
    }

    #[test]
    fn a_file_with_the_names_of_the_api_keeps_them() {
        let unknown = "`budjetUsd`: is not a known field; did you mean `budgetUsd`?";
        assert_eq!(named(json!({ "budjetUsd": 3 }), unknown), unknown);
        let mixed = json!({ "budgetUsd": 3, "blocked_by": [] });
        assert_eq!(named(mixed, "`blockedBy`: see `maxRetries`"), "`blocked_by`: see `maxRetries`");
    }
}
