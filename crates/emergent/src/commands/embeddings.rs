//! `emergent embeddings`: measures the configured embedder.

use emergent_llm::{
    DEFAULT_PASSAGE_PART, EmbedderSpec, SimilarityReport, measure_passage_similarity, measure_similarity,
};
use serde::Serialize;

use crate::{
    config::{Settings, StoreFlags},
    error::{Error, Result},
    output, progress,
};

#[derive(Debug, clap::Subcommand)]
pub enum Embeddings {
    /// Embed about a hundred short texts and some long ones, and show from which similarity on a hit means something
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
    #[serde(flatten)]
    texts: MeasuredTexts,
    /// The same for passages that are as long as the chunks of documents.
    passages: MeasuredTexts,
}

/// What was measured with texts of one length.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MeasuredTexts {
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
            let parsed: Result<EmbedderSpec, _> = embeddings.parse();
            parsed.map_err(|error| Error::Usage(format!("--embeddings: {error}")))?;
            settings.embeddings = embeddings;
        }
        let measured = progress::show_while("measuring", measure(&settings)).await?;
        if as_json {
            return output::print_json(&measured);
        }
        output::print_line(&format!("embedder            {}", measured.model))?;
        measured.texts.print("EMERGENT_MIN_SIMILARITY")?;
        output::print_line("")?;
        output::print_line("passages of documents")?;
        measured.passages.print("EMERGENT_MIN_PASSAGE_SIMILARITY")
    }
}

impl MeasuredTexts {
    fn new(report: &SimilarityReport, min_similarity: f64) -> Self {
        Self {
            min_similarity,
            suggestion: report.suggestion(),
            nonsense_queries: report.nonsense.len(),
            nonsense_found: report.nonsense_above(min_similarity),
            related_queries: report.related.len(),
            related_found: report.related_above(min_similarity),
            highest_nonsense: report.nonsense.last().copied().unwrap_or_default(),
            median_related: report.related.get(report.related.len() / 2).copied().unwrap_or_default(),
        }
    }

    fn print(&self, setting: &str) -> Result<()> {
        let facts = [
            (
                "without meaning",
                format!(
                    "{} of {} queries find something, the highest similarity is {:.3}",
                    self.nonsense_found, self.nonsense_queries, self.highest_nonsense
                ),
            ),
            (
                "with an answer",
                format!(
                    "{} of {} queries find it, the median similarity is {:.3}",
                    self.related_found, self.related_queries, self.median_related
                ),
            ),
            ("in force", self.min_similarity.to_string()),
            ("suggested", format!("{setting}={} lets no query without meaning through", self.suggestion)),
        ];
        facts.iter().try_for_each(|(label, fact)| output::print_item(&format!("{label:<20}"), fact))
    }
}

async fn measure(settings: &Settings) -> Result<Measured> {
    let off = || Error::Usage("embeddings are off: there is nothing to measure".to_owned());
    let spec = settings.embedder()?;
    if spec == EmbedderSpec::Off {
        return Err(off());
    }
    let embedder = emergent_llm::embedder(&spec, &Settings::credentials())?.ok_or_else(off)?;
    let min_similarity = settings.min_similarity.unwrap_or_else(|| embedder.min_similarity());
    // As the server computes it: a floor that is set for objects counts for passages in proportion.
    let for_passages = || match settings.min_similarity {
        Some(min) => min * DEFAULT_PASSAGE_PART,
        None => embedder.min_passage_similarity(),
    };
    let min_passage_similarity = settings.min_passage_similarity.unwrap_or_else(for_passages);
    let texts = measure_similarity(&*embedder).await?;
    let passages = measure_passage_similarity(&*embedder).await?;
    Ok(Measured {
        model: embedder.model().to_owned(),
        texts: MeasuredTexts::new(&texts, min_similarity),
        passages: MeasuredTexts::new(&passages, min_passage_similarity),
    })
}
