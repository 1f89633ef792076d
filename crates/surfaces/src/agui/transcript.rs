//! The messages of a run, as a client has them after the events of the stream.

use std::collections::HashMap;

use emergent_domain::chat::ToolCall;
use serde_json::{Value, json};

/// The maximum size of a snapshot of messages. A larger one is not sent: the client has the messages already.
const MAX_BYTES: usize = 4 << 20;

/// The messages of the request, and those that the stream told of since.
#[derive(Debug, Clone)]
pub(super) struct Transcript {
    messages: Vec<Value>,
    positions: HashMap<String, usize>,
    bytes: usize,
}

impl Transcript {
    pub fn new(messages: Vec<Value>) -> Self {
        let bytes = messages.iter().map(|message| message.to_string().len()).sum();
        let id = |(index, message): (usize, &Value)| Some((message["id"].as_str()?.to_owned(), index));
        let positions = messages.iter().enumerate().filter_map(id).collect();
        Self { messages, positions, bytes }
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
        self.push(id, message);
    }

    pub fn push_result(&mut self, id: &str, call: &str, content: &str) {
        self.push(id, json!({ "id": id, "role": "tool", "toolCallId": call, "content": content }));
    }

    /// Whether the client has a message with the result of this call.
    pub fn has_result(&self, call: &str) -> bool {
        self.messages.iter().any(|message| message["role"] == "tool" && message["toolCallId"] == call)
    }

    /// Adds a message, or replaces the one with its id.
    fn push(&mut self, id: &str, message: Value) {
        self.bytes += message.to_string().len();
        match self.positions.get(id) {
            Some(index) => self.messages[*index] = message,
            None => {
                self.positions.insert(id.to_owned(), self.messages.len());
                self.messages.push(message);
            }
        }
    }

    /// All messages; `None` if they are too large for one event.
    pub fn snapshot(&self) -> Option<Vec<Value>> {
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
        let messages = transcript.snapshot().unwrap();
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
