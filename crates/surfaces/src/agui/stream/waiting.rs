//! The end of a part of a run that waits: for people, or for the results of tools of the client.

use emergent_domain::{
    approval::{Approval, ApprovalKind},
    run::RunStatus,
};

use super::{
    super::{event::Outcome, interrupt::Interrupt, tools::is_client_call},
    EventStream,
};

impl EventStream {
    /// Ends the stream because the run waits for these requests: with interrupts, or, if all of them are calls to its
    /// client, with these calls.
    pub fn interrupt(&mut self, requests: &[Approval]) {
        if self.has_finished {
            return;
        }
        if requests.is_empty() {
            return self.fail("interrupt_withdrawn", "what the run waited for is not known any more");
        }
        if requests.iter().all(|request| is_client_call(self.run.id, request)) {
            return self.ask_client(requests);
        }
        self.close_all();
        let is_approval = requests.iter().any(|request| request.kind == ApprovalKind::Approval);
        let waiting_for = if is_approval { ApprovalKind::Approval } else { ApprovalKind::Question };
        self.push_state(RunStatus::Waiting, Some(waiting_for));
        self.push_snapshot();
        let interrupts = requests.iter().map(|request| Interrupt::new(self.run.id, request)).collect();
        self.finish(Outcome::Interrupt { interrupts }, None);
    }

    /// Ends the stream with calls to the client. For the protocol the run has succeeded: the client executes the calls,
    /// and sends their results with its next request.
    fn ask_client(&mut self, requests: &[Approval]) {
        self.close_messages();
        // Calls that were not announced with their answer have a message of their own, because others and their
        // results came between.
        let missing: Vec<&Approval> =
            requests.iter().filter(|request| !self.calls.contains(&request.call)).collect();
        if let Some(first) = missing.first() {
            let message = format!("{}:calls", first.call);
            for request in missing {
                self.announce(request.call, &request.tool, &request.input, message.clone());
            }
        }
        self.close_all();
        self.push_state(RunStatus::Waiting, Some(ApprovalKind::ClientTool));
        // Clients before version 1.0 refuse an outcome that names the calls, so these are the ones without results.
        self.finish(Outcome::Success, None);
    }
}
