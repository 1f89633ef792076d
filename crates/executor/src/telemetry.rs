//! What this process counts of its runs, as figures since it started. Names come from definitions
//! and from servers of tools, so there is a limit to how many are told apart.

use std::{
    collections::{BTreeMap, HashMap},
    sync::OnceLock,
    time::Duration,
};

use emergent_domain::{
    agent::ModelConfig,
    chat::Usage,
    ids::RunId,
    run::{RunEnd, RunStatus, ToolCallStatus},
};
use parking_lot::Mutex;
use tracing::Span;
use uuid::Uuid;

use crate::{
    spans,
    triggers::firing_counts::{self, FiringCounts},
};

/// How many tools, and how many models, are counted by their own name.
const MAX_NAMES: usize = 200;
/// Where the rest goes.
const OTHER: &str = "other";
/// Upper bounds of the buckets, in seconds.
pub const BUCKETS: [f64; 14] =
    [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

type Listener = Box<dyn Fn(&ModelCall<'_>) + Send + Sync>;

#[derive(Default)]
pub struct Telemetry {
    metrics: Mutex<MetricsSnapshot>,
    listener: OnceLock<Listener>,
    /// Spans that runs below can be children of, by run or by call. Empty unless spans are asked for.
    pub(crate) open_spans: Mutex<HashMap<Uuid, Span>>,
}

/// One question to a model, retries included.
#[derive(Debug, Clone, Copy)]
pub struct ModelCall<'a> {
    pub model: &'a ModelConfig,
    pub took: Duration,
    /// What class of error it ended with, if it did.
    pub error: Option<&'static str>,
    pub usage: Option<Usage>,
    /// In US dollars, where the model's price is known.
    pub cost: Option<f64>,
}

/// Everything counted so far.
#[derive(Debug, Clone, Default)]
pub struct MetricsSnapshot {
    /// By status and reason; no reason is an empty one.
    pub runs: BTreeMap<(&'static str, &'static str), u64>,
    pub steps: u64,
    /// By provider, then by name.
    pub models: BTreeMap<String, BTreeMap<String, ModelMetrics>>,
    pub tools: BTreeMap<String, ToolMetrics>,
    /// Firings of triggers: by kind, which is `schedule` or the event, and what became of them.
    pub triggers: firing_counts::FiringTotals,
}

#[derive(Debug, Clone, Default)]
pub struct ModelMetrics {
    /// `ok`, or the class of the error.
    pub by_outcome: BTreeMap<&'static str, u64>,
    pub seconds: Histogram,
    pub usage: Usage,
    pub cost: f64,
}

#[derive(Debug, Clone, Default)]
pub struct ToolMetrics {
    pub by_status: BTreeMap<&'static str, u64>,
    pub seconds: Histogram,
}

#[derive(Debug, Clone, Default)]
pub struct Histogram {
    pub by_bucket: [u64; BUCKETS.len()],
    pub count: u64,
    pub sum: f64,
}

impl Histogram {
    pub fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            self.by_bucket[bucket] += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

impl Telemetry {
    /// Hears of every model call from now on. Only the first that asks does.
    pub fn on_model_call(&self, listener: impl Fn(&ModelCall<'_>) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    pub fn metrics(&self) -> MetricsSnapshot {
        self.metrics.lock().clone()
    }

    pub(crate) fn record_run_end(&self, end: &RunEnd) {
        let reason = end.reason().map_or("", |reason| reason.as_str());
        *self.metrics.lock().runs.entry((end.status().as_str(), reason)).or_default() += 1;
    }

    /// Before their drivers are dropped: with them go their spans.
    pub(crate) fn record_cancelled(&self, runs: &[RunId]) {
        if runs.is_empty() {
            return;
        }
        let status = RunStatus::Cancelled.as_str();
        *self.metrics.lock().runs.entry((status, "")).or_default() += runs.len() as u64;
        let open = self.open_spans.lock();
        runs.iter().filter_map(|run| open.get(&run.0)).for_each(spans::mark_cancelled);
    }

    pub(crate) fn record_step(&self) {
        self.metrics.lock().steps += 1;
    }

    pub(crate) fn record_model_call(&self, call: &ModelCall<'_>) {
        {
            let mut figures = self.metrics.lock();
            let one = figures.model(&call.model.provider, &call.model.name);
            *one.by_outcome.entry(call.error.unwrap_or("ok")).or_default() += 1;
            one.seconds.add(call.took);
            if let Some(usage) = &call.usage {
                one.usage.input += usage.input;
                one.usage.output += usage.output;
                one.usage.reasoning += usage.reasoning;
                one.usage.cache_read += usage.cache_read;
                one.usage.cache_write += usage.cache_write;
            }
            one.cost += call.cost.unwrap_or_default();
        }
        if let Some(listener) = self.listener.get() {
            listener(call);
        }
    }

    pub(crate) fn record_tool_call(&self, tool: &str, status: ToolCallStatus, took: Duration) {
        let mut figures = self.metrics.lock();
        let one = figures.tool(tool);
        *one.by_status.entry(status.as_str()).or_default() += 1;
        one.seconds.add(took);
    }

    /// Firings that were noted or settled, once that is committed.
    pub(crate) fn record_firings(&self, tally: FiringCounts) {
        tally.add_to(&mut self.metrics.lock().triggers);
    }

    /// A call that was not made. A name that is no tool's is the model's invention: those are one.
    pub(crate) fn record_refused_call(&self, tool: Option<&str>) {
        let mut figures = self.metrics.lock();
        *figures.tool(tool.unwrap_or("unknown")).by_status.entry("refused").or_default() += 1;
    }
}

impl MetricsSnapshot {
    fn model(&mut self, provider: &str, name: &str) -> &mut ModelMetrics {
        let known = self.models.get(provider).is_some_and(|names| names.contains_key(name));
        let full = !known && self.models.values().map(BTreeMap::len).sum::<usize>() >= MAX_NAMES;
        let (provider, name) = if full { (OTHER, OTHER) } else { (provider, name) };
        entry_or_default(entry_or_default(&mut self.models, provider), name)
    }

    fn tool(&mut self, name: &str) -> &mut ToolMetrics {
        let full = !self.tools.contains_key(name) && self.tools.len() >= MAX_NAMES;
        entry_or_default(&mut self.tools, if full { OTHER } else { name })
    }
}

/// Copies the name only when it is new.
fn entry_or_default<'a, T: Default>(map: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    if !map.contains_key(name) {
        map.insert(name.to_owned(), T::default());
    }
    map.get_mut(name).expect("it is there now")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_are_counted_together() {
        let telemetry = Telemetry::default();
        for round in 0..2 {
            for number in 0..MAX_NAMES + 50 {
                let took = Duration::from_millis(2);
                telemetry.record_tool_call(&format!("tool_{number}"), ToolCallStatus::Completed, took);
                let model: ModelConfig = format!("p{}/m{number}", number % 7).parse().unwrap();
                let usage = Some(Usage { input: 3, ..Usage::default() });
                telemetry.record_model_call(&ModelCall {
                    model: &model,
                    took,
                    error: None,
                    usage,
                    cost: Some(0.5),
                });
            }
            let figures = telemetry.metrics();
            let models: usize = figures.models.values().map(BTreeMap::len).sum();
            assert_eq!((figures.tools.len(), models), (MAX_NAMES + 1, MAX_NAMES + 1), "round {round}");
        }
        let figures = telemetry.metrics();
        assert_eq!(figures.tools["tool_0"].by_status["completed"], 2);
        assert_eq!(
            (figures.tools[OTHER].seconds.count, figures.tools[OTHER].seconds.by_bucket[1]),
            (100, 100)
        );
        let other = &figures.models[OTHER][OTHER];
        assert_eq!((other.by_outcome["ok"], other.usage.input, other.cost), (100, 300, 50.0));
    }
}
