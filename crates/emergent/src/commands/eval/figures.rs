//! The figures of a retrieval: pure arithmetic over the places at which evidence was found.

use serde::Serialize;

/// What one question found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// How many objects or passages are evidence.
    pub(super) evidence: usize,
    /// The places at which evidence was found, counted from 1, in ascending order.
    pub(super) places: Vec<usize>,
    /// How many of them were within the budget of tokens; `None` if the question has no budget.
    pub(super) within_budget: Option<usize>,
    pub(super) milliseconds: f64,
}

/// The figures of one mode over all questions, as `--json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    pub(super) recall_at_5: f64,
    pub(super) recall_at_10: f64,
    pub(super) all_at_5: f64,
    pub(super) all_at_10: f64,
    pub(super) mrr: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) all_in_budget: Option<f64>,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
}

impl Figures {
    /// The figures of these outcomes, of which there is at least one.
    pub(super) fn new(outcomes: &[Outcome]) -> Self {
        let mean = |value: &dyn Fn(&Outcome) -> f64| {
            outcomes.iter().map(value).sum::<f64>() / outcomes.len().max(1) as f64
        };
        let found = |outcome: &Outcome, k: usize| outcome.places.iter().filter(|place| **place <= k).count();
        let recall = |k: usize| mean(&|outcome| found(outcome, k) as f64 / outcome.evidence as f64);
        let all = |k: usize| mean(&|outcome| f64::from(found(outcome, k) == outcome.evidence));
        let with_budget: Vec<bool> = outcomes
            .iter()
            .filter_map(|outcome| outcome.within_budget.map(|within| within == outcome.evidence))
            .collect();
        let complete = with_budget.iter().filter(|all| **all).count();
        let mut times: Vec<f64> = outcomes.iter().map(|outcome| outcome.milliseconds).collect();
        times.sort_unstable_by(f64::total_cmp);
        Self {
            recall_at_5: recall(5),
            recall_at_10: recall(10),
            all_at_5: all(5),
            all_at_10: all(10),
            mrr: mean(&|outcome| outcome.places.first().map_or(0.0, |place| 1.0 / *place as f64)),
            all_in_budget: (!with_budget.is_empty()).then(|| complete as f64 / with_budget.len() as f64),
            p50_ms: percentile(&times, 50),
            p95_ms: percentile(&times, 95),
        }
    }
}

/// The value that so many percent of the sorted values do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(
        evidence: usize,
        places: &[usize],
        within_budget: Option<usize>,
        milliseconds: f64,
    ) -> Outcome {
        Outcome { evidence, places: places.to_vec(), within_budget, milliseconds }
    }

    #[test]
    fn figures_are_means_over_the_questions() {
        let figures = Figures::new(&[
            outcome(2, &[1, 6], Some(2), 4.0),
            outcome(1, &[2], Some(0), 2.0),
            outcome(4, &[], None, 9.0),
        ]);
        assert_eq!(figures.recall_at_5, (0.5 + 1.0 + 0.0) / 3.0);
        assert_eq!(figures.recall_at_10, (1.0 + 1.0 + 0.0) / 3.0);
        assert_eq!((figures.all_at_5, figures.all_at_10), (1.0 / 3.0, 2.0 / 3.0));
        assert_eq!(figures.mrr, (1.0 + 0.5 + 0.0) / 3.0);
        assert_eq!(figures.all_in_budget, Some(0.5), "of the questions that have one");
        assert_eq!((figures.p50_ms, figures.p95_ms), (4.0, 9.0));
    }

    #[test]
    fn without_a_budget_there_is_no_figure_for_it() {
        assert_eq!(Figures::new(&[outcome(1, &[1], None, 1.0)]).all_in_budget, None);
    }
}
