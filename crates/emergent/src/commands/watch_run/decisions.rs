//! Decides what a followed run waits for, where nobody else can: this process has the data folder to itself, so no other
//! command could decide while it waits.

use std::io::IsTerminal;

use console::Term;
use emergent_domain::approval::{ApprovalKind, ApprovalStatus};
use emergent_wire::{approval::ApprovalView, run_event::BodyView};
use uuid::Uuid;

use crate::{
    client::{Client, OtherDriver, Received},
    commands::inbox::{self, Reviewed},
    error::{Error, Result},
    hints,
};

/// Who can decide while the run is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decider {
    /// Somebody with another command, or in the web UI, through a server.
    Others,
    /// The person at this terminal.
    ThisTerminal,
    /// Nobody before this process ends.
    Nobody,
}

/// What a person was asked to decide by the run that is followed.
pub struct Decisions<'a> {
    client: &'a Client,
    decider: Decider,
    requests: Vec<Uuid>,
}

/// What came of a run that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    GoOn,
    /// The person pressed Ctrl-C.
    Interrupted,
}

impl<'a> Decisions<'a> {
    /// With `can_ask`, a person at the terminal is asked.
    pub fn new(client: &'a Client, can_ask: bool) -> Self {
        let is_attended = || can_ask && std::io::stdin().is_terminal() && Term::stderr().is_term();
        let decider = match client.other_driver() {
            OtherDriver::Server | OtherDriver::MaybeServer => Decider::Others,
            OtherDriver::Nobody if is_attended() => Decider::ThisTerminal,
            OtherDriver::Nobody => Decider::Nobody,
        };
        Self { client, decider, requests: Vec::new() }
    }

    /// Takes note of an event. When the run waits, the person at the terminal decides; without one, the command ends, so
    /// that another one can decide.
    pub async fn event(&mut self, run: &str, event: &BodyView) -> Result<Wait> {
        match event {
            BodyView::ApprovalRequested { approval_id, kind, .. } if *kind != ApprovalKind::ClientTool => {
                self.requests.push(*approval_id);
                Ok(Wait::GoOn)
            }
            BodyView::RunWaiting { .. } if self.decider != Decider::Others => self.decide(run).await,
            _ => Ok(Wait::GoOn),
        }
    }

    async fn decide(&mut self, run: &str) -> Result<Wait> {
        for id in std::mem::take(&mut self.requests) {
            let request = inbox::load(self.client, &id.to_string()).await;
            let request: Received<ApprovalView> = match request {
                Ok(request) if request.status != ApprovalStatus::Pending => continue,
                Ok(request) => request,
                // Somebody with another token has to decide.
                Err(Error::Refused { .. }) => return Err(undecided(run, id)),
                Err(error) => return Err(error),
            };
            if self.decider == Decider::Nobody {
                return Err(undecided(run, id));
            }
            match inbox::review_request(self.client, &Term::stderr(), &request, &mut String::new()).await? {
                Reviewed::Decided => {}
                Reviewed::Later | Reviewed::Ended => return Err(undecided(run, id)),
                Reviewed::Interrupted => return Ok(Wait::Interrupted),
            }
        }
        Ok(Wait::GoOn)
    }
}

fn undecided(run: &str, request: Uuid) -> Error {
    Error::Usage(format!(
        "the run waits for a decision: `{}` says how to decide it, then `{}` goes on with it",
        hints::command(&format!("inbox show {request}")),
        hints::command(&format!("run follow {run}")),
    ))
}
