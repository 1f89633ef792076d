use super::*;

fn note(answer: &Value) -> &str {
    answer["_cut"].as_str().expect("a note of what was cut")
}

fn list(items: usize, text: usize) -> Value {
    let items: Vec<Value> = (0..items).map(|n| json!({ "n": n, "text": "x".repeat(text) })).collect();
    json!({ "hits": items, "embedding": "used" })
}

#[test]
fn what_fits_stays_as_it_is() {
    for answer in [json!({ "a": 1 }), json!([1, 2]), json!("text"), json!(null)] {
        assert_eq!(truncate(answer.clone(), 1_000, &Value::Null), answer);
    }
}

#[test]
fn a_long_list_loses_its_tail_and_says_how_to_get_it() {
    let schema = json!({ "properties": { "limit": {}, "cursor": {}, "fields": {} } });
    let mut long = list(100, 100);
    long["nextCursor"] = json!("abc");
    let answer = truncate(long, 5_000, &schema);
    let kept = answer["hits"].as_array().unwrap().len();
    assert!((20..60).contains(&kept), "{kept}");
    assert_eq!(answer["hits"][0]["n"], 0);
    assert_eq!(answer["embedding"], "used", "what is short stays");
    assert_eq!(answer.get("nextCursor"), None, "it would lead past the items that were cut");
    assert_eq!(
        note(&answer),
        format!(
            "{kept} of 100 `hits` shown: ask again with a smaller `limit` and go on with `cursor`, or name the \
             `fields` you need"
        )
    );
}

#[test]
fn a_text_that_is_the_answer_loses_its_end_only_as_far_as_needed() {
    let schema = json!({ "properties": { "offset": {}, "maxBytes": {} } });
    let answer = truncate(json!({ "id": 7, "text": "é".repeat(50_000) }), 10_000, &schema);
    let text = answer["text"].as_str().unwrap();
    assert!(text.len() > 8_000 && text.ends_with('…'), "{}", text.len());
    assert!(note(&answer).contains("of 100000 bytes of `text` shown: read on from an `offset`"), "{answer}");
}

#[test]
fn a_few_long_texts_do_not_cost_the_items_that_hold_them() {
    let answer = truncate(list(3, 100_000), 20_000, &Value::Null);
    assert_eq!(answer["hits"].as_array().unwrap().len(), 3);
    assert!(note(&answer).contains("`hits[0].text`"), "{answer}");
}

#[test]
fn whatever_comes_in_an_object_within_the_cap_comes_out_and_the_same_every_time() {
    let deep = (0..60).fold(json!("x".repeat(9_000)), |inner, _| json!([inner, 1]));
    let wide: Map<String, Value> = (0..5_000).map(|n| (format!("key{n}"), json!(n))).collect();
    let texts: Map<String, Value> = (0..400).map(|n| (format!("key{n}"), json!("y".repeat(900)))).collect();
    let pairs: Map<String, Value> = (0..900).map(|n| (format!("key{n}"), json!(["abc", "def"]))).collect();
    for answer in [
        list(10_000, 3),
        list(1, 90_000),
        list(40, 1_500),
        json!("z".repeat(90_000)),
        json!((0..9_000).collect::<Vec<_>>()),
        json!({ "text": "\u{1}\"\n".repeat(20_000) }),
        deep,
        Value::Object(wide),
        Value::Object(texts),
        Value::Object(pairs),
    ] {
        for most in [2_000, 8_000, 65_536] {
            let once = truncate(answer.clone(), most, &Value::Null);
            assert!(json_bytes(&once) <= most, "{} > {most}", json_bytes(&once));
            assert_eq!(once, truncate(answer.clone(), most, &Value::Null));
            if json_bytes(&answer) > most {
                assert!(!note(&once).is_empty());
            }
        }
    }
}
