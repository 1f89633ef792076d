//! Searches in a graph of 100,000 objects over HTTP: every mode, with and without filters.
//!
//! No question is asked twice, so that neither the vector of a question nor the number of rows with a word
//! comes from a cache of the same question.

use std::{io::Write as _, time::Instant};

use serde_json::{Value, json};

use crate::{
    Options,
    data::{self, Data},
    report::{Goal, Report, p50, p95},
    server::{Server, upload, wait_for_vector_index, wait_until_embedded},
};

const OBJECTS: usize = 100_000;
const QUESTIONS: usize = 400;
/// A prime number, so that the second half of a manual is about another package than the first.
const DISTANCE: usize = 7_919;

/// Whether these rows are selected: `--only "100,000 objects"`.
pub fn is_selected(report: &Report) -> bool {
    report.wants("100,000 objects")
}

pub fn measure(report: &mut Report, options: &Options) {
    if !is_selected(report) {
        return;
    }
    let data = data::read(&options.dataset);
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    write_objects(&data, &mut file);
    measure_engine(report, options, &data, file.path(), None);
    if let Some(url) = options.postgres.as_deref() {
        measure_engine(report, options, &data, file.path(), Some(url));
    }
}

/// Writes all packages, and as many objects of a second type as are missing: manuals, whose text is that of two
/// packages.
fn write_objects(data: &Data, file: &mut impl std::io::Write) {
    let mut file = std::io::BufWriter::new(file);
    let packages = &data.objects[..data.objects.len().min(OBJECTS)];
    for package in packages {
        let line = json!({ "kind": "object", "type": package.type_, "key": package.key,
            "labels": package.labels, "properties": package.properties });
        writeln!(file, "{line}").expect("space on the disk");
    }
    for place in 0..OBJECTS - packages.len() {
        let first = &packages[place % packages.len()];
        let second = &packages[(place + DISTANCE) % packages.len()];
        let text = format!(
            "{}\n\n{}",
            text_of(&first.properties, "description"),
            text_of(&second.properties, "description")
        );
        let line = json!({ "kind": "object", "type": "Manual", "key": format!("manual-{place}"),
            "properties": { "title": format!("Manual of {}", first.key), "section": first.properties["section"],
                "text": text } });
        writeln!(file, "{line}").expect("space on the disk");
    }
    file.flush().expect("space on the disk");
}

fn text_of<'a>(properties: &'a serde_json::Map<String, Value>, name: &str) -> &'a str {
    properties.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn measure_engine(
    report: &mut Report,
    options: &Options,
    data: &Data,
    file: &std::path::Path,
    postgres: Option<&str>,
) {
    let server = Server::start(&options.binary, tempfile::tempdir().expect("a folder"), postgres, "off");
    let answer = upload(&server, file);
    assert!(answer.contains("\"done\":true"), "the import failed: {answer}");
    let server = server.restart("builtin");
    wait_until_embedded(&mut server.http(), Instant::now());
    if let Some(url) = postgres {
        wait_for_vector_index(url);
    }

    let (plain, naming) = (plain_questions(data), naming_questions(data));
    let typed = json!({ "types": ["Manual"] });
    let filtered = json!({ "filters": [{ "path": "section", "op": "eq", "value": "science" }] });
    let both = json!({ "types": ["Package"], "filters": [{ "path": "installedSize", "op": "gte", "value": 5_000 }] });
    let rows: [(&str, &str, &[String], Value); 10] = [
        ("text", "text", &plain, json!({})),
        ("vector", "vector", &plain, json!({})),
        ("hybrid", "hybrid", &plain, json!({})),
        ("hybrid, of one type", "hybrid", &plain, typed.clone()),
        ("hybrid, with a property", "hybrid", &plain, filtered.clone()),
        ("hybrid, of one type with a property", "hybrid", &plain, both.clone()),
        ("linked", "linked", &naming, json!({})),
        ("linked, of one type", "linked", &naming, typed),
        ("linked, of one type with a property", "linked", &naming, both),
        ("auto, questions with names", "auto", &naming, json!({})),
    ];
    let mut http = server.http();
    for (name, mode, questions, fields) in rows {
        let times = questions.iter().enumerate().filter_map(|(place, question)| {
            let mut body = json!({ "query": question, "mode": mode, "limit": 10 });
            body.as_object_mut().expect("an object").extend(fields.as_object().cloned().unwrap_or_default());
            let start = Instant::now();
            http.post("/api/graph/search", &body.to_string());
            // The first tenth warms the caches of pages up.
            (place >= questions.len() / 10).then(|| start.elapsed().as_secs_f64() * 1e3)
        });
        let times: Vec<f64> = times.collect();
        let name = format!("100,000 objects, {name}");
        report.add(&format!("{name}, p50"), server.engine, p50(times.clone()), "ms", None, &Goal::None);
        report.add(&format!("{name}, p95"), server.engine, p95(times), "ms", None, &Goal::Below(20.0));
    }
    report.add(
        "100,000 objects, memory after the searches",
        server.engine,
        server.memory_mb(),
        "MB",
        None,
        &Goal::None,
    );
}

/// Returns the first words of the summaries of packages, which are what people type into a field for searches.
fn plain_questions(data: &Data) -> Vec<String> {
    let summaries = data.objects.iter().step_by(data.objects.len() / QUESTIONS);
    summaries
        .map(|package| {
            let words: Vec<&str> =
                text_of(&package.properties, "summary").split_whitespace().take(4).collect();
            words.join(" ")
        })
        .filter(|question| !question.is_empty())
        .take(QUESTIONS)
        .collect()
}

/// Returns questions that name a package, whose answer takes a second object.
fn naming_questions(data: &Data) -> Vec<String> {
    let packages = data.objects.iter().skip(50).step_by(data.objects.len() / QUESTIONS);
    packages
        .map(|package| {
            let summary: Vec<&str> =
                text_of(&package.properties, "summary").split_whitespace().take(3).collect();
            format!("Which projects work with {} for {}?", package.key, summary.join(" "))
        })
        .take(QUESTIONS)
        .collect()
}
