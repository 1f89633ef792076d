use emergent_domain::chat::{Part, Turn};
use emergent_llm::{Anthropic, ChatRequest, ChatSettings, Provider as _};
use serde_json::{Value, json};

use super::{
    anthropic,
    conversation::{FIRST, SECOND, THIRD, call, request, result, tools, with_results},
    events, message, said, settings,
    support::{Asked, Provider, pieces, streamed},
    text,
};

/// Returns the request that a provider sends; `connect` creates the provider for a base URL.
async fn asked_by(connect: impl Fn(&str) -> Anthropic, request: ChatRequest<'_>) -> Asked {
    let answer = events(&message(&[(text(), &[said("Sunny.")])], "end_turn"));
    let provider = Provider::replying([streamed(pieces(&answer, usize::MAX))]).await;
    connect(&provider.url).chat(request, &mut |_| {}).await.unwrap();
    provider.asked().remove(0)
}

async fn messages(turns: &[Turn]) -> Value {
    asked_by(anthropic, request(turns, &[])).await.body["messages"].take()
}

#[tokio::test]
async fn a_conversation_with_tools_and_results_is_sent_whole() {
    let signed = json!({ "type": "thinking", "signature": "EqQB" });
    let hidden = json!({ "type": "redacted_thinking", "data": "EmwK" });
    let elsewhere = json!({ "gemini": { "thoughtSignature": "x" } });
    let thoughts = [("Hm.", signed), ("", hidden.clone()), ("Another model's.", elsewhere)]
        .map(|(text, provider)| Part::Thought { text: text.into(), provider: Some(provider) });
    let (turns, tools) = (with_results(thoughts.into()), tools());
    let body = asked_by(anthropic, request(&turns, &tools)).await.body;

    let cached = json!({ "type": "ephemeral" });
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let expected = json!({
        "model": "model-1",
        "max_tokens": 8192,
        "stream": true,
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": cached }],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "Weather and time?" }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Hm.", "signature": "EqQB" },
                hidden,
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": FIRST, "name": "get_weather", "input": { "city": "Oslo" } },
                { "type": "tool_use", "id": SECOND, "name": "get_time", "input": {} },
                { "type": "tool_use", "id": THIRD, "name": "get_weather",
                    "input": { "invalid_arguments": "{\"city\": Os" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": FIRST, "content": "{\"celsius\":21}", "is_error": false },
                { "type": "tool_result", "tool_use_id": SECOND, "content": "12:30", "is_error": false },
                { "type": "tool_result", "tool_use_id": THIRD,
                    "content": "the input is no JSON object", "is_error": true },
                { "type": "text", "text": "Hurry up.", "cache_control": cached },
            ] },
        ],
        "tools": [
            { "name": "get_weather", "description": "Runs get_weather.", "input_schema": schema },
            { "name": "get_time", "description": "Runs get_time.", "input_schema": schema, "cache_control": cached },
        ],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn results_stand_first_and_the_last_block_of_the_user_is_cached() {
    let turns = [
        Turn::user("Time?"),
        Turn::assistant(vec![call(FIRST, "get_time", json!({}))]),
        Turn::user("Hurry up."),
        Turn::results([result(FIRST, "get_time", json!("12:30"), false)]),
    ];
    let sent = messages(&turns).await;
    assert_eq!(sent[2]["content"][0]["type"], "tool_result");
    assert_eq!(sent[2]["content"][1]["text"], "Hurry up.");
    assert!(sent[2]["content"][0].get("cache_control").is_none());
    assert!(sent[2]["content"][1].get("cache_control").is_some());
}

#[tokio::test]
async fn empty_texts_and_unsigned_thoughts_are_left_out() {
    let thought = Part::Thought { text: "Hm.".into(), provider: None };
    let turns =
        [Turn::user("Hi"), Turn::assistant(vec![thought, Part::text("\n")]), Turn::user("Are you there?")];
    let sent = messages(&turns).await;
    assert_eq!(sent.as_array().unwrap().len(), 1, "what is empty does not part the user's words");
    assert_eq!(sent[0]["content"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn settings_of_the_answer_are_passed_on() {
    let turns = [Turn::user("Hi")];
    let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let request = ChatRequest {
        system: "",
        temperature: Some(0.5),
        max_tokens: Some(100),
        output_schema: Some(&schema),
        ..request(&turns, &[])
    };
    let body = asked_by(anthropic, request).await.body;
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["max_tokens"], 100);
    assert_eq!(body["output_config"], json!({ "format": { "type": "json_schema", "schema": schema } }));
    assert!(body.get("system").is_none() && body.get("tools").is_none());
    // It refuses a request with a schema of which it supports only a part.
    let open = json!({ "type": "object" });
    let request = ChatRequest { output_schema: Some(&open), ..request };
    let body = asked_by(anthropic, request).await.body;
    assert!(body.get("output_config").is_none(), "{body}");
}

#[tokio::test]
async fn the_version_says_how_the_key_is_sent() {
    let turns = [Turn::user("Hi")];
    for tail in ["", "/v1", "/v1/"] {
        let asked = asked_by(|url| anthropic(&format!("{url}{tail}")), request(&turns, &[])).await;
        assert!(asked.head.starts_with("POST /v1/messages "), "{tail}: {}", asked.head);
        assert!(asked.head.contains("x-api-key: key-1"));
        assert!(!asked.head.contains("authorization"));
        assert!(asked.head.contains("anthropic-version: 2023-06-01"));
    }
    let newer = |url: &str| anthropic(url).with_api_version("2026-10-21", &settings(url)).unwrap();
    let asked = asked_by(newer, request(&turns, &[])).await;
    assert!(asked.head.contains("anthropic-version: 2026-10-21"));
    assert!(asked.head.contains("authorization: bearer key-1"));
    assert!(!asked.head.contains("2023-06-01") && !asked.head.contains("x-api-key"));
    let wrong =
        anthropic("http://x").with_api_version("newest", &settings("http://x")).err().unwrap().to_string();
    assert!(wrong.contains("EMERGENT_ANTHROPIC_VERSION"), "{wrong}");
}

#[tokio::test]
async fn anthropic_itself_is_not_asked_without_a_key() {
    let error = Anthropic::new(&ChatSettings::default()).err().unwrap().to_string();
    assert!(error.contains("ANTHROPIC_API_KEY"), "{error}");
}
