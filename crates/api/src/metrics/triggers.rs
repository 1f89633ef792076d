//! The part about triggers: what fired, and what waits to.

use std::fmt::{Result, Write};

use emergent_domain::trigger::EventKind;
use emergent_executor::triggers::firing_counts::{FiringTotals, SCHEDULE};

use super::write_header;

/// What waits, on all servers of the database.
#[derive(Default)]
pub(crate) struct WaitingFirings {
    /// Kinds of which none waits need not be there.
    pub events: Vec<(EventKind, i64)>,
    pub schedules: i64,
}

impl WaitingFirings {
    fn count(&self, event: EventKind) -> i64 {
        self.events.iter().filter(|(one, _)| *one == event).map(|(_, count)| count).sum()
    }
}

pub(super) fn write(text: &mut String, figures: &FiringTotals, waiting: &WaitingFirings) -> Result {
    let name = "emergent_trigger_firings_total";
    write_header(text, name, "counter", "Firings of triggers, by kind and what became of them.")?;
    for ((kind, outcome), count) in figures {
        writeln!(text, r#"{name}{{kind="{kind}",outcome="{outcome}"}} {count}"#)?;
    }
    let name = "emergent_trigger_firings_waiting";
    write_header(
        text,
        name,
        "gauge",
        "Firings that wait for their window, for a server or for room in the queue.",
    )?;
    writeln!(text, r#"{name}{{kind="{SCHEDULE}"}} {}"#, waiting.schedules)?;
    for event in EventKind::ALL {
        writeln!(text, r#"{name}{{kind="{event}"}} {}"#, waiting.count(*event))?;
    }
    Ok(())
}
