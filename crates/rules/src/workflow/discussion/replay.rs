//! Replays the phases of a discussion over the turns that exist.
//!
//! A kind is written as straight code: ask these, then those. Where a turn is missing or still runs, the
//! replay stops with the action that has to happen first. Indexes are assigned in the order of asking,
//! and a phase starts only when every turn of the phase before has ended. Therefore an index always
//! means the same turn, and its prompt depends on nothing that is still to come.

use std::collections::{BTreeSet, HashMap};

use emergent_domain::{discussion_options::ACCEPT_PROPOSAL, text::counted};

use super::{
    DiscussionAction, DiscussionTurn, NewTurn, TurnResult, Vote,
    outcome::DiscussionOutcome,
    prompt,
    settings::{DiscussionKind, DiscussionSettings, EntryType, Participant},
    tally::{Ballot, Tally},
    votes::VoteOptions,
};

/// Why a replay stops: turns are missing or running, or a person is needed.
pub(super) type ReplayResult<T> = Result<T, DiscussionAction>;

pub(super) struct Replay<'a> {
    pub settings: &'a DiscussionSettings,
    pub everybody: Vec<Participant>,
    turns: HashMap<i64, &'a DiscussionTurn>,
    next_index: i64,
    /// What was said in the phases that are over.
    pub entries: Vec<TranscriptEntry>,
    /// Who failed, and is asked no more.
    failed: BTreeSet<usize>,
    pub expected: Vec<NewTurn>,
    /// How the last vote stands.
    pub tally: Option<Tally>,
}

/// What one said in one turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TranscriptEntry {
    pub participant: usize,
    pub agent: String,
    pub phase: String,
    pub round: i64,
    pub type_: EntryType,
    pub text: String,
    pub vote: Option<Vote>,
}

/// One round of one phase.
pub(super) struct Stage<'s> {
    pub phase: &'s str,
    pub round: i64,
    pub type_: EntryType,
    pub task: String,
    pub sees: TranscriptAccess,
}

/// What those who are asked are shown of what was said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TranscriptAccess {
    Hidden,
    Shown,
}

/// A vote of one stage.
pub(super) struct Poll<'s> {
    pub options: &'s VoteOptions,
    pub early: EarlyClose,
    /// Votes that have to be there in the end.
    pub quorum: usize,
}

/// Whether a vote ends before everybody has voted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyClose {
    Never,
    /// As soon as one option has won, whatever the others vote.
    Won,
    /// Also as soon as none can win any more.
    Decided,
}

enum TurnState<'a> {
    Running,
    Missing(NewTurn),
    Ended(&'a TurnResult),
}

impl<'a> Replay<'a> {
    pub fn new(settings: &'a DiscussionSettings, turns: &'a [DiscussionTurn]) -> Self {
        Self {
            settings,
            everybody: settings.all_participants(),
            turns: turns.iter().map(|turn| (turn.index, turn)).collect(),
            next_index: 0,
            entries: Vec::new(),
            failed: BTreeSet::new(),
            expected: Vec::new(),
            tally: None,
        }
    }

    /// Those who have not failed so far.
    pub fn remaining(&self) -> Vec<usize> {
        (0..self.everybody.len()).filter(|who| !self.failed.contains(who)).collect()
    }

    /// How many of everybody have to be there.
    pub fn quorum(&self) -> usize {
        self.settings.quorum_for(self.everybody.len())
    }

    /// Who has a role, among those who are left.
    pub fn with_role(&self, role: &str) -> Vec<usize> {
        self.remaining().into_iter().filter(|who| self.everybody[*who].has_role(role)).collect()
    }

    /// Asks some side by side, and goes on when all have ended. Those who failed are out; the
    /// others go on while they are enough.
    pub fn ask(&mut self, who: &[usize], stage: &Stage) -> ReplayResult<Vec<TranscriptEntry>> {
        let heard = self.try_ask(who, stage)?;
        if heard.is_empty() {
            let names: Vec<_> = who.iter().map(|who| self.everybody[*who].agent.as_str()).collect();
            let names = names.join("`, `");
            return Err(self.escalate(format!("`{names}` did not answer in the phase `{}`", stage.phase)));
        }
        Ok(heard)
    }

    /// As `ask`, but it may be that nobody answered.
    pub fn try_ask(&mut self, who: &[usize], stage: &Stage) -> ReplayResult<Vec<TranscriptEntry>> {
        let seats = self.turn_states(who, stage, None);
        let ended = collect_results(seats)?;
        let mut heard = Vec::new();
        for (who, ended) in who.iter().zip(ended) {
            if ended.ok && !ended.text.trim().is_empty() {
                heard.push(self.new_entry(*who, stage, ended.text.clone(), None));
            } else {
                self.failed.insert(*who);
            }
        }
        self.entries.extend(heard.iter().cloned());
        self.check_quorum()?;
        Ok(heard)
    }

    /// Asks one who cannot be done without.
    pub fn ask_one(&mut self, who: usize, stage: &Stage) -> ReplayResult<TranscriptEntry> {
        Ok(self.ask(&[who], stage)?.remove(0))
    }

    /// As `ask_one`, but the discussion can go on without an answer.
    pub fn ask_optional(&mut self, who: usize, stage: &Stage) -> ReplayResult<Option<TranscriptEntry>> {
        Ok(self.try_ask(&[who], stage)?.pop())
    }

    /// Lets participants vote without seeing each other's votes. A participant whose answer has no vote
    /// is asked once more; then it counts as no vote.
    pub fn vote(&mut self, who: &[usize], stage: &Stage, poll: &Poll) -> ReplayResult<Tally> {
        let (options, quorum, threshold) = (poll.options, poll.quorum, self.settings.threshold);
        let decided = |tally: &Tally| match poll.early {
            EarlyClose::Never => false,
            EarlyClose::Won => tally.is_decided(threshold, quorum),
            EarlyClose::Decided => tally.is_decided(threshold, quorum) || tally.is_lost(threshold),
        };
        let mut votes: Vec<Ballot> = Vec::new();
        let mut words: Vec<(usize, String)> = Vec::new();
        let seats = self.turn_states(who, stage, Some((options, &[])));
        for (who, seat) in who.iter().zip(&seats) {
            votes.push(match seat {
                TurnState::Ended(ended) if !ended.ok => Ballot::Abstained,
                TurnState::Ended(ended) => match options.vote_of(ended) {
                    Some(vote) => Ballot::Voted(vote, ended.text.clone()),
                    None => {
                        words.push((*who, ended.text.clone()));
                        Ballot::Open
                    }
                },
                _ => Ballot::Open,
            });
        }
        let tally = self.tally_votes(who, &votes, options);
        if decided(&tally) {
            return Ok(self.record_vote(who, stage, &votes, tally));
        }
        collect_results(seats)?;
        if !words.is_empty() {
            let again: Vec<usize> = words.iter().map(|(who, _)| *who).collect();
            let seats = self.turn_states(&again, stage, Some((options, &words)));
            for ((one, first), seat) in words.iter().zip(&seats) {
                let TurnState::Ended(ended) = seat else { continue };
                let at = who.iter().position(|other| other == one).unwrap_or_default();
                let said = ended.ok.then_some(ended.text.as_str());
                let text = said.filter(|text| !text.trim().is_empty()).unwrap_or(first);
                let vote = said.and_then(|_| options.vote_of(ended)).or_else(|| options.default_vote(text));
                votes[at] = match vote {
                    Some(vote) => Ballot::Voted(vote, text.to_owned()),
                    None if text.trim().is_empty() => Ballot::Abstained,
                    None => Ballot::Unclear(text.to_owned()),
                };
            }
            let tally = self.tally_votes(who, &votes, options);
            if decided(&tally) {
                return Ok(self.record_vote(who, stage, &votes, tally));
            }
            collect_results(seats)?;
        }
        let tally = self.tally_votes(who, &votes, options);
        let tally = self.record_vote(who, stage, &votes, tally);
        self.check_quorum()?;
        if tally.votes() < quorum {
            let cast = tally.votes();
            return Err(self.escalate(format!(
                "{cast} of {} voted, and the quorum is {quorum}",
                counted(who.len() as u64, "participant")
            )));
        }
        Ok(tally)
    }

    /// Writes down what a vote came to.
    fn record_vote(&mut self, who: &[usize], stage: &Stage, votes: &[Ballot], tally: Tally) -> Tally {
        for (who, vote) in who.iter().zip(votes) {
            match vote {
                Ballot::Voted(vote, text) => {
                    let entry = self.new_entry(*who, stage, text.clone(), Some(vote.clone()));
                    self.entries.push(entry);
                }
                Ballot::Unclear(text) if !text.trim().is_empty() => {
                    let entry = self.new_entry(*who, stage, text.clone(), None);
                    self.entries.push(entry);
                }
                Ballot::Abstained => {
                    self.failed.insert(*who);
                }
                _ => {}
            }
        }
        self.tally = Some(tally.clone());
        tally
    }

    fn tally_votes(&self, who: &[usize], votes: &[Ballot], options: &VoteOptions) -> Tally {
        let weighed = who.iter().zip(votes).map(|(who, vote)| {
            let one = &self.everybody[*who];
            (one.agent.as_str(), one.vote_weight(), vote)
        });
        Tally::count(options.names(), weighed)
    }

    /// The seats of one stage. A vote knows its options, and what each said at first when it is
    /// asked again.
    fn turn_states(
        &mut self,
        who: &[usize],
        stage: &Stage,
        vote: Option<(&VoteOptions, &[(usize, String)])>,
    ) -> Vec<TurnState<'a>> {
        let mut seats = Vec::new();
        for who in who {
            let place = self.next_index;
            self.next_index += 1;
            let shown = match stage.sees {
                TranscriptAccess::Hidden => &[],
                TranscriptAccess::Shown => &self.entries[..],
            };
            let me = &self.everybody[*who];
            let first = vote.and_then(|(_, words)| words.iter().find(|(one, _)| one == who));
            let ask = NewTurn {
                index: place,
                agent: me.agent.clone(),
                phase: stage.phase.to_owned(),
                round: stage.round,
                prompt: prompt::turn_prompt(
                    self.settings,
                    me,
                    shown,
                    stage,
                    vote.map(|(options, _)| options),
                    first.map(|(_, text)| text.as_str()),
                ),
                expects_vote: vote.is_some(),
                options: vote.map(|(options, _)| options.names().to_vec()).unwrap_or_default(),
                entry_type: stage.type_,
            };
            self.expected.push(ask.clone());
            seats.push(match self.turns.get(&place).map(|turn| turn.result.as_ref()) {
                None => TurnState::Missing(ask),
                Some(None) => TurnState::Running,
                Some(Some(ended)) => TurnState::Ended(ended),
            });
        }
        seats
    }

    fn new_entry(&self, who: usize, stage: &Stage, text: String, vote: Option<Vote>) -> TranscriptEntry {
        TranscriptEntry {
            participant: who,
            agent: self.everybody[who].agent.clone(),
            phase: stage.phase.to_owned(),
            round: stage.round,
            type_: stage.type_,
            text,
            vote,
        }
    }

    fn check_quorum(&self) -> ReplayResult<()> {
        let (all, left) = (self.everybody.len(), self.remaining().len());
        let quorum = self.quorum();
        if left >= quorum {
            return Ok(());
        }
        let gone: Vec<_> = self.failed.iter().map(|who| self.everybody[*who].agent.as_str()).collect();
        let gone = gone.join("`, `");
        Err(self.escalate(format!(
            "{left} of {} can still take part, and the quorum is {quorum}; `{gone}` did not answer",
            counted(all as u64, "participant")
        )))
    }

    pub fn escalate(&self, reason: impl Into<String>) -> DiscussionAction {
        let so_far = DiscussionOutcome::partial(self);
        let options = match &self.tally {
            Some(tally) if self.settings.kind != DiscussionKind::ReviewLoop => tally.options(),
            _ if !self.settings.options.is_empty() => self.settings.options.clone(),
            _ if !so_far.text.is_empty() => vec![ACCEPT_PROPOSAL.to_owned()],
            _ => Vec::new(),
        };
        DiscussionAction::Escalate { reason: reason.into(), options, so_far: Box::new(so_far) }
    }
}

/// What everybody said, once everybody has.
fn collect_results(seats: Vec<TurnState<'_>>) -> ReplayResult<Vec<&TurnResult>> {
    let running = seats.iter().any(|seat| matches!(seat, TurnState::Running));
    let mut missing = Vec::new();
    let mut ended = Vec::new();
    for seat in seats {
        match seat {
            TurnState::Missing(ask) => missing.push(ask),
            TurnState::Ended(one) => ended.push(one),
            TurnState::Running => {}
        }
    }
    match (missing.is_empty(), running) {
        (false, _) => Err(DiscussionAction::StartTurns(missing)),
        (true, true) => Err(DiscussionAction::Wait),
        (true, false) => Ok(ended),
    }
}
