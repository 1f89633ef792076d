//! The fingerprint of a request: system prompt, tool names and conversation, without ids and
//! timestamps, which are new in every run.

use emergent_domain::{
    chat::{Part, Speaker},
    patch::canonical_json,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::ChatRequest;

/// Three hashes, so that an unrecorded request can say in which part it differs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    system: String,
    tools: String,
    turns: String,
}

impl Fingerprint {
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let parts = [
            ("system prompt", self.system != other.system),
            ("tools", self.tools != other.tools),
            ("conversation", self.turns != other.turns),
        ];
        parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

pub fn fingerprint(request: &ChatRequest) -> (Fingerprint, IdNumbers) {
    let mut ids = IdNumbers::default();
    let system = ids.number(request.system);
    let mut names: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    let mut turns = String::new();
    for turn in request.turns {
        turns.push_str(match turn.speaker {
            Speaker::User => "\nuser",
            Speaker::Assistant => "\nassistant",
            Speaker::Tools => "\ntools",
        });
        for part in &turn.parts {
            // Thoughts are ignored, because providers send them unreliably.
            let text = match part {
                Part::Thought { .. } => continue,
                Part::Text { text, .. } => format!("\ntext {text}"),
                Part::Call(call) => format!("\ncall {} {}", call.name, canonical_json(&call.input)),
                Part::Result(result) => {
                    format!("\nresult {} {} {}", result.name, result.is_error, canonical_json(&result.output))
                }
            };
            turns.push_str(&ids.number(&text));
        }
    }
    let print = Fingerprint { system: hash(&system), tools: hash(&names.join("\n")), turns: hash(&turns) };
    (print, ids)
}

fn hash(text: &str) -> String {
    // Half of the hash is unique enough, and keeps the file readable.
    Sha256::digest(text)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The ids of a request in their order of appearance.
#[derive(Default)]
pub struct IdNumbers {
    seen: Vec<String>,
}

const OPEN: &str = "{{id.";
const CLOSE: &str = "}}";

impl IdNumbers {
    /// Replaces ids, including new ones, by their number, and timestamps by a placeholder.
    fn number(&mut self, text: &str) -> String {
        replace_volatile(text, |volatile| match volatile {
            VolatileText::Id(id) => {
                let existing = self.seen.iter().position(|seen| seen == id);
                let number = existing.unwrap_or_else(|| {
                    self.seen.push(id.to_owned());
                    self.seen.len() - 1
                });
                Some(format!("{OPEN}{number}{CLOSE}"))
            }
            VolatileText::Time => Some("{{moment}}".to_owned()),
        })
    }

    /// Replaces the request's ids by their numbers. An id that the model invented stays unchanged.
    pub fn to_numbers(&self, text: &str) -> String {
        replace_volatile(text, |volatile| match volatile {
            VolatileText::Id(id) => {
                let number = self.seen.iter().position(|seen| seen == id)?;
                Some(format!("{OPEN}{number}{CLOSE}"))
            }
            VolatileText::Time => None,
        })
    }

    /// Replaces the numbers by the ids of this request.
    pub fn restore_ids(&self, text: &str) -> String {
        let mut whole = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            whole.push_str(before);
            let numbered = after.split_once(CLOSE).and_then(|(number, tail)| {
                let id = self.seen.get(number.parse::<usize>().ok()?)?;
                Some((id, tail))
            });
            rest = match numbered {
                Some((id, tail)) => {
                    whole.push_str(id);
                    tail
                }
                None => {
                    whole.push_str(OPEN);
                    after
                }
            };
        }
        whole.push_str(rest);
        whole
    }

    pub fn to_numbers_in(&self, value: &Value) -> Value {
        map_strings(value, &|text| self.to_numbers(text))
    }

    pub fn restore_ids_in(&self, value: &Value) -> Value {
        map_strings(value, &|text| self.restore_ids(text))
    }
}

fn map_strings(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.iter().map(|item| map_strings(item, change)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (change(key), map_strings(value, change))).collect()
        }
        other => other.clone(),
    }
}

enum VolatileText<'a> {
    Id(&'a str),
    Time,
}

fn replace_volatile(text: &str, mut change: impl FnMut(VolatileText<'_>) -> Option<String>) -> String {
    let bytes = text.as_bytes();
    let mut whole = String::with_capacity(text.len());
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        let starts_word = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        let volatile = if !starts_word || !bytes[at].is_ascii_hexdigit() {
            None
        } else if matches_pattern(&bytes[at..], UUID_PATTERN) {
            Some((VolatileText::Id(&text[at..at + UUID_PATTERN.len()]), UUID_PATTERN.len()))
        } else if matches_pattern(&bytes[at..], TIME_PATTERN) {
            Some((VolatileText::Time, time_length(&bytes[at..])))
        } else {
            None
        };
        let Some((volatile, length)) = volatile else {
            at += 1;
            continue;
        };
        if let Some(new) = change(volatile) {
            whole.push_str(&text[from..at]);
            whole.push_str(&new);
            from = at + length;
        }
        at += length;
    }
    whole.push_str(&text[from..]);
    whole
}

/// `h` is a hexadecimal digit, `0` a decimal one, all other characters stand for themselves.
const UUID_PATTERN: &str = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
const TIME_PATTERN: &str = "0000-00-00T00:00:00";

fn matches_pattern(bytes: &[u8], pattern: &str) -> bool {
    bytes.len() >= pattern.len()
        && pattern.bytes().zip(bytes).all(|(pattern, byte)| match pattern {
            b'h' => byte.is_ascii_hexdigit(),
            b'0' => byte.is_ascii_digit(),
            other => other == *byte,
        })
        // A longer run of digits is not an id.
        && !bytes.get(pattern.len()).is_some_and(|next| next.is_ascii_hexdigit())
}

/// Returns the length of the timestamp with its fraction and offset.
fn time_length(bytes: &[u8]) -> usize {
    let mut end = TIME_PATTERN.len();
    if bytes.get(end) == Some(&b'.') {
        end += 1 + bytes[end + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    }
    match bytes.get(end) {
        Some(b'Z') => end + 1,
        Some(b'+' | b'-') if matches_pattern(&bytes[end + 1..], "00:00") => end + 6,
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0190a1b2-0000-7000-8000-00000000000a";
    const B: &str = "0190a1b2-0000-7000-8000-00000000000b";

    #[test]
    fn ids_are_numbered_as_they_appear_and_moments_are_all_alike() {
        let mut ids = IdNumbers::default();
        let text = format!("{A}, {B} and {A} at 2026-01-02T03:04:05.678Z, é 2026-01-02T03:04:05+01:00!");
        let numbered = "{{id.0}}, {{id.1}} and {{id.0}} at {{moment}}, é {{moment}}!";
        assert_eq!(ids.number(&text), numbered);
        assert_eq!(ids.number("no ids, 2026-01-02, deadbeef"), "no ids, 2026-01-02, deadbeef");
    }

    #[test]
    fn an_answer_speaks_of_this_runs_ids() {
        let (mut then, mut now) = (IdNumbers::default(), IdNumbers::default());
        then.number(A);
        now.number(B);
        let hidden = then.to_numbers_in(&serde_json::json!({ "of": [format!("see {A}")], "made_up": B }));
        let shown = now.restore_ids_in(&hidden);
        assert_eq!(shown, serde_json::json!({ "of": [format!("see {B}")], "made_up": B }));
        assert_eq!(now.restore_ids("{{id.7}} {{id.x"), "{{id.7}} {{id.x");
    }
}
