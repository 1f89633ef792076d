//! Prompts that a product brings for people and clients: texts with places to fill in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, Problem};

/// The words of a manifest.
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
    /// `{{name}}` stands for the argument of that name.
    pub content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptRole {
    User,
    Assistant,
}

impl Prompt {
    /// The messages with every argument in its place; one that was not given is empty. Refused:
    /// a required argument that is missing, and one the prompt does not have.
    pub fn render(&self, given: &BTreeMap<String, String>) -> Result<Vec<PromptMessage>, Invalid> {
        let mut problems = Vec::new();
        for argument in self.arguments.iter().filter(|argument| argument.required) {
            if !given.contains_key(&argument.name) {
                problems.push(Problem::new(&argument.name, "is required"));
            }
        }
        for name in given.keys().filter(|name| !self.arguments.iter().any(|known| known.name == **name)) {
            problems.push(Problem::new(name, format!("is not an argument of the prompt `{}`", self.name)));
        }
        Invalid::if_any(problems)?;
        let fill = |message: &PromptMessage| PromptMessage {
            role: message.role,
            content: fill_placeholders(&message.content, |name| match given.get(name) {
                Some(value) => Some(value.as_str()),
                None => self.arguments.iter().any(|known| known.name == name).then_some(""),
            }),
        };
        Ok(self.messages.iter().map(fill).collect())
    }

    /// The names between `{{` and `}}` that are no argument, each with the message it stands in.
    pub fn unknown_placeholders(&self) -> Vec<(usize, String)> {
        let mut unknown = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            fill_placeholders(&message.content, |name| {
                if !self.arguments.iter().any(|known| known.name == name) {
                    unknown.push((index, name.to_owned()));
                }
                None
            });
        }
        unknown
    }
}

/// What nobody has a value for stays as it is written. Values are never looked into: an argument
/// that contains `{{other}}` is that text.
fn fill_placeholders<'a>(text: &str, mut value: impl FnMut(&str) -> Option<&'a str>) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, opened)) = rest.split_once("{{") {
        let Some((name, after)) = opened.split_once("}}") else { break };
        whole.push_str(before);
        match value(name.trim()) {
            Some(value) => whole.push_str(value),
            None => whole.push_str(&format!("{{{{{name}}}}}")),
        }
        rest = after;
    }
    whole.push_str(rest);
    whole
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
        let said = prompt().render(&given(&[("topic", "{{tone}}"), ("tone", "kindly")])).unwrap();
        assert_eq!(said[0].content, "About {{tone}}, kindly. {{other}} {{");
        let said = prompt().render(&given(&[("topic", "trees")])).unwrap();
        assert_eq!(said[0].content, "About trees, . {{other}} {{");
    }

    #[test]
    fn a_missing_and_an_unknown_argument_are_both_named() {
        let wrong = prompt().render(&given(&[("tonne", "x")])).unwrap_err();
        let fields: Vec<_> = wrong.problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["topic", "tonne"]);
    }

    #[test]
    fn a_place_without_an_argument_is_found() {
        assert_eq!(prompt().unknown_placeholders(), [(0, "other".to_owned())]);
    }
}
