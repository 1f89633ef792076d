//! The file of questions with their evidence.

use std::fmt;

use emergent_domain::{
    arrangement, foreign_json,
    pack::with_nearest_name,
    parse_message::in_plain_words,
    query::{ObjectFilter, SYSTEM_TYPES},
    text::counted,
};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;
use uuid::Uuid;

/// The most questions of a file.
const MAX_QUESTIONS: usize = 10_000;
/// The most objects or passages that a question may have as evidence.
const MAX_EVIDENCE: usize = 100;
/// The most characters of a question: the limit of a search.
const MAX_QUESTION_CHARS: usize = 2_500;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `questions`")]
struct QuestionFile {
    #[serde(default)]
    questions: Vec<Question>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Question {
    pub(super) question: String,
    /// What it takes to answer the question: objects alone, or passages of documents alone.
    pub(super) evidence: Vec<Evidence>,
    /// Only objects of these types are searched; empty means every type.
    #[serde(default)]
    pub(super) types: Vec<String>,
    /// How many tokens of hits fit into the prompt that they are for.
    pub(super) budget_tokens: Option<usize>,
    /// The number of the question in the file, from 1.
    #[serde(skip)]
    number: usize,
    /// The line on which `question` is.
    #[serde(skip)]
    line: usize,
    /// The line of each piece of evidence.
    #[serde(skip)]
    evidence_lines: Vec<usize>,
}

/// An object, by its id or by its type and key, or a passage of a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Evidence {
    Id(Uuid),
    Key {
        type_: String,
        key: String,
    },
    Chunk {
        /// The title or the id.
        document: String,
        /// The place of the passage in the document, from 0.
        index: usize,
    },
}

/// How a file writes a passage.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkEvidence {
    document: String,
    chunk: usize,
}

/// The file as text, to find out on which lines its parts are.
#[derive(Deserialize)]
struct RawFile<'a> {
    #[serde(borrow)]
    questions: Vec<RawQuestion<'a>>,
}

#[derive(Deserialize)]
struct RawQuestion<'a> {
    #[serde(borrow)]
    question: &'a RawValue,
    #[serde(borrow)]
    evidence: Vec<&'a RawValue>,
}

/// Reads the questions of a file, of which there is at least one, and checks them. The error names the line.
pub(super) fn parse(text: &str) -> Result<Vec<Question>, String> {
    let format = "docs/retrieval.md has the format";
    match text.trim_start().chars().next() {
        None => return Err(format!("it is empty; {format}")),
        // Without this, the error would name a Rust type.
        Some('[') => {
            return Err(format!(
                r#"it is a list, and has to be an object: {{ "questions": [ … ] }}; {format}"#
            ));
        }
        Some(_) => {}
    }
    foreign_json::check(text.as_bytes()).map_err(|error| error.to_string())?;
    #[expect(clippy::disallowed_methods, reason = "the text was checked")]
    let mut reader = serde_json::Deserializer::from_str(text);
    let file: QuestionFile = serde_path_to_error::deserialize(&mut reader).map_err(parse_problem)?;
    reader.end().map_err(|error| error.to_string())?;
    let mut questions = file.questions;
    if questions.is_empty() {
        return Err(format!("it has no `questions`; {format}"));
    }
    if questions.len() > MAX_QUESTIONS {
        return Err(format!(
            "it has {}, and the limit is {MAX_QUESTIONS}",
            counted(questions.len() as u64, "question")
        ));
    }
    locate(text, &mut questions)?;
    questions.iter().try_for_each(Question::check)?;
    Ok(questions)
}

/// Why the file cannot be parsed, with the field and the line.
fn parse_problem(error: serde_path_to_error::Error<serde_json::Error>) -> String {
    let message = in_plain_words(&with_nearest_name(&error.inner().to_string()));
    match error.path().to_string() {
        path if path == "." => message,
        path => format!("`{path}`: {message}"),
    }
}

/// Sets the number and the lines of each question.
fn locate(text: &str, questions: &mut [Question]) -> Result<(), String> {
    let raw: RawFile<'_> = foreign_json::from_str(text).map_err(|error| error.to_string())?;
    let line_ends: Vec<usize> = text.match_indices('\n').map(|(offset, _)| offset).collect();
    let line = |value: &RawValue| {
        // The value is a part of the text.
        let offset = value.get().as_ptr().addr() - text.as_ptr().addr();
        line_ends.partition_point(|end| *end < offset) + 1
    };
    for (index, (question, raw)) in questions.iter_mut().zip(raw.questions).enumerate() {
        question.number = index + 1;
        question.line = line(raw.question);
        question.evidence_lines = raw.evidence.into_iter().map(line).collect();
    }
    Ok(())
}

impl Question {
    /// Checks what the format alone does not say.
    fn check(&self) -> Result<(), String> {
        let wrong = |reason: String| Err(format!("{}: {reason}", self.location()));
        let length = self.question.chars().count();
        if self.question.trim().is_empty() {
            return wrong("`question`: is empty".to_owned());
        }
        if length > MAX_QUESTION_CHARS {
            return wrong(format!(
                "`question`: has {length} characters, more than the limit of {MAX_QUESTION_CHARS}"
            ));
        }
        if self.evidence.is_empty() || self.evidence.len() > MAX_EVIDENCE {
            return wrong(format!(
                "`evidence`: has {} entries, not 1 to {MAX_EVIDENCE}",
                self.evidence.len()
            ));
        }
        let chunks = self.evidence.iter().filter(|evidence| evidence.is_chunk()).count();
        if chunks > 0 && chunks < self.evidence.len() {
            return wrong(
                "`evidence`: has objects and passages, which are found by two searches: write a question for each"
                    .to_owned(),
            );
        }
        if chunks > 0 && !self.types.is_empty() {
            return wrong("`types`: is for objects, and the evidence is passages of documents".to_owned());
        }
        let filter = ObjectFilter { types: self.types.clone(), ..ObjectFilter::default() };
        let checked = filter.check().and_then(|()| arrangement::check_budget(self.budget_tokens));
        checked.or_else(|invalid| wrong(invalid.to_string()))
    }

    /// Whether passages of documents are searched, and not objects.
    pub(super) fn is_about_chunks(&self) -> bool {
        self.evidence.iter().any(Evidence::is_chunk)
    }

    /// The pieces of evidence with the places at which they are in the file.
    pub(super) fn located_evidence(&self) -> impl Iterator<Item = (&Evidence, String)> {
        let lines = self.evidence_lines.iter();
        self.evidence.iter().zip(lines).map(|(evidence, line)| (evidence, self.location_at(*line)))
    }

    /// Where the question is in the file.
    pub(super) fn location(&self) -> String {
        self.location_at(self.line)
    }

    fn location_at(&self, line: usize) -> String {
        format!("question {} (line {line})", self.number)
    }

    /// Why a search for this question can never find an object of this type; `None` if it can.
    pub(super) fn why_not_found(&self, type_: &str) -> Option<String> {
        let is_named = self.types.iter().any(|named| named == type_);
        if is_named {
            return None;
        }
        if !self.types.is_empty() {
            return Some(format!("is a `{type_}`, and only `types` are searched: {}", self.types.join(", ")));
        }
        let is_system_type = SYSTEM_TYPES.contains(&type_);
        is_system_type
            .then(|| format!("is a `{type_}`, which a search leaves out unless `types` has this type"))
    }
}

impl Evidence {
    fn from_text(text: &str) -> Result<Self, String> {
        if let Ok(id) = text.parse() {
            return Ok(Self::Id(id));
        }
        match text.split_once('/') {
            Some((type_, key)) if !type_.is_empty() && !key.is_empty() => {
                Ok(Self::Key { type_: type_.to_owned(), key: key.to_owned() })
            }
            _ => Err(format!("`{text}` is neither the id of an object nor TYPE/KEY")),
        }
    }

    fn is_chunk(&self) -> bool {
        matches!(self, Self::Chunk { .. })
    }
}

impl<'de> Deserialize<'de> for Evidence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EvidenceVisitor)
    }
}

/// Reads a text as an object, and a JSON object as a passage.
struct EvidenceVisitor;

impl<'de> Visitor<'de> for EvidenceVisitor {
    type Value = Evidence;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the id of an object, TYPE/KEY, or an object with `document` and `chunk`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Evidence, E> {
        Evidence::from_text(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Evidence, A::Error> {
        let ChunkEvidence { document, chunk } = ChunkEvidence::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Evidence::Chunk { document, index: chunk })
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Key { type_, key } => write!(f, "{type_}/{key}"),
            Self::Chunk { document, index } => write!(f, "chunk {index} of {document}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_an_id_a_type_with_a_key_or_a_passage() {
        let text = r#"{ "questions": [
            { "question": "Who?", "budgetTokens": 100, "types": ["Person"],
              "evidence": ["Person/ada", "0190f5a0-0000-7000-8000-000000000001", "File/a/b"] },
            { "question": "Where?", "evidence": [{ "document": "map.md", "chunk": 2 }] }
        ] }"#;
        let questions = parse(text).unwrap();
        let names = |question: &Question| -> Vec<String> {
            question.evidence.iter().map(ToString::to_string).collect()
        };
        let objects = ["Person/ada", "0190f5a0-0000-7000-8000-000000000001", "File/a/b"];
        assert_eq!(names(&questions[0]), objects);
        assert_eq!(names(&questions[1]), ["chunk 2 of map.md"]);
        assert!(!questions[0].is_about_chunks() && questions[1].is_about_chunks());
    }

    #[test]
    fn a_question_and_its_evidence_know_their_lines() {
        let text = "{ \"questions\": [\n{ \"evidence\": [\"A/b\",\n\"A/c\"],\n\n\"question\": \"x\" }] }";
        let questions = parse(text).unwrap();
        assert_eq!(questions[0].location(), "question 1 (line 5)");
        let places: Vec<String> = questions[0].located_evidence().map(|(_, place)| place).collect();
        assert_eq!(places, ["question 1 (line 2)", "question 1 (line 3)"]);
    }

    #[test]
    fn a_file_that_cannot_be_measured_is_refused_with_the_question() {
        let check = |text: &str, expected: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        let question = |fields: &str| format!("{{ \"questions\": [\n{{ \"question\": {fields} }}\n] }}");
        check("", "it is empty");
        check(" []", r#"it is a list, and has to be an object: { "questions": [ … ] }"#);
        check(r#"[{ "question": "x", "evidence": ["A/b"] }]"#, "it is a list");
        check("{}", "it has no `questions`");
        check(r#"{ "questions": [] }"#, "it has no `questions`");
        check("7", "expected an object with `questions`");
        check(&question(r#"" ", "evidence": ["A/b"]"#), "question 1 (line 2): `question`: is empty");
        check(&question(r#""x", "evidence": []"#), "question 1 (line 2): `evidence`: has 0 entries");
        check(&question(r#""x", "evidence": ["ada"]"#), "neither the id");
        check(&question(r#""x", "evidence": [7]"#), "expected the id of an object");
        check(&question(r#""x", "evidence": [{ "document": "a.md" }]"#), "missing field `chunk`");
        check(&question(r#""x", "evidence": ["A/b"], "k": 1"#), "unknown field `k`");
        let budget = question(r#""x", "evidence": ["A/b"], "budgetTokens": "2000""#);
        check(
            &budget,
            r#"`questions[0].budgetTokens`: invalid type: string "2000", expected a whole number"#,
        );
        check(&question(r#""x", "evidence": "A/b""#), "`questions[0].evidence`: invalid type: string");
        check(&question(r#""x", "evidence": "A/b""#), "expected a list at line 2");
        check(&question(r#""x", "evidence": ["A/b"], "types": "A""#), "`questions[0].types`");
        check(&question(r#""x", "evidence": ["A/b"], "budgetTokens": 0"#), "(line 2): `budgetTokens`");
        check(&question(r#""x", "evidence": ["A/b"], "types": [""]"#), "(line 2): `types[0]`");
        let both = r#""x", "evidence": ["A/b", { "document": "a.md", "chunk": 0 }]"#;
        check(&question(both), "has objects and passages");
        let typed = r#""x", "types": ["A"], "evidence": [{ "document": "a.md", "chunk": 0 }]"#;
        check(&question(typed), "`types`: is for objects");
    }

    #[test]
    fn a_question_that_is_too_long_is_named_by_its_own_number() {
        let long = "é".repeat(MAX_QUESTION_CHARS + 1);
        let text = format!(
            "{{ \"questions\": [\n{{ \"question\": \"x\", \"evidence\": [\"A/b\"] }},\n\
             {{ \"question\": \"{long}\", \"evidence\": [\"A/b\"] }}\n] }}"
        );
        let error = parse(&text).unwrap_err();
        let expected = "question 2 (line 3): `question`: has 2501 characters, more than the limit of 2500";
        assert_eq!(error, expected);
        assert!(parse(&text.replacen('é', "", 1)).is_ok());
    }

    #[test]
    fn system_types_and_types_that_are_not_searched_cannot_be_found() {
        let question = |types: &str| {
            let text = format!(
                r#"{{ "questions": [{{ "question": "x", "evidence": ["A/b"], "types": {types} }}] }}"#
            );
            parse(&text).unwrap().remove(0)
        };
        assert_eq!(question("[]").why_not_found("Note"), None);
        assert!(question("[]").why_not_found("Session").unwrap().contains("leaves out"));
        assert_eq!(question(r#"["Session"]"#).why_not_found("Session"), None);
        let reason = question(r#"["Card", "Page"]"#).why_not_found("Note").unwrap();
        assert_eq!(reason, "is a `Note`, and only `types` are searched: Card, Page");
    }
}
