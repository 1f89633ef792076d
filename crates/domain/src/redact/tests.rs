use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

use super::*;

const VALUE: &str = "S3cr3t-\"ü\"/+ 17";

fn redactor(value: &str) -> Redactor {
    let redactor = Redactor::default();
    redactor.add_secret(ProjectId::new(), "API_KEY", value);
    redactor
}

#[track_caller]
fn check(value: &str, text: &str, expected: &str) {
    assert_eq!(redactor(value).redact_text(text), expected);
}

#[test]
fn a_secret_is_replaced_by_its_name_wherever_it_stands() {
    check(
        VALUE,
        &format!("{VALUE} and ü{VALUE}{VALUE}ü"),
        "[secret API_KEY] and ü[secret API_KEY][secret API_KEY]ü",
    );
    check(VALUE, "nothing of the kind: S3cr", "nothing of the kind: S3cr");
    check(VALUE, "", "");
}

#[test]
fn it_is_known_in_every_form_it_travels_in() {
    let hidden = |text: &str| {
        let clean = redactor(VALUE).redact_text(text).into_owned();
        assert!(clean.contains("[secret API_KEY]"), "{text} → {clean}");
        assert!(!clean.contains("S3cr3t") && !clean.contains("17"), "{text} → {clean}");
    };
    hidden(&json!({ "a": VALUE }).to_string());
    hidden(&json!({ "a": json!({ "b": VALUE }).to_string() }).to_string());
    hidden(&format!("{VALUE:?}"));
    hidden(&format!("b\"{}\"", VALUE.as_bytes().escape_ascii()));
    hidden("?key=S3cr3t-%22%C3%BC%22%2F%2B%2017");
    hidden("?key=S3cr3t-%22%c3%bc%22%2f%2b%2017");
    hidden("?key=S3cr3t-%22%C3%BC%22%2F%2B+17");
    hidden("?key=%53%33cr3t%2D%22%C3%BC%22/%2B%2017&x=100%");
    hidden(r#"{"a":"S3cr3t-\"\u00fc\"\/+ 17"}"#);
    hidden(r#"{"a":"{\"b\":\"S3cr3t-\\\"\\u00fc\\\"\\/+ 17\"}"}"#);
    hidden(&format!("{:?}", json!({ "a": json!({ "b": VALUE }).to_string() }).to_string()));
}

#[test]
fn json_stays_json_whatever_is_taken_out_of_it() {
    for (value, text) in [
        ("nabcdef", r#"{"a":"\nabcdef"}"#),
        ("abcdef\\", r#"{"a":"abcdef\\"}"#),
        ("abcdefghijklm\"no", r#"{"a":"abcdefghijklm\t"}"#),
        ("\"abcdef", r#"["\"abcdef","\\","\ud83d\ude00abcdef"]"#),
        ("😀abcdef", r#"["\ud83d\ude00abcdef"]"#),
    ] {
        let clean = redactor(value).redact_text(text).into_owned();
        assert!(clean.contains("[secret API_KEY]"), "{text} → {clean}");
        assert!(serde_json::from_str::<Value>(&clean).is_ok(), "{text} → {clean}");
    }
    check("abcdefgh", r"\u{ \u \ud83d \x \xg %g %", r"\u{ \u \ud83d \x \xg %g %");
}

/// Builds texts from characters that occur in escapes. Each text must be JSON before and after,
/// and its decoded content must not contain the secret.
#[test]
fn nothing_slips_through_between_escapes() {
    const LETTERS: [&str; 12] = ["\\", "\"", "u", "n", "%", "2", "{", "ab", "ü", "😀", "/", "\\u00"];
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut roll = |sides: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        (dice % sides as u64) as usize
    };
    for turn in 0..5_000 {
        let mut text = |max: usize| -> String { (0..roll(max)).map(|_| LETTERS[roll(12)]).collect() };
        let (before, value, after) = (text(6), format!("{}abc123{}", text(6), text(6)), text(6));
        let redactor = redactor(&value);
        let mut json = json!({ "a": format!("{before}{value}{after}") }).to_string();
        for depth in 0..3 {
            let clean = redactor.redact_text(&json).into_owned();
            let mut decoded = clean.clone();
            for _ in 0..=depth {
                let read: Value = serde_json::from_str(&decoded)
                    .unwrap_or_else(|error| panic!("turn {turn}: {value:?} in {json} → {clean}: {error}"));
                decoded = read["a"].as_str().expect("a text").to_owned();
            }
            assert!(!decoded.contains("abc123"), "turn {turn}: {value:?} in {json} → {clean}");
            json = json!({ "a": json }).to_string();
        }
    }
}

#[test]
fn base64_hides_nothing_whatever_stands_before_it() {
    for before in ["", "a", "ab", "user:", "someone:", "someone-else:"] {
        let coded = BASE64_STANDARD.encode(format!("{before}{VALUE} and more"));
        let clean = redactor(VALUE).redact_text(&coded).into_owned();
        assert!(clean.contains("[secret API_KEY]"), "{before}: {coded} → {clean}");
        for engine in [base64::prelude::BASE64_URL_SAFE, base64::prelude::BASE64_STANDARD] {
            let clean = redactor(VALUE).redact_text(&engine.encode(format!("{before}{VALUE}"))).into_owned();
            assert!(clean.contains("[secret API_KEY]"), "{before}: {clean}");
        }
    }
}

#[test]
fn json_is_searched_through() {
    let redactor = redactor("12345678");
    let mut value = json!({ "a": [12_345_678, "x 12345678"], "12345678": { "b": true, "n": null } });
    redactor.redact_value(&mut value);
    let name = "[secret API_KEY]";
    assert_eq!(value, json!({ "a": [name, format!("x {name}")], name: { "b": true, "n": null } }));
}

#[test]
fn a_number_stays_one_unless_all_of_it_is_a_secret() {
    let redactor = redactor("12345678");
    redactor.add_secret(ProjectId::new(), "PIN", "654321");
    let numbers = json!([123_456_789, 912_345_678, 12_345_678.5, 654_321, 6_543_210, 1.5]);
    let mut value = numbers.clone();
    redactor.redact_value(&mut value);
    assert_eq!(value, numbers);
}

#[test]
fn the_secrets_of_one_project_are_ordinary_words_in_another() {
    let (redactor, ours, theirs) = (Redactor::default(), ProjectId::new(), ProjectId::new());
    redactor.add_secret(theirs, "ENV", "production");
    redactor.add_secret(theirs, "CODE", "12345678");
    let text = json!({ "production": ["in production", 12_345_678] });
    let seen = |redactor: &Redactor| {
        let mut value = text.clone();
        redactor.redact_value(&mut value);
        value
    };
    let clean = json!({ "[secret ENV]": ["in [secret ENV]", "[secret CODE]"] });
    assert_eq!(seen(&redactor.for_project(ours)), text);
    assert_eq!(seen(&redactor.for_project(theirs)), clean);
    assert_eq!(seen(&redactor), clean, "a log is nobody's");

    redactor.add_secret(ours, "STAGE", "production");
    assert_eq!(redactor.for_project(ours).redact_text("production"), "[secret STAGE]");
    assert_eq!(redactor.for_project(theirs).redact_text("production"), "[secret ENV]");
}

#[test]
fn what_the_caller_sent_stays_and_nothing_else_does() {
    let secret = redactor(VALUE);
    let answer = |sent: Value, text: &str| secret.except(&sent).redact_text(text).into_owned();
    let echo = format!("you said {VALUE}");
    assert_eq!(
        answer(json!({ "text": VALUE }), &echo),
        echo,
        "a guess that is right comes back as any other"
    );
    assert_eq!(answer(json!({ "text": "a guess" }), &echo), "you said [secret API_KEY]");
    let encoded = BASE64_STANDARD.encode(VALUE);
    assert_eq!(answer(json!([VALUE]), &encoded), encoded, "a server may encode what it was sent");
    let nested = json!({ "said": json!({ "text": VALUE }).to_string() }).to_string();
    assert_eq!(answer(json!({ "text": VALUE }), &nested), nested);
    // A caller that knows the beginning does not get the rest.
    let long = redactor("abcdefghijklmnopqrst");
    let beginning = json!("abcdefghijklmnop");
    assert_eq!(long.except(&beginning).redact_text("it is abcdefghijklmnopqrst"), "it is [secret API_KEY]");
    assert_eq!(long.except(&beginning).redact_text("abcdefghijklmnop?"), "abcdefghijklmnop?");
}

#[test]
fn a_number_that_the_caller_sent_stays() {
    let redactor = redactor("12345678");
    let mut value = json!([12_345_678, "12345678"]);
    redactor.except(&json!({ "pin": 12_345_678 })).redact_value(&mut value);
    assert_eq!(value, json!([12_345_678, "12345678"]));
    redactor.except(&json!({ "pin": 1 })).redact_value(&mut value);
    assert_eq!(value, json!(["[secret API_KEY]", "[secret API_KEY]"]));
}

#[test]
fn words_that_begin_like_a_short_secret_are_left() {
    check("production", "productivity, productio…", "productivity, productio…");
    check("production", &BASE64_STANDARD.encode("productivity"), &BASE64_STANDARD.encode("productivity"));
}

#[test]
fn most_of_a_secret_is_hidden_as_the_whole_is() {
    check("abcdefghijklmnop", "key abcdefghijklm…", "key [secret API_KEY]…");
    check("abcdefghijklmnop", "key abcdefghijk…", "key abcdefghijk…");
    let cut = r#"{"key":"abcdefghijklm\t"}"#;
    check("abcdefghijklm\n12", cut, r#"{"key":"[secret API_KEY]\t"}"#);
    let long = "0123456789".repeat(20);
    check(&long, &format!("{} …", &long[..100]), "[secret API_KEY] …");
}

#[test]
fn lines_of_a_key_are_hidden_one_by_one() {
    let pem = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END KEY-----\n";
    check(pem, pem, "[secret API_KEY]");
    check(pem, "stderr: BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj", "stderr: [secret API_KEY]");
    check(pem, "-----BEGIN KEY-----", "-----BEGIN KEY-----");
}

#[test]
fn the_longest_secret_gives_its_name() {
    let redactor = redactor("abcdefgh");
    redactor.add_secret(ProjectId::new(), "LONGER", "abcdefgh-ijklmnop");
    assert_eq!(redactor.redact_text("abcdefgh-ijklmnop abcdefgh"), "[secret LONGER] [secret API_KEY]");
}

#[test]
fn a_secret_that_begins_inside_another_one_is_hidden_to_its_end() {
    let (redactor, project) = (Redactor::default(), ProjectId::new());
    redactor.add_secret(project, "FIRST", "first-value-shared");
    redactor.add_secret(project, "SECOND", "shared-and-the-second-value");
    let clean = redactor.redact_text("a first-value-shared-and-the-second-value z").into_owned();
    assert_eq!(clean, "a [secret SECOND] z");
    // Also in an encoded form, where the second one begins at another alignment.
    let coded = BASE64_STANDARD.encode("first-value-shared-and-the-second-value");
    let clean = redactor.redact_text(&coded).into_owned();
    let tail = &coded[coded.len() - 12..coded.len() - 2];
    assert!(!clean.contains(tail), "{coded} → {clean}");
}

#[test]
fn a_secret_that_repeats_itself_is_searched_for_in_bounded_time() {
    let (redactor, project) = (redactor(&"ab".repeat(20_000)), ProjectId::new());
    redactor.add_secret(project, "OTHER", "another-value");
    let text = format!("{}another-value", "ab".repeat(500_000));
    let clean = redactor.redact_text(&text).into_owned();
    assert!(clean.starts_with("[secret ") && clean.len() < 100, "{} bytes", clean.len());
}

#[test]
fn a_value_that_is_held_is_remembered_however_often_the_secret_is_replaced() {
    let (redactor, project) = (Redactor::default(), ProjectId::new());
    let held = redactor.hold_secret(project, "A", "the value in use");
    for turn in 0..10 {
        redactor.add_secret(project, "A", &format!("{turn} is the value"));
    }
    for turn in 0..2_100 {
        redactor.add_secret(project, &format!("NAME_{turn}"), &format!("{turn:05} is the value"));
    }
    assert_eq!(redactor.redact_text("the value in use"), "[secret A]");
    assert_eq!(redactor.redact_text("6 is the value"), "6 is the value");
    drop(held);
    for turn in 0..4 {
        redactor.add_secret(project, "A", &format!("{turn} is another value"));
    }
    assert_eq!(redactor.redact_text("the value in use"), "the value in use");
}

#[test]
fn what_one_server_says_is_searched_for_its_own_secrets_only() {
    let (redactor, project) = (Redactor::default(), ProjectId::new());
    let sent = redactor.hold_secret(project, "OWN", "sent-to-the-server");
    redactor.add_secret(project, "OTHER", "sent-to-another-one");
    redactor.add_secret(project, "PIN", "12345678");
    let of_server = redactor.for_secrets(&[sent]);
    let text = "sent-to-the-server, sent-to-another-one";
    assert_eq!(of_server.redact_text(text), "[secret OWN], sent-to-another-one");
    let mut value = json!(12_345_678);
    of_server.redact_value(&mut value);
    assert_eq!(value, json!(12_345_678));
    assert_eq!(redactor.for_secrets(&[]).redact_text(text), text);
    assert_eq!(redactor.for_project(project).redact_text(text), "[secret OWN], [secret OTHER]");
    // The same value again, as the newest one: it is still the one that was sent.
    redactor.add_secret(project, "OWN", "a newer value");
    redactor.add_secret(project, "OWN", "sent-to-the-server");
    assert_eq!(of_server.redact_text("sent-to-the-server"), "[secret OWN]");
}

#[test]
fn old_values_are_forgotten_in_time_and_those_of_other_projects_are_not() {
    let (redactor, project) = (redactor("of another project"), ProjectId::new());
    for turn in 0..5 {
        redactor.add_secret(project, "API_KEY", &format!("{turn} is the value"));
        redactor.add_secret(project, "API_KEY", &format!("{turn} is the value"));
    }
    assert_eq!(redactor.redact_text("1 is the value, 2 is the value"), "1 is the value, [secret API_KEY]");
    assert_eq!(redactor.redact_text("of another project"), "[secret API_KEY]");
}

#[test]
fn a_value_that_comes_back_is_the_newest_again() {
    let (redactor, project) = (Redactor::default(), ProjectId::new());
    for value in ["first value", "second value", "third value", "first value", "fourth value"] {
        redactor.add_secret(project, "A", value);
    }
    assert_eq!(redactor.redact_text("first value"), "[secret A]");
    assert_eq!(redactor.redact_text("second value"), "second value");
}

#[test]
fn a_project_has_a_bounded_number_of_values_and_those_in_use_go_last() {
    let (redactor, project) = (redactor("of another project"), ProjectId::new());
    redactor.add_secret(project, "IN_USE", "the one in use");
    redactor.add_secret(project, "REPLACED", "what was before");
    for turn in 0..1_998 {
        redactor.add_secret(project, &format!("NAME_{turn}"), &format!("{turn:05} is the value"));
    }
    assert_eq!(redactor.redact_text("what was before"), "[secret REPLACED]");
    redactor.add_secret(project, "REPLACED", "what came after");
    let seen = redactor.redact_text("what was before, what came after, the one in use").into_owned();
    assert_eq!(seen, "what was before, [secret REPLACED], [secret IN_USE]");
    redactor.add_secret(project, "ONE_MORE", "one more of them");
    assert_eq!(redactor.redact_text("the one in use, 00000 is the value"), "the one in use, [secret NAME_0]");
    assert_eq!(redactor.redact_text("of another project"), "[secret API_KEY]");
}

#[test]
fn what_is_too_short_to_tell_apart_is_left() {
    check("abc", "abc alphabet", "abc alphabet");
}
