//! Goes through the phases of a discussion, over what is already there.
//!
//! A kind is written as a straight line: ask these, then those. Where the turns end, the walk
//! stops with what has to happen first ([`Stop`]). Places are handed out in the order of asking,
//! and a phase begins only when everybody of the one before has ended, so a place always means
//! the same turn, and its prompt depends on nothing that is still to come.

use std::collections::{BTreeSet, HashMap};

use super::{
    Ask, Ended, Next, Turn, Vote,
    outcome::{ACCEPT, Outcome},
    prompt,
    read::{self, Options},
    settings::{EntryType, Kind, Participant, Settings},
    tally::{Standing, Tally},
};

/// Why a walk does not go on: turns are missing, running, or a person is needed.
pub(super) type Stop<T> = Result<T, Next>;

pub(super) struct Walk<'a> {
    pub settings: &'a Settings,
    pub everybody: Vec<Participant>,
    turns: HashMap<i64, &'a Turn>,
    place: i64,
    /// What was said in the phases that are over.
    pub entries: Vec<Entry>,
    /// Who failed, and is asked no more.
    out: BTreeSet<usize>,
    pub asked: Vec<Ask>,
    /// How the last vote stands.
    pub tally: Option<Tally>,
}

/// What one said in one turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub who: usize,
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
    pub sees: Sees,
}

/// What those who are asked are shown of what was said.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sees {
    Nothing,
    Everything,
}

/// A vote of one stage.
pub(super) struct Poll<'s> {
    pub options: &'s Options,
    pub early: Early,
    /// Votes that have to be there in the end.
    pub quorum: usize,
}

/// Whether a vote ends before everybody has voted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Early {
    Never,
    /// As soon as one option has won, whatever the others vote.
    Won,
    /// Also as soon as none can win any more.
    Decided,
}

enum Seat<'a> {
    Running,
    Missing(Ask),
    Ended(&'a Ended),
}

impl<'a> Walk<'a> {
    pub fn new(settings: &'a Settings, turns: &'a [Turn]) -> Self {
        Self {
            settings,
            everybody: settings.everybody(),
            turns: turns.iter().map(|turn| (turn.place, turn)).collect(),
            place: 0,
            entries: Vec::new(),
            out: BTreeSet::new(),
            asked: Vec::new(),
            tally: None,
        }
    }

    /// Those who have not failed so far.
    pub fn live(&self) -> Vec<usize> {
        (0..self.everybody.len()).filter(|who| !self.out.contains(who)).collect()
    }

    /// How many of everybody have to be there.
    pub fn quorum(&self) -> usize {
        self.settings.quorum_of(self.everybody.len())
    }

    /// Who has a role, among those who are left.
    pub fn with_role(&self, role: &str) -> Vec<usize> {
        self.live().into_iter().filter(|who| self.everybody[*who].is(role)).collect()
    }

    /// Asks some side by side, and goes on when all have ended. Those who failed are out; the
    /// others go on while they are enough.
    pub fn ask(&mut self, who: &[usize], stage: &Stage) -> Stop<Vec<Entry>> {
        let heard = self.try_ask(who, stage)?;
        if heard.is_empty() {
            let names: Vec<_> = who.iter().map(|who| self.everybody[*who].agent.as_str()).collect();
            let names = names.join("`, `");
            return Err(self.escalate(format!("`{names}` did not answer in the phase `{}`", stage.phase)));
        }
        Ok(heard)
    }

    /// As `ask`, but it may be that nobody answered.
    pub fn try_ask(&mut self, who: &[usize], stage: &Stage) -> Stop<Vec<Entry>> {
        let seats = self.seats(who, stage, None);
        let ended = all_ended(seats)?;
        let mut heard = Vec::new();
        for (who, ended) in who.iter().zip(ended) {
            if ended.ok && !ended.text.trim().is_empty() {
                heard.push(self.entry(*who, stage, ended.text.clone(), None));
            } else {
                self.out.insert(*who);
            }
        }
        self.entries.extend(heard.iter().cloned());
        self.enough_are_left()?;
        Ok(heard)
    }

    /// Asks one who cannot be done without.
    pub fn ask_one(&mut self, who: usize, stage: &Stage) -> Stop<Entry> {
        Ok(self.ask(&[who], stage)?.remove(0))
    }

    /// As `ask_one`, but the discussion can go on without an answer.
    pub fn ask_or_not(&mut self, who: usize, stage: &Stage) -> Stop<Option<Entry>> {
        Ok(self.try_ask(&[who], stage)?.pop())
    }

    /// Lets some vote, none seeing what another voted. Whoever answers in words alone is asked
    /// once more, and then read as well as it goes.
    pub fn vote(&mut self, who: &[usize], stage: &Stage, poll: &Poll) -> Stop<Tally> {
        let (options, quorum, threshold) = (poll.options, poll.quorum, self.settings.threshold);
        let decided = |tally: &Tally| match poll.early {
            Early::Never => false,
            Early::Won => tally.is_decided(threshold, quorum),
            Early::Decided => tally.is_decided(threshold, quorum) || tally.is_lost(threshold),
        };
        let mut votes: Vec<Standing> = Vec::new();
        let mut words: Vec<(usize, String)> = Vec::new();
        let seats = self.seats(who, stage, Some((options, &[])));
        for (who, seat) in who.iter().zip(&seats) {
            votes.push(match seat {
                Seat::Ended(ended) if !ended.ok => Standing::Abstained,
                Seat::Ended(ended) => match options.handed_in(ended) {
                    Some(vote) => Standing::Voted(vote, ended.text.clone()),
                    None => {
                        words.push((*who, ended.text.clone()));
                        Standing::Open
                    }
                },
                _ => Standing::Open,
            });
        }
        let tally = self.count(who, &votes, options);
        if decided(&tally) {
            return Ok(self.close(who, stage, &votes, tally));
        }
        all_ended(seats)?;
        if !words.is_empty() {
            let again: Vec<usize> = words.iter().map(|(who, _)| *who).collect();
            let seats = self.seats(&again, stage, Some((options, &words)));
            for ((one, first), seat) in words.iter().zip(&seats) {
                let Seat::Ended(ended) = seat else { continue };
                let at = who.iter().position(|other| other == one).unwrap_or_default();
                let said = ended.ok.then_some(ended.text.as_str());
                let text = said.filter(|text| !text.trim().is_empty()).unwrap_or(first);
                let vote = said.and_then(|_| options.handed_in(ended));
                let vote = vote
                    .or_else(|| said.and_then(|text| read::vote(text, options)))
                    .or_else(|| read::vote(first, options))
                    .or_else(|| options.otherwise(text));
                votes[at] = match vote {
                    Some(vote) => Standing::Voted(vote, text.to_owned()),
                    None if text.trim().is_empty() => Standing::Abstained,
                    None => Standing::Words(text.to_owned()),
                };
            }
            let tally = self.count(who, &votes, options);
            if decided(&tally) {
                return Ok(self.close(who, stage, &votes, tally));
            }
            all_ended(seats)?;
        }
        let tally = self.count(who, &votes, options);
        let tally = self.close(who, stage, &votes, tally);
        self.enough_are_left()?;
        if tally.votes() < quorum {
            let cast = tally.votes();
            return Err(self.escalate(format!("{cast} of {} voted, and {quorum} are needed", who.len())));
        }
        Ok(tally)
    }

    /// Writes down what a vote came to.
    fn close(&mut self, who: &[usize], stage: &Stage, votes: &[Standing], tally: Tally) -> Tally {
        for (who, vote) in who.iter().zip(votes) {
            match vote {
                Standing::Voted(vote, text) => {
                    let entry = self.entry(*who, stage, text.clone(), Some(vote.clone()));
                    self.entries.push(entry);
                }
                Standing::Words(text) if !text.trim().is_empty() => {
                    let entry = self.entry(*who, stage, text.clone(), None);
                    self.entries.push(entry);
                }
                Standing::Abstained => {
                    self.out.insert(*who);
                }
                _ => {}
            }
        }
        self.tally = Some(tally.clone());
        tally
    }

    fn count(&self, who: &[usize], votes: &[Standing], options: &Options) -> Tally {
        let weighed = who.iter().zip(votes).map(|(who, vote)| {
            let one = &self.everybody[*who];
            (one.agent.as_str(), one.counts(), vote)
        });
        Tally::of(options.names(), weighed)
    }

    /// The seats of one stage. A vote knows its options, and what each said at first when it is
    /// asked again.
    fn seats(
        &mut self,
        who: &[usize],
        stage: &Stage,
        vote: Option<(&Options, &[(usize, String)])>,
    ) -> Vec<Seat<'a>> {
        let mut seats = Vec::new();
        for who in who {
            let place = self.place;
            self.place += 1;
            let shown = match stage.sees {
                Sees::Nothing => &[],
                Sees::Everything => &self.entries[..],
            };
            let me = &self.everybody[*who];
            let first = vote.and_then(|(_, words)| words.iter().find(|(one, _)| one == who));
            let ask = Ask {
                place,
                agent: me.agent.clone(),
                phase: stage.phase.to_owned(),
                round: stage.round,
                prompt: prompt::turn(
                    self.settings,
                    me,
                    shown,
                    stage,
                    vote.map(|(options, _)| options),
                    first.map(|(_, text)| text.as_str()),
                ),
                hands_vote: vote.is_some(),
                entry_type: stage.type_,
            };
            self.asked.push(ask.clone());
            seats.push(match self.turns.get(&place).map(|turn| turn.ended.as_ref()) {
                None => Seat::Missing(ask),
                Some(None) => Seat::Running,
                Some(Some(ended)) => Seat::Ended(ended),
            });
        }
        seats
    }

    fn entry(&self, who: usize, stage: &Stage, text: String, vote: Option<Vote>) -> Entry {
        Entry {
            who,
            agent: self.everybody[who].agent.clone(),
            phase: stage.phase.to_owned(),
            round: stage.round,
            type_: stage.type_,
            text,
            vote,
        }
    }

    fn enough_are_left(&self) -> Stop<()> {
        let (all, left) = (self.everybody.len(), self.live().len());
        let quorum = self.quorum();
        if left >= quorum {
            return Ok(());
        }
        let gone: Vec<_> = self.out.iter().map(|who| self.everybody[*who].agent.as_str()).collect();
        let gone = gone.join("`, `");
        Err(self.escalate(format!(
            "{left} of {all} participants are left, and {quorum} are needed; `{gone}` did not answer"
        )))
    }

    pub fn escalate(&self, reason: impl Into<String>) -> Next {
        let so_far = Outcome::so_far(self);
        let options = match &self.tally {
            Some(tally) if self.settings.kind != Kind::ReviewLoop => tally.options(),
            _ if !self.settings.options.is_empty() => self.settings.options.clone(),
            _ if !so_far.text.is_empty() => vec![ACCEPT.to_owned()],
            _ => Vec::new(),
        };
        Next::Escalate { reason: reason.into(), options, so_far: Box::new(so_far) }
    }
}

/// What everybody said, once everybody has.
fn all_ended(seats: Vec<Seat<'_>>) -> Stop<Vec<&Ended>> {
    let running = seats.iter().any(|seat| matches!(seat, Seat::Running));
    let mut missing = Vec::new();
    let mut ended = Vec::new();
    for seat in seats {
        match seat {
            Seat::Missing(ask) => missing.push(ask),
            Seat::Ended(one) => ended.push(one),
            Seat::Running => {}
        }
    }
    match (missing.is_empty(), running) {
        (false, _) => Err(Next::Ask(missing)),
        (true, true) => Err(Next::Wait),
        (true, false) => Ok(ended),
    }
}
