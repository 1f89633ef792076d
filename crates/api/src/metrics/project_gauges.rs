//! The values of one project, for a token that is bound to it. Each has the label `project`, so that a
//! Prometheus server can scrape several projects.

use std::fmt::Error;

use emergent_domain::{ids::ProjectId, trigger::EventKind, workflow::WorkflowStatus};
use emergent_executor::triggers::firing_counts::SCHEDULE;
use emergent_store::project_counts::ProjectCounts;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::gauge::ConstGauge,
};

use super::gauges::{describe, sum};

/// The counts of a project at the moment of a scrape.
#[derive(Debug)]
pub(crate) struct ProjectGauges {
    pub project: ProjectId,
    pub counts: ProjectCounts,
}

impl Collector for ProjectGauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        let (project, counts) = (self.project.to_string(), &self.counts);
        let project = ("project", project.as_str());
        for (name, help, value) in [
            ("runs_running", "Runs of the project that a server drives.", counts.running_runs),
            ("runs_queued", "Queued runs of the project.", counts.queued_runs),
            ("embedding_queue", "Objects and chunks that wait for their vector.", counts.embedding_queue),
        ] {
            let mut family = describe(&mut encoder, name, help)?;
            ConstGauge::new(value).encode(family.encode_family(&[project])?)?;
        }

        let help = "Workflows of the project that are planned or running.";
        let mut family = describe(&mut encoder, "workflows_live", help)?;
        for status in WorkflowStatus::ALL.iter().filter(|status| status.is_active()) {
            let labels = [project, ("status", status.as_str())];
            let value = sum(&counts.active_workflows, status);
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }

        let help = "Firings that wait for their window, for a server or for capacity in the queue.";
        let mut family = describe(&mut encoder, "trigger_firings_waiting", help)?;
        let labels = [project, ("kind", SCHEDULE)];
        ConstGauge::new(counts.waiting_schedules).encode(family.encode_family(&labels)?)?;
        for event in EventKind::ALL {
            let labels = [project, ("kind", event.as_str())];
            ConstGauge::new(sum(&counts.waiting_events, event)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
