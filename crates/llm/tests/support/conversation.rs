//! A conversation with all kinds of parts, and helpers of all chat tests.

use emergent_domain::{
    chat::{Part, ToolCall, ToolResult, Turn},
    ids::ToolCallId,
};
use emergent_llm::{Answer, ChatRequest, Delta, Error, Provider, RequestMeta, ToolSpec};
use serde_json::{Value, json};

pub const FIRST: &str = "01900000-0000-7000-8000-000000000001";
pub const SECOND: &str = "01900000-0000-7000-8000-000000000002";
pub const THIRD: &str = "01900000-0000-7000-8000-000000000003";

pub fn request<'a>(turns: &'a [Turn], tools: &'a [ToolSpec]) -> ChatRequest<'a> {
    ChatRequest {
        model: "model-1",
        system: "Be brief.",
        turns,
        tools,
        temperature: None,
        max_tokens: None,
        output_schema: None,
        cache: None,
        meta: RequestMeta::default(),
    }
}

pub fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: format!("Runs {name}.").into(),
        input_schema: json!({ "type": "object", "properties": { "city": { "type": "string" } } }).into(),
    };
    vec![tool("get_weather"), tool("get_time")]
}

fn id(text: &str) -> ToolCallId {
    text.parse().unwrap()
}

pub fn call(at: &str, name: &str, input: Value) -> Part {
    Part::Call(ToolCall { id: id(at), name: name.into(), input, provider: None })
}

pub fn result(at: &str, name: &str, output: Value, is_error: bool) -> ToolResult {
    ToolResult { id: id(at), name: name.into(), output, is_error }
}

/// A question, three concurrent calls of which one is not JSON, their results, and a user text in
/// between.
pub fn with_results(thoughts: Vec<Part>) -> Vec<Turn> {
    let mut parts = thoughts;
    parts.extend([
        Part::text("I look."),
        call(FIRST, "get_weather", json!({ "city": "Oslo" })),
        call(SECOND, "get_time", json!({})),
        call(THIRD, "get_weather", json!("{\"city\": Os")),
    ]);
    vec![
        Turn::user("Weather and time?"),
        Turn::assistant(parts),
        Turn::results([
            result(FIRST, "get_weather", json!({ "celsius": 21 }), false),
            result(SECOND, "get_time", json!("12:30"), false),
            result(THIRD, "get_weather", json!("the input is no JSON object"), true),
        ]),
        Turn::user("Hurry up."),
    ]
}

/// Calls the provider and collects the deltas.
pub async fn ask(provider: &dyn Provider, turns: &[Turn]) -> (Result<Answer, Error>, Vec<Delta>) {
    let mut deltas = vec![];
    let result = provider.chat(request(turns, &[]), &mut |delta| deltas.push(delta)).await;
    (result, deltas)
}

/// Returns the text of all deltas, with thoughts in brackets.
pub fn spoken(deltas: &[Delta]) -> String {
    let piece = |delta: &Delta| match delta {
        Delta::Text(text) => text.clone(),
        Delta::Thought(text) => format!("[{text}]"),
        Delta::Restart { why } => panic!("nobody begins anew in here: {why}"),
        Delta::Retry(retry) => panic!("nothing is retried in here: {retry:?}"),
    };
    deltas.iter().map(piece).collect()
}

/// Renders the parts of an answer without ids.
pub fn outline(parts: &[Part]) -> Vec<Value> {
    let part = |part: &Part| match part {
        Part::Text { text, .. } => json!(text),
        Part::Thought { text, provider } => json!({ "thought": text, "provider": provider }),
        Part::Call(call) => json!([call.name, call.input]),
        Part::Result(_) => panic!("a model gives no results"),
    };
    parts.iter().map(part).collect()
}

/// Returns the class of an error as one word.
pub fn class(error: &Error) -> &'static str {
    match error {
        Error::RateLimited { .. } => "rate limited",
        Error::Overloaded { .. } => "overloaded",
        Error::Auth { .. } => "auth",
        Error::BadRequest { .. } => "bad request",
        Error::ContextTooLong { .. } => "context too long",
        Error::Malformed { .. } => "malformed",
        _ => "other",
    }
}
