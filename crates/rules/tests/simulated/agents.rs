//! How agents behave: well, badly, slowly, or not at all.

use emergent_domain::{
    run::{Reason, RunStatus},
    task::{Task, VerdictKind},
    verdict::{Verdict, VerdictWord},
    workflow::Amount,
};
use emergent_rules::workflow::snapshot::Attempt;
use rand::{Rng, rngs::StdRng};

#[derive(Debug, Clone, Copy)]
pub enum Behaviour {
    Succeeds,
    /// And makes another task on the way.
    SucceedsAndAdds,
    Fails(Reason),
    Pauses,
    /// Until its time is up.
    Hangs,
    Cancelled,
    Says(VerdictWord),
    /// Ends well and hands nothing in.
    SaysNothing,
}

impl Behaviour {
    pub fn adds_tasks(self) -> bool {
        matches!(self, Behaviour::SucceedsAndAdds)
    }
}

pub fn behave(rng: &mut StdRng, task: &Task) -> Behaviour {
    let luck = rng.random_range(0..100);
    match (luck, task.verdict) {
        (0..8, _) => Behaviour::Fails(Reason::Provider),
        (8..12, _) => Behaviour::Pauses,
        (12..14, _) => Behaviour::Hangs,
        (14, _) => Behaviour::Cancelled,
        (15..30, VerdictKind::Test) => {
            Behaviour::Says(if rng.random() { VerdictWord::Fail } else { VerdictWord::NeedsChanges })
        }
        (15..30, VerdictKind::Review) => Behaviour::Says(VerdictWord::RequestChanges),
        (30..34, VerdictKind::Test | VerdictKind::Review) => Behaviour::SaysNothing,
        (_, VerdictKind::Test) => Behaviour::Says(VerdictWord::Pass),
        (34..50, VerdictKind::Review) => Behaviour::Says(VerdictWord::Comment),
        (_, VerdictKind::Review) => Behaviour::Says(VerdictWord::Approve),
        (15..18, VerdictKind::None) => Behaviour::SucceedsAndAdds,
        _ => Behaviour::Succeeds,
    }
}

/// Ends an attempt; what it cost.
pub fn end(rng: &mut StdRng, behaviour: Behaviour, attempt: &mut Attempt, reserved: Amount) -> Amount {
    attempt.summary = "what it said".to_owned();
    (attempt.status, attempt.reason) = match behaviour {
        Behaviour::Fails(reason) => (RunStatus::Failed, Some(reason)),
        Behaviour::Pauses => (RunStatus::Paused, Some(Reason::StepLimit)),
        Behaviour::Hangs => (RunStatus::Paused, Some(Reason::Timeout)),
        Behaviour::Cancelled => (RunStatus::Cancelled, None),
        _ => (RunStatus::Completed, None),
    };
    if let Behaviour::Says(word) = behaviour {
        attempt.verdict = Some(Verdict {
            word,
            issues: vec!["something is missing".to_owned()],
            suggestions: Vec::new(),
            comments: Vec::new(),
            steps: Vec::new(),
            summary: String::new(),
        });
    }
    let part = rng.random_range(0.0..=1.0);
    let of = |amount: i64| (amount as f64 * part) as i64;
    Amount { microusd: of(reserved.microusd), tokens: of(reserved.tokens) }
}
