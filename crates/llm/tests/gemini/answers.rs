//! Streams of chunks, and the answers they produce.

use emergent_domain::chat::{Part, StopReason, Usage};
use emergent_llm::Delta;
use serde_json::{Value, json};

use super::{answer, finish, google::*, hears, parts};

fn greeting() -> Vec<Value> {
    let mut first = parts(json!([{ "text": "A greeting… ", "thought": true }]));
    first["usageMetadata"] = json!({ "promptTokenCount": 11, "totalTokenCount": 11 });
    let mut last = parts(json!([{ "text": "東京 🦀" }]));
    last["candidates"][0]["finishReason"] = json!("STOP");
    last["usageMetadata"] = json!({
        "promptTokenCount": 11, "toolUsePromptTokenCount": 3, "candidatesTokenCount": 5,
        "thoughtsTokenCount": "7", "cachedContentTokenCount": 4, "totalTokenCount": 26,
    });
    vec![
        first,
        parts(json!([{ "text": "reply in kind.", "thought": true }, { "text": "Grüße " }])),
        parts(json!([{ "text": "aus " }])),
        last,
    ]
}

#[tokio::test]
async fn an_answer_is_the_same_however_its_bytes_arrive() {
    for separator in ["\r\n\r\n", "\n\n"] {
        let text = events(&greeting(), separator);
        for size in [1, 2, 3, 101, text.len()] {
            let (result, deltas) = hears(stream(&text, size)).await;
            let answer = result.unwrap();
            let thought = Part::Thought { text: "A greeting… reply in kind.".into(), provider: None };
            assert_eq!(answer.parts, [thought, Part::text("Grüße aus 東京 🦀")], "pieces of {size}");
            assert_eq!(answer.stop, StopReason::End);
            assert_eq!(
                deltas,
                [
                    Delta::Thought("A greeting… ".into()),
                    Delta::Thought("reply in kind.".into()),
                    Delta::Text("Grüße ".into()),
                    Delta::Text("aus ".into()),
                    Delta::Text("東京 🦀".into()),
                ]
            );
        }
    }
}

#[tokio::test]
async fn tokens_are_counted_as_everywhere() {
    let usage = answer(&greeting()).await.unwrap().usage;
    assert_eq!(usage, Usage { input: 14, output: 12, reasoning: 7, cache_read: 4, cache_write: 0 });
}

#[tokio::test]
async fn a_signed_part_stays_by_itself() {
    let answer = answer(&[
        parts(json!([{ "text": "One, " }])),
        parts(json!([{ "text": "two, ", "thoughtSignature": "c2ln" }])),
        parts(json!([{ "text": "three, " }])),
        parts(json!([{ "text": "four." }])),
        parts(json!([{ "text": "", "thoughtSignature": "ZW5k" }])),
        finish("STOP"),
    ])
    .await
    .unwrap();
    let shape: Vec<_> = answer
        .parts
        .iter()
        .map(|part| match part {
            Part::Text { text, provider } => (text.as_str(), provider.is_some()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(shape, [("One, ", false), ("two, ", true), ("three, four.", false), ("", true)]);
    assert_eq!(answer.text(), "One, two, three, four.");
}

#[tokio::test]
async fn every_call_gets_an_id_of_ours_and_calls_stop_the_model() {
    let call = json!({ "functionCall": { "name": "now" } });
    let answer = answer(&[parts(json!([call, call])), finish("STOP")]).await.unwrap();
    let [Part::Call(first), Part::Call(second)] = &answer.parts[..] else { panic!("{:?}", answer.parts) };
    assert_ne!(first.id, second.id);
    assert_eq!((first.name.as_str(), &first.input, &first.provider), ("now", &json!({}), &None));
    assert_eq!(answer.stop, StopReason::ToolCalls);
}

#[tokio::test]
async fn the_finish_reason_says_why_the_model_stopped() {
    let refused = |reason: &str| StopReason::Refused(reason.to_owned());
    for (reason, stop) in [
        ("STOP", StopReason::End),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", refused("SAFETY")),
        ("RECITATION", refused("RECITATION")),
        ("PROHIBITED_CONTENT", refused("PROHIBITED_CONTENT")),
        ("SPII", refused("SPII")),
        ("OTHER", StopReason::Other("OTHER".into())),
        ("SOMETHING_NEW", StopReason::Other("SOMETHING_NEW".into())),
    ] {
        assert_eq!(answer(&[finish(reason)]).await.unwrap().stop, stop);
        // The content may be missing.
        let bare = json!({ "candidates": [{ "finishReason": reason }] });
        assert_eq!(answer(&[bare]).await.unwrap().stop, stop);
    }
}

#[tokio::test]
async fn a_blocked_prompt_is_refused_for_the_reason_given() {
    let blocked = json!({ "promptFeedback": { "blockReason": "JAILBREAK" }, "usageMetadata": { "promptTokenCount": 9 } });
    let answer = answer(&[blocked]).await.unwrap();
    assert_eq!(answer.stop, StopReason::Refused("JAILBREAK".into()));
    assert_eq!((answer.parts.len(), answer.usage.input), (0, 9));
}

#[tokio::test]
async fn a_call_with_a_reserved_key_is_kept_as_it_was_written() {
    for key in ["$serde_json::private::RawValue", r"\u0024serde_json::private::RawValue"] {
        let written = format!(r#"{{"city":"Oslo","more":{{"{key}":"[1]"}}}}"#);
        let text = format!(
            r#"{{"candidates":[{{"content":{{"role":"model","{key}":"1","parts":[
                {{"functionCall":{{"name":"weather","args":{{"city":"Łódź"}}}}}},
                {{"text":"And "}},
                {{"functionCall":{{"name":"weather","args":{written}}}}}]}},"finishReason":"STOP"}}]}}"#
        );
        let text = format!("data: {}\r\n\r\n", text.replace('\n', ""));
        let answer = hears(stream(&text, 1 << 20)).await.0.unwrap();
        let input = |part: &Part| if let Part::Call(call) = part { Some(call.input.clone()) } else { None };
        let inputs: Vec<Value> = answer.parts.iter().filter_map(input).collect();
        // The model is told why a text is no input.
        assert_eq!(inputs, [json!({ "city": "Łódź" }), Value::from(written)]);
        assert_eq!(answer.stop, StopReason::ToolCalls);
    }
}
