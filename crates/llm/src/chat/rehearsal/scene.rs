//! The conversation as rules and templates see it.

use std::borrow::Cow;

use emergent_domain::chat::{CallResult, Part, Speaker, Turn};
use serde_json::Value;

use super::script::{Rule, When};
use crate::ChatRequest;

/// The key under which an answer's parts carry the rule they came from. It is stored with them, so
/// a run that goes on in another process counts the same.
const MARK: &str = "rehearsal";

pub struct Scene<'a> {
    request: ChatRequest<'a>,
}

impl<'a> Scene<'a> {
    pub fn new(request: ChatRequest<'a>) -> Self {
        Self { request }
    }

    pub fn fits(&self, when: &When) -> bool {
        let last = self.last();
        let is = |wanted: &Option<String>, holds: &dyn Fn(&str) -> bool| wanted.as_deref().is_none_or(holds);
        when.step.is_none_or(|step| step == self.request.about.step)
            && when.turn.is_none_or(|turn| turn == self.turn())
            && is(&when.agent, &|agent| agent == self.request.about.agent)
            && is(&when.tool_result, &|tool| results(last).any(|result| result.name == tool))
            && is(&when.contains, &|text| last.is_some_and(|turn| contains(turn, text)))
            && is(&when.input, &|text| self.input().contains(text))
    }

    /// How many of the model's answers so far came from this rule of the script.
    pub fn uses(&self, script: &str, rule: usize) -> u32 {
        let mark = mark(script, rule);
        let from = |turn: &&Turn| turn.parts.iter().any(|part| provider(part) == Some(&mark));
        self.answers().filter(from).count() as u32
    }

    /// The number of the answer that is asked for, from 1.
    pub fn turn(&self) -> usize {
        self.answers().count() + 1
    }

    fn answers(&self) -> impl Iterator<Item = &'a Turn> {
        self.request.turns.iter().filter(|turn| turn.speaker == Speaker::Assistant)
    }

    /// The first thing the user said.
    pub fn input(&self) -> String {
        let first = self.request.turns.iter().find(|turn| turn.speaker == Speaker::User);
        first.map(Turn::text).unwrap_or_default()
    }

    pub fn last(&self) -> Option<&'a Turn> {
        self.request.turns.last()
    }

    /// The last turn in one text.
    pub fn last_text(&self) -> String {
        let Some(last) = self.last() else { return String::new() };
        let mut text = last.text();
        for result in results(Some(last)) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&as_text(&result.output));
        }
        text
    }

    /// The result a rule means: of the tool it waits for, else the last one there is.
    pub fn result(&self, rule: &Rule) -> Option<&'a CallResult> {
        let mut results = self.results();
        match rule.when.tool_result.as_deref() {
            Some(tool) => results.find(|result| result.name == tool),
            None => results.next(),
        }
    }

    /// Every result of the conversation, the newest first.
    pub fn results(&self) -> impl Iterator<Item = &'a CallResult> {
        self.request.turns.iter().rev().flat_map(|turn| results(Some(turn)).rev())
    }

    /// For an error: who asks, and after what.
    pub fn describe(&self) -> String {
        let about = self.request.about;
        let last = match self.last() {
            None => "nothing was said yet".to_owned(),
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
        format!("agent `{}`, step {}, turn {}; {last}", about.agent, about.step, self.turn())
    }
}

pub fn mark(script: &str, rule: usize) -> Value {
    Value::Object([(MARK.to_owned(), Value::String(format!("{script}#{rule}")))].into_iter().collect())
}

fn provider(part: &Part) -> Option<&Value> {
    match part {
        Part::Text { provider, .. } | Part::Thought { provider, .. } => provider.as_ref(),
        Part::Call(call) => call.provider.as_ref(),
        Part::Result(_) => None,
    }
}

fn results(turn: Option<&Turn>) -> impl DoubleEndedIterator<Item = &CallResult> {
    turn.into_iter().flat_map(|turn| &turn.parts).filter_map(|part| match part {
        Part::Result(result) => Some(result),
        _ => None,
    })
}

fn contains(turn: &Turn, text: &str) -> bool {
    turn.text().contains(text) || results(Some(turn)).any(|result| as_text(&result.output).contains(text))
}

/// A text as it is, everything else as JSON.
pub fn as_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}
