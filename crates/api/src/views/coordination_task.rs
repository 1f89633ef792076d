//! Converts tasks of a list, and commands of a person about a task: retry, reassign, skip.

use emergent_coordination::{ListedTask, TaskCommand};
pub(crate) use emergent_wire::task::*;

use super::IntoView;

impl IntoView<TaskView> for ListedTask {
    fn into_view(self) -> TaskView {
        TaskView { not_dispatched: self.refusal, ..self.object.into() }
    }
}

pub(crate) fn retry(body: RetryTask) -> TaskCommand {
    TaskCommand::Retry { note: body.note }
}

pub(crate) fn reassign(body: ReassignTask) -> TaskCommand {
    TaskCommand::Reassign { agent: body.agent, note: body.note }
}

pub(crate) fn skip(body: SkipTask) -> TaskCommand {
    TaskCommand::Skip { reason: body.reason }
}
