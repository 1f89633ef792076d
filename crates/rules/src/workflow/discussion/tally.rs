//! Counts votes by weight.

use super::Vote;

/// How one participant of a vote stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ballot {
    /// Not heard of yet, or to be asked once more.
    Open,
    /// With what it wrote beside its vote.
    Voted(Vote, String),
    /// Asked twice, and no answer had a vote: counts as no vote.
    Unclear(String),
    Abstained,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tally {
    /// The most weight first; among equals the surest, then the order of the options.
    pub ranks: Vec<OptionTally>,
    /// Weight of the votes there are, and of those that may still come.
    cast: f64,
    open: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct OptionTally {
    pub option: String,
    pub weight: f64,
    pub voters: Vec<Voter>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Voter {
    pub agent: String,
    pub confidence: f64,
    pub reason: String,
    pub text: String,
}

/// Sums of shares are not exact: 0.7 of three votes must not fail on its last digit.
const EPSILON: f64 = 1e-9;

impl Tally {
    pub fn count<'v>(options: &[String], votes: impl Iterator<Item = (&'v str, f64, &'v Ballot)>) -> Self {
        let mut ranks: Vec<OptionTally> = options
            .iter()
            .map(|option| OptionTally { option: option.clone(), weight: 0.0, voters: Vec::new() })
            .collect();
        let (mut cast, mut open) = (0.0, 0.0);
        for (agent, weight, standing) in votes {
            match standing {
                Ballot::Open => open += weight,
                Ballot::Voted(vote, text) => {
                    let Some(rank) = ranks.iter_mut().find(|rank| rank.option == vote.option) else {
                        continue;
                    };
                    cast += weight;
                    rank.weight += weight;
                    rank.voters.push(Voter {
                        agent: agent.to_owned(),
                        confidence: vote.confidence.unwrap_or(1.0),
                        reason: vote.reason.clone(),
                        text: text.clone(),
                    });
                }
                Ballot::Unclear(_) | Ballot::Abstained => {}
            }
        }
        // Stable, so that options nobody chose keep their order.
        ranks.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(b.confidence().total_cmp(&a.confidence())));
        Self { ranks, cast, open }
    }

    pub fn votes(&self) -> usize {
        self.ranks.iter().map(|rank| rank.voters.len()).sum()
    }

    pub fn options(&self) -> Vec<String> {
        self.ranks.iter().map(|rank| rank.option.clone()).collect()
    }

    /// The option ahead of all others; `None` without votes, or when two are level.
    pub fn leading(&self) -> Option<&OptionTally> {
        let first = self.ranks.first().filter(|rank| rank.weight > 0.0)?;
        let level = self.ranks.get(1).is_some_and(|second| first.weight - second.weight < EPSILON);
        (!level).then_some(first)
    }

    /// The share of the leading option: of every vote that counts, those still open against it.
    pub fn consensus_level(&self) -> f64 {
        self.share(self.ranks.first().map_or(0.0, |rank| rank.weight))
    }

    pub fn share(&self, weight: f64) -> f64 {
        let all = self.cast + self.open;
        if all > 0.0 { (weight / all).clamp(0.0, 1.0) } else { 0.0 }
    }

    pub fn reaches(&self, threshold: f64) -> bool {
        self.leading().is_some() && self.consensus_level() + EPSILON >= threshold
    }

    /// Whether what is open can change nothing any more. Open ones may all vote against the
    /// leading option, vote for it, or fail: it has to be the same in each case.
    pub fn is_decided(&self, threshold: f64, quorum: usize) -> bool {
        if self.open == 0.0 {
            return false;
        }
        let first = self.ranks.first().map_or(0.0, |rank| rank.weight);
        let second = self.ranks.get(1).map_or(0.0, |rank| rank.weight);
        let won =
            first + EPSILON >= threshold * (self.cast + self.open) && first > second + self.open + EPSILON;
        won && self.votes() >= quorum
    }

    /// Whether no option can get there, whatever the open ones do.
    pub fn is_lost(&self, threshold: f64) -> bool {
        let first = self.ranks.first().map_or(0.0, |rank| rank.weight);
        let all = self.cast + self.open;
        all > 0.0 && first + self.open + EPSILON < threshold * all
    }
}

impl OptionTally {
    pub fn confidence(&self) -> f64 {
        self.voters.iter().map(|voter| voter.confidence).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a a b ? -` with weight 1 each: votes, open, abstained.
    fn tally(votes: &str) -> Tally {
        let standings: Vec<Ballot> = votes
            .split(' ')
            .map(|vote| match vote {
                "?" => Ballot::Open,
                "-" => Ballot::Abstained,
                option => Ballot::Voted(Vote { option: option.into(), ..Vote::default() }, String::new()),
            })
            .collect();
        Tally::count(&["a".into(), "b".into(), "c".into()], standings.iter().map(|vote| ("one", 1.0, vote)))
    }

    #[test]
    fn the_level_is_the_share_of_the_leading_option() {
        assert_eq!(tally("a a b -").consensus_level(), 2.0 / 3.0);
        assert!(!tally("a a b").reaches(0.7));
        assert!(tally("a a a a a a a b b b").reaches(0.7));
        assert!(tally("- -").leading().is_none());
        assert!(tally("a b").leading().is_none(), "two that are level lead nobody");
    }

    #[test]
    fn it_is_decided_when_open_votes_change_nothing() {
        assert!(tally("a a a ?").is_decided(0.7, 2));
        assert!(!tally("a a a ?").is_decided(0.8, 2));
        assert!(!tally("a a ? ?").is_decided(0.5, 2), "two more could make it level");
        assert!(!tally("a a a ?").is_decided(0.7, 4), "the quorum still needs the last one");
        assert!(!tally("a a a").is_decided(0.7, 2), "nothing is open");
        assert!(tally("a b ?").is_lost(0.7));
        assert!(!tally("a a b ?").is_lost(0.7));
    }
}
