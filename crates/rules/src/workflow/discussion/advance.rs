//! The next step of a discussion: entries to record, turns to start, or its end. A participant whose
//! turn cannot be started abstains.

use emergent_domain::ids::RunId;

use super::{
    DiscussionAction, DiscussionOutcome, DiscussionTurn, NewTurn, Vote, expected_turns, next_action,
    state::{AbsentParticipant, TaskDiscussion},
    votes::{APPROVED, SUGGEST_CHANGES},
};

/// What has to be written for a discussion.
#[derive(Debug, Clone, PartialEq)]
pub struct DiscussionStep {
    /// The indexes of all turns whose entries are in the graph after this step.
    pub recorded: Vec<i64>,
    /// Every participant whose turn could not be started, including earlier ones.
    pub absent: Vec<AbsentParticipant>,
    pub entries: Vec<NewEntry>,
    pub turns: Vec<NewTurn>,
    pub end: Option<DiscussionEnd>,
}

/// A turn that has ended, as an entry of the discussion.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    pub run: RunId,
    pub sequence: i64,
    pub turn: NewTurn,
    pub content: String,
    pub vote: Option<Vote>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DiscussionEnd {
    Resolved(Box<DiscussionOutcome>),
    Escalated { reason: String, options: Vec<String>, so_far: Box<DiscussionOutcome> },
}

/// Returns the next step, or `None` if there is nothing to write. `obstacle` says why a turn cannot be
/// started, if so.
pub fn advance(
    discussion: &TaskDiscussion,
    obstacle: impl Fn(&NewTurn) -> Option<String>,
) -> Option<DiscussionStep> {
    let (turns, newly_absent) = turns_with_absent(discussion, obstacle);
    let absent: Vec<AbsentParticipant> = discussion.absent.iter().chain(&newly_absent).cloned().collect();
    let (entries, recorded) = new_entries(discussion, &turns);
    let mut step = DiscussionStep { recorded, absent, entries, turns: Vec::new(), end: None };
    match next_action(&discussion.settings, &turns, discussion.person_decision.as_ref()) {
        DiscussionAction::Wait => {}
        DiscussionAction::StartTurns(turns) => step.turns = turns,
        // A review that a task requires must approve of its result, whatever the kind of the discussion is.
        DiscussionAction::Resolve(outcome) if discussion.is_rejected(&outcome) => {
            let reason = format!(
                "the participants do not approve of the result: {} of the weight is for changes",
                percent(outcome.consensus_level)
            );
            let options = vec![APPROVED.to_owned(), SUGGEST_CHANGES.to_owned()];
            step.end = Some(DiscussionEnd::Escalated { reason, options, so_far: outcome });
        }
        DiscussionAction::Resolve(outcome) => step.end = Some(DiscussionEnd::Resolved(outcome)),
        DiscussionAction::Escalate { reason, options, so_far } => {
            let not_asked = step
                .absent
                .iter()
                .map(|absent| format!("; `{}` was not asked: {}", absent.agent, absent.reason));
            let reason = not_asked.fold(reason, |reason, more| reason + &more);
            let options = with_changes(options, discussion.required);
            step.end = Some(DiscussionEnd::Escalated { reason, options, so_far });
        }
    }
    let is_empty =
        step.entries.is_empty() && step.turns.is_empty() && step.end.is_none() && newly_absent.is_empty();
    (!is_empty).then_some(step)
}

/// The options of a discussion. About a required review, a person can always send the task back to its agent.
fn with_changes(mut options: Vec<String>, required: bool) -> Vec<String> {
    if required && !options.iter().any(|option| option == SUGGEST_CHANGES) {
        options.push(SUGGEST_CHANGES.to_owned());
    }
    options
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Entries for the turns that have ended and are not in the graph yet, and the indexes of all entries.
fn new_entries(discussion: &TaskDiscussion, turns: &[DiscussionTurn]) -> (Vec<NewEntry>, Vec<i64>) {
    let expected = expected_turns(&discussion.settings, turns);
    let mut sequence = i64::try_from(discussion.recorded.len()).unwrap_or(0);
    let mut recorded: Vec<i64> = discussion.recorded.iter().copied().collect();
    let mut entries = Vec::new();
    for turn_run in &discussion.runs {
        let turn = discussion.turns.iter().find(|turn| turn.index == turn_run.index);
        let (Some(result), Some(asked)) = (
            turn.and_then(|turn| turn.result.as_ref()),
            expected.iter().find(|turn| turn.index == turn_run.index),
        ) else {
            continue;
        };
        if discussion.recorded.contains(&turn_run.index) || !result.ok {
            continue;
        }
        sequence += 1;
        recorded.push(turn_run.index);
        entries.push(NewEntry {
            run: turn_run.run,
            sequence,
            turn: asked.clone(),
            content: result.text.clone(),
            vote: result.vote.clone(),
        });
    }
    recorded.sort_unstable();
    (entries, recorded)
}

/// The turns so far, with one for each participant that cannot be asked now. Returns these absences as
/// well, because they have to be stored.
fn turns_with_absent(
    discussion: &TaskDiscussion,
    obstacle: impl Fn(&NewTurn) -> Option<String>,
) -> (Vec<DiscussionTurn>, Vec<AbsentParticipant>) {
    let mut turns = discussion.turns.clone();
    let mut absent = Vec::new();
    // An absence can open the next phase, whose participants may be absent too.
    while let DiscussionAction::StartTurns(new_turns) = next_action(&discussion.settings, &turns, None) {
        let cannot_start = |turn: NewTurn| {
            Some(AbsentParticipant { index: turn.index, reason: obstacle(&turn)?, agent: turn.agent })
        };
        let newly_absent: Vec<AbsentParticipant> = new_turns.into_iter().filter_map(cannot_start).collect();
        if newly_absent.is_empty() {
            break;
        }
        turns.extend(newly_absent.iter().map(AbsentParticipant::turn));
        absent.extend(newly_absent);
    }
    (turns, absent)
}
