//! Says that a schedule is paused where somebody saves it: otherwise they would wait for it to fire.

use emergent_wire::trigger::{ScheduleView, TriggersView};

use crate::{
    client::{Client, Received},
    hints, output,
};

/// Prints that a schedule is still paused, and how to resume it. Nothing is printed if this token may not know.
pub async fn warn_if_paused(client: &Client, schedule: &str) {
    let Ok(response) = client.get("/api/admin/triggers").await else { return };
    let Ok(triggers) = response.data::<Received<TriggersView>>().await else { return };
    let is_paused = |own: &ScheduleView| own.name == schedule && !own.enabled;
    if triggers.schedules.iter().any(is_paused) {
        let resume = hints::command(&format!("trigger resume {}", hints::quoted(schedule)));
        output::print_notice(&format!("schedule {schedule} stays paused; `{resume}` resumes it"));
    }
}
