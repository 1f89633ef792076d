//! The conversation as the model sees it: turns, which are shortened when they outgrow the model's context
//! window. The record stays complete whatever is dropped here. It also records what was dropped, so a
//! recovered run shows the model the same turns.

use emergent_domain::{
    chat::{Part, Speaker, ToolResult, Turn},
    run::{MessageRole, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
};
use emergent_llm::RequestCache;
use emergent_store::runs::conversation::Conversation;
use serde_json::{Value, json};

/// The share of the context window that a conversation may fill before it is shortened.
const COMPACT_AT: f64 = 0.75;
/// A summary leaves the newest turns as they are, up to the tokens of a full conversation divided by this.
const KEPT_DIVISOR: f64 = 3.0;
/// The results of this many newest turns are never dropped.
const KEEP_TURNS: usize = 6;
/// Dropping a shorter result would not save enough.
const MIN_DROPPED_BYTES: usize = 400;

/// The result of a call that had none when its run ended.
const INTERRUPTED_CALL: &str = "This call was interrupted because the time of the run was up. Whether it took effect is \
                                not known. Find out before you repeat it.";

/// The conversation of a run as it is sent to the model.
#[derive(Debug, Default)]
pub struct Context {
    turns: Vec<Turn>,
    /// For each turn, the `seq` of its last entry in this run's record; 0 for turns of earlier runs.
    seqs: Vec<i64>,
    /// The provider's last token count, and how many turns it covers.
    counted: Option<(u64, usize)>,
    /// The turns as they were last sent, in the provider's format.
    request_cache: RequestCache,
}

impl Context {
    /// Adds the conversation of a run that this one resumes. A call without a result was interrupted when that
    /// run ended: models refuse a conversation in which a call has no result.
    pub fn append_earlier_run(&mut self, conversation: &Conversation) {
        let mut conversation = conversation.clone();
        for call in conversation.calls.iter_mut().filter(|call| !call.status.is_terminal()) {
            call.status = ToolCallStatus::Error;
            call.output = Some(json!({ "error": INTERRUPTED_CALL }));
        }
        self.append_own_run(&conversation);
        self.seqs.iter_mut().for_each(|seq| *seq = 0);
        self.counted = None;
    }

    /// Adds the conversation of the run itself, up to tool calls that have no results yet.
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

    /// Adds a turn. `seq` is that of its last entry in the record of this run.
    pub fn push(&mut self, turn: Turn, seq: i64) {
        self.turns.push(turn);
        self.seqs.push(seq);
    }

    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    pub fn request_cache(&self) -> &RequestCache {
        &self.request_cache
    }

    /// Called when a turn that was already sent has changed: the token count and the cached request are not
    /// valid any more.
    fn invalidate_counts(&mut self) {
        self.counted = None;
        self.request_cache = RequestCache::default();
    }

    /// Records the provider's token count for everything up to the newest turn. Some providers count
    /// nothing.
    pub fn set_counted_tokens(&mut self, tokens: u64) {
        self.counted = (tokens > 0).then_some((tokens, self.turns.len()));
    }

    /// Returns the estimated length of all turns. It is computed the same way before and after shortening,
    /// so both can be compared.
    pub fn byte_length(&self) -> u64 {
        self.turns.iter().map(estimate_tokens).sum()
    }

    /// Estimates the tokens of the next request.
    pub fn estimated_tokens(&self) -> u64 {
        let (counted_tokens, covered) = self.counted.unwrap_or((0, 0));
        counted_tokens + self.turns[covered.min(self.turns.len())..].iter().map(estimate_tokens).sum::<u64>()
    }

    /// Returns the provider's count of everything sent so far, and the turns that it does not cover.
    pub fn uncounted(&self) -> (Option<u64>, &[Turn]) {
        match self.counted {
            Some((counted_tokens, covered)) => {
                (Some(counted_tokens), &self.turns[covered.min(self.turns.len())..])
            }
            None => (None, &self.turns),
        }
    }

    /// Whether the conversation should be shortened for a context window of this many tokens.
    pub fn is_full(&self, window: u64) -> bool {
        self.estimated_tokens() as f64 > window as f64 * COMPACT_AT
    }

    /// Returns the `seq` up to which results could be dropped, if dropping them would save anything.
    pub fn compactable_results(&self) -> Option<i64> {
        let end = self.turns.len().saturating_sub(KEEP_TURNS);
        let old = self.turns[..end].iter().zip(&self.seqs);
        let last_long =
            old.filter(|(turn, _)| turn.parts.iter().any(is_long_result)).map(|(_, seq)| *seq).max()?;
        Some(last_long)
    }

    /// Replaces long tool results up to a `seq` with a note that they are left out.
    pub fn drop_results(&mut self, up_to: i64) {
        for (turn, seq) in self.turns.iter_mut().zip(&self.seqs) {
            if *seq <= up_to && turn.speaker == Speaker::Tools {
                turn.parts.iter_mut().for_each(drop_result);
            }
        }
        self.invalidate_counts();
    }

    /// Returns where a summary could split the conversation: before the newest turns, and never between
    /// tool calls and their results. The result is the number of turns to summarise and the `seq` of the last
    /// of them; `None` if there is too little to summarise.
    pub fn summary_split(&self, window: u64) -> Option<(usize, i64)> {
        let max_kept_tokens = (window as f64 * COMPACT_AT / KEPT_DIVISOR) as u64;
        let mut kept_tokens = 0;
        let mut split = self.turns.len();
        while split > 0 {
            kept_tokens += estimate_tokens(&self.turns[split - 1]);
            if kept_tokens > max_kept_tokens && split < self.turns.len() {
                break;
            }
            split -= 1;
        }
        // The split moves forward to a turn of the user or the assistant. All turns of earlier runs have the
        // same `seq`, so they are summarised together.
        let cannot_split_before = |split: usize| {
            self.turns[split].speaker == Speaker::Tools
                || (split > 0 && self.seqs[split] == self.seqs[split - 1])
        };
        while split < self.turns.len() && cannot_split_before(split) {
            split += 1;
        }
        (split >= 2 && split < self.turns.len()).then(|| (split, self.seqs[split - 1]))
    }

    /// Replaces the turns up to a `seq` with a summary.
    pub fn replace_with_summary(&mut self, text: &str, up_to: i64) {
        let summarized = self.seqs.iter().take_while(|seq| **seq <= up_to).count();
        self.turns.drain(..summarized);
        self.seqs.drain(..summarized);
        let summary =
            format!("Summary of the conversation so far, which is no longer shown in full:\n\n{text}");
        self.turns.insert(0, Turn::user(summary));
        self.seqs.insert(0, up_to);
        self.invalidate_counts();
    }
}

fn turn_from_message(message: &RecordedMessage) -> Option<Turn> {
    match (&message.content, message.role) {
        (MessageContent::Parts(parts), _) => answer_turn(parts),
        (MessageContent::Text { text, .. }, MessageRole::User) => Some(Turn::user(text.clone())),
        _ => None,
    }
}

/// Converts an answer to a turn; `None` if it has neither text nor calls, because providers refuse to read
/// an empty turn.
pub fn answer_turn(parts: &[Part]) -> Option<Turn> {
    let has_content = |part: &Part| match part {
        Part::Text { text, .. } => !text.trim().is_empty(),
        Part::Thought { .. } => false,
        Part::Call(_) | Part::Result(_) => true,
    };
    parts.iter().any(has_content).then(|| Turn::assistant(parts.to_vec()))
}

/// Converts a recorded call to the result that the model sees.
pub fn tool_result(call: &RecordedToolCall) -> ToolResult {
    ToolResult {
        id: call.id,
        name: call.tool.clone(),
        output: call.output.clone().unwrap_or(Value::Null),
        is_error: call.status == ToolCallStatus::Error,
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

/// Estimates the length of a value as JSON without serialising it.
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

/// Estimates the length of a part in bytes.
pub fn part_bytes(part: &Part) -> usize {
    match part {
        Part::Text { text, .. } | Part::Thought { text, .. } => text.len(),
        Part::Call(call) => call.name.len() + json_length(&call.input),
        Part::Result(result) => result.name.len() + json_length(&result.output),
    }
}

/// A token has about four bytes. The estimate is rather too high than too low.
fn estimate_tokens(turn: &Turn) -> u64 {
    turn.parts.iter().map(part_bytes).sum::<usize>() as u64 / 4 + 4
}
