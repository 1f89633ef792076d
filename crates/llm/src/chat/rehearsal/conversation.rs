//! The conversation as rules and templates see it.

use std::borrow::Cow;

use emergent_domain::chat::{Part, Speaker, ToolResult, Turn};
use serde_json::Value;

use super::script::{Rule, When};
use crate::ChatRequest;

/// The key under which the parts of an answer name their rule. It is stored with them, so that a run
/// that continues in another process counts the same.
const RULE_KEY: &str = "rehearsal";

pub struct ConversationView<'a> {
    request: ChatRequest<'a>,
}

impl<'a> ConversationView<'a> {
    pub fn new(request: ChatRequest<'a>) -> Self {
        Self { request }
    }

    pub fn matches(&self, when: &When) -> bool {
        let last = self.last_turn();
        let is =
            |condition: &Option<String>, holds: &dyn Fn(&str) -> bool| condition.as_deref().is_none_or(holds);
        when.step.is_none_or(|step| step == self.request.meta.step)
            && when.turn.is_none_or(|turn| turn == self.answer_number())
            && is(&when.agent, &|agent| agent == self.request.meta.agent)
            && is(&when.tool_result, &|tool| results(last).any(|result| result.name == tool))
            && is(&when.contains, &|text| last.is_some_and(|turn| contains(turn, text)))
            && is(&when.input, &|text| self.first_user_text().contains(text))
    }

    /// Returns how many of the model's answers so far came from this rule of the script.
    pub fn rule_uses(&self, script: &str, rule: usize) -> u32 {
        let mark = rule_mark(script, rule);
        let from = |turn: &&Turn| turn.parts.iter().any(|part| provider(part) == Some(&mark));
        self.answers().filter(from).count() as u32
    }

    /// Returns the number of the requested answer, from 1.
    pub fn answer_number(&self) -> usize {
        self.answers().count() + 1
    }

    fn answers(&self) -> impl Iterator<Item = &'a Turn> {
        self.request.turns.iter().filter(|turn| turn.speaker == Speaker::Assistant)
    }

    /// Returns the first text of the user.
    pub fn first_user_text(&self) -> String {
        let first = self.request.turns.iter().find(|turn| turn.speaker == Speaker::User);
        first.map(Turn::text).unwrap_or_default()
    }

    pub fn last_turn(&self) -> Option<&'a Turn> {
        self.request.turns.last()
    }

    /// Returns the last turn as one text.
    pub fn last_text(&self) -> String {
        let Some(last) = self.last_turn() else { return String::new() };
        let mut text = last.text();
        for result in results(Some(last)) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&display_value(&result.output));
        }
        text
    }

    /// Returns the result that a rule refers to: of the tool it waits for, or else the last result.
    pub fn result(&self, rule: &Rule) -> Option<&'a ToolResult> {
        let mut results = self.results();
        match rule.when.tool_result.as_deref() {
            Some(tool) => results.find(|result| result.name == tool),
            None => results.next(),
        }
    }

    /// Returns all results of the conversation, newest first.
    pub fn results(&self) -> impl Iterator<Item = &'a ToolResult> {
        self.request.turns.iter().rev().flat_map(|turn| results(Some(turn)).rev())
    }

    /// Describes the agent and the last turn for an error message.
    pub fn describe(&self) -> String {
        let about = self.request.meta;
        let last = match self.last_turn() {
            None => "the conversation is empty".to_owned(),
            Some(turn) => {
                let text = self.last_text();
                let short: String = text.chars().take(200).collect();
                let cut = if short.len() < text.len() { "…" } else { "" };
                let names: Vec<_> = results(Some(turn)).map(|result| result.name.as_str()).collect();
                match turn.speaker {
                    Speaker::User => format!("the last turn is the user's: `{short}{cut}`"),
                    Speaker::Assistant => format!("the last turn is the model's own: `{short}{cut}`"),
                    Speaker::Tools => {
                        format!("the last turn is the result of `{}`: `{short}{cut}`", names.join("`, `"))
                    }
                }
            }
        };
        format!("agent `{}`, step {}, turn {}; {last}", about.agent, about.step, self.answer_number())
    }
}

pub fn rule_mark(script: &str, rule: usize) -> Value {
    Value::Object([(RULE_KEY.to_owned(), Value::String(format!("{script}#{rule}")))].into_iter().collect())
}

fn provider(part: &Part) -> Option<&Value> {
    match part {
        Part::Text { provider, .. } | Part::Thought { provider, .. } => provider.as_ref(),
        Part::Call(call) => call.provider.as_ref(),
        Part::Result(_) => None,
    }
}

fn results(turn: Option<&Turn>) -> impl DoubleEndedIterator<Item = &ToolResult> {
    turn.into_iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Result(result) => Some(result),
        _ => None,
    })
}

fn contains(turn: &Turn, text: &str) -> bool {
    turn.text().contains(text)
        || results(Some(turn)).any(|result| display_value(&result.output).contains(text))
}

/// Returns a string as it is, and any other value as JSON.
pub fn display_value(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
