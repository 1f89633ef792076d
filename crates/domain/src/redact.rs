//! Keeps secrets out of whatever is written down: logs, records of runs, error messages.
//!
//! A redactor is told the values it must not let pass, and puts `[secret NAME]` in their place.
//! It finds a value as it is and in base64 at any alignment (`user:secret` in a `Basic` header), and
//! both also where the text around them is JSON, a URL or a log line that writes some letters in
//! another way: such a text is read as its reader would (`views`).
//!
//! A secret is one project's. What a project gets to read goes through [`Redactor::of`] that project:
//! the secrets of the others are ordinary words there, and their names nobody's business. What is
//! the whole server's, such as its log, goes through the redactor itself, which knows them all; what
//! somebody reads who is of no one project goes through [`Redactor::nameless`].

mod forms;
mod known;
mod views;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use serde_json::Value;

use crate::ids::ProjectId;
use known::{Hit, Known, Whose};
use views::View;

/// What is shorter is in too many words to be kept out of them: no secret may be.
pub const SHORTEST: usize = 6;

/// Clones share what they know.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<Known>>,
    whose: Whose,
    shown: Shown,
}

/// What stands in the place of a secret.
#[derive(Clone, Copy, Default)]
enum Shown {
    #[default]
    Name,
    NoName,
}

impl Shown {
    fn placeholder(self, name: &str) -> String {
        match self {
            Shown::Name => format!("[secret {name}]"),
            Shown::NoName => "[secret]".to_owned(),
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// The same for what one project reads: it replaces that project's secrets and no others.
    #[must_use]
    pub fn of(&self, project: ProjectId) -> Self {
        Self { whose: Whose::Of(project), ..self.clone() }
    }

    /// The same without the names: it replaces what it did, and does not tell what that is called.
    #[must_use]
    pub fn nameless(&self) -> Self {
        Self { shown: Shown::NoName, ..self.clone() }
    }

    /// From now on this value does not pass. Of each name the last few are remembered, and of each
    /// project a bounded number.
    pub fn learn(&self, project: ProjectId, name: &str, value: &str) {
        // Nearly always it is known, and nobody has to wait.
        if !self.known().knows(project, name, value) {
            self.known.write().unwrap_or_else(PoisonError::into_inner).learn(project, name, value);
        }
    }

    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.replaced(text.as_bytes()) {
            None => Cow::Borrowed(text),
            Some(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.replaced(bytes).map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    /// Every text in it, names of fields included.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.text(text) {
                    *text = clean;
                }
            }
            // A secret of digits alone is a number to whoever writes JSON. A number that merely has
            // them in it is another number, and stays one.
            Value::Number(number) => {
                let known = self.known().number(&number.to_string(), self.whose).map(str::to_owned);
                let secret = known.map(|name| self.shown.placeholder(&name));
                if let Some(secret) = secret {
                    *value = Value::String(secret);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => {
                if map.keys().any(|key| matches!(self.text(key), Cow::Owned(_))) {
                    *map = std::mem::take(map)
                        .into_iter()
                        .map(|(key, value)| (self.text(&key).into_owned(), value))
                        .collect();
                }
                map.values_mut().for_each(|value| self.value(value));
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// `None` when there is nothing to hide, which is nearly always.
    fn replaced(&self, text: &[u8]) -> Option<Vec<u8>> {
        let known = self.known();
        if known.has_none(self.whose) {
            return None;
        }
        let mut hits = known.hits(text, self.whose);
        for view in View::all(text) {
            hits.extend(known.hits(view.bytes(), self.whose).into_iter().map(|hit| view.back(hit)));
        }
        if hits.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(text.len());
        let mut copied = 0;
        for hit in merged(hits, text) {
            out.extend_from_slice(&text[copied..hit.start]);
            out.extend_from_slice(self.shown.placeholder(hit.name).as_bytes());
            copied = hit.end;
        }
        out.extend_from_slice(&text[copied..]);
        Some(out)
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was found in one place in several ways is one, with the name of the longest.
fn merged<'a>(mut hits: Vec<Hit<'a>>, text: &[u8]) -> Vec<Hit<'a>> {
    for hit in &mut hits {
        // A backslash before it would escape what comes in its place.
        let before = text[..hit.start].iter().rev().take_while(|byte| **byte == b'\\').count();
        hit.start -= before % 2;
    }
    hits.sort_by_key(|hit| (hit.start, std::cmp::Reverse(hit.end)));
    let mut all: Vec<Hit<'a>> = Vec::with_capacity(hits.len());
    for hit in hits {
        match all.last_mut() {
            Some(last) if hit.start < last.end => {
                if hit.end - hit.start > last.end - last.start {
                    last.name = hit.name;
                }
                last.end = last.end.max(hit.end);
            }
            _ => all.push(hit),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use serde_json::json;

    use super::*;

    const VALUE: &str = "S3cr3t-\"ü\"/+ 17";

    fn redactor(value: &str) -> Redactor {
        let redactor = Redactor::default();
        redactor.learn(ProjectId::new(), "API_KEY", value);
        redactor
    }

    #[track_caller]
    fn check(value: &str, text: &str, expected: &str) {
        assert_eq!(redactor(value).text(text), expected);
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
            let clean = redactor(VALUE).text(text).into_owned();
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
            let clean = redactor(value).text(text).into_owned();
            assert!(clean.contains("[secret API_KEY]"), "{text} → {clean}");
            assert!(serde_json::from_str::<Value>(&clean).is_ok(), "{text} → {clean}");
        }
        check("abcdefgh", r"\u{ \u \ud83d \x \xg %g %", r"\u{ \u \ud83d \x \xg %g %");
    }

    /// Texts of the letters that escapes are made of: each is JSON before and after, and what it says
    /// does not hold the secret any more.
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
            let mut text = |most: usize| -> String { (0..roll(most)).map(|_| LETTERS[roll(12)]).collect() };
            let (before, value, after) = (text(6), format!("{}abc123{}", text(6), text(6)), text(6));
            let redactor = redactor(&value);
            let mut json = json!({ "a": format!("{before}{value}{after}") }).to_string();
            for depth in 0..3 {
                let clean = redactor.text(&json).into_owned();
                let mut said = clean.clone();
                for _ in 0..=depth {
                    let read: Value = serde_json::from_str(&said).unwrap_or_else(|error| {
                        panic!("turn {turn}: {value:?} in {json} → {clean}: {error}")
                    });
                    said = read["a"].as_str().expect("a text").to_owned();
                }
                assert!(!said.contains("abc123"), "turn {turn}: {value:?} in {json} → {clean}");
                json = json!({ "a": json }).to_string();
            }
        }
    }

    #[test]
    fn base64_hides_nothing_whatever_stands_before_it() {
        for before in ["", "a", "ab", "user:", "someone:", "someone-else:"] {
            let coded = BASE64_STANDARD.encode(format!("{before}{VALUE} and more"));
            let clean = redactor(VALUE).text(&coded).into_owned();
            assert!(clean.contains("[secret API_KEY]"), "{before}: {coded} → {clean}");
            for engine in [base64::prelude::BASE64_URL_SAFE, base64::prelude::BASE64_STANDARD] {
                let clean = redactor(VALUE).text(&engine.encode(format!("{before}{VALUE}"))).into_owned();
                assert!(clean.contains("[secret API_KEY]"), "{before}: {clean}");
            }
        }
    }

    #[test]
    fn json_is_searched_through() {
        let redactor = redactor("12345678");
        let mut value = json!({ "a": [12_345_678, "x 12345678"], "12345678": { "b": true, "n": null } });
        redactor.value(&mut value);
        let name = "[secret API_KEY]";
        assert_eq!(value, json!({ "a": [name, format!("x {name}")], name: { "b": true, "n": null } }));
    }

    #[test]
    fn a_number_stays_one_unless_all_of_it_is_a_secret() {
        let redactor = redactor("12345678");
        redactor.learn(ProjectId::new(), "PIN", "654321");
        let numbers = json!([123_456_789, 912_345_678, 12_345_678.5, 654_321, 6_543_210, 1.5]);
        let mut value = numbers.clone();
        redactor.value(&mut value);
        assert_eq!(value, numbers);
    }

    #[test]
    fn the_secrets_of_one_project_are_ordinary_words_in_another() {
        let (redactor, ours, theirs) = (Redactor::default(), ProjectId::new(), ProjectId::new());
        redactor.learn(theirs, "ENV", "production");
        redactor.learn(theirs, "CODE", "12345678");
        let text = json!({ "production": ["in production", 12_345_678] });
        let seen = |redactor: &Redactor| {
            let mut value = text.clone();
            redactor.value(&mut value);
            value
        };
        let clean = json!({ "[secret ENV]": ["in [secret ENV]", "[secret CODE]"] });
        assert_eq!(seen(&redactor.of(ours)), text);
        assert_eq!(seen(&redactor.of(theirs)), clean);
        assert_eq!(seen(&redactor), clean, "a log is nobody's");

        let nameless = json!({ "[secret]": ["in [secret]", "[secret]"] });
        assert_eq!(seen(&redactor.nameless()), nameless, "what it is called is not told");

        redactor.learn(ours, "STAGE", "production");
        assert_eq!(redactor.of(ours).text("production"), "[secret STAGE]");
        assert_eq!(redactor.of(theirs).text("production"), "[secret ENV]");
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
        redactor.learn(ProjectId::new(), "LONGER", "abcdefgh-ijklmnop");
        assert_eq!(redactor.text("abcdefgh-ijklmnop abcdefgh"), "[secret LONGER] [secret API_KEY]");
    }

    #[test]
    fn old_values_are_forgotten_in_time_and_those_of_other_projects_are_not() {
        let (redactor, project) = (redactor("of another project"), ProjectId::new());
        for turn in 0..5 {
            redactor.learn(project, "API_KEY", &format!("{turn} is the value"));
            redactor.learn(project, "API_KEY", &format!("{turn} is the value"));
        }
        assert_eq!(redactor.text("1 is the value, 2 is the value"), "1 is the value, [secret API_KEY]");
        assert_eq!(redactor.text("of another project"), "[secret API_KEY]");
    }

    #[test]
    fn a_value_that_comes_back_is_the_newest_again() {
        let (redactor, project) = (Redactor::default(), ProjectId::new());
        for value in ["first value", "second value", "third value", "first value", "fourth value"] {
            redactor.learn(project, "A", value);
        }
        assert_eq!(redactor.text("first value"), "[secret A]");
        assert_eq!(redactor.text("second value"), "second value");
    }

    #[test]
    fn a_project_has_a_bounded_number_of_values_and_those_in_use_go_last() {
        let (redactor, project) = (redactor("of another project"), ProjectId::new());
        redactor.learn(project, "IN_USE", "the one in use");
        redactor.learn(project, "REPLACED", "what was before");
        for turn in 0..1_998 {
            redactor.learn(project, &format!("NAME_{turn}"), &format!("{turn:05} is the value"));
        }
        assert_eq!(redactor.text("what was before"), "[secret REPLACED]");
        redactor.learn(project, "REPLACED", "what came after");
        let seen = redactor.text("what was before, what came after, the one in use").into_owned();
        assert_eq!(seen, "what was before, [secret REPLACED], [secret IN_USE]");
        redactor.learn(project, "ONE_MORE", "one more of them");
        assert_eq!(redactor.text("the one in use, 00000 is the value"), "the one in use, [secret NAME_0]");
        assert_eq!(redactor.text("of another project"), "[secret API_KEY]");
    }

    #[test]
    fn what_is_too_short_to_tell_apart_is_left() {
        check("abc", "abc alphabet", "abc alphabet");
    }
}
