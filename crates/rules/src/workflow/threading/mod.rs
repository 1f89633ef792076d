//! Builds the prompt of a task: the task, prior results, and what went wrong so far.
//!
//! The parts come in this order, each with its source: the task; the outputs of its direct blockers; the
//! outcomes of their discussions; the failure context; outputs of indirect blockers, nearest first. The
//! prompt fits a number of tokens, except that the task, its failures and a part of each result that it
//! verifies are always included.

use std::{collections::HashMap, fmt::Write};

use emergent_documents::count_tokens;
use emergent_domain::{
    ids::ObjectId,
    task::{Task, VerdictKind},
};

use crate::workflow::{
    question::truncate,
    verdicts::{VERDICT_LABEL, verdict_words},
};

mod collect;
mod narrow;

pub use collect::collect_results;
pub use narrow::{PriorResults, narrowing_question, parse_narrowing};

/// A result of an earlier task, or the outcome of a discussion.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorResult {
    /// The id of the task or discussion.
    pub id: ObjectId,
    pub title: String,
    /// The kind of task, or of discussion.
    pub kind: String,
    /// The agent that did the task.
    pub agent: Option<String>,
    pub text: String,
    /// True if the task that reads this verifies it.
    pub verified: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskPrompt {
    pub prompt: String,
    /// Results of direct blockers, and of their discussions, whose text is in the prompt, in its order.
    pub used: Vec<ObjectId>,
    /// Results of tasks behind the direct blockers whose text is in the prompt, in its order.
    pub used_indirect: Vec<ObjectId>,
    /// Results that did not fit.
    pub dropped: Vec<ObjectId>,
}

/// A shorter part of a result is not worth including.
const MIN_RESULT_TOKENS: usize = 40;
/// The limit for each attempt in a failure context.
const MAX_FAILURE_CHARS: usize = 2_000;

/// Builds the prompt of a task. `indirect` has the nearest result first.
pub fn build_prompt(
    budget_tokens: usize,
    task: &Task,
    direct: &[PriorResult],
    discussions: &[PriorResult],
    failure_context: &str,
    indirect: &[PriorResult],
) -> TaskPrompt {
    let head = task_section(task);
    let failures = failures_section(failure_context);
    let tail = closing_section(task);
    let mut left =
        budget_tokens.saturating_sub(count_tokens(&head) + count_tokens(&failures) + count_tokens(&tail));
    let mut threaded =
        TaskPrompt { prompt: head, used: Vec::new(), used_indirect: Vec::new(), dropped: Vec::new() };
    let mut parts: HashMap<ObjectId, String> = HashMap::new();
    // Results that the task verifies get their tokens before all others.
    for verified in [true, false] {
        let [direct, discussions] = [direct, discussions].map(|rank| -> Vec<&PriorResult> {
            rank.iter().filter(|source| source.verified == verified).collect()
        });
        parts.extend(share_tokens(task, &direct, &mut left, result_label));
        parts.extend(share_tokens(task, &discussions, &mut left, |_, _| "DECIDED IN DISCUSSION"));
    }
    let mut used = threaded.add(direct, &mut parts);
    used.extend(threaded.add(discussions, &mut parts));
    threaded.prompt += &failures;
    let mut used_indirect = Vec::new();
    for source in indirect {
        parts.extend(share_tokens(task, &[source], &mut left, |_, _| "EARLIER WORK"));
        used_indirect.extend(threaded.add(std::slice::from_ref(source), &mut parts));
    }
    threaded.prompt += &tail;
    TaskPrompt { used, used_indirect, ..threaded }
}

impl TaskPrompt {
    /// Adds the results that have a part to the prompt, and returns them.
    fn add(&mut self, sources: &[PriorResult], parts: &mut HashMap<ObjectId, String>) -> Vec<ObjectId> {
        let mut used = Vec::new();
        for PriorResult { id, .. } in sources {
            match parts.remove(id) {
                Some(part) => {
                    self.prompt += &part;
                    used.push(*id);
                }
                None => self.dropped.push(*id),
            }
        }
        used
    }
}

fn result_label(task: &Task, source: &PriorResult) -> &'static str {
    match (task.verdict, source.verified) {
        (VerdictKind::None, _) => "RESULT OF",
        (VerdictKind::Test, true) => "IMPLEMENTED",
        (VerdictKind::Test, false) => "EXPECTED",
        (VerdictKind::Review, true) => "TO REVIEW",
        (VerdictKind::Review, false) => "BACKGROUND",
    }
}

/// Shares the remaining tokens among results of one rank: short results are included whole, and the
/// tokens they leave go to the long ones.
fn share_tokens(
    task: &Task,
    sources: &[&PriorResult],
    left: &mut usize,
    label: impl Fn(&Task, &PriorResult) -> &'static str,
) -> Vec<(ObjectId, String)> {
    let heads: Vec<String> =
        sources.iter().map(|source| result_heading(label(task, source), source)).collect();
    let sizes: Vec<(usize, usize)> = sources
        .iter()
        .zip(&heads)
        .map(|(source, head)| (count_tokens(head), count_tokens(&source.text)))
        .collect();
    let mut by_size: Vec<usize> = (0..sources.len()).collect();
    by_size.sort_by_key(|at| (sizes[*at].1, *at));
    let mut parts = Vec::new();
    for (done, at) in by_size.iter().enumerate() {
        let (head, text) = sizes[*at];
        let share = *left / (sources.len() - done);
        let least = if sources[*at].verified { MIN_RESULT_TOKENS } else { 0 };
        let room = share.saturating_sub(head).max(least);
        if text == 0 || (text > room && room < MIN_RESULT_TOKENS) {
            continue;
        }
        let shown = truncate_to_tokens(&sources[*at].text, room);
        *left = left.saturating_sub(head + count_tokens(&shown));
        parts.push((sources[*at].id, format!("\n{}{shown}\n", heads[*at])));
    }
    parts
}

fn result_heading(label: &str, source: &PriorResult) -> String {
    let mut head = format!("{label} \"{}\"", source.title);
    match (source.kind.as_str(), &source.agent) {
        ("", None) => {}
        ("", Some(agent)) => drop(write!(head, " (by {agent})")),
        (kind, None) => drop(write!(head, " ({kind})")),
        (kind, Some(agent)) => drop(write!(head, " ({kind}, by {agent})")),
    }
    head + ":\n"
}

const TRUNCATION_MARK: &str = "\n[… cut; the rest is in the graph]";

/// The beginning of a text with at most this many tokens, with a mark if something was left out.
fn truncate_to_tokens(text: &str, tokens: usize) -> String {
    let text = text.trim();
    if count_tokens(text) <= tokens {
        return text.to_owned();
    }
    let room = tokens.saturating_sub(count_tokens(TRUNCATION_MARK));
    // A longer beginning never has fewer tokens, so the longest that fits is found by bisection.
    let (mut fits, mut too_long) = (0, text.len());
    while too_long - fits > 1 {
        let middle = text.floor_char_boundary(fits + (too_long - fits) / 2);
        if middle <= fits {
            break;
        }
        if count_tokens(&text[..middle]) <= room { fits = middle } else { too_long = middle }
    }
    let end = text[..fits].rfind(char::is_whitespace).filter(|end| *end > fits / 2).unwrap_or(fits);
    format!("{}{TRUNCATION_MARK}", text[..end].trim_end())
}

fn task_section(task: &Task) -> String {
    let label = match task.verdict {
        VerdictKind::None => "TASK",
        VerdictKind::Test => "TESTING TASK",
        VerdictKind::Review => "REVIEW",
    };
    let mut head = format!("{label}: {}\n", task.title.trim());
    if !task.description.trim().is_empty() {
        let _ = write!(head, "\n{}\n", task.description.trim());
    }
    head
}

fn failures_section(context: &str) -> String {
    match context.trim() {
        "" => String::new(),
        context => format!("\nPREVIOUS ATTEMPT FAILED:\n{context}\nFix the specific issues listed above.\n"),
    }
}

/// The last part of the prompt: what the agent has to deliver.
fn closing_section(task: &Task) -> String {
    let verified = match task.verifies.is_empty() {
        true => "what is handed to you above".to_owned(),
        false => format!("the tasks {}", task.verifies.join(", ")),
    };
    match task.verdict {
        VerdictKind::None => {
            "\nWrite results to the knowledge graph using the provided tools. End with a summary of \
                              what you did and found: it is handed on to the tasks that wait for this one.\n"
                .to_owned()
        }
        VerdictKind::Test => format!(
            "\nVERIFY {verified}: look at what is really there, not only at what was said about it. Look for edge cases.\n\n\
             Report:\n\
             - PASS or FAIL for each verification step\n\
             - If FAIL: specific issue and suggested fix\n\
             - Overall verdict: PASS, FAIL, or NEEDS_CHANGES\n\n\
             Hand in the verdict with the tool `submit_verdict` before you end: `verdict`, `steps`, `issues`, `summary`. \
             {}\n",
            verdict_line_hint(task.verdict)
        ),
        VerdictKind::Review => format!(
            "\nREVIEW {verified} for:\n\
             1. Quality and consistency with existing patterns\n\
             2. Completeness of the design\n\
             3. Edge case handling\n\
             4. Design decision traceability (can we understand WHY?)\n\n\
             Provide:\n\
             - Overall assessment: APPROVE, REQUEST_CHANGES, or COMMENT\n\
             - Specific issues (if any)\n\
             - Suggestions for improvement\n\n\
             Hand in the verdict with the tool `submit_verdict` before you end: `verdict`, `comments`, \
             `required_changes`, `suggestions`, `summary`. {}\n",
            verdict_line_hint(task.verdict)
        ),
    }
}

/// How a run that cannot call `submit_verdict` gives its verdict.
fn verdict_line_hint(kind: VerdictKind) -> String {
    let lines: Vec<String> =
        verdict_words(kind).iter().map(|word| format!("`{VERDICT_LABEL}: {word}`")).collect();
    format!(
        "If you cannot call it, end your answer with a line of its own: {}. Nothing else in your answer counts as \
         a verdict.",
        join_with_or(&lines)
    )
}

/// The prompt of a verifying run that ended without a verdict. It continues in the same conversation,
/// which has what the run found.
pub fn verdict_reminder(kind: VerdictKind) -> String {
    let words: Vec<String> = verdict_words(kind).iter().map(|&word| word.to_owned()).collect();
    format!(
        "You ended without a verdict that could be read. Look at nothing anew: call `submit_verdict` now, \
         with `verdict` one of {}, and what you base it on. {}",
        join_with_or(&words),
        verdict_line_hint(kind)
    )
}

/// `a, b or c`.
fn join_with_or(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Appends an attempt to a failure context, which has the newest last.
pub fn append_failure(previous: &str, attempt: i64, text: &str) -> String {
    let text = match text.trim() {
        "" => "it ended without saying why",
        text => text,
    };
    let note = format!("{ATTEMPT_LABEL}{attempt}: {}", truncate(text, MAX_FAILURE_CHARS));
    match previous.trim_end() {
        "" => note,
        previous => format!("{previous}\n\n{note}"),
    }
}

/// Adds what a person says about the attempts before to the failure context of a task. It is not an attempt, so it has no
/// number.
pub fn append_note(previous: &str, note: &str) -> String {
    let note = format!("{PERSON_LABEL}{}", truncate(note.trim(), MAX_FAILURE_CHARS));
    match previous.trim_end() {
        "" => note,
        previous => format!("{previous}\n\n{note}"),
    }
}

/// Starts each entry of a failure context about an attempt.
const ATTEMPT_LABEL: &str = "Attempt ";
/// Starts each entry of a failure context with the words of a person.
const PERSON_LABEL: &str = "A person says: ";

/// The newest entry of a failure context, with its label.
pub fn newest_failure(context: &str) -> &str {
    let start = context.rfind(ATTEMPT_LABEL).max(context.rfind(PERSON_LABEL));
    start.map_or(context, |start| &context[start..])
}

/// The newest entry of a failure context, without its label.
pub fn newest_failure_text(context: &str) -> &str {
    let newest = newest_failure(context);
    if let Some(note) = newest.strip_prefix(PERSON_LABEL) {
        return note;
    }
    let text = newest.strip_prefix(ATTEMPT_LABEL).and_then(|rest| rest.split_once(": "));
    text.map_or(newest, |(_, text)| text)
}

#[cfg(test)]
mod tests;
