//! The words a participant is asked with.

use std::fmt::Write;

use super::{
    replay::{Stage, TranscriptEntry},
    settings::{DiscussionSettings, EntryType, Participant},
    votes::VoteOptions,
};
use crate::workflow::question::truncate;

/// Characters of what was said that one prompt repeats, shared by its entries. What is cut stands
/// in the graph in full.
const MAX_TRANSCRIPT_CHARS: usize = 48_000;
const MAX_ENTRY_CHARS: usize = 12_000;
const MIN_ENTRY_CHARS: usize = 600;

/// A turn. `first` is what the participant said when it was asked to vote and handed in nothing.
pub(super) fn turn_prompt(
    settings: &DiscussionSettings,
    me: &Participant,
    shown: &[TranscriptEntry],
    stage: &Stage,
    options: Option<&VoteOptions>,
    first: Option<&str>,
) -> String {
    let mut text = format!("DISCUSSION: {}\n", settings.topic.trim());
    if !settings.context.trim().is_empty() {
        let _ = write!(text, "\nCONTEXT:\n{}\n", settings.context.trim());
    }
    if !settings.criteria.is_empty() {
        text += "\nDECISION CRITERIA:\n";
        for criterion in &settings.criteria {
            let _ = writeln!(text, "- {criterion}");
        }
    }
    if !shown.is_empty() {
        text += "\nWHAT WAS SAID SO FAR:\n";
        let room = (MAX_TRANSCRIPT_CHARS / shown.len()).clamp(MIN_ENTRY_CHARS, MAX_ENTRY_CHARS);
        for entry in shown {
            push_entry(&mut text, entry, room);
        }
    }
    let _ = write!(text, "\nYOUR TURN: you are `{}`", me.agent);
    if let Some(role) = &me.role {
        let _ = write!(text, ", in the role `{role}`");
    }
    let _ = write!(text, ".\n{}\n", stage.task);
    if let Some(options) = options {
        text += "\nOPTIONS:\n";
        for (at, (name, what)) in options.iter().enumerate() {
            let what = truncate(what, 1_000);
            let colon = if what.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "{}. {name}{colon}{what}", at + 1);
        }
        let _ = write!(
            text,
            "\nHand in your vote with the tool `submit_vote`: `option` is the name of one option, `confidence` a \
             number from 0 to 1, `reason` why. If you cannot call it, {}. Nothing else in your answer counts as a \
             vote.\n",
            match options.is_feedback() {
                true => "the option that your answer starts with is your vote",
                false => "end your answer with a line of its own: `VOTE: ` and the name of one option",
            }
        );
    }
    if let Some(first) = first {
        let _ = write!(
            text,
            "\nYou were asked before and handed in no vote that counts. You wrote:\n{}\n\
             Call `submit_vote` now, with exactly one of the options above, or {}.\n",
            truncate(first, 2_000),
            match options.is_some_and(VoteOptions::is_feedback) {
                true => "start your answer with one of them",
                false => "end with a line `VOTE: option`",
            }
        );
    }
    if matches!(stage.type_, EntryType::Decision | EntryType::Proposal) && options.is_none() {
        text += "\nIf it needs new work that nobody has as a task yet, end with a JSON object \
                 {\"tasks\": [{\"title\": …, \"description\": …, \"kind\": …}]}. Otherwise leave it out.\n";
    }
    text
}

fn push_entry(text: &mut String, entry: &TranscriptEntry, room: usize) {
    let _ = write!(text, "\n[{}, round {}] {}:\n", entry.phase, entry.round, entry.agent);
    if let Some(vote) = &entry.vote {
        let _ = write!(text, "voted for: {}", vote.option);
        if let Some(sure) = vote.confidence {
            let _ = write!(text, " (confidence {sure:.2})");
        }
        text.push('\n');
        if !vote.reason.trim().is_empty() {
            let _ = writeln!(text, "reason: {}", truncate(&vote.reason, room));
        }
    }
    if !entry.text.trim().is_empty() {
        let _ = writeln!(text, "{}", truncate(&entry.text, room));
    }
}
