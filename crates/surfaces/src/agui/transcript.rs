//! The messages of a run, as a client has them after the events of the stream.

use std::collections::{HashMap, HashSet};

use emergent_domain::{chat::ToolCall, json::JsonText};
use serde_json::{Value, json};

/// The maximum size of a snapshot of messages. A larger one is not sent: the client has the messages already.
const MAX_BYTES: usize = 1 << 20;

/// The messages of the request, and those that the stream told of since.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    /// Empty when they are too large for a snapshot: nobody needs them then.
    messages: Vec<JsonText>,
    positions: HashMap<String, usize>,
    /// The calls whose results the client has.
    results: HashSet<String>,
    bytes: usize,
}

impl Transcript {
    pub fn new(messages: Vec<Value>) -> Self {
        let mut transcript =
            Self { messages: Vec::new(), positions: HashMap::new(), results: HashSet::new(), bytes: 0 };
        for message in &messages {
            transcript.push(message["id"].as_str(), message);
        }
        transcript
    }

    pub fn push_answer(&mut self, id: &str, text: &str, calls: &[&ToolCall]) {
        let mut message = json!({ "id": id, "role": "assistant" });
        if !text.is_empty() {
            message["content"] = json!(text);
        }
        if !calls.is_empty() {
            let call = |call: &&ToolCall| {
                let function = json!({ "name": call.name, "arguments": call.input.to_string() });
                json!({ "id": call.id, "type": "function", "function": function })
            };
            message["toolCalls"] = calls.iter().map(call).collect();
        }
        self.push(Some(id), &message);
    }

    pub fn push_result(&mut self, id: &str, call: &str, content: &str) {
        self.push(Some(id), &json!({ "id": id, "role": "tool", "toolCallId": call, "content": content }));
    }

    /// Whether the client has a message with the result of this call.
    pub fn has_result(&self, call: &str) -> bool {
        self.results.contains(call)
    }

    /// Adds a message, or replaces the one with its id.
    fn push(&mut self, id: Option<&str>, message: &Value) {
        if let Some(call) = message["toolCallId"].as_str().filter(|_| message["role"] == "tool") {
            self.results.insert(call.to_owned());
        }
        if self.bytes > MAX_BYTES {
            return;
        }
        let text = JsonText::from(message);
        self.bytes += text.as_str().len();
        if self.bytes > MAX_BYTES {
            (self.messages, self.positions) = Default::default();
            return;
        }
        match id.and_then(|id| self.positions.get(id)) {
            Some(index) => self.messages[*index] = text,
            None => {
                if let Some(id) = id {
                    self.positions.insert(id.to_owned(), self.messages.len());
                }
                self.messages.push(text);
            }
        }
    }

    /// The memory of the messages.
    pub fn bytes(&self) -> usize {
        if self.bytes > MAX_BYTES { 0 } else { self.bytes }
    }

    /// All messages; `None` if they are too large for one event.
    pub fn snapshot(&self) -> Option<Vec<JsonText>> {
        (self.bytes <= MAX_BYTES).then(|| self.messages.clone())
    }
}

#[cfg(test)]
mod tests {
    use emergent_domain::ids::ToolCallId;

    use super::*;

    #[test]
    fn a_message_is_once_in_a_snapshot_and_keeps_its_place() {
        let mut transcript = Transcript::new(vec![
            json!({ "id": "u", "role": "user", "content": "Go." }),
            json!({ "id": "a", "role": "assistant", "content": "O" }),
            json!({ "role": "user", "content": "no id" }),
        ]);
        let call =
            ToolCall { id: ToolCallId::new(), name: "f".into(), input: json!({ "x": 1 }), provider: None };
        transcript.push_answer("a", "One.", &[&call]);
        transcript.push_result("r", "c", "done");
        let messages: Vec<Value> = transcript.snapshot().unwrap().iter().map(JsonText::to_value).collect();
        assert_eq!(messages.len(), 4);
        assert!(transcript.has_result("c") && !transcript.has_result("r"));
        assert_eq!(messages[1]["content"], "One.");
        assert_eq!(messages[1]["toolCalls"][0]["function"], json!({ "name": "f", "arguments": "{\"x\":1}" }));
        assert_eq!(messages[3], json!({ "id": "r", "role": "tool", "toolCallId": "c", "content": "done" }));
    }

    #[test]
    fn what_is_too_large_is_not_sent() {
        let mut transcript = Transcript::new(Vec::new());
        transcript.push_result("r", "c", &"a".repeat(MAX_BYTES));
        assert_eq!(transcript.snapshot(), None);
    }
}
