//! Requests for a completion: which part of them a run is started with, and what is refused.

use emergent_domain::{conversation::HistoryTurn, invalid::Invalid};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The maximum number of messages of a request.
pub const MAX_MESSAGES: usize = 1_000;
/// The maximum size of the text of all messages of a request.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Stands for the message of a user where a conversation begins with the assistant.
const NO_QUESTION: &str = "(The assistant began the conversation.)";
/// Stands for an answer that has no text.
const NO_ANSWER: &str = "(no answer)";

macro_rules! chat_request {
    ($($ignored:ident)*) => {
        /// A request for a completion. Fields that choose how a model samples are accepted and have no effect: the
        /// definition of the agent decides.
        #[derive(Debug, Clone, Default, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = OpenAiChatRequest)]
        pub struct ChatRequest {
            /// The name of an external agent.
            pub model: String,
            /// The conversation. The last message is what the agent is asked.
            #[schema(min_items = 1, max_items = 1000)]
            pub messages: Vec<Message>,
            #[serde(default)]
            pub stream: Option<bool>,
            #[serde(default)]
            pub stream_options: Option<StreamOptions>,
            /// Only 1.
            #[serde(default)]
            pub n: Option<u64>,
            /// Not supported: an agent has its own tools.
            #[serde(default)]
            pub tools: Option<Vec<Value>>,
            /// Not supported, like `tools`.
            #[serde(default)]
            pub functions: Option<Vec<Value>>,
            /// Only `{ "type": "text" }`.
            #[serde(default)]
            pub response_format: Option<Value>,
            /// Only `["text"]`.
            #[serde(default)]
            pub modalities: Option<Vec<String>>,
            $(
                /// Has no effect.
                #[serde(default)]
                pub $ignored: Option<Value>,
            )*
        }
    };
}

chat_request! {
    audio frequency_penalty function_call logit_bias logprobs max_completion_tokens max_tokens metadata
    parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort
    safety_identifier seed service_tier stop store temperature tool_choice top_logprobs top_p user verbosity
    web_search_options
}

#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = OpenAiStreamOptions)]
pub struct StreamOptions {
    /// Sends the usage before the end of the stream.
    #[serde(default)]
    pub include_usage: Option<bool>,
}

/// One message of a conversation.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = OpenAiMessage)]
pub struct Message {
    /// `system`, `developer`, `user` or `assistant`.
    pub role: String,
    #[serde(default)]
    pub content: Option<Content>,
    #[serde(default)]
    pub tool_calls: Option<Vec<Value>>,
}

/// The text of a message, whole or in parts.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = OpenAiContent)]
pub enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Debug, Clone, Deserialize, ToSchema)]
#[schema(as = OpenAiContentPart)]
pub struct ContentPart {
    /// Only `text`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub text: Option<String>,
}

/// What a run is started with.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub input: String,
    /// What the request says to the model besides the conversation. The agent reads it below the input: its own system
    /// prompt stays as it is.
    pub context: Option<Value>,
    pub history: Vec<HistoryTurn>,
}

impl ChatRequest {
    /// Whether the answer is streamed.
    pub fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    /// Whether a stream ends with the usage.
    pub fn includes_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage == Some(true))
    }

    /// Returns what a run is started with. The last messages of the user are the input, those before are the
    /// conversation so far, and system messages are context.
    pub fn into_start(self) -> Result<Start, Invalid> {
        self.check()?;
        let (mut instructions, mut turns) = (Vec::new(), Turns::default());
        for (index, message) in self.messages.into_iter().enumerate() {
            let text = message_text(&message, index)?;
            match message.role.as_str() {
                "system" | "developer" => instructions.push(text),
                "user" => turns.push_user(text),
                "assistant" => turns.push_assistant(text),
                "tool" | "function" => return Err(client_tools(format!("messages[{index}].role"))),
                _ => {
                    let reason = "must be `system`, `developer`, `user` or `assistant`";
                    return Err(Invalid::new(format!("messages[{index}].role"), reason));
                }
            }
        }
        let (input, history) = turns.finish()?;
        instructions.retain(|text| !text.trim().is_empty());
        let context =
            (!instructions.is_empty()).then(|| json!({ "instructions": instructions.join("\n\n") }));
        Ok(Start { input, context, history })
    }

    /// Refuses what an agent cannot do. What is only ignored would look as if it worked.
    fn check(&self) -> Result<(), Invalid> {
        for (field, list) in [("tools", &self.tools), ("functions", &self.functions)] {
            if list.as_ref().is_some_and(|list| !list.is_empty()) {
                return Err(client_tools(field));
            }
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(Invalid::new("n", "must be 1: one run gives one answer"));
        }
        let format = self.response_format.as_ref().and_then(|format| format["type"].as_str());
        if self.response_format.as_ref().is_some_and(|format| !format.is_null()) && format != Some("text") {
            return Err(Invalid::new("response_format", "must be `{ \"type\": \"text\" }`"));
        }
        if self.modalities.as_ref().is_some_and(|kinds| kinds.iter().any(|kind| kind != "text")) {
            return Err(Invalid::new("modalities", "must be `[\"text\"]`"));
        }
        if self.messages.len() > MAX_MESSAGES {
            return Err(Invalid::new("messages", format!("has more than {MAX_MESSAGES} messages")));
        }
        let bytes: usize = self.messages.iter().map(Message::text_bytes).sum();
        if bytes > MAX_TEXT_BYTES {
            return Err(Invalid::new("messages", format!("has more than {MAX_TEXT_BYTES} bytes of text")));
        }
        Ok(())
    }
}

impl Message {
    fn text_bytes(&self) -> usize {
        match &self.content {
            None => 0,
            Some(Content::Text(text)) => text.len(),
            Some(Content::Parts(parts)) => {
                parts.iter().filter_map(|part| part.text.as_ref()).map(String::len).sum()
            }
        }
    }
}

fn client_tools(field: impl Into<String>) -> Invalid {
    Invalid::new(field, "is not supported: tools of the caller; give the agent tools in its definition")
}

fn message_text(message: &Message, index: usize) -> Result<String, Invalid> {
    if message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty()) {
        return Err(client_tools(format!("messages[{index}].tool_calls")));
    }
    let text = match &message.content {
        None => String::new(),
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Parts(parts)) => {
            let mut text = String::new();
            for (number, part) in parts.iter().enumerate() {
                if part.kind != "text" {
                    let reason = format!("is `{}`, and agents read only `text`", part.kind);
                    return Err(Invalid::new(format!("messages[{index}].content[{number}].type"), reason));
                }
                text.push_str(part.text.as_deref().unwrap_or_default());
            }
            text
        }
    };
    if text.contains('\0') {
        return Err(Invalid::new(format!("messages[{index}].content"), "has a NUL character"));
    }
    Ok(text)
}

/// Joins messages to questions with their answers. Messages of one role in a row are one message.
#[derive(Default)]
struct Turns {
    complete: Vec<HistoryTurn>,
    question: Option<String>,
    answer: Option<String>,
}

impl Turns {
    fn push_user(&mut self, text: String) {
        self.complete_turn();
        join(&mut self.question, text);
    }

    fn push_assistant(&mut self, text: String) {
        join(&mut self.answer, text);
    }

    /// Ends a turn that has an answer.
    fn complete_turn(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        let with_text = |text: String, empty: &str| match text.trim().is_empty() {
            true => empty.to_owned(),
            false => text,
        };
        let question = with_text(self.question.take().unwrap_or_default(), NO_QUESTION);
        self.complete.push(HistoryTurn { question, answer: with_text(answer, NO_ANSWER) });
    }

    fn finish(self) -> Result<(String, Vec<HistoryTurn>), Invalid> {
        match self.question.filter(|text| self.answer.is_none() && !text.trim().is_empty()) {
            Some(input) => Ok((input, self.complete)),
            None => {
                Err(Invalid::new("messages", "must end with a message of the user, which says what to do"))
            }
        }
    }
}

fn join(text: &mut Option<String>, more: String) {
    match text {
        Some(text) => {
            text.push_str("\n\n");
            text.push_str(&more);
        }
        None => *text = Some(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(body: Value) -> Result<Start, String> {
        let mut whole = json!({ "model": "finder" });
        for (field, value) in body.as_object().unwrap() {
            whole[field] = value.clone();
        }
        let request: ChatRequest = serde_json::from_value(whole).map_err(|error| error.to_string())?;
        request.into_start().map_err(|invalid| invalid.problems[0].field.clone())
    }

    fn turn(question: &str, answer: &str) -> HistoryTurn {
        HistoryTurn { question: question.to_owned(), answer: answer.to_owned() }
    }

    #[test]
    fn earlier_messages_are_the_conversation_and_system_messages_are_context() {
        let found = start(json!({ "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Which colour?" },
            { "role": "assistant", "content": "Blue.", "reasoning_content": "Calls `search`." },
            { "role": "developer", "content": [{ "type": "text", "text": "In English." }] },
            { "role": "user", "content": [{ "type": "text", "text": "Why" }, { "type": "text", "text": "?" }] },
        ]}));
        let expected = Start {
            input: "Why?".to_owned(),
            context: Some(json!({ "instructions": "Be brief.\n\nIn English." })),
            history: vec![turn("Which colour?", "Blue.")],
        };
        assert_eq!(found, Ok(expected));
    }

    #[test]
    fn messages_of_one_role_in_a_row_are_one_message() {
        let found = start(json!({ "messages": [
            { "role": "assistant", "content": "Hello." },
            { "role": "user", "content": "a" },
            { "role": "user", "content": "b" },
            { "role": "assistant", "content": "c" },
            { "role": "assistant", "content": null },
            { "role": "user", "content": "d" },
            { "role": "user", "content": "e" },
        ]}));
        let found = found.unwrap();
        assert_eq!(found.history, [turn(NO_QUESTION, "Hello."), turn("a\n\nb", "c\n\n")]);
        assert_eq!((found.input.as_str(), found.context), ("d\n\ne", None));
    }

    #[test]
    fn what_an_agent_cannot_do_is_refused_by_name() {
        let hi = json!([{ "role": "user", "content": "Hi." }]);
        let check = |more: Value, field: &str| {
            let mut body = json!({ "messages": hi });
            for (name, value) in more.as_object().unwrap() {
                body[name] = value.clone();
            }
            assert_eq!(start(body), Err(field.to_owned()), "{more}");
        };
        check(json!({ "tools": [{ "type": "function" }] }), "tools");
        check(json!({ "functions": [{ "name": "f" }] }), "functions");
        check(json!({ "n": 2 }), "n");
        check(json!({ "response_format": { "type": "json_object" } }), "response_format");
        check(json!({ "modalities": ["text", "audio"] }), "modalities");
        check(json!({ "messages": [] }), "messages");
        check(json!({ "messages": [{ "role": "user", "content": " " }] }), "messages");
        check(
            json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }] }),
            "messages",
        );
        check(json!({ "messages": [{ "role": "robot", "content": "a" }] }), "messages[0].role");
        check(json!({ "messages": [{ "role": "tool", "content": "a" }] }), "messages[0].role");
        check(json!({ "messages": [{ "role": "assistant", "tool_calls": [{}] }] }), "messages[0].tool_calls");
        check(json!({ "messages": [{ "role": "user", "content": "a\u{0}" }] }), "messages[0].content");
        let image = json!([{ "type": "text", "text": "a" }, { "type": "image_url", "image_url": {} }]);
        check(json!({ "messages": [{ "role": "user", "content": image }] }), "messages[0].content[1].type");
        check(
            json!({ "messages": vec![json!({ "role": "user", "content": "a" }); MAX_MESSAGES + 1] }),
            "messages",
        );
        check(
            json!({ "messages": [{ "role": "user", "content": "a".repeat(MAX_TEXT_BYTES + 1) }] }),
            "messages",
        );
    }

    #[test]
    fn fields_about_sampling_are_accepted_and_unknown_ones_are_not() {
        let hi = json!([{ "role": "user", "content": "Hi." }]);
        let known = json!({ "messages": hi, "temperature": 0.5, "max_tokens": 5, "stop": ["x"], "tools": [],
            "tool_choice": "none", "response_format": { "type": "text" }, "n": 1, "seed": null, "user": "u" });
        assert_eq!(start(known).unwrap().input, "Hi.");
        let unknown = start(json!({ "messages": hi, "temprature": 1 })).unwrap_err();
        assert!(unknown.contains("temprature"), "{unknown}");
    }
}
