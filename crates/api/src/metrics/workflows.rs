//! The part about workflows: which are live, and what the dispatcher of this process decided.

use std::{
    collections::BTreeMap,
    fmt::{Result, Write},
};

use emergent_coordination::MetricsSnapshot;
use emergent_domain::workflow::WorkflowStatus;

use super::{runs::histogram, write_header};

#[derive(Default)]
pub(crate) struct WorkflowMetrics {
    pub figures: MetricsSnapshot,
    /// How many this process walks.
    pub driven: usize,
    /// On all servers of the database; a status of which there is none need not be there.
    pub live: Vec<(WorkflowStatus, i64)>,
}

impl WorkflowMetrics {
    pub fn write(&self, text: &mut String) -> Result {
        write_header(text, "emergent_workflows_walking", "gauge", "Workflows this process walks.")?;
        writeln!(text, "emergent_workflows_walking {}", self.driven)?;
        let name = "emergent_workflows_live";
        write_header(text, name, "gauge", "Workflows that are planned or run, on whatever server.")?;
        for status in WorkflowStatus::ALL.iter().filter(|status| status.is_active()) {
            let count: i64 = self.live.iter().filter(|(one, _)| one == status).map(|(_, count)| count).sum();
            writeln!(text, r#"{name}{{status="{status}"}} {count}"#)?;
        }
        let MetricsSnapshot { ended, attempts, decisions, queue_time: waited } = &self.figures;
        let name = "emergent_workflows_ended_total";
        counters(text, name, "Workflows that ended, by how.", "status", ended)?;
        let name = "emergent_task_attempts_total";
        counters(text, name, "Attempts at tasks that ended, by what was made of them.", "outcome", attempts)?;
        let name = "emergent_dispatch_decisions_total";
        counters(text, name, "Decisions of the dispatcher that were written.", "decision", decisions)?;
        let name = "emergent_task_wait_seconds";
        write_header(text, name, "histogram", "Time the runs of attempts were queued.")?;
        histogram(text, name, "", waited)
    }
}

fn counters(
    text: &mut String,
    name: &str,
    help: &str,
    label: &str,
    counted: &BTreeMap<&'static str, u64>,
) -> Result {
    write_header(text, name, "counter", help)?;
    for (value, count) in counted {
        writeln!(text, r#"{name}{{{label}="{value}"}} {count}"#)?;
    }
    Ok(())
}
