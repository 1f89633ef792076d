//! Converts commands of a person about a task: retry, reassign, skip.

use emergent_coordination::TaskCommand;
pub(crate) use emergent_wire::task::*;

pub(crate) fn retry(body: RetryTask) -> TaskCommand {
    TaskCommand::Retry { note: body.note }
}

pub(crate) fn reassign(body: ReassignTask) -> TaskCommand {
    TaskCommand::Reassign { agent: body.agent, note: body.note }
}

pub(crate) fn skip(body: SkipTask) -> TaskCommand {
    TaskCommand::Skip { reason: body.reason }
}
