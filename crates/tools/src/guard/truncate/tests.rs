//! Tests of truncating answers.

use super::*;

fn note(answer: &Value) -> &str {
    answer["_cut"].as_str().expect("a note of what was cut")
}

fn answer_with_hits(count: usize, text_bytes: usize) -> Value {
    let items: Vec<Value> = (0..count).map(|n| json!({ "n": n, "text": "x".repeat(text_bytes) })).collect();
    json!({ "hits": items, "embedding": "used" })
}

#[test]
fn an_answer_within_the_limit_is_not_changed() {
    for answer in [json!({ "a": 1 }), json!([1, 2]), json!("text"), json!(null)] {
        assert_eq!(truncate(answer.clone(), 1_000, &Value::Null), answer);
    }
}

#[test]
fn a_long_list_loses_its_last_items_and_the_note_says_how_to_get_them() {
    let schema = json!({ "properties": { "limit": {}, "cursor": {}, "fields": {} } });
    let mut long = answer_with_hits(100, 100);
    long["nextCursor"] = json!("abc");
    let answer = truncate(long, 5_000, &schema);
    let shown = answer["hits"].as_array().unwrap().len();
    assert!((20..60).contains(&shown), "{shown}");
    assert_eq!(answer["hits"][0]["n"], 0);
    assert_eq!(answer["embedding"], "used", "short fields are not truncated");
    assert_eq!(answer.get("nextCursor"), None, "the cursor would skip the removed items");
    assert_eq!(
        note(&answer),
        format!(
            "{shown} of 100 `hits` shown: ask again with a smaller `limit` and go on with `cursor`, or name the \
             `fields` you need"
        )
    );
}

#[test]
fn a_single_long_text_is_truncated_no_more_than_needed() {
    let schema = json!({ "properties": { "offset": {}, "maxBytes": {} } });
    let answer = truncate(json!({ "id": 7, "text": "é".repeat(50_000) }), 10_000, &schema);
    let text = answer["text"].as_str().unwrap();
    assert!(text.len() > 8_000 && text.ends_with('…'), "{}", text.len());
    assert!(note(&answer).contains("of 100000 bytes of `text` shown: read on from an `offset`"), "{answer}");
}

#[test]
fn a_few_long_texts_are_truncated_instead_of_removing_their_items() {
    let answer = truncate(answer_with_hits(3, 100_000), 20_000, &Value::Null);
    assert_eq!(answer["hits"].as_array().unwrap().len(), 3);
    assert!(note(&answer).contains("`hits[0].text`"), "{answer}");
}

#[test]
fn every_answer_is_truncated_to_the_limit_and_always_in_the_same_way() {
    let deep = (0..60).fold(json!("x".repeat(9_000)), |inner, _| json!([inner, 1]));
    let wide: Map<String, Value> = (0..5_000).map(|n| (format!("key{n}"), json!(n))).collect();
    let texts: Map<String, Value> = (0..400).map(|n| (format!("key{n}"), json!("y".repeat(900)))).collect();
    let pairs: Map<String, Value> = (0..900).map(|n| (format!("key{n}"), json!(["abc", "def"]))).collect();
    for answer in [
        answer_with_hits(10_000, 3),
        answer_with_hits(1, 90_000),
        answer_with_hits(40, 1_500),
        json!("z".repeat(90_000)),
        json!((0..9_000).collect::<Vec<_>>()),
        json!({ "text": "\u{1}\"\n".repeat(20_000) }),
        deep,
        Value::Object(wide),
        Value::Object(texts),
        Value::Object(pairs),
    ] {
        for max_bytes in [2_000, 8_000, 65_536] {
            let truncated = truncate(answer.clone(), max_bytes, &Value::Null);
            assert!(json_bytes(&truncated) <= max_bytes, "{} > {max_bytes}", json_bytes(&truncated));
            assert_eq!(truncated, truncate(answer.clone(), max_bytes, &Value::Null));
            if json_bytes(&answer) > max_bytes {
                assert!(!note(&truncated).is_empty());
            }
        }
    }
}
