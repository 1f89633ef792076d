//! Estimates tokens that no provider counted: four bytes each, which is about right for English.

use std::io;

use emergent_domain::chat::{Part, Usage};
use serde_json::Value;

use crate::ChatRequest;

const BYTES: u64 = 4;

/// Estimates the usage of a request and its `answer`. Tools are excluded: they would be most of the
/// work, for a constant.
pub fn usage(request: &ChatRequest, answer: &[Part]) -> Usage {
    let turns = request.turns.iter().flat_map(|turn| &turn.parts).map(size).sum::<u64>();
    let thoughts = answer.iter().filter(|part| matches!(part, Part::Thought { .. })).map(size).sum::<u64>();
    Usage {
        input: (request.system.len() as u64 + turns).div_ceil(BYTES),
        output: answer.iter().map(size).sum::<u64>().div_ceil(BYTES),
        reasoning: thoughts / BYTES,
        ..Usage::default()
    }
}

fn size(part: &Part) -> u64 {
    match part {
        Part::Text { text, .. } | Part::Thought { text, .. } => text.len() as u64,
        Part::Call(call) => call.name.len() as u64 + json(&call.input),
        Part::Result(result) => json(&result.output),
    }
}

/// Returns the length of the JSON text without serialising it.
fn json(value: &Value) -> u64 {
    struct Count(u64);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
