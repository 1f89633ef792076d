//! Metrics of the runs that this process drives, counted since it started. Names of tools and models come
//! from definitions and from external servers, so only a limited number of them gets labels of its own.

use std::{
    collections::HashSet,
    hash::Hash,
    sync::{OnceLock, atomic::AtomicU64},
    time::Duration,
};

use emergent_domain::{
    agent::ModelConfig,
    approval::{ApprovalKind, Choice},
    chat::Usage,
    ids::RunId,
    run::{RunEnd, RunStatus, ToolCallStatus},
};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::triggers::firing_counts::{FiringCounts, FiringLabels};

/// How many tools, and how many models, have labels of their own.
const MAX_NAMES: usize = 200;
/// The label of all tools and models beyond the limit.
const OTHER: &str = "other";
/// Upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

type Listener = Box<dyn Fn(&ModelCall<'_>) + Send + Sync>;

/// The metrics of runs, model calls, tool calls and triggers.
pub struct Telemetry {
    runs: Family<RunLabels, Counter>,
    steps: Counter,
    model_calls: Family<ModelCallLabels, Counter>,
    model_call_seconds: Family<ModelLabels, Histogram>,
    tokens: Family<TokenLabels, Counter>,
    cost_usd: Family<ModelLabels, Counter<f64, AtomicU64>>,
    tool_calls: Family<ToolCallLabels, Counter>,
    tool_seconds: Family<ToolLabels, Histogram>,
    trigger_firings: Family<FiringLabels, Counter>,
    approvals: Family<ApprovalLabels, Counter>,
    models: LimitedLabels<ModelLabels>,
    tools: LimitedLabels<ToolLabels>,
    listener: OnceLock<Listener>,
}

/// One model call, including its retries.
#[derive(Debug, Clone, Copy)]
pub struct ModelCall<'a> {
    pub model: &'a ModelConfig,
    pub took: Duration,
    /// The class of the error, if the call failed.
    pub error: Option<&'static str>,
    pub usage: Option<Usage>,
    /// In US dollars, if the price of the model is known.
    pub cost: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    status: &'static str,
    /// Empty if the run ended without a reason.
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApprovalLabels {
    kind: &'static str,
    /// `requested`, the decision, or `expired`.
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabels {
    provider: String,
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelCallLabels {
    #[prometheus(flatten)]
    model: ModelLabels,
    /// `ok`, or the class of the error.
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    #[prometheus(flatten)]
    model: ModelLabels,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabels {
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolCallLabels {
    #[prometheus(flatten)]
    tool: ToolLabels,
    status: &'static str,
}

/// A histogram of durations from a millisecond to five minutes.
pub fn seconds_histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            runs: Family::default(),
            steps: Counter::default(),
            model_calls: Family::default(),
            model_call_seconds: Family::new_with_constructor(seconds_histogram),
            tokens: Family::default(),
            cost_usd: Family::default(),
            tool_calls: Family::default(),
            tool_seconds: Family::new_with_constructor(seconds_histogram),
            trigger_firings: Family::default(),
            approvals: Family::default(),
            models: LimitedLabels::default(),
            tools: LimitedLabels::default(),
            listener: OnceLock::new(),
        }
    }
}

impl Telemetry {
    /// Adds the metrics of this process's runs to a registry, which shares their values.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("runs", "Runs that ended, by status and reason", self.runs.clone());
        registry.register("run_steps", "Recorded answers of models", self.steps.clone());
        registry.register("model_calls", "Model calls; retries are not counted", self.model_calls.clone());
        let help = "Duration of a model call, including its retries";
        registry.register("model_call_seconds", help, self.model_call_seconds.clone());
        let help = "Tokens; output includes reasoning, input includes cache_read and cache_write";
        registry.register("tokens", help, self.tokens.clone());
        registry.register("cost_usd", "Cost in US dollars, if the price is known", self.cost_usd.clone());
        registry.register(
            "tool_calls",
            "Tool calls; a refused one was not executed",
            self.tool_calls.clone(),
        );
        let help = "Duration of a tool call, including the time to record it";
        registry.register("tool_seconds", help, self.tool_seconds.clone());
        let help = "Firings of triggers, by kind and outcome";
        registry.register("trigger_firings", help, self.trigger_firings.clone());
        let help = "Requests to people, by kind, when they are made and when they are decided";
        registry.register("approvals", help, self.approvals.clone());
    }

    /// Calls `listener` for every model call from now on. Only the first listener is used.
    pub fn on_model_call(&self, listener: impl Fn(&ModelCall<'_>) + Send + Sync + 'static) {
        let _ = self.listener.set(Box::new(listener));
    }

    pub(crate) fn record_run_end(&self, end: &RunEnd) {
        let reason = end.reason().map_or("", |reason| reason.as_str());
        self.runs.get_or_create(&RunLabels { status: end.status().as_str(), reason }).inc();
    }

    pub(crate) fn record_cancelled(&self, runs: &[RunId]) {
        if runs.is_empty() {
            return;
        }
        let labels = RunLabels { status: RunStatus::Cancelled.as_str(), reason: "" };
        self.runs.get_or_create(&labels).inc_by(runs.len() as u64);
    }

    pub(crate) fn record_step(&self) {
        self.steps.inc();
    }

    pub(crate) fn record_model_call(&self, call: &ModelCall<'_>) {
        let model = self.models.limit(
            ModelLabels { provider: call.model.provider.clone(), model: call.model.name.clone() },
            || ModelLabels { provider: OTHER.to_owned(), model: OTHER.to_owned() },
        );
        let outcome = call.error.unwrap_or("ok");
        self.model_calls.get_or_create(&ModelCallLabels { model: model.clone(), outcome }).inc();
        self.model_call_seconds.get_or_create(&model).observe(call.took.as_secs_f64());
        self.cost_usd.get_or_create(&model).inc_by(call.cost.unwrap_or_default());
        let usage = call.usage.unwrap_or_default();
        // All kinds are created with the first call, so that a kind without tokens is reported as zero.
        for (kind, count) in [
            ("input", usage.input),
            ("output", usage.output),
            ("reasoning", usage.reasoning),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write),
        ] {
            self.tokens.get_or_create(&TokenLabels { model: model.clone(), kind }).inc_by(count);
        }
        if let Some(listener) = self.listener.get() {
            listener(call);
        }
    }

    pub(crate) fn record_tool_call(&self, tool: &str, status: ToolCallStatus, took: Duration) {
        let tool = self.tool_labels(tool);
        self.tool_seconds.get_or_create(&tool).observe(took.as_secs_f64());
        self.tool_calls.get_or_create(&ToolCallLabels { tool, status: status.as_str() }).inc();
    }

    /// Records a call that was not executed. `None` stands for a tool that does not exist: models
    /// invent such names, so they share one label.
    pub(crate) fn record_refused_call(&self, tool: Option<&str>) {
        let tool = self.tool_labels(tool.unwrap_or("unknown"));
        self.tool_calls.get_or_create(&ToolCallLabels { tool, status: "refused" }).inc();
    }

    /// Records a request to a person.
    pub(crate) fn record_request(&self, kind: ApprovalKind) {
        self.approvals.get_or_create(&ApprovalLabels { kind: kind.as_str(), outcome: "requested" }).inc();
    }

    /// Records how a request was decided; `None` if its time was up.
    pub(crate) fn record_decision(&self, kind: ApprovalKind, choice: Option<Choice>) {
        let outcome = choice.map_or("expired", Choice::as_str);
        self.approvals.get_or_create(&ApprovalLabels { kind: kind.as_str(), outcome }).inc();
    }

    /// Must be called after the transaction that inserted or settled the firings has committed.
    pub(crate) fn record_firings(&self, counts: FiringCounts) {
        counts.add_to(&self.trigger_firings);
    }

    fn tool_labels(&self, tool: &str) -> ToolLabels {
        self.tools.limit(ToolLabels { tool: tool.to_owned() }, || ToolLabels { tool: OTHER.to_owned() })
    }
}

/// The label sets that have series of their own, at most [`MAX_NAMES`]. A [`Family`] cannot say how
/// many label sets it has, and never removes one.
struct LimitedLabels<L>(Mutex<HashSet<L>>);

impl<L> Default for LimitedLabels<L> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<L: Clone + Eq + Hash> LimitedLabels<L> {
    /// Returns `labels`, or `other` if they are new and the limit is reached.
    fn limit(&self, labels: L, other: impl FnOnce() -> L) -> L {
        let mut label_sets = self.0.lock();
        if label_sets.contains(&labels) {
            return labels;
        }
        if label_sets.len() >= MAX_NAMES {
            return other();
        }
        label_sets.insert(labels.clone());
        labels
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    fn render(telemetry: &Telemetry) -> String {
        let mut registry = Registry::with_prefix("emergent");
        telemetry.register(&mut registry);
        let mut rendered = String::new();
        text::encode(&mut rendered, &registry).unwrap();
        rendered
    }

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
            let rendered = render(&telemetry);
            for name in ["tool_calls_total", "tool_seconds_count", "model_calls_total", "cost_usd_total"] {
                let start = format!("emergent_{name}{{");
                let series = rendered.lines().filter(|line| line.starts_with(&start)).count();
                assert_eq!(series, MAX_NAMES + 1, "{name}, round {round}");
            }
        }
        let rendered = render(&telemetry);
        for line in [
            r#"emergent_tool_calls_total{tool="tool_0",status="completed"} 2"#,
            r#"emergent_tool_seconds_count{tool="other"} 100"#,
            r#"emergent_tool_seconds_bucket{le="0.001",tool="other"} 0"#,
            r#"emergent_tool_seconds_bucket{le="0.005",tool="other"} 100"#,
            r#"emergent_model_calls_total{provider="other",model="other",outcome="ok"} 100"#,
            r#"emergent_tokens_total{provider="other",model="other",kind="input"} 300"#,
            r#"emergent_tokens_total{provider="other",model="other",kind="output"} 0"#,
            r#"emergent_cost_usd_total{provider="other",model="other"} 50.0"#,
        ] {
            assert!(rendered.lines().any(|rendered| rendered == line), "{line} in\n{rendered}");
        }
    }
}
