//! The part about agents: runs, models, tools.

use std::fmt::{Result, Write};

use emergent_executor::telemetry::{BUCKETS, Histogram, MetricsSnapshot};

use super::{
    triggers::{self, WaitingFirings},
    workflows::WorkflowMetrics,
    write_header,
};

#[derive(Default)]
pub(crate) struct RunMetrics {
    pub figures: MetricsSnapshot,
    pub running: usize,
    pub queued: i64,
    pub workflows: WorkflowMetrics,
    pub waiting: WaitingFirings,
}

impl RunMetrics {
    pub fn write(&self, text: &mut String) -> Result {
        write_header(text, "emergent_runs_total", "counter", "Runs that ended, by how and why.")?;
        for ((status, reason), count) in &self.figures.runs {
            writeln!(text, r#"emergent_runs_total{{status="{status}",reason="{reason}"}} {count}"#)?;
        }
        write_header(text, "emergent_runs_running", "gauge", "Runs this process drives.")?;
        writeln!(text, "emergent_runs_running {}", self.running)?;
        write_header(
            text,
            "emergent_runs_queued",
            "gauge",
            "Runs that wait for a place, on whatever server.",
        )?;
        writeln!(text, "emergent_runs_queued {}", self.queued)?;
        self.workflows.write(text)?;
        write_header(text, "emergent_run_steps_total", "counter", "Answers of models that were recorded.")?;
        writeln!(text, "emergent_run_steps_total {}", self.figures.steps)?;
        triggers::write(text, &self.figures.triggers, &self.waiting)?;
        self.write_models(text)?;
        self.write_tools(text)
    }

    fn write_models(&self, text: &mut String) -> Result {
        let models: Vec<_> = self
            .figures
            .models
            .iter()
            .flat_map(|(provider, names)| names.iter().map(move |(name, one)| (provider, name, one)))
            .map(|(provider, name, one)| {
                (format!(r#"provider="{}",model="{}""#, escaped(provider), escaped(name)), one)
            })
            .collect();
        write_header(
            text,
            "emergent_model_calls_total",
            "counter",
            "Questions to models, retries not counted.",
        )?;
        for (labels, one) in &models {
            for (outcome, count) in &one.by_outcome {
                writeln!(text, r#"emergent_model_calls_total{{{labels},outcome="{outcome}"}} {count}"#)?;
            }
        }
        write_header(text, "emergent_model_call_seconds", "histogram", "Time until a model has answered.")?;
        for (labels, one) in &models {
            histogram(text, "emergent_model_call_seconds", labels, &one.seconds)?;
        }
        write_header(
            text,
            "emergent_tokens_total",
            "counter",
            "Tokens; reasoning is part of output, cache_read and cache_write of input.",
        )?;
        for (labels, one) in &models {
            for (kind, count) in [
                ("input", one.usage.input),
                ("output", one.usage.output),
                ("reasoning", one.usage.reasoning),
                ("cache_read", one.usage.cache_read),
                ("cache_write", one.usage.cache_write),
            ] {
                writeln!(text, r#"emergent_tokens_total{{{labels},kind="{kind}"}} {count}"#)?;
            }
        }
        write_header(
            text,
            "emergent_cost_usd_total",
            "counter",
            "US dollars, where a model's price is known.",
        )?;
        for (labels, one) in &models {
            writeln!(text, "emergent_cost_usd_total{{{labels}}} {}", one.cost)?;
        }
        Ok(())
    }

    fn write_tools(&self, text: &mut String) -> Result {
        write_header(
            text,
            "emergent_tool_calls_total",
            "counter",
            "Calls of tools; a refused one was not made.",
        )?;
        for (tool, one) in &self.figures.tools {
            for (status, count) in &one.by_status {
                let tool = escaped(tool);
                writeln!(text, r#"emergent_tool_calls_total{{tool="{tool}",status="{status}"}} {count}"#)?;
            }
        }
        write_header(text, "emergent_tool_seconds", "histogram", "Time a call took, its record included.")?;
        for (tool, one) in &self.figures.tools {
            let labels = format!(r#"tool="{}""#, escaped(tool));
            histogram(text, "emergent_tool_seconds", &labels, &one.seconds)?;
        }
        Ok(())
    }
}

/// A histogram, with labels or without.
pub(super) fn histogram(text: &mut String, name: &str, labels: &str, of: &Histogram) -> Result {
    let (more, own) = match labels {
        "" => (String::new(), String::new()),
        labels => (format!("{labels},"), format!("{{{labels}}}")),
    };
    let mut below = 0;
    for (bound, count) in BUCKETS.iter().zip(of.by_bucket) {
        below += count;
        writeln!(text, r#"{name}_bucket{{{more}le="{bound}"}} {below}"#)?;
    }
    writeln!(text, r#"{name}_bucket{{{more}le="+Inf"}} {}"#, of.count)?;
    writeln!(text, "{name}_sum{own} {}", of.sum)?;
    writeln!(text, "{name}_count{own} {}", of.count)
}

/// Names come from definitions: one with a quote in it must not end the label.
fn escaped(name: &str) -> String {
    name.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}
