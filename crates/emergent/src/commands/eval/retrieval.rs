//! `emergent eval retrieval`.

use std::{collections::HashSet, path::PathBuf};

use emergent_domain::{
    arrangement,
    query::{EmbeddingUse, SearchMode},
};
use emergent_wire::search::{ChunkSearchView, HitView, SearchChunks, SearchObjects, SearchView};
use serde::Serialize;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    evidence,
    figures::{Figures, Outcome},
    questions::{self, Question},
};
use crate::{
    client::Client,
    commands::{parse_flag, pending_embeddings::warn_of_pending_embeddings, read_text_file},
    error::{Error, Result},
    output, progress,
};

/// How many hits are requested: the figures need ten.
const LIMIT: i64 = 10;
/// How many are requested for a question with a budget of tokens, which may hold many short texts.
const BUDGET_LIMIT: i64 = 1_000;
/// What stands in the table for a figure that was not measured.
const NOT_MEASURED: &str = "–";

#[derive(Debug, clap::Args)]
pub struct Retrieval {
    /// A JSON file with questions and their evidence; `-` is standard input
    file: PathBuf,
    /// Only this mode (may be repeated) [default: all]
    #[arg(long = "mode", value_name = "MODE", value_parser = ["text", "vector", "hybrid", "linked", "auto"])]
    modes: Vec<String>,
}

/// What was measured, as `--json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    questions: usize,
    modes: Vec<ModeReport>,
}

#[derive(Debug, Serialize)]
struct ModeReport {
    mode: SearchMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<EmbeddingUse>,
    /// `None` if nothing was measured.
    #[serde(flatten)]
    figures: Option<Figures>,
}

/// What a search found, of objects or of passages.
struct Found {
    hits: Vec<FoundHit>,
    embedding: Option<EmbeddingUse>,
}

struct FoundHit {
    id: Uuid,
    /// The size of what a prompt has of the hit.
    bytes: usize,
}

impl Retrieval {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let questions = questions::parse(&read_text_file(&self.file)?)
            .map_err(|reason| Error::Usage(format!("`{}` cannot be used: {reason}", self.file.display())))?;
        let mut modes = Vec::new();
        for mode in &self.modes {
            modes.extend(parse_flag::<SearchMode>("--mode", Some(mode))?);
        }
        if modes.is_empty() {
            modes = vec![
                SearchMode::Text,
                SearchMode::Vector,
                SearchMode::Hybrid,
                SearchMode::Linked,
                SearchMode::Auto,
            ];
        }
        let report = progress::show_while("measuring", measure(client, &questions, &modes)).await?;
        if modes.iter().any(|mode| *mode != SearchMode::Text) {
            warn_of_pending_embeddings(client).await;
        }
        if as_json { output::print_json(&report) } else { print(&report) }
    }
}

async fn measure(client: &Client, questions: &[Question], modes: &[SearchMode]) -> Result<Report> {
    let evidence = evidence::resolve(client, questions).await?;
    // The first search of a server loads the vectors, and a server keeps the vectors of the newest questions. Without a
    // pass that is not measured, the first mode would take the time that all modes together save.
    let first_pass = modes.iter().find(|mode| **mode != SearchMode::Text).or(modes.first());
    for question in questions {
        if let Some(mode) = first_pass {
            search(client, question, *mode).await?;
        }
    }
    let mut reports = Vec::with_capacity(modes.len());
    for mode in modes {
        let mut outcomes = Vec::with_capacity(questions.len());
        let mut embedding = None;
        for (question, evidence) in questions.iter().zip(&evidence) {
            let start = Instant::now();
            let found = search(client, question, *mode).await?;
            let milliseconds = start.elapsed().as_secs_f64() * 1000.0;
            // One question that was answered without an embedder makes the figures those of another mode.
            if embedding != Some(EmbeddingUse::Unavailable) {
                embedding = found.embedding;
            }
            outcomes.push(outcome(question.budget_tokens, evidence, &found.hits, milliseconds));
        }
        // Without an embedder, a search by vectors alone has no hits, which says nothing about the vectors.
        let is_measured = *mode != SearchMode::Vector || embedding != Some(EmbeddingUse::Unavailable);
        let figures = is_measured.then(|| Figures::new(&outcomes));
        reports.push(ModeReport { mode: *mode, embedding, figures });
    }
    Ok(Report { questions: questions.len(), modes: reports })
}

/// Searches for a question where its evidence is: among the objects or among the passages of documents.
async fn search(client: &Client, question: &Question, mode: SearchMode) -> Result<Found> {
    let found = match question.is_about_chunks() {
        true => search_chunks(client, question, mode).await,
        false => search_objects(client, question, mode).await,
    };
    found.map_err(|error| match error {
        refused @ Error::Refused { .. } => {
            Error::Usage(format!("{}: {}", question.location(), refused.describe()))
        }
        other => other,
    })
}

async fn search_objects(client: &Client, question: &Question, mode: SearchMode) -> Result<Found> {
    let body = SearchObjects {
        query: question.question.clone(),
        mode,
        types: question.types.clone(),
        include_system: false,
        min_similarity: None,
        labels: Vec::new(),
        status: None,
        filters: Vec::new(),
        limit: Some(limit(question)),
        weights: None,
        explain: false,
        group: None,
        budget_tokens: None,
    };
    let found: SearchView = client.post("/api/graph/search", &body).await?.data().await?;
    let hit = |hit: &HitView| FoundHit { id: hit.object.id, bytes: property_bytes(hit) };
    Ok(Found { hits: found.hits.iter().map(hit).collect(), embedding: found.embedding })
}

async fn search_chunks(client: &Client, question: &Question, mode: SearchMode) -> Result<Found> {
    let body = SearchChunks {
        query: question.question.clone(),
        mode,
        document_id: None,
        min_similarity: None,
        limit: Some(limit(question)),
        explain: false,
        group: None,
        budget_tokens: None,
    };
    let found: ChunkSearchView = client.post("/api/documents/search", &body).await?.data().await?;
    let hits = found.hits.iter().map(|hit| FoundHit { id: hit.chunk.id, bytes: hit.chunk.text.len() });
    Ok(Found { hits: hits.collect(), embedding: found.embedding })
}

fn limit(question: &Question) -> i64 {
    if question.budget_tokens.is_some() { BUDGET_LIMIT } else { LIMIT }
}

/// Where the evidence of a question is among the hits.
fn outcome(
    budget_tokens: Option<usize>,
    evidence: &HashSet<Uuid>,
    hits: &[FoundHit],
    milliseconds: f64,
) -> Outcome {
    let is_evidence = |hit: &FoundHit| evidence.contains(&hit.id);
    let places = hits.iter().zip(1..).filter(|(hit, _)| is_evidence(hit)).map(|(_, place)| place).collect();
    let within_budget = budget_tokens.map(|budget| {
        let fitting = arrangement::count_fitting(hits.iter().map(|hit| hit.bytes), budget);
        hits[..fitting].iter().filter(|hit| is_evidence(hit)).count()
    });
    Outcome { evidence: evidence.len(), places, within_budget, milliseconds }
}

/// The size of the properties as JSON.
fn property_bytes(hit: &HitView) -> usize {
    serde_json::to_string(&hit.object.properties).map_or(0, |text| text.len())
}

fn print(report: &Report) -> Result<()> {
    let mut measured = report.modes.iter().filter_map(|mode| mode.figures.as_ref());
    let has_budget = measured.any(|figures| figures.all_in_budget.is_some());
    let mut headers = vec!["MODE", "R@5", "R@10", "ALL@5", "ALL@10", "MRR"];
    if has_budget {
        headers.push("IN BUDGET");
    }
    headers.extend(["P50 MS", "P95 MS"]);
    let percent = |part: f64| format!("{:.1}", part * 100.0);
    let row = |mode: &ModeReport| {
        let mut row = vec![mode_name(mode.mode).to_owned()];
        let Some(figures) = &mode.figures else {
            row.resize(headers.len(), NOT_MEASURED.to_owned());
            return row;
        };
        let parts =
            [figures.recall_at_5, figures.recall_at_10, figures.all_at_5, figures.all_at_10, figures.mrr];
        row.extend(parts.map(percent));
        if has_budget {
            row.push(figures.all_in_budget.map_or_else(|| NOT_MEASURED.to_owned(), percent));
        }
        row.extend([figures.p50_ms, figures.p95_ms].map(|time| format!("{time:.1}")));
        row
    };
    let rows: Vec<Vec<String>> = report.modes.iter().map(row).collect();
    output::print_table(&headers, &rows)?;
    if report.modes.iter().any(|mode| mode.embedding == Some(EmbeddingUse::Unavailable)) {
        output::print_notice("some searches had no embedding: `emergent doctor` says why");
    }
    Ok(())
}

fn mode_name(mode: SearchMode) -> &'static str {
    match mode {
        SearchMode::Text => "text",
        SearchMode::Vector => "vector",
        SearchMode::Hybrid => "hybrid",
        SearchMode::Linked => "linked",
        SearchMode::Auto => "auto",
    }
}
