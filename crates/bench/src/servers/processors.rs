//! How busy the processors of the whole machine are: servers, database, model and clients together.

use std::fs;

/// The processor time of the machine since it was started, in ticks.
pub(super) struct Processors {
    busy: f64,
    all: f64,
}

impl Processors {
    pub fn now() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        // `cpu user nice system idle iowait irq softirq steal guest guest_nice`; the guests are in user and nice.
        let ticks: Vec<f64> = stat
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .take(8)
            .filter_map(|number| number.parse().ok())
            .collect();
        let all: f64 = ticks.iter().sum();
        let idle: f64 = ticks.iter().skip(3).take(2).sum();
        Self { busy: all - idle, all }
    }

    /// Returns which part of the processor time was used since then, 0 to 1.
    pub fn busy_since(&self) -> f64 {
        let now = Self::now();
        (now.busy - self.busy) / (now.all - self.all).max(1.0)
    }
}
