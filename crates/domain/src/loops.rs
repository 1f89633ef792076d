//! Agents that go in circles: the same call again and again, or a short cycle of calls.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;

/// This many repetitions are a loop.
const MIN_REPEATS: usize = 3;
/// The longest cycle that is looked for.
const MAX_CYCLE: usize = 4;

/// Sees every call of a run in its order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopDetector {
    /// The newest last.
    seen: VecDeque<u64>,
    /// The cycle that was warned about, and how much of it came again since.
    warned: Option<WarnedCycle>,
}

#[derive(Debug, Clone, PartialEq)]
struct WarnedCycle {
    cycle: Vec<u64>,
    next: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopCheck {
    None,
    /// The call completes the third repetition: do not make it, and say so to the model.
    Warn {
        count: usize,
    },
    /// It went on after the warning: the run ends.
    End {
        count: usize,
    },
}

impl LoopDetector {
    /// Takes the next call and says what it means.
    pub fn observe(&mut self, tool: &str, input: &Value) -> LoopCheck {
        let call = fingerprint(tool, input);
        self.seen.push_back(call);
        if self.seen.len() > MAX_CYCLE * MIN_REPEATS {
            self.seen.pop_front();
        }
        if let Some(warned) = &mut self.warned {
            if warned.cycle[warned.next] == call {
                warned.next += 1;
                if warned.next == warned.cycle.len() {
                    warned.next = 0;
                    return LoopCheck::End { count: MIN_REPEATS + 1 };
                }
                return LoopCheck::None;
            }
            // It tries something else, as it was asked to.
            self.warned = None;
        }
        match self.cycle_length() {
            Some(length) => {
                let cycle = self.seen.iter().skip(self.seen.len() - length).copied().collect();
                self.warned = Some(WarnedCycle { cycle, next: 0 });
                LoopCheck::Warn { count: MIN_REPEATS }
            }
            None => LoopCheck::None,
        }
    }

    /// The length of the shortest cycle that the newest calls repeat often enough.
    fn cycle_length(&self) -> Option<usize> {
        (1..=MAX_CYCLE).find(|length| {
            let needed = length * MIN_REPEATS;
            let Some(start) = self.seen.len().checked_sub(needed) else { return false };
            (start + length..self.seen.len()).all(|at| self.seen[at] == self.seen[at - length])
        })
    }
}

/// Equal for calls of one tool with equal arguments, in whatever order their keys come.
fn fingerprint(tool: &str, input: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    tool.hash(&mut hasher);
    hash_value(input, &mut hasher);
    hasher.finish()
}

fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => 0u8.hash(hasher),
        Value::Bool(truth) => (1u8, truth).hash(hasher),
        // 1 and 1.0 are the same argument, written differently.
        Value::Number(number) => match number.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => (2u8, float as i64).hash(hasher),
            _ => (3u8, number.to_string()).hash(hasher),
        },
        Value::String(text) => (4u8, text).hash(hasher),
        Value::Array(items) => {
            (5u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash_value(item, hasher));
        }
        Value::Object(map) => {
            (6u8, map.len()).hash(hasher);
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();
            for key in keys {
                key.hash(hasher);
                hash_value(&map[key], hasher);
            }
        }
    }
}

/// What the model reads instead of the result of a call that would go on with a loop.
pub fn loop_warning(tool: &str, count: usize) -> String {
    format!(
        "LOOP DETECTED: You have called {tool} with identical arguments {count} times. This tool call will not be \
         executed. Please try a different approach or summarize your progress so far."
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each letter is a call; `.` goes on, `!` is warned, `#` ends.
    fn check(calls: &str, expected: &str) {
        let mut detector = LoopDetector::default();
        let said: String = calls
            .chars()
            .map(|call| match detector.observe("tool", &json!({ "call": call.to_string() })) {
                LoopCheck::None => '.',
                LoopCheck::Warn { .. } => '!',
                LoopCheck::End { .. } => '#',
            })
            .collect();
        assert_eq!(said, expected, "{calls}");
    }

    #[test]
    fn the_third_identical_call_is_warned_about_and_the_fourth_ends_the_run() {
        check("aaaa", "..!#");
        check("aaaaaa", "..!###");
        check("aab aab", ".......");
        check("xaaaa", "...!#");
    }

    #[test]
    fn a_call_that_differs_after_the_warning_starts_afresh() {
        check("aaabaaa", "..!...!");
        check("aaabcdaaa", "..!.....!");
    }

    #[test]
    fn short_cycles_count_as_well() {
        check("ababab", ".....!");
        check("abababab", ".....!.#");
        check("abcabcabc", "........!");
        check("abcdabcdabcdabcd", "...........!...#");
    }

    #[test]
    fn a_cycle_that_changes_is_no_loop() {
        check("abacabad", "........");
        check("abcabdabe", ".........");
    }

    #[test]
    fn arguments_are_compared_by_value() {
        let mut detector = LoopDetector::default();
        detector.observe("t", &serde_json::from_str(r#"{"a":1,"b":[1,{"x":2,"y":3}]}"#).unwrap());
        detector.observe("t", &serde_json::from_str(r#"{"b":[1.0,{"y":3,"x":2}],"a":1}"#).unwrap());
        let third = detector.observe("t", &json!({ "b": [1, { "x": 2, "y": 3 }], "a": 1 }));
        assert_eq!(third, LoopCheck::Warn { count: 3 });
    }
}
