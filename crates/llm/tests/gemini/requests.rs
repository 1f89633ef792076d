//! The exact requests that Gemini receives.

use emergent_domain::{
    chat::{Part, ToolCall, ToolResult, Turn},
    ids::ToolCallId,
};
use emergent_llm::{ChatRequest, ChatSettings, Gemini, Provider, ToolSpec};
use serde_json::{Value, json};

use super::{finish, gemini, google::*, parts, request};

fn done() -> Reply {
    stream(&events(&[finish("STOP")], "\r\n\r\n"), 1 << 20)
}

async fn asked(request: ChatRequest<'_>) -> Asked {
    let google = Google::replying([done()]).await;
    gemini(&google).chat(request, &mut |_| {}).await.unwrap();
    google.asked().remove(0)
}

async fn contents(turns: &[Turn]) -> Value {
    asked(request(turns)).await.json()["contents"].take()
}

#[tokio::test]
async fn a_plain_question_is_contents_and_nothing_else() {
    let asked = asked(request(&[Turn::user("Hello")])).await;
    assert_eq!(asked.line, "POST /v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    assert_eq!(asked.header("x-goog-api-key"), Some("key-1"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.json(), json!({ "contents": [{ "role": "user", "parts": [{ "text": "Hello" }] }] }));
}

#[tokio::test]
async fn every_wish_has_its_place() {
    let schema = json!({
        "type": "object", "$defs": { "city": { "type": "string" } }, "additionalProperties": false,
        "properties": { "city": { "$ref": "#/$defs/city" } }, "required": ["city"],
    });
    let output = json!({ "type": "array", "items": { "oneOf": [{ "type": "string" }, { "type": "null" }] } });
    let tools = [ToolSpec {
        name: "weather".into(),
        description: "Tells the weather.".into(),
        input_schema: schema.clone().into(),
    }];
    let turns = [Turn::user("Oslo?")];
    let asked = asked(ChatRequest {
        system: "Be brief.",
        tools: &tools,
        temperature: Some(0.1),
        max_tokens: Some(256),
        ..request(&turns)
    })
    .await;
    assert_eq!(
        asked.json(),
        json!({
            "contents": [{ "role": "user", "parts": [{ "text": "Oslo?" }] }],
            "systemInstruction": { "role": "user", "parts": [{ "text": "Be brief." }] },
            "tools": [{ "functionDeclarations": [
                { "name": "weather", "description": "Tells the weather.", "parametersJsonSchema": schema },
            ] }],
            "generationConfig": { "temperature": 0.1, "maxOutputTokens": 256 },
        })
    );
    // Most models refuse a response schema beside functions.
    let with_schema = ChatRequest { output_schema: Some(&output), ..request(&turns) };
    let format = json!({ "responseMimeType": "application/json", "responseJsonSchema": output });
    assert_eq!(self::asked(with_schema).await.json()["generationConfig"], format);
    let beside_tools = ChatRequest { tools: &tools, ..with_schema };
    assert_eq!(self::asked(beside_tools).await.json()["generationConfig"], Value::Null);
}

#[tokio::test]
async fn parallel_calls_go_back_as_they_came_also_after_being_stored() {
    let came = json!([
        { "text": "Two cities, two calls.", "thought": true },
        { "text": "Looking. " },
        { "functionCall": { "id": "fc-1", "name": "weather", "args": { "city": "Oslo" } }, "thoughtSignature": "c2lnLTE=" },
        { "functionCall": { "id": "fc-2", "name": "weather", "args": { "city": "Łódź" } } },
        { "functionCall": { "name": "now", "args": {} } },
        { "text": "", "thoughtSignature": "c2lnLTI=" },
    ]);
    let chunks: Vec<_> =
        came.as_array().unwrap().iter().map(|part| parts(json!([part]))).chain([finish("STOP")]).collect();
    let google = Google::replying([stream(&events(&chunks, "\n\n"), 3), done()]).await;
    let provider = gemini(&google);

    let question = Turn::user("Weather in Oslo and Łódź?");
    let answer = provider.chat(request(std::slice::from_ref(&question)), &mut |_| {}).await.unwrap();
    let stored = serde_json::to_string(&answer.parts).unwrap();
    let parts: Vec<Part> = serde_json::from_str(&stored).unwrap();
    assert_eq!(parts, answer.parts);

    let outcome = |call: &ToolCall| ToolResult {
        id: call.id,
        name: call.name.clone(),
        output: if call.name == "now" { json!("no clock") } else { json!({ "c": 21 }) },
        is_error: call.name == "now",
    };
    let calls = parts.iter().filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None });
    let results = Turn::results(calls.map(outcome).collect::<Vec<_>>());
    let turns = [question, Turn::assistant(parts), results];
    provider.chat(request(&turns), &mut |_| {}).await.unwrap();

    let weather = |id| json!({ "functionResponse": { "id": id, "name": "weather", "response": { "output": { "c": 21 } } } });
    assert_eq!(
        google.asked()[1].json()["contents"],
        json!([
            { "role": "user", "parts": [{ "text": "Weather in Oslo and Łódź?" }] },
            { "role": "model", "parts": came },
            { "role": "user", "parts": [
                weather("fc-1"),
                weather("fc-2"),
                { "functionResponse": { "name": "now", "response": { "error": "no clock" } } },
            ] },
        ])
    );
}

#[tokio::test]
async fn a_history_that_ends_on_the_model_is_asked_to_go_on() {
    let go_on = json!({ "role": "user", "parts": [{ "text": "Continue." }] });
    let said = [Turn::user("Count."), Turn::assistant(vec![Part::text("One")])];
    assert_eq!(
        contents(&said).await,
        json!([
            { "role": "user", "parts": [{ "text": "Count." }] },
            { "role": "model", "parts": [{ "text": "One" }] },
            go_on,
        ])
    );
    assert_eq!(contents(&[]).await, json!([go_on]));
}

#[tokio::test]
async fn a_turn_that_says_nothing_is_left_out() {
    let silent = [Turn::user("Hm?"), Turn::assistant(vec![Part::text("")]), Turn::user("Hello?")];
    let said = |text: &str| json!({ "role": "user", "parts": [{ "text": text }] });
    assert_eq!(contents(&silent).await, json!([said("Hm?"), said("Hello?")]));
}

#[tokio::test]
async fn what_another_provider_left_on_a_part_is_not_sent() {
    let foreign = Some(json!({ "id": "toolu_1", "thought_signature": "x", "signature": "y" }));
    let id = ToolCallId::new();
    let input = json!("{\"city\": ");
    let call = Part::Call(ToolCall { id, name: "weather".into(), input, provider: foreign.clone() });
    let hidden = Part::Thought { text: String::new(), provider: foreign };
    let result = ToolResult { id, name: "weather".into(), output: json!("not JSON"), is_error: true };
    let turns = [Turn::user("Oslo?"), Turn::assistant(vec![hidden, call]), Turn::results([result])];
    let mut contents = contents(&turns).await;
    // Input that is not an object has to be wrapped in one, under any field name.
    let args = contents[1]["parts"][0]["functionCall"]["args"].take();
    assert!(args.is_object() && args.to_string().contains("city"), "{args}");
    assert_eq!(contents[1]["parts"], json!([{ "functionCall": { "name": "weather", "args": null } }]));
    assert_eq!(
        contents[2]["parts"],
        json!([{ "functionResponse": { "name": "weather", "response": { "error": "not JSON" } } }])
    );
}

#[tokio::test]
async fn a_model_and_a_base_url_may_be_written_in_several_ways() {
    for (base, model, path) in [
        ("/v1beta/", "gemini-2.5-pro", "/v1beta/models/gemini-2.5-pro"),
        ("/v1", "gemini-2.5-pro", "/v1/models/gemini-2.5-pro"),
        ("/proxy", "models/gemini-2.5-pro", "/proxy/v1beta/models/gemini-2.5-pro"),
        ("", "tunedModels/mine", "/v1beta/tunedModels/mine"),
        ("", "../a?b#c", "/v1beta/models/a%3Fb%23c"),
    ] {
        let google = Google::replying([done()]).await;
        let settings = ChatSettings { base_url: Some(format!("{}{base}", google.url)), ..Default::default() };
        let turns = [Turn::user("Hello")];
        let provider = Gemini::google(&settings).unwrap();
        provider.chat(ChatRequest { model, ..request(&turns) }, &mut |_| {}).await.unwrap();
        let asked = google.asked().remove(0);
        assert_eq!(asked.line, format!("POST {path}:streamGenerateContent?alt=sse"));
        assert_eq!(asked.header("x-goog-api-key"), None);
    }
}
