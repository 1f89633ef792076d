//! The format of a script. Unknown fields are refused, because a misspelt condition would match
//! everything.

use std::{str::FromStr, time::Duration};

use emergent_domain::{
    foreign_json::{self, ForeignValue},
    pack::with_nearest_name,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The rules in the order in which they are tried; the first match answers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(default)]
    pub description: String,
    /// The default delay of rules without their own.
    #[serde(default)]
    pub delay_ms: u64,
    #[serde(default)]
    pub chunk_delay_ms: u64,
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    #[serde(default)]
    pub when: When,
    pub answer: Option<ScriptedReply>,
    /// A failure instead of an answer. A failure is not part of the conversation, so `times` counts how
    /// often the same request fails.
    pub fault: Option<Fault>,
    /// The delay before the first word.
    pub delay_ms: Option<u64>,
    /// The delay between words; without one, the text arrives in one piece.
    pub chunk_delay_ms: Option<u64>,
    /// The delay that a `rate_limit` fault requests.
    pub retry_after_ms: Option<u64>,
    /// How many answers of the conversation may come from this rule.
    pub times: Option<u32>,
}

/// All conditions have to hold; without any, a rule always matches.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    pub agent: Option<String>,
    pub step: Option<i64>,
    /// A text in the last turn, or in one of its tool results as JSON.
    pub contains: Option<String>,
    /// A text in the first message of the user.
    pub input: Option<String>,
    /// The last turn has a result of this tool.
    pub tool_result: Option<String>,
    /// The number of the answer in the conversation, from 1.
    pub turn: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedReply {
    pub thought: Option<String>,
    pub text: Option<String>,
    #[serde(default)]
    pub calls: Vec<ScriptedCall>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub tool: String,
    #[serde(default = "no_input")]
    pub input: Value,
}

fn no_input() -> Value {
    Value::Object(Map::new())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    RateLimit,
    Overloaded,
    Auth,
    /// Half of the answer's text, then the connection breaks.
    Cut,
    /// No output until the provider counts as unreachable.
    Silence,
}

impl Script {
    /// Parses YAML or JSON.
    pub fn parse(text: &str) -> Result<Self, String> {
        // JSON has its own parser, because YAML does not allow tabs.
        let script: Self = if text.trim_start().starts_with('{') {
            foreign_json::from_str(text).map_err(|error| with_nearest_name(&error.to_string()))?
        } else {
            // An error of the first pass is one of the text; that of the second one is one of the script.
            serde_saphyr::from_str::<ForeignValue>(text).map_err(|error| yaml_problem(&error))?;
            serde_saphyr::from_str(text).map_err(|error| yaml_problem(&error))?
        };
        for (index, rule) in script.rules.iter().enumerate() {
            if rule.answer.is_none() && rule.fault.is_none() {
                return Err(format!("rules[{index}] has neither `answer` nor `fault`"));
            }
        }
        Ok(script)
    }

    /// A script that repeats the user's text.
    pub(super) fn echo() -> Self {
        let answer = ScriptedReply { text: Some("{{last}}".into()), ..ScriptedReply::default() };
        Self { rules: vec![Rule { answer: Some(answer), ..Rule::default() }], ..Self::default() }
    }

    pub(super) fn delay(&self, rule: &Rule) -> Duration {
        Duration::from_millis(rule.delay_ms.unwrap_or(self.delay_ms))
    }

    pub(super) fn chunk_delay(&self, rule: &Rule) -> Duration {
        Duration::from_millis(rule.chunk_delay_ms.unwrap_or(self.chunk_delay_ms))
    }
}

/// An error of YAML as one line: where it is, and the reason. Logs, answers of the API and columns of a terminal have no
/// room for an excerpt of the text.
fn yaml_problem(error: &serde_saphyr::Error) -> String {
    let text = with_nearest_name(&error.without_snippet().to_string());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match error.location() {
        Some(location) => {
            let (line, column) = (location.line(), location.column());
            let reason = text.replace(&format!(" at line {line}, column {column}"), "");
            format!("line {line}, column {column}: {reason}")
        }
        None => text,
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_say_the_same() {
        let yaml = r#"
rules:
  - when: { agent: researcher, step: 1, contains: tagging }
    answer:
      thought: Let me look.
      calls:
        - tool: search_hybrid
          input: { query: "{{input}}", limit: 5, deep: true, of: [1, 2.5, null] }
    delay_ms: 10
  - fault: rate_limit
    times: 2
"#;
        let json = json!({ "rules": [
            { "when": { "agent": "researcher", "step": 1, "contains": "tagging" },
              "answer": { "thought": "Let me look.", "calls": [{ "tool": "search_hybrid",
                "input": { "query": "{{input}}", "limit": 5, "deep": true, "of": [1, 2.5, null] } }] },
              "delay_ms": 10 },
            { "fault": "rate_limit", "times": 2 },
        ]});
        assert_eq!(Script::parse(yaml), Script::parse(&json.to_string()));
        assert_eq!(Script::parse(yaml), Script::parse(&format!("{json:#}")));
        assert_eq!(Script::parse(yaml).unwrap().rules.len(), 2);
    }

    #[test]
    fn a_misspelt_word_is_refused_by_name() {
        let error = Script::parse("rules:\n  - when: { agnet: x }\n    answer: { text: hi }").unwrap_err();
        assert!(error.contains("`agnet` (did you mean `agent`?)"), "{error}");
        let error = Script::parse(r#"{ "rules": [{ "when": { "contain": "x" } }] }"#).unwrap_err();
        assert!(error.contains("did you mean `contains`?"), "{error}");
        let error = Script::parse("rules:\n  - fault: tired").unwrap_err();
        assert!(error.contains("tired"), "{error}");
    }

    #[test]
    fn an_error_is_one_line_with_its_position() {
        let misspelt = Script::parse("rules:\n  - when: { agnet: x }\n    answer: { text: hi }").unwrap_err();
        assert!(misspelt.starts_with("line 2, column 13: "), "{misspelt}");
        let broken = Script::parse("rules:\n  - when: { step: 1\n").unwrap_err();
        assert!(broken.starts_with("line "), "{broken}");
        for error in [misspelt, broken] {
            assert!(!error.contains('\n') && !error.contains("<input>"), "{error}");
            assert_eq!(error.matches("column").count(), 1, "{error}");
        }
    }

    #[test]
    fn a_rule_without_an_answer_is_refused() {
        assert!(Script::parse("rules: [{ when: { step: 1 } }]").unwrap_err().contains("rules[0]"));
    }
}
