//! The cosines below which a hit of the vector channel is dropped.

use emergent_domain::invalid::Invalid;
use emergent_llm::DEFAULT_PASSAGE_PART;

use crate::Graph;

impl Graph {
    /// The cosine below which a hit of the vector channel is dropped: the configured one, or that of the
    /// embedder.
    pub fn min_similarity(&self) -> f64 {
        let of_embedder = || self.embedder().map_or(0.0, |embedder| embedder.min_similarity());
        self.0.min_similarity.get().copied().unwrap_or_else(of_embedder)
    }

    /// Replaces the value of the embedder. It can be set once, before the first search.
    pub fn set_min_similarity(&self, min: f64) {
        let _ = self.0.min_similarity.set(min);
    }

    /// Like [`Graph::min_similarity`], for passages of documents. If only the floor of objects is configured, that of
    /// passages is in the same proportion as it is for embedders that were not measured.
    pub fn min_passage_similarity(&self) -> f64 {
        if let Some(min) = self.0.min_passage_similarity.get() {
            return *min;
        }
        match (self.0.min_similarity.get(), self.embedder()) {
            (Some(min), _) => min * DEFAULT_PASSAGE_PART,
            (None, Some(embedder)) => embedder.min_passage_similarity(),
            (None, None) => 0.0,
        }
    }

    /// Replaces the floor for passages. It can be set once, before the first search.
    pub fn set_min_passage_similarity(&self, min: f64) {
        let _ = self.0.min_passage_similarity.set(min);
    }
}

pub(super) fn check_min_similarity(min: Option<f64>) -> Result<(), Invalid> {
    match min {
        Some(min) if !(-1.0..=1.0).contains(&min) => Err(Invalid::new("minSimilarity", "must be -1 to 1")),
        _ => Ok(()),
    }
}
