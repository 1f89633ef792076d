//! Values that are read at the moment of a scrape: from this process, and from the database that all
//! servers share.

use std::fmt::Error;

use emergent_domain::{project::DeletedCounts, trigger::EventKind, workflow::WorkflowStatus};
use emergent_executor::triggers::firing_counts::SCHEDULE;
use emergent_store::jobs::QueueCount;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

/// The values of one scrape.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    /// Open event streams of this process.
    pub event_streams: usize,
    /// Runs that this process drives.
    pub running_runs: usize,
    /// Workflows that this process drives.
    pub driven_workflows: usize,
    /// Queued runs of all servers.
    pub queued_runs: i64,
    /// Runs of all servers that wait for a person.
    pub waiting_runs: i64,
    /// Active workflows of all servers. A status without workflows may be absent.
    pub active_workflows: Vec<(WorkflowStatus, i64)>,
    /// Pending firings of schedules, of all servers.
    pub waiting_schedules: i64,
    /// Pending firings of events, of all servers. A kind without firings may be absent.
    pub waiting_events: Vec<(EventKind, i64)>,
    /// Jobs by queue and status, of all servers.
    pub jobs: Vec<QueueCount>,
    /// Objects and chunks that have no vector yet.
    pub embedding_queue: i64,
    /// What was deleted in all projects because they do not keep it any longer.
    pub deleted: DeletedCounts,
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        for (name, help, value) in [
            ("event_streams", "Open event streams.", self.event_streams as i64),
            ("runs_running", "Runs that this process drives.", self.running_runs as i64),
            ("runs_queued", "Queued runs, on all servers.", self.queued_runs),
            ("runs_waiting", "Runs that wait for a person, on all servers.", self.waiting_runs),
            ("workflows_walking", "Workflows that this process drives.", self.driven_workflows as i64),
            ("embedding_queue", "Objects and chunks that wait for their vector.", self.embedding_queue),
        ] {
            ConstGauge::new(value).encode(describe(&mut encoder, name, help)?)?;
        }

        let help = "Rows that projects do not keep any longer and that were deleted, on all servers.";
        let mut family = encoder.encode_descriptor("deleted", help, None, MetricType::Counter)?;
        let DeletedCounts { runs, events, firings } = self.deleted;
        for (kind, count) in [("runs", runs), ("events", events), ("firings", firings)] {
            let labels = [("kind", kind)];
            ConstCounter::new(count.unsigned_abs()).encode(family.encode_family(&labels)?)?;
        }

        let help = "Workflows that are planned or running, on all servers.";
        let mut family = describe(&mut encoder, "workflows_live", help)?;
        for status in WorkflowStatus::ALL.iter().filter(|status| status.is_active()) {
            let labels = [("status", status.as_str())];
            ConstGauge::new(sum(&self.active_workflows, status)).encode(family.encode_family(&labels)?)?;
        }

        let help = "Firings that wait for their window, for a server or for capacity in the queue.";
        let mut family = describe(&mut encoder, "trigger_firings_waiting", help)?;
        ConstGauge::new(self.waiting_schedules).encode(family.encode_family(&[("kind", SCHEDULE)])?)?;
        for event in EventKind::ALL {
            let labels = [("kind", event.as_str())];
            ConstGauge::new(sum(&self.waiting_events, event)).encode(family.encode_family(&labels)?)?;
        }

        let mut family = describe(&mut encoder, "jobs", "Jobs by queue and status.")?;
        for count in &self.jobs {
            let labels = [("queue", count.queue.as_str()), ("status", count.status.as_str())];
            ConstGauge::new(count.jobs).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Declares a gauge. Unlike `Registry::register`, this adds no full stop to the help text.
pub(super) fn describe<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &'a str,
) -> Result<MetricEncoder<'a>, Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)
}

/// Returns the total of one key; 0 if it is absent.
pub(super) fn sum<K: PartialEq>(counts: &[(K, i64)], key: &K) -> i64 {
    counts.iter().filter(|(counted, _)| counted == key).map(|(_, count)| count).sum()
}
