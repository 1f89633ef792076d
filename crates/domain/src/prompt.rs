//! Prompt templates that a product provides for people and MCP clients: messages with placeholders
//! for arguments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, Problem};

/// A prompt template. The field names are those of a manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    pub messages: Vec<PromptMessage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptArgument {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub required: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptMessage {
    pub role: PromptRole,
    /// `{{name}}` is replaced by the argument with that name.
    pub content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptRole {
    User,
    Assistant,
}

impl Prompt {
    /// Renders the messages with the arguments inserted. An optional argument that is absent
    /// becomes an empty text. A missing required argument and an unknown argument are errors.
    pub fn render(&self, provided: &BTreeMap<String, String>) -> Result<Vec<PromptMessage>, Invalid> {
        let mut problems = Vec::new();
        for argument in self.arguments.iter().filter(|argument| argument.required) {
            if !provided.contains_key(&argument.name) {
                problems.push(Problem::new(&argument.name, "is required"));
            }
        }
        for name in
            provided.keys().filter(|name| !self.arguments.iter().any(|argument| argument.name == **name))
        {
            problems.push(Problem::new(name, format!("is not an argument of the prompt `{}`", self.name)));
        }
        Invalid::if_any(problems)?;
        let fill = |message: &PromptMessage| PromptMessage {
            role: message.role,
            content: fill_placeholders(&message.content, |name| match provided.get(name) {
                Some(value) => Some(value.as_str()),
                None => self.arguments.iter().any(|argument| argument.name == name).then_some(""),
            }),
        };
        Ok(self.messages.iter().map(fill).collect())
    }

    /// Returns the placeholders that name no argument, each with the index of its message.
    pub fn unknown_placeholders(&self) -> Vec<(usize, String)> {
        let mut unknown = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            fill_placeholders(&message.content, |name| {
                if !self.arguments.iter().any(|argument| argument.name == name) {
                    unknown.push((index, name.to_owned()));
                }
                None
            });
        }
        unknown
    }
}

/// Replaces placeholders. A placeholder without a value remains as written. Values are inserted
/// literally: an argument that contains `{{other}}` is not expanded again.
fn fill_placeholders<'a>(text: &str, mut value: impl FnMut(&str) -> Option<&'a str>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, opened)) = rest.split_once("{{") {
        let Some((name, after)) = opened.split_once("}}") else { break };
        filled.push_str(before);
        match value(name.trim()) {
            Some(value) => filled.push_str(value),
            None => filled.push_str(&format!("{{{{{name}}}}}")),
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt() -> Prompt {
        serde_json::from_str(
            r#"{ "name": "ask", "arguments": [{ "name": "topic", "required": true }, { "name": "tone" }],
                 "messages": [{ "role": "user", "content": "About {{ topic }}, {{tone}}. {{other}} {{" }] }"#,
        )
        .unwrap()
    }

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn arguments_stand_in_their_places_and_are_not_looked_into() {
        let messages = prompt().render(&given(&[("topic", "{{tone}}"), ("tone", "kindly")])).unwrap();
        assert_eq!(messages[0].content, "About {{tone}}, kindly. {{other}} {{");
        let messages = prompt().render(&given(&[("topic", "trees")])).unwrap();
        assert_eq!(messages[0].content, "About trees, . {{other}} {{");
    }

    #[test]
    fn a_missing_and_an_unknown_argument_are_both_named() {
        let error = prompt().render(&given(&[("tonne", "x")])).unwrap_err();
        let fields: Vec<_> = error.problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["topic", "tonne"]);
    }

    #[test]
    fn a_place_without_an_argument_is_found() {
        assert_eq!(prompt().unknown_placeholders(), [(0, "other".to_owned())]);
    }
}
