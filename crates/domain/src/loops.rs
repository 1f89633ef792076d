//! Loop detection: finds agents that repeat the same tool call or a short cycle of tool calls.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;

/// This many repetitions of a cycle count as a loop.
const MIN_REPEATS: usize = 3;
/// The length of the longest cycle that is detected, in calls.
const MAX_CYCLE: usize = 4;

/// Observes all tool calls of a run in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopDetector {
    /// Fingerprints of the recent calls, newest last.
    seen: VecDeque<u64>,
    /// The cycle that the model was warned about, and how many of its calls were repeated since.
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
    /// The call completes the third repetition. The caller must not execute it, and sends the
    /// warning to the model instead.
    Warn {
        count: usize,
    },
    /// The model continued the loop after the warning. The run ends.
    End {
        count: usize,
    },
}

impl LoopDetector {
    /// Records the next call and returns how to treat it.
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
            // The model tries something else, as the warning asked.
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

    /// Returns the length of the shortest cycle that the newest calls repeat at least `MIN_REPEATS`
    /// times.
    fn cycle_length(&self) -> Option<usize> {
        (1..=MAX_CYCLE).find(|length| {
            let needed = length * MIN_REPEATS;
            let Some(start) = self.seen.len().checked_sub(needed) else { return false };
            (start + length..self.seen.len()).all(|index| self.seen[index] == self.seen[index - length])
        })
    }
}

/// Hashes a call. Calls of the same tool with equal arguments have the same hash, regardless of the
/// order of their keys.
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
        // 1 and 1.0 are the same argument in different notations.
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

/// The text that the model receives instead of the result of a looping call.
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

    /// Each letter is a call. In the expected text `.` means proceed, `!` means warned and `#`
    /// means ended.
    fn check(calls: &str, expected: &str) {
        let mut detector = LoopDetector::default();
        let outcomes: String = calls
            .chars()
            .map(|call| match detector.observe("tool", &json!({ "call": call.to_string() })) {
                LoopCheck::None => '.',
                LoopCheck::Warn { .. } => '!',
                LoopCheck::End { .. } => '#',
            })
            .collect();
        assert_eq!(outcomes, expected, "{calls}");
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
