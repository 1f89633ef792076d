//! `emergent embeddings`: measures the configured embedder.

use emergent_llm::{EmbedderSpec, measure_similarity};
use serde::Serialize;

use crate::{
    config::{Settings, StoreFlags},
    error::{Error, Result},
    output,
};

#[derive(Debug, clap::Subcommand)]
pub enum Embeddings {
    /// Embed about a hundred short texts, and show from which similarity on a hit means something
    ///
    /// A provider is asked, and charges for these texts.
    Measure {
        /// The embedder to measure, such as `builtin` or `openai/NAME` [default: the configured one]
        #[arg(long, value_name = "EMBEDDER")]
        embeddings: Option<String>,
    },
}

/// What was measured, as `--json` prints it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    model: String,
    /// The value in force.
    min_similarity: f64,
    suggestion: f64,
    nonsense_queries: usize,
    nonsense_found: usize,
    related_queries: usize,
    related_found: usize,
    highest_nonsense: f64,
    median_related: f64,
}

impl Embeddings {
    pub async fn run(self, store: &StoreFlags, as_json: bool) -> Result<()> {
        let Self::Measure { embeddings } = self;
        let mut settings = Settings::load(store, None)?;
        if let Some(embeddings) = embeddings {
            settings.embeddings = embeddings;
        }
        let measured = measure(&settings).await?;
        if as_json {
            return output::print_json(&measured);
        }
        output::print_line(&format!("embedder            {}", measured.model))?;
        output::print_line(&format!(
            "without meaning     {} of {} queries find something, the highest similarity is {:.3}",
            measured.nonsense_found, measured.nonsense_queries, measured.highest_nonsense
        ))?;
        output::print_line(&format!(
            "with an answer      {} of {} queries find it, the median similarity is {:.3}",
            measured.related_found, measured.related_queries, measured.median_related
        ))?;
        output::print_line(&format!("in force            {}", measured.min_similarity))?;
        output::print_line(&format!(
            "suggested           EMERGENT_MIN_SIMILARITY={} lets no query without meaning through",
            measured.suggestion
        ))
    }
}

async fn measure(settings: &Settings) -> Result<Measured> {
    let off = || Error::Usage("embeddings are off: there is nothing to measure".to_owned());
    let spec = settings.embedder()?;
    if spec == EmbedderSpec::Off {
        return Err(off());
    }
    let embedder = emergent_llm::embedder(&spec, &Settings::credentials())?.ok_or_else(off)?;
    let report = measure_similarity(&*embedder).await?;
    let min_similarity = settings.min_similarity.unwrap_or_else(|| embedder.min_similarity());
    Ok(Measured {
        model: embedder.model().to_owned(),
        min_similarity,
        suggestion: report.suggestion(),
        nonsense_queries: report.nonsense.len(),
        nonsense_found: report.nonsense_above(min_similarity),
        related_queries: report.related.len(),
        related_found: report.related_above(min_similarity),
        highest_nonsense: report.nonsense.last().copied().unwrap_or_default(),
        median_related: report.related.get(report.related.len() / 2).copied().unwrap_or_default(),
    })
}
