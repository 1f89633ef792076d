//! How each kind of discussion goes, phase by phase.

use emergent_domain::text::counted;

use super::{
    outcome::DiscussionOutcome,
    replay::{EarlyClose, Poll, Replay, ReplayResult, Stage, TranscriptAccess},
    settings::{DiscussionKind, DiscussionSettings, EntryType},
    tally::Tally,
    votes::{APPROVED, VoteOptions},
};

pub(super) fn run_kind(walk: &mut Replay) -> ReplayResult<DiscussionOutcome> {
    if walk.everybody.is_empty() {
        return Err(walk.escalate("nobody takes part in it"));
    }
    match walk.settings.kind {
        DiscussionKind::ReviewLoop => review_loop(walk),
        DiscussionKind::Consensus => consensus(walk),
        DiscussionKind::Debate => debate(walk),
        DiscussionKind::Brainstorm => brainstorm(walk),
        DiscussionKind::ProblemSolving => problem_solving(walk),
        DiscussionKind::Collaboration => collaboration(walk),
    }
}

/// Every stage asks each participant once, a vote at most twice.
pub(super) fn max_turns(settings: &DiscussionSettings) -> usize {
    let all = settings.all_participants().len();
    let rounds = settings.rounds() as usize;
    match settings.kind {
        DiscussionKind::ReviewLoop => 1 + rounds * (2 * all + 1),
        DiscussionKind::Consensus => rounds * (all + 1 + 2 * all),
        DiscussionKind::Debate => rounds * all + 2 * all,
        DiscussionKind::Brainstorm => all + 1 + 2 * all,
        DiscussionKind::ProblemSolving => all + all + 2 * all + 2,
        DiscussionKind::Collaboration => {
            let turns = |phase| 2 * all * DiscussionSettings::max_rounds(phase) as usize;
            settings.phases().iter().map(turns).sum()
        }
    }
}

fn new_stage<'s>(phase: &'s str, round: i64, type_: EntryType, task: impl Into<String>) -> Stage<'s> {
    Stage { phase, round, type_, task: task.into(), sees: TranscriptAccess::Shown }
}

/// One proposes, the others say what is missing, until they approve of it.
fn review_loop(walk: &mut Replay) -> ReplayResult<DiscussionOutcome> {
    let proposer = walk.with_role("proposer").first().copied().unwrap_or_default();
    walk.ask_one(
        proposer,
        &new_stage(
            "propose",
            1,
            EntryType::Proposal,
            "Make a proposal: complete, concrete, and ready to be reviewed.",
        ),
    )?;
    for round in 1..=walk.settings.rounds() {
        let reviewers: Vec<usize> = walk.remaining().into_iter().filter(|who| *who != proposer).collect();
        if reviewers.is_empty() {
            return Err(walk.escalate(match walk.everybody.len() {
                1 => "the project has no other agent that can review the proposal",
                _ => "nobody is left to review the proposal",
            }));
        }
        let feedback = new_stage(
            "feedback",
            round,
            EntryType::Feedback,
            "Review the latest proposal for technical feasibility and completeness.\n\n\
             Start your answer with either:\n\
             - APPROVED and a brief confirmation, or\n\
             - SUGGEST_CHANGES and specific feedback.",
        );
        let poll = Poll { options: &VoteOptions::feedback(), early: EarlyClose::Never, quorum: 1 };
        let tally = walk.vote(&reviewers, &feedback, &poll)?;
        if tally.ranks.iter().all(|rank| rank.option == APPROVED || rank.voters.is_empty()) {
            let text = walk.last_proposal();
            return Ok(DiscussionOutcome::from_text(text).with_full_consensus());
        }
        // What is refined is the next round's proposal.
        let refine = new_stage(
            "refine",
            round + 1,
            EntryType::Proposal,
            "Refine your proposal based on the feedback. Hand in the whole proposal again, not only what changed.",
        );
        walk.ask_one(proposer, &refine)?;
    }
    let rounds = counted(walk.settings.rounds(), "round");
    Err(walk.escalate(format!("the proposal was not approved within {rounds}")))
}

/// Each argues, then each votes; with more rounds again, now knowing how the last vote went.
fn consensus(walk: &mut Replay) -> ReplayResult<DiscussionOutcome> {
    let rounds = walk.settings.rounds();
    for round in 1..=rounds {
        let argue = new_stage(
            "argue",
            round,
            EntryType::Argument,
            "Say what should be decided and why. Name the strongest reason against it as well.",
        );
        let everybody = walk.remaining();
        walk.ask(&everybody, &argue)?;
        let options = match walk.settings.options.is_empty() {
            false => VoteOptions::from_names(&walk.settings.options),
            true => cluster_positions(walk, round)?,
        };
        let last = round == rounds;
        let early = if last { EarlyClose::Decided } else { EarlyClose::Won };
        let vote = new_stage(
            "vote",
            round,
            EntryType::Vote,
            "Vote for one of the options, by the arguments you have seen.",
        );
        let poll = Poll { options: &options, early, quorum: walk.quorum() };
        let everybody = walk.remaining();
        let tally = walk.vote(&everybody, &vote, &poll)?;
        if tally.reaches(walk.settings.threshold) {
            return Ok(DiscussionOutcome::from_vote(&tally, &options));
        }
        if last {
            return Err(walk.escalate(threshold_missed_message(&tally, walk.settings.threshold)));
        }
    }
    Err(walk.escalate("no vote was held"))
}

fn threshold_missed_message(tally: &Tally, threshold: f64) -> String {
    match tally.leading() {
        Some(first) => {
            let (level, needed) = (tally.consensus_level() * 100.0, threshold * 100.0);
            format!("`{}` leads with {level:.0} % of the weight, and {needed:.0} % are needed", first.option)
        }
        None => "no option leads".to_owned(),
    }
}

/// The positions that were taken, summed up by one of them so that those who agree vote alike.
fn cluster_positions(walk: &mut Replay, round: i64) -> ReplayResult<VoteOptions> {
    let task = "List the different positions taken so far, each once, as a numbered list and nothing else:\n\
                1. Name of the position: what it means\n\
                Put positions together that come to the same.";
    cluster_options(walk, "positions", round, task)
}

/// A list made by one participant of what the others said. What cannot be read as a list, or is
/// not there, is replaced by what each of them said, under its name.
fn cluster_options(walk: &mut Replay, phase: &str, round: i64, task: &str) -> ReplayResult<VoteOptions> {
    let moderator =
        walk.with_role("moderator").first().or(walk.remaining().first()).copied().unwrap_or_default();
    // From behind, so that the newest word of each is the one that stays.
    let each = walk.entries.iter().rev().filter(|entry| entry.vote.is_none());
    let by_agent =
        VoteOptions::from_named_texts(each.map(|entry| (entry.agent.clone(), entry.text.clone()))).reversed();
    let list = walk.ask_optional(moderator, &new_stage(phase, round, EntryType::Proposal, task))?;
    let points = list.map(|entry| super::votes::parse_list(&entry.text)).unwrap_or_default();
    let options = VoteOptions::from_named_texts(points);
    Ok(if options.is_empty() { by_agent } else { options })
}

/// Two sides in turns, then a judge.
fn debate(walk: &mut Replay) -> ReplayResult<DiscussionOutcome> {
    let judges = match walk.with_role("judge") {
        none if none.is_empty() => vec![walk.everybody.len() - 1],
        judges => judges,
    };
    let debaters: Vec<usize> = (0..walk.everybody.len()).filter(|who| !judges.contains(who)).collect();
    let (mut pro, mut con) = (Vec::new(), Vec::new());
    for (at, who) in debaters.iter().enumerate() {
        let one = &walk.everybody[*who];
        let is_con = one.has_role("against") || (!one.has_role("for") && at % 2 == 1);
        if is_con { con.push(*who) } else { pro.push(*who) }
    }
    for round in 1..=walk.settings.rounds() {
        for (side, phase, task) in [
            (&pro, "argue_for", "Argue for it. Answer what was said against it."),
            (&con, "argue_against", "Argue against it. Answer what was said for it."),
        ] {
            let live = walk.remaining();
            let side: Vec<usize> = side.iter().copied().filter(|who| live.contains(who)).collect();
            // A side that has gone silent loses its turns, not the debate: the judge sees it.
            if !side.is_empty() {
                walk.try_ask(&side, &new_stage(phase, round, EntryType::Argument, task))?;
            }
        }
    }
    let options = match walk.settings.options.is_empty() {
        false => VoteOptions::from_names(&walk.settings.options),
        true => {
            VoteOptions::from_named_texts([("for".into(), String::new()), ("against".into(), String::new())])
        }
    };
    let judge = new_stage(
        "judge",
        1,
        EntryType::Decision,
        "Judge the debate: decide, and give your reasons. Weigh arguments, not their number.",
    );
    let poll = Poll { options: &options, early: EarlyClose::Never, quorum: judges.len().min(walk.quorum()) };
    let tally = walk.vote(&judges, &judge, &poll)?;
    if tally.leading().is_none() {
        return Err(walk.escalate("the judges do not agree"));
    }
    let mut outcome = DiscussionOutcome::from_vote(&tally, &options);
    if let Some(first) = tally.leading() {
        let lost = match first.option.as_str() {
            "for" => "argue_against",
            "against" => "argue_for",
            _ => "",
        };
        outcome.add_dissent(walk, lost);
    }
    Ok(outcome)
}

/// Each proposes without seeing the others, one puts the ideas together, each votes.
fn brainstorm(walk: &mut Replay) -> ReplayResult<DiscussionOutcome> {
    let propose = Stage {
        sees: TranscriptAccess::Hidden,
        ..new_stage(
            "propose",
            1,
            EntryType::Proposal,
            "Propose as many different ideas as you have, as a numbered list, a line or two each.",
        )
    };
    let everybody = walk.remaining();
    walk.ask(&everybody, &propose)?;
    let task = "Put the ideas together as a numbered list and nothing else, best developed first:\n\
                1. Name of the idea: what it is\n\
                Join ideas that come to the same, leave none out.";
    let options = cluster_options(walk, "cluster", 1, task)?;
    let vote = new_stage("vote", 1, EntryType::Vote, "Vote for the idea that should be followed first.");
    let poll = Poll { options: &options, early: EarlyClose::Never, quorum: walk.quorum() };
    let everybody = walk.remaining();
    let tally = walk.vote(&everybody, &vote, &poll)?;
    Ok(DiscussionOutcome::from_ranking(&tally, &options))
}

/// What the matter is, what could be done, what each thinks of it, and one who decides.
fn problem_solving(walk: &mut Replay) -> ReplayResult<DiscussionOutcome> {
    let analysis = new_stage(
        "analysis",
        1,
        EntryType::Argument,
        "Analyse the problem: causes, constraints, what is known and what is not. No solutions yet.",
    );
    let everybody = walk.remaining();
    walk.ask(&everybody, &analysis)?;
    let brainstorm = new_stage(
        "brainstorm",
        1,
        EntryType::Proposal,
        "Propose one solution, concrete enough to be judged.",
    );
    let everybody = walk.remaining();
    let proposals = walk.ask(&everybody, &brainstorm)?;
    let options = match walk.settings.options.is_empty() {
        false => VoteOptions::from_names(&walk.settings.options),
        true => VoteOptions::from_named_texts(proposals.into_iter().map(|entry| (entry.agent, entry.text))),
    };
    let evaluate = new_stage(
        "evaluate",
        1,
        EntryType::Vote,
        "Evaluate the proposals against the criteria and vote for the best one, by the name of who made it.",
    );
    let poll = Poll { options: &options, early: EarlyClose::Never, quorum: walk.quorum() };
    let everybody = walk.remaining();
    let tally = walk.vote(&everybody, &evaluate, &poll)?;
    let decider = walk.with_role("decider").first().or(walk.remaining().first()).copied().unwrap_or_default();
    let decide = new_stage(
        "decide",
        1,
        EntryType::Decision,
        "Decide what is done, by everything that was said. State the decision completely: it is handed on as it stands.",
    );
    let decision = walk.ask_one(decider, &decide)?;
    let mut outcome = DiscussionOutcome::from_vote(&tally, &options);
    outcome.override_with(&decision);
    Ok(outcome)
}

/// Phases as they were set. The last one decides: by its votes, or by its last word.
fn collaboration(walk: &mut Replay) -> ReplayResult<DiscussionOutcome> {
    let mut voted = None;
    let options = match walk.settings.options.is_empty() {
        false => VoteOptions::from_names(&walk.settings.options),
        true => VoteOptions::from_names(&["accept", "reject"]),
    };
    for phase in &walk.settings.phases() {
        voted = None;
        let task = match phase.output_type {
            EntryType::Argument => "Say what you find, and give your reasons.",
            EntryType::Proposal => "Make one proposal of what was said, complete and ready to be decided on.",
            EntryType::Vote => "Vote on the latest proposal, by everything that was said.",
            EntryType::Question => {
                "Ask what has to be known before this is decided, one question in each line. Do not answer them."
            }
            EntryType::Clarification => {
                "Answer each open question that you know the answer to. Say which ones stay open."
            }
            EntryType::Feedback => "Say what is missing or wrong, and what should change.",
            EntryType::Decision => "Decide, and give your reasons. State the decision completely.",
        };
        let task = format!("This is the phase `{}`. {task}", phase.name);
        for round in 1..=DiscussionSettings::max_rounds(phase) {
            let live = walk.remaining();
            let named =
                |who: &usize| phase.agents.is_empty() || phase.agents.contains(&walk.everybody[*who].agent);
            let who: Vec<usize> = live.into_iter().filter(named).collect();
            if who.is_empty() {
                return Err(walk.escalate(format!("nobody is left for the phase `{}`", phase.name)));
            }
            let stage = new_stage(&phase.name, round, phase.output_type, task.as_str());
            if phase.output_type == EntryType::Vote {
                let quorum = walk.quorum().min(who.len());
                let poll = Poll { options: &options, early: EarlyClose::Never, quorum };
                let tally = walk.vote(&who, &stage, &poll)?;
                let reached = tally.reaches(walk.settings.threshold);
                voted = Some(tally);
                if reached {
                    break;
                }
            } else {
                walk.ask(&who, &stage)?;
            }
        }
    }
    match voted {
        Some(tally) if tally.reaches(walk.settings.threshold) => {
            let mut outcome = DiscussionOutcome::from_vote(&tally, &options);
            outcome.set_text(walk.last_proposal());
            Ok(outcome)
        }
        Some(tally) => Err(walk.escalate(threshold_missed_message(&tally, walk.settings.threshold))),
        None => {
            let text = walk.entries.last().map(|entry| entry.text.clone()).unwrap_or_default();
            Ok(DiscussionOutcome::from_text(text).with_full_consensus())
        }
    }
}
