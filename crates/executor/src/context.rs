//! What the model sees: the conversation as turns, shortened when it outgrows the model's window.
//! The record is whole whatever is left out here, and says what was left out, so that a run that is
//! taken up again shows the model the same.

use emergent_domain::{
    chat::{Part, Speaker, ToolResult, Turn},
    run::MessageRole,
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
};
use emergent_llm::RequestCache;
use emergent_store::runs::conversation::Conversation;
use serde_json::{Value, json};

/// Of the window, what a conversation may fill before it is shortened.
const COMPACT_AT: f64 = 0.75;
/// Newest turns whose results are never left out.
const KEEP_TURNS: usize = 6;
/// A result shorter than this is not worth leaving out.
const MIN_DROPPED_BYTES: usize = 400;

#[derive(Debug, Default)]
pub struct Context {
    turns: Vec<Turn>,
    /// For each turn, the place in this run of the last thing in it; 0 for turns of earlier runs.
    seqs: Vec<i64>,
    /// Tokens as the provider counted them last, and how many turns that covers.
    counted: Option<(u64, usize)>,
    /// The turns as they were sent last.
    request_cache: RequestCache,
}

impl Context {
    /// Adds the conversation of a run that came before.
    pub fn append_earlier_run(&mut self, conversation: &Conversation) {
        self.append_own_run(conversation);
        self.seqs.iter_mut().for_each(|place| *place = 0);
        self.counted = None;
    }

    /// Adds the conversation of the run itself, up to calls that have no results yet.
    pub fn append_own_run(&mut self, conversation: &Conversation) {
        for message in &conversation.messages {
            if let MessageContent::Summary { text, upto } = &message.content {
                self.replace_with_summary(text, *upto);
                continue;
            }
            if let Some(turn) = turn_from_message(message) {
                self.push(turn, message.seq);
                if let Some(usage) = message.usage {
                    self.set_counted_tokens(usage.input + usage.output);
                }
            }
            let calls: Vec<&RecordedToolCall> =
                conversation.calls.iter().filter(|call| call.message == message.id).collect();
            if !calls.is_empty() && calls.iter().all(|call| call.status.is_terminal()) {
                let last = calls.iter().filter_map(|call| call.result_seq).max().unwrap_or(message.seq);
                self.push(Turn::results(calls.into_iter().map(tool_result)), last);
            }
        }
        if conversation.pruned_upto > 0 {
            self.drop_results(conversation.pruned_upto);
        }
    }

    pub fn push(&mut self, turn: Turn, place: i64) {
        self.turns.push(turn);
        self.seqs.push(place);
    }

    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    pub fn request_cache(&self) -> &RequestCache {
        &self.request_cache
    }

    /// A turn that was sent is another now: nothing that was counted or kept holds.
    fn invalidate_counts(&mut self) {
        self.counted = None;
        self.request_cache = RequestCache::default();
    }

    /// Notes what the provider counted for everything up to the newest turn; some count nothing.
    pub fn set_counted_tokens(&mut self, tokens: u64) {
        self.counted = (tokens > 0).then_some((tokens, self.turns.len()));
    }

    /// How long all of it is, counted the same way before and after it is shortened.
    pub fn byte_length(&self) -> u64 {
        self.turns.iter().map(estimate_tokens).sum()
    }

    /// About how many tokens the next request has.
    pub fn estimated_tokens(&self) -> u64 {
        let (known, covered) = self.counted.unwrap_or((0, 0));
        known + self.turns[covered.min(self.turns.len())..].iter().map(estimate_tokens).sum::<u64>()
    }

    /// What the provider counted, with everything it was sent, and the turns it has not seen yet.
    pub fn uncounted(&self) -> (Option<u64>, &[Turn]) {
        match self.counted {
            Some((known, covered)) => (Some(known), &self.turns[covered.min(self.turns.len())..]),
            None => (None, &self.turns),
        }
    }

    pub fn is_full(&self, window: u64) -> bool {
        self.estimated_tokens() as f64 > window as f64 * COMPACT_AT
    }

    /// The place up to which results could be left out, if that would save something.
    pub fn compactable_results(&self) -> Option<i64> {
        let end = self.turns.len().saturating_sub(KEEP_TURNS);
        let old = self.turns[..end].iter().zip(&self.seqs);
        let worth =
            old.filter(|(turn, _)| turn.parts.iter().any(is_long_result)).map(|(_, place)| *place).max()?;
        Some(worth)
    }

    pub fn drop_results(&mut self, upto: i64) {
        for (turn, place) in self.turns.iter_mut().zip(&self.seqs) {
            if *place <= upto && turn.speaker == Speaker::Tools {
                turn.parts.iter_mut().for_each(drop_result);
            }
        }
        self.invalidate_counts();
    }

    /// Where a summary could cut: everything before the newest turns, never between calls and
    /// their results. `None` when there is too little to sum up.
    pub fn summary_split(&self, window: u64) -> Option<(usize, i64)> {
        let room = (window as f64 * COMPACT_AT / 3.0) as u64;
        let mut kept = 0;
        let mut at = self.turns.len();
        while at > 0 {
            kept += estimate_tokens(&self.turns[at - 1]);
            if kept > room && at < self.turns.len() {
                break;
            }
            at -= 1;
        }
        // Forward to a place where the model speaks next: a user's turn or an assistant's. What came
        // before this run has one place, and goes as a whole.
        let inside = |at: usize| {
            self.turns[at].speaker == Speaker::Tools || (at > 0 && self.seqs[at] == self.seqs[at - 1])
        };
        while at < self.turns.len() && inside(at) {
            at += 1;
        }
        (at >= 2 && at < self.turns.len()).then(|| (at, self.seqs[at - 1]))
    }

    pub fn replace_with_summary(&mut self, text: &str, upto: i64) {
        let gone = self.seqs.iter().take_while(|place| **place <= upto).count();
        self.turns.drain(..gone);
        self.seqs.drain(..gone);
        let told = format!("Summary of the conversation so far, which is no longer shown in full:\n\n{text}");
        self.turns.insert(0, Turn::user(told));
        self.seqs.insert(0, upto);
        self.invalidate_counts();
    }
}

fn turn_from_message(message: &RecordedMessage) -> Option<Turn> {
    match (&message.content, message.role) {
        (MessageContent::Parts(parts), _) => Some(Turn::assistant(parts.clone())),
        (MessageContent::Text { text, .. }, MessageRole::User) => Some(Turn::user(text.clone())),
        _ => None,
    }
}

pub fn tool_result(call: &RecordedToolCall) -> ToolResult {
    ToolResult {
        id: call.id,
        name: call.tool.clone(),
        output: call.output.clone().unwrap_or(Value::Null),
        is_error: call.status == emergent_domain::run::ToolCallStatus::Error,
    }
}

fn is_long_result(part: &Part) -> bool {
    matches!(part, Part::Result(result) if json_length(&result.output) > MIN_DROPPED_BYTES)
}

fn drop_result(part: &mut Part) {
    if let Part::Result(result) = part
        && json_length(&result.output) > MIN_DROPPED_BYTES
    {
        let bytes = json_length(&result.output);
        result.output = json!({
            "_left_out": format!("{bytes} bytes of this old result are no longer shown; call the tool again if you need them"),
        });
    }
}

/// About how long a value is as JSON, without writing it.
fn json_length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| json_length(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => {
            map.iter().map(|(key, value)| key.len() + json_length(value) + 4).sum::<usize>() + 2
        }
    }
}

/// About how many bytes a part is.
pub fn part_bytes(part: &Part) -> usize {
    match part {
        Part::Text { text, .. } | Part::Thought { text, .. } => text.len(),
        Part::Call(call) => call.name.len() + json_length(&call.input),
        Part::Result(result) => result.name.len() + json_length(&result.output),
    }
}

/// Four bytes make a token, about; a little too many rather than too few.
fn estimate_tokens(turn: &Turn) -> u64 {
    turn.parts.iter().map(part_bytes).sum::<usize>() as u64 / 4 + 4
}
