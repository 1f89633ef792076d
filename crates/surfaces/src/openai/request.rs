//! Requests for a completion: which part of them a run is started with, and what is refused.

use emergent_domain::{client_tool::ClientTool, conversation::HistoryTurn, invalid::Invalid};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    response_format,
    tools::{Tool, ToolMessage, client_tools},
    turns::Turns,
};

/// The maximum number of messages of a request.
pub const MAX_MESSAGES: usize = 1_000;
/// The maximum size of the text of all messages of a request.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

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
            /// Tools of the caller, beside those of the agent. The caller executes their calls and sends the results
            /// with its next request.
            #[serde(default)]
            #[schema(max_items = 128)]
            pub tools: Option<Vec<Tool>>,
            /// `auto` or `none`: whether the agent is offered the `tools`.
            #[serde(default)]
            pub tool_choice: Option<Value>,
            /// Not supported: use `tools`.
            #[serde(default)]
            pub functions: Option<Vec<Value>>,
            /// `{ "type": "text" }`; `json_schema`, whose schema the answer must match, instead of that of the agent;
            /// or `json_object`.
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
    safety_identifier seed service_tier stop store temperature top_logprobs top_p user verbosity
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
    /// `system`, `developer`, `user`, `assistant` or `tool`.
    pub role: String,
    #[serde(default)]
    pub content: Option<Content>,
    /// The calls of tools of the caller, in a message of the assistant.
    #[serde(default)]
    pub tool_calls: Option<Vec<Value>>,
    /// The call whose result this message is, in a message of `tool`.
    #[serde(default)]
    pub tool_call_id: Option<String>,
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
    pub client_tools: Vec<ClientTool>,
    /// The schema that the answer must match; `None` for that of the agent, if it has one.
    pub output_schema: Option<Value>,
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

    /// Returns the results of tools with which the request ends, if it ends with such messages. They belong to the run
    /// that made the calls, if this server knows it.
    pub fn results(&self) -> Result<Vec<ToolMessage>, Invalid> {
        self.check()?;
        let is_result = |(_, message): &(usize, &Message)| message.role == "tool";
        let last = self.messages.iter().enumerate().rev().take_while(is_result);
        let mut results = Vec::new();
        for (index, message) in last {
            let text = message_text(message, index)?;
            results.push(ToolMessage::new(index, tool_call_id(message, index)?, text));
        }
        results.reverse();
        Ok(results)
    }

    /// Returns what a run is started with. The last messages of the user are the input, those before are the
    /// conversation so far, and system messages are context.
    pub fn into_start(self) -> Result<Start, Invalid> {
        self.check()?;
        let tools = self.tools.as_deref().unwrap_or_default();
        let client_tools = client_tools(tools, self.tool_choice.as_ref())?;
        let output_schema = response_format::output_schema(self.response_format.as_ref())?;
        let (mut instructions, mut turns) = (Vec::new(), Turns::default());
        for (index, message) in self.messages.into_iter().enumerate() {
            let text = message_text(&message, index)?;
            match message.role.as_str() {
                "system" | "developer" => instructions.push(text),
                "user" => turns.push_user(text),
                "assistant" => {
                    let calls = message.tool_calls.unwrap_or_default();
                    // The text of an answer that only calls tools is empty.
                    if !text.is_empty() || calls.is_empty() {
                        turns.push_assistant(text);
                    }
                    calls.iter().for_each(|call| turns.push_call(call));
                }
                "tool" => turns.push_result(tool_call_id(&message, index)?, &text),
                _ => {
                    let reason = "must be `system`, `developer`, `user`, `assistant` or `tool`";
                    return Err(Invalid::new(format!("messages[{index}].role"), reason));
                }
            }
        }
        let (input, history) = turns.finish()?;
        instructions.retain(|text| !text.trim().is_empty());
        let context =
            (!instructions.is_empty()).then(|| json!({ "instructions": instructions.join("\n\n") }));
        Ok(Start { input, context, history, client_tools, output_schema })
    }

    /// Refuses what an agent cannot do. What is only ignored would look as if it worked.
    fn check(&self) -> Result<(), Invalid> {
        if self.functions.as_ref().is_some_and(|list| !list.is_empty()) {
            return Err(Invalid::new("functions", "is not supported: use `tools`"));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(Invalid::new("n", "must be 1: one run gives one answer"));
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
        let calls = self.tool_calls.iter().flatten().map(|call| call.to_string().len()).sum::<usize>();
        calls + self.content_bytes()
    }

    fn content_bytes(&self) -> usize {
        match &self.content {
            None => 0,
            Some(Content::Text(text)) => text.len(),
            Some(Content::Parts(parts)) => {
                parts.iter().filter_map(|part| part.text.as_ref()).map(String::len).sum()
            }
        }
    }
}

fn tool_call_id(message: &Message, index: usize) -> Result<&str, Invalid> {
    message.tool_call_id.as_deref().ok_or_else(|| {
        let reason = "is required: it says which call the result belongs to";
        Invalid::new(format!("messages[{index}].tool_call_id"), reason)
    })
}

fn call_has_nul(call: &Value) -> bool {
    let texts = ["/id", "/function/name", "/function/arguments"].map(|path| call.pointer(path));
    texts.into_iter().flatten().filter_map(Value::as_str).any(|text| text.contains('\0'))
}

fn message_text(message: &Message, index: usize) -> Result<String, Invalid> {
    if message.tool_calls.iter().flatten().any(call_has_nul) {
        return Err(Invalid::new(format!("messages[{index}].tool_calls"), "has a NUL character"));
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
            client_tools: Vec::new(),
            output_schema: None,
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
        let began = "(The assistant began the conversation.)";
        assert_eq!(found.history, [turn(began, "Hello."), turn("a\n\nb", "c\n\n")]);
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
        check(json!({ "tools": [{ "type": "function" }] }), "tools[0].function");
        check(json!({ "functions": [{ "name": "f" }] }), "functions");
        // Without a tool, none can be called.
        check(json!({ "tools": [], "tool_choice": "required" }), "tool_choice");
        check(json!({ "tool_choice": "required" }), "tool_choice");
        check(json!({ "n": 2 }), "n");
        check(json!({ "response_format": { "type": "grammar" } }), "response_format.type");
        check(json!({ "modalities": ["text", "audio"] }), "modalities");
        check(json!({ "messages": [] }), "messages");
        check(json!({ "messages": [{ "role": "user", "content": " " }] }), "messages");
        check(
            json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }] }),
            "messages",
        );
        check(json!({ "messages": [{ "role": "robot", "content": "a" }] }), "messages[0].role");
        check(json!({ "messages": [{ "role": "function", "content": "a" }] }), "messages[0].role");
        check(json!({ "messages": [{ "role": "tool", "content": "a" }] }), "messages[0].tool_call_id");
        check(json!({ "messages": [{ "role": "assistant", "tool_calls": [{}] }] }), "messages");
        let nul = json!([{ "function": { "arguments": "\u{0}" } }]);
        check(json!({ "messages": [{ "role": "assistant", "tool_calls": nul }] }), "messages[0].tool_calls");
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
    fn the_results_at_the_end_of_a_request_are_those_of_its_last_calls() {
        let call = emergent_domain::ids::ToolCallId::new();
        let id = super::super::tools::call_id(call);
        let messages = json!([
            { "role": "user", "content": "Weather?" },
            { "role": "tool", "tool_call_id": "old", "content": "x" },
            { "role": "assistant", "content": null, "tool_calls": [{ "id": id, "function": { "name": "look" } }] },
            { "role": "tool", "tool_call_id": id, "content": [{ "type": "text", "text": "sun" }] },
            { "role": "tool", "tool_call_id": "toolu_1", "content": "rain" },
        ]);
        let request = |messages: Value| -> ChatRequest {
            serde_json::from_value(json!({ "model": "finder", "messages": messages })).unwrap()
        };
        let results = request(messages.clone()).results().unwrap();
        let found: Vec<_> =
            results.iter().map(|result| (result.index, result.call, result.text.as_str())).collect();
        assert_eq!(found, [(3, Some(call), "sun"), (4, None, "rain")]);
        let mut later = messages;
        later.as_array_mut().unwrap().push(json!({ "role": "user", "content": "And now?" }));
        assert_eq!(request(later).results().unwrap(), []);
    }

    #[test]
    fn fields_about_sampling_are_accepted_and_unknown_ones_are_not() {
        let hi = json!([{ "role": "user", "content": "Hi." }]);
        let known = json!({ "messages": hi, "temperature": 0.5, "max_tokens": 5, "stop": ["x"], "tools": [],
            "tool_choice": "none", "response_format": { "type": "text" }, "n": 1, "seed": null, "user": "u" });
        assert_eq!(start(known).unwrap().input, "Hi.");
        // Clients without tools send empty lists, which ask for nothing.
        for lists in
            [json!({ "functions": [] }), json!({ "tools": [], "functions": [], "tool_choice": "auto" })]
        {
            let mut body = json!({ "messages": hi });
            for (name, value) in lists.as_object().unwrap() {
                body[name] = value.clone();
            }
            assert_eq!(start(body).unwrap().client_tools, [], "{lists}");
        }
        let unknown = start(json!({ "messages": hi, "temprature": 1 })).unwrap_err();
        assert!(unknown.contains("temprature"), "{unknown}");
    }
}
