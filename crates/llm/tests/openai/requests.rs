use emergent_domain::chat::{Part, Turn};
use emergent_llm::{ChatRequest, ChatSettings, OpenAi, Provider as _, RequestCache};
use serde_json::{Value, json};

use super::{
    conversation::{FIRST, SECOND, THIRD, request, tools, with_results},
    delta, finish, settings,
    support::{Asked, Provider, pieces, streamed},
    whole,
};

/// Returns the request that a provider sends; `connect` creates the provider for a base URL.
async fn asked(connect: impl Fn(&str) -> OpenAi, request: ChatRequest<'_>) -> Asked {
    let text = whole(&[delta(json!({ "content": "Sunny." })), finish("stop")]);
    let provider = Provider::replying([streamed(pieces(&text, usize::MAX))]).await;
    connect(&provider.url).chat(request, &mut |_| {}).await.unwrap();
    provider.asked().remove(0)
}

fn openai(url: &str) -> OpenAi {
    OpenAi::new(&settings(url)).unwrap()
}

#[tokio::test]
async fn a_conversation_with_tools_and_results_is_sent_whole() {
    let thought = Part::Thought { text: "Hm.".into(), provider: Some(json!({ "type": "thinking" })) };
    let (turns, tools) = (with_results(vec![thought]), tools());
    let body = asked(openai, request(&turns, &tools)).await.body;
    let call = |id: &str, name: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let expected = json!({
        "model": "model-1",
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "Weather and time?" },
            { "role": "assistant", "content": "I look.", "tool_calls": [
                call(FIRST, "get_weather", r#"{"city":"Oslo"}"#),
                call(SECOND, "get_time", "{}"),
                call(THIRD, "get_weather", r#"{"invalid_arguments":"{\"city\": Os"}"#),
            ] },
            { "role": "tool", "tool_call_id": FIRST, "content": r#"{"celsius":21}"# },
            { "role": "tool", "tool_call_id": SECOND, "content": "12:30" },
            { "role": "tool", "tool_call_id": THIRD, "content": r#"{"error":"the input is no JSON object"}"# },
            { "role": "user", "content": "Hurry up." },
        ],
        "tools": [
            { "type": "function", "function": { "name": "get_weather", "description": "Runs get_weather.", "parameters": parameters } },
            { "type": "function", "function": { "name": "get_time", "description": "Runs get_time.", "parameters": parameters } },
        ],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn an_assistant_who_only_called_has_no_content_and_one_who_only_thought_is_left_out() {
    let call = super::conversation::call(FIRST, "get_time", json!({}));
    let thought = Part::Thought { text: "Hm.".into(), provider: None };
    let turns = [Turn::user("Hi"), Turn::assistant(vec![call]), Turn::assistant(vec![thought])];
    let messages = asked(openai, request(&turns, &[])).await.body["messages"].take();
    assert_eq!(messages.as_array().unwrap().len(), 3);
    assert_eq!(messages[2]["content"], Value::Null);
}

#[tokio::test]
async fn settings_of_the_answer_are_passed_on() {
    let turns = [Turn::user("Hi")];
    let loose = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let request = ChatRequest {
        system: "",
        temperature: Some(0.5),
        max_tokens: Some(100),
        output_schema: Some(&loose),
        ..request(&turns, &[])
    };
    let body = asked(openai, request).await.body;
    assert_eq!(body["temperature"], 0.5);
    // Most servers other than OpenAI's own know only the older name.
    assert_eq!(body["max_tokens"], 100);
    let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": loose, "strict": false } });
    assert_eq!(body["response_format"], format);
    assert_eq!(body["messages"], json!([{ "role": "user", "content": "Hi" }]));
    assert!(body.get("tools").is_none());
}

#[tokio::test]
async fn a_schema_that_the_server_may_not_support_is_left_out() {
    let (turns, tools) = ([Turn::user("Hi")], tools());
    let (object, list) = (json!({ "type": "object" }), json!({ "type": "array" }));
    // This is not OpenAI's own server: the grammar of the schema would make calls impossible.
    let beside_tools = ChatRequest { output_schema: Some(&object), ..request(&turns, &tools) };
    assert!(asked(openai, beside_tools).await.body.get("response_format").is_none());
    let no_object = ChatRequest { output_schema: Some(&list), ..request(&turns, &[]) };
    assert!(asked(openai, no_object).await.body.get("response_format").is_none());
}

#[tokio::test]
async fn a_conversation_sent_again_longer_is_sent_as_if_for_the_first_time() {
    let all = with_results(vec![]);
    let kept = RequestCache::default();
    for upto in [1, all.len() - 1, all.len() - 1, all.len()] {
        let turns = &all[..upto];
        let again = asked(openai, ChatRequest { cache: Some(&kept), ..request(turns, &tools()) }).await;
        let first = asked(openai, request(turns, &tools())).await;
        assert_eq!(again.body, first.body);
    }
}

#[tokio::test]
async fn a_tool_whose_name_the_wire_refuses_goes_by_another_there_and_back() {
    let long = format!("server.{}", "x".repeat(80));
    let names = ["github.search", "github_search", &long];
    let tools: Vec<_> = names
        .iter()
        .map(|name| emergent_llm::ToolSpec { name: (*name).into(), ..tools()[0].clone() })
        .collect();
    let call = super::conversation::call(FIRST, "github.search", json!({}));
    let turns = [Turn::user("Hi"), Turn::assistant(vec![call])];
    let body = asked(openai, request(&turns, &tools)).await.body;
    let sent: Vec<&str> = (0..3).map(|at| body["tools"][at]["function"]["name"].as_str().unwrap()).collect();
    let fits = |name: &&str| {
        name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    assert!(sent.iter().all(fits), "{sent:?}");
    assert!(sent[0] != sent[1] && sent[1] == "github_search", "{sent:?}");
    assert_eq!(body["messages"][2]["tool_calls"][0]["function"]["name"], sent[0]);

    let called = delta(
        json!({ "tool_calls": [{ "index": 0, "id": "c", "function": { "name": sent[0], "arguments": "{}" } }] }),
    );
    let provider =
        Provider::replying([streamed(pieces(&whole(&[called, finish("tool_calls")]), usize::MAX))]).await;
    let answer = openai(&provider.url).chat(request(&turns, &tools), &mut |_| {}).await.unwrap();
    assert!(matches!(&answer.parts[..], [Part::Call(call)] if call.name == "github.search"), "{answer:?}");
}

#[tokio::test]
async fn a_base_url_may_end_in_the_version_or_not() {
    let turns = [Turn::user("Hi")];
    for tail in ["", "/", "/v1", "/v1/"] {
        let asked = asked(|url| openai(&format!("{url}{tail}")), request(&turns, &[])).await;
        assert!(asked.head.starts_with("POST /v1/chat/completions "), "{tail}: {}", asked.head);
        assert!(asked.head.contains("authorization: bearer key-1"));
    }
}

#[tokio::test]
async fn ollama_is_asked_through_its_compatible_half_and_without_a_key() {
    let turns = [Turn::user("Hi")];
    let ollama = |host: String| {
        OpenAi::ollama(&ChatSettings { base_url: Some(host), ..ChatSettings::default() }).unwrap()
    };
    for tail in ["", "/v1"] {
        let request = ChatRequest { max_tokens: Some(9), ..request(&turns, &[]) };
        let asked = asked(|url| ollama(format!("{url}{tail}")), request).await;
        assert!(asked.head.starts_with("POST /v1/chat/completions "), "{}", asked.head);
        assert!(!asked.head.contains("authorization"));
        assert_eq!(asked.body["max_tokens"], 9);
    }
    assert_eq!(ollama("gpu:9000".into()).name(), "ollama");
}

#[tokio::test]
async fn openai_itself_is_not_asked_without_a_key() {
    let error = OpenAi::new(&ChatSettings::default()).err().unwrap().to_string();
    assert!(error.contains("OPENAI_API_KEY"), "{error}");
}

#[tokio::test]
async fn the_trace_context_of_the_caller_is_sent() {
    use emergent_net::trace_context;
    let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let turns = [Turn::user("Hi")];
    let within =
        trace_context::with_parent(trace_context::parse(context), asked(openai, request(&turns, &[])));
    let head = within.await.head;
    assert!(head.contains(&format!("traceparent: {context}")), "{head}");
    assert!(!asked(openai, request(&turns, &[])).await.head.contains("traceparent"));
}
