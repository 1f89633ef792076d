//! The loop guard: finds agents that repeat the same tool calls without making progress.
//!
//! The third repetition of a call, or of a cycle of calls, is answered with a warning instead of being
//! made. The warning holds for the rest of the run: the same loop again ends the run, whatever lies
//! between. Only an answer that the model wrote after it had read the warning can end the run: the other
//! calls of the warned loop in the same answer get the warning as well. A repetition is excused while its
//! results change, and once after a change was made that may have changed them. Polling and looking again
//! after a write are therefore no loops.
//!
//! Other calls may lie between the repetitions. They excuse them only if they bring something new: a result
//! that their tool has not returned in this run, or a change. Failures are compared without the arguments, so
//! a tool that always fails in the same way is a loop as well. All tools that the run does not have count as one.
//! Many calls in a row without anything new are a loop whatever their tools and arguments are.
//!
//! Results are compared without what drifts in them, as the scores of a search do, and without the traces of what the
//! run itself did more than once. A state that the run changes back and forth is no progress, however often it reads it.
//!
//! The guard sees only what the record of the run contains, so a recovered run has the same guard.

mod drift;
#[cfg(test)]
mod drift_tests;
mod failures;
mod fingerprint;
mod idle;
mod own_writes;
#[cfg(test)]
mod own_writes_tests;
#[cfg(test)]
mod tests;
mod texts;
mod times;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet, VecDeque},
};

use drift::Drift;
use failures::{FailureCheck, Failures};
use idle::{IdleCalls, IdleCheck};
use own_writes::OwnWrites;
use serde_json::Value;
pub use texts::{loop_error, loop_warning};

use crate::{
    agent::string_enum,
    ids::{RunId, ToolCallId},
};

/// This many repetitions of a cycle count as a loop.
const MIN_REPEATS: usize = 3;
/// The length of the longest cycle that is detected, in calls.
const MAX_CYCLE: usize = 32;
/// So many calls in a row that all bring a known result for the third time count as a loop, whatever
/// their order.
const MAX_STALE_CALLS: usize = 8;
/// So many reads in a row that differ only in spelling and have the same result count as a loop.
const MAX_SIMILAR_CALLS: usize = 5;
/// A call that was made this often with the same result counts as a loop if no other call brought anything
/// new in between.
const MAX_REVISITS: usize = 5;
/// A run that was warned about this many loops without progress ends at the next one.
const MAX_WARNINGS: usize = 5;
/// The number of earlier results of a call that a new one is compared with.
const MAX_RESULTS: usize = 8;

string_enum! {
    /// What a tool call may change.
    CallEffect {
        Reads = "reads",
        /// Changes the graph or starts other runs.
        Writes = "writes",
        /// Acts outside of this server, and is not declared as read-only.
        External = "external",
        /// The run has no tool of this name, so the call does nothing.
        NoTool = "no_tool",
    }
}

/// A tool call as the guard sees it before it is made.
#[derive(Debug, Clone, Copy)]
pub struct ObservedCall<'a> {
    pub id: ToolCallId,
    pub tool: &'a str,
    pub input: &'a Value,
    pub effect: CallEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopCheck {
    None,
    /// The call completes a loop. The caller must not execute it, and sends the warning to the model
    /// instead. `count` is how often the run made this call, or calls that count as the same for this kind of loop.
    Warn {
        count: usize,
        kind: LoopKind,
    },
    /// The model continued the loop after the warning. The run ends.
    End {
        count: usize,
        kind: LoopKind,
    },
}

/// What makes calls a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKind {
    /// The same call in a row.
    SameCall,
    /// The same calls in the same order; the number is the length of the cycle.
    Cycle(usize),
    /// Calls in any order, all of which return what they have returned before.
    KnownResults,
    /// Reads that differ only in spelling, or in how many results they ask for, and return the same.
    SameQuestion,
    /// The same call again and again, between other calls that bring nothing new either.
    NothingNew,
    /// Calls of one tool with any arguments, all of which fail in the same way.
    SameFailure,
    /// Calls of tools that the run does not have, under any names.
    UnknownTools,
    /// Calls of any tools with any arguments, none of which brings anything new.
    Idle,
}

/// Observes all tool calls of a run and their results, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoopGuard {
    /// The run that makes the calls.
    run: Option<RunId>,
    /// The recent calls, newest last.
    recent: VecDeque<RecentCall>,
    /// All calls of the run by their fingerprints, exact and similar.
    history: HashMap<u64, CallHistory>,
    warned: Vec<WarnedLoop>,
    /// How many calls were made that changed something. The repetition of a call does not count.
    changes: u64,
    /// How many calls that may change something were made again.
    repeated_changes: u64,
    own_writes: OwnWrites,
    /// The results that each call has returned.
    returned: HashSet<(u64, u64)>,
    /// The results that each tool has returned.
    known_results: HashSet<(u64, u64)>,
    /// How many results were new, and how many changes were made.
    news: u64,
    failures: Failures,
    idle: IdleCalls,
    /// The tools that the run has called.
    called_tools: HashSet<u64>,
    /// How many answers with tool calls the model has given.
    answers: u64,
    /// The loops without progress that the model was warned about.
    idle_warnings: usize,
    /// Those of them that the model had read before its newest answer.
    read_idle_warnings: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct RecentCall {
    id: ToolCallId,
    exact: u64,
    similar: u64,
    tool: u64,
    tool_name: String,
    input: Value,
    effect: CallEffect,
    drift: Drift,
    /// False if the call was refused.
    executed: bool,
    result: Option<u64>,
    /// How often the call had brought a known result when it returned.
    unchanged: usize,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct CallHistory {
    count: usize,
    /// The newest results, oldest first.
    results: VecDeque<u64>,
    /// How many results in a row were known before.
    unchanged: usize,
    /// Whether the newest result differs from all before it.
    has_changed: bool,
    has_succeeded: bool,
    /// `LoopGuard::changes` when the newest result arrived.
    changes: u64,
    /// `LoopGuard::repeated_changes` when the newest result arrived.
    repeated_changes: u64,
    /// `LoopGuard::news` when the newest result arrived.
    news: u64,
    /// How many results in a row were the same while no call brought anything new.
    revisits: usize,
}

/// What a guard had counted when a result arrived.
#[derive(Debug, Clone, Copy)]
struct Counts {
    changes: u64,
    repeated_changes: u64,
    news: u64,
}

/// A loop that the model was warned about.
#[derive(Debug, Clone, PartialEq)]
struct WarnedLoop {
    /// The fingerprints of its calls, without duplicates.
    calls: Vec<u64>,
    kind: LoopKind,
    /// `LoopGuard::answers` at the warning. The model reads the warning after this answer.
    answer: u64,
    /// Calls of this loop that nothing excuses, since the warning or the last new result.
    stale_calls: usize,
    /// Whether a change has excused a repetition since the last new result.
    is_excused: bool,
    has_progressed: bool,
}

impl LoopGuard {
    /// Creates the guard of a run. What the run records about itself in the graph is no news to it.
    pub fn for_run(run: RunId) -> Self {
        Self { run: Some(run), ..Self::default() }
    }

    /// Records the calls of the next answer of the model, and returns how to treat each of them.
    pub fn observe_answer<'a>(
        &mut self,
        calls: impl IntoIterator<Item = ObservedCall<'a>>,
    ) -> Vec<LoopCheck> {
        self.answers += 1;
        self.read_idle_warnings = self.idle_warnings;
        self.idle.record_answer();
        calls.into_iter().map(|call| self.observe(call)).collect()
    }

    fn observe(&mut self, call: ObservedCall<'_>) -> LoopCheck {
        let input = self.own_writes.remove_from_input(call.input);
        let exact = fingerprint::exact_call(call.tool, &input);
        let similar = fingerprint::similar_call(call.tool, &input);
        for key in [exact, similar] {
            self.history.entry(key).or_default().count += 1;
        }
        self.recent.push_back(RecentCall {
            id: call.id,
            exact,
            similar,
            tool: fingerprint::failing_tool(call.tool, call.effect),
            tool_name: call.tool.to_owned(),
            input: call.input.clone(),
            effect: call.effect,
            drift: Drift::for_tool(call.tool, call.effect),
            executed: true,
            result: None,
            unchanged: 0,
        });
        if self.recent.len() > MAX_CYCLE * MIN_REPEATS {
            self.recent.pop_front();
        }
        let check = self.check_newest(exact, similar);
        if check != LoopCheck::None
            && let Some(newest) = self.recent.back_mut()
        {
            newest.executed = false;
        }
        check
    }

    fn check_newest(&mut self, exact: u64, similar: u64) -> LoopCheck {
        let count = self.count_of(exact);
        let warned: Vec<usize> = (0..self.warned.len())
            .filter(|index| self.warned[*index].has_call(exact) || self.warned[*index].has_call(similar))
            .collect();
        if !warned.is_empty() {
            return self.check_warned_loops(&warned, exact, similar);
        }
        if let Some(cycle) = self.repeated_cycle() {
            let kind = if cycle.len() == 1 { LoopKind::SameCall } else { LoopKind::Cycle(cycle.len()) };
            return self.warn(cycle, count, kind);
        }
        if let Some(calls) = self.stale_calls() {
            return self.warn(calls, count, LoopKind::KnownResults);
        }
        if self.has_similar_calls() {
            return self.warn(vec![similar], self.count_of(similar), LoopKind::SameQuestion);
        }
        if self.has_nothing_new(exact) {
            return self.warn(vec![exact], count, LoopKind::NothingNew);
        }
        match self.check_failures() {
            LoopCheck::None => self.check_idle(exact),
            check => check,
        }
    }

    /// Returns whether the call was made often with one result while nothing else brought anything new.
    fn has_nothing_new(&self, exact: u64) -> bool {
        let is_stale = |call: &CallHistory| call.news == self.news && call.revisits >= MAX_REVISITS - 1;
        self.history.get(&exact).is_some_and(is_stale)
    }

    /// Checks whether the tool of the newest call always fails in the same way.
    fn check_failures(&mut self) -> LoopCheck {
        let Some(newest) = self.recent.back() else { return LoopCheck::None };
        let kind = match newest.effect {
            CallEffect::NoTool => LoopKind::UnknownTools,
            CallEffect::Reads | CallEffect::Writes | CallEffect::External => LoopKind::SameFailure,
        };
        match self.failures.check(newest.tool, self.answers) {
            FailureCheck::None => LoopCheck::None,
            FailureCheck::Warn { count } => self.warn(Vec::new(), count, kind),
            FailureCheck::WarnAgain { count } => LoopCheck::Warn { count, kind },
            FailureCheck::End { count } => LoopCheck::End { count, kind },
        }
    }

    /// Checks whether many calls in a row have brought nothing new. A first write and a tool that the run has not called
    /// yet may bring something.
    fn check_idle(&mut self, exact: u64) -> LoopCheck {
        let Some(newest) = self.recent.back() else { return LoopCheck::None };
        let is_repetition = self.history.get(&exact).is_some_and(|call| call.has_succeeded);
        if !self.called_tools.contains(&newest.tool) || (newest.effect.may_change() && !is_repetition) {
            return LoopCheck::None;
        }
        match self.idle.check() {
            IdleCheck::None => LoopCheck::None,
            IdleCheck::Warn { count } => LoopCheck::Warn { count, kind: LoopKind::Idle },
            IdleCheck::End { count } => LoopCheck::End { count, kind: LoopKind::Idle },
        }
    }

    /// Checks a call of loops that the model was warned about. The model has not read a warning of its
    /// newest answer yet, so the call only gets the warning again.
    fn check_warned_loops(&mut self, warned: &[usize], exact: u64, similar: u64) -> LoopCheck {
        let (unread, read): (Vec<usize>, Vec<usize>) =
            warned.iter().partition(|index| self.warned[**index].answer == self.answers);
        let key_in = |warned: &WarnedLoop| if warned.has_call(exact) { exact } else { similar };
        let ended = read.into_iter().find(|index| {
            let key = key_in(&self.warned[*index]);
            self.repeats_warned_loop(*index, key)
        });
        let Some(warned) = ended.or(unread.first().copied()).map(|index| &self.warned[index]) else {
            return LoopCheck::None;
        };
        let (count, kind) = (self.count_of(key_in(warned)), warned.kind);
        match ended {
            Some(_) => LoopCheck::End { count, kind },
            None => LoopCheck::Warn { count, kind },
        }
    }

    /// How often the run made the calls of a fingerprint.
    fn count_of(&self, key: u64) -> usize {
        self.history.get(&key).map_or(1, |call| call.count)
    }

    /// Records that a call of a warned loop is about to be repeated. Returns whether the run ends.
    fn repeats_warned_loop(&mut self, index: usize, key: u64) -> bool {
        let history = self.history.get(&key);
        let warned = &mut self.warned[index];
        if history.is_some_and(|call| call.has_changed) {
            return false;
        }
        if !warned.is_excused && history.is_some_and(|call| call.changes < self.changes) {
            warned.is_excused = true;
            return false;
        }
        warned.stale_calls += 1;
        let repeats = if warned.has_progressed { MIN_REPEATS - 1 } else { 1 };
        warned.stale_calls >= warned.calls.len() * repeats
    }

    fn warn(&mut self, mut calls: Vec<u64>, count: usize, kind: LoopKind) -> LoopCheck {
        calls.sort_unstable();
        calls.dedup();
        let has_progressed =
            calls.iter().any(|key| self.history.get(key).is_some_and(|call| call.has_changed));
        if !has_progressed {
            self.idle_warnings += 1;
        }
        self.warned.push(WarnedLoop {
            calls,
            kind,
            answer: self.answers,
            stale_calls: 0,
            is_excused: false,
            has_progressed,
        });
        match !has_progressed && self.read_idle_warnings >= MAX_WARNINGS {
            true => LoopCheck::End { count, kind },
            false => LoopCheck::Warn { count, kind },
        }
    }

    /// Returns the shortest cycle that the newest calls repeat `MIN_REPEATS` times.
    fn repeated_cycle(&self) -> Option<Vec<u64>> {
        let recent = &self.recent;
        let length = (1..=MAX_CYCLE).find(|length| {
            let Some(start) = recent.len().checked_sub(length * MIN_REPEATS) else { return false };
            (start + length..recent.len()).all(|index| recent[index].exact == recent[index - length].exact)
        })?;
        Some(recent.iter().rev().take(length).map(|call| call.exact).collect())
    }

    /// Returns the newest calls if each of them only repeats what it has returned twice before.
    fn stale_calls(&self) -> Option<Vec<u64>> {
        let mut newest = self.recent.iter().rev();
        let next = newest.next()?;
        let is_known = self.history.get(&next.exact).is_some_and(|call| call.unchanged >= MIN_REPEATS - 2);
        let earlier: Vec<&RecentCall> = newest.take(MAX_STALE_CALLS - 1).collect();
        let all_stale = earlier.len() == MAX_STALE_CALLS - 1
            && earlier.iter().all(|call| call.executed && call.unchanged >= MIN_REPEATS - 1);
        (is_known && all_stale).then(|| earlier.iter().map(|call| call.exact).chain([next.exact]).collect())
    }

    /// Returns whether the newest calls ask the same in other spellings, and all got the same result.
    fn has_similar_calls(&self) -> bool {
        let mut newest = self.recent.iter().rev();
        let Some(next) = newest.next() else { return false };
        let earlier: Vec<&RecentCall> = newest.take(MAX_SIMILAR_CALLS - 1).collect();
        let first_result = earlier.first().and_then(|call| call.result);
        next.effect == CallEffect::Reads
            && first_result.is_some()
            && earlier.len() == MAX_SIMILAR_CALLS - 1
            && earlier.iter().all(|call| call.similar == next.similar && call.result == first_result)
    }

    /// Records the result of a call. The result of a call that the guard refused is ignored.
    pub fn record_result(&mut self, id: ToolCallId, output: &Value, failed: bool) {
        let Some(index) = self.recent.iter().rposition(|call| call.id == id && call.executed) else { return };
        let RecentCall { exact, similar, tool, effect, .. } = self.recent[index];
        let is_repetition = self.history.get(&exact).is_some_and(|call| call.has_succeeded);
        let is_repeated_change = effect.may_change() && !failed && is_repetition;
        // Whether other calls have repeated a change since this one was made the last time.
        let follows_repetition =
            self.history.get(&exact).is_some_and(|call| call.repeated_changes < self.repeated_changes);
        let (result, state) = self.result_of(index, output, failed);
        // A state that the run itself has brought about again is known, however many others lie between.
        let is_returned = follows_repetition && self.returned.contains(&(exact, state));
        let result = if is_returned { state } else { result };
        let is_change = effect.may_change() && !failed && !is_repetition;
        if is_change {
            self.changes += 1;
        }
        if is_repeated_change {
            self.repeated_changes += 1;
        }
        if effect == CallEffect::Writes && !failed {
            self.own_writes.record(&self.recent[index].tool_name, exact, output, is_repetition);
        }
        self.returned.insert((exact, state));
        let is_new_result = !failed && !is_returned && self.known_results.insert((tool, result));
        if is_change || is_new_result {
            self.record_news();
        }
        self.called_tools.insert(tool);
        for key in [exact, similar] {
            let counts =
                Counts { changes: self.changes, repeated_changes: self.repeated_changes, news: self.news };
            let history = self.history.entry(key).or_default();
            history.add_result(result, failed, is_returned, counts);
            if history.has_changed {
                let repeated = self.warned.iter_mut().filter(|warned| warned.has_call(key));
                repeated.for_each(WarnedLoop::record_progress);
            }
        }
        match failed {
            false => self.failures.record_success(tool),
            // A call that fails in another way than before may be on its way: it waits for something.
            true if self.history.get(&exact).is_some_and(|call| call.has_changed) => {}
            true => {
                let kind = fingerprint::failure(effect, output, &self.recent[index].input);
                self.failures.record(tool, kind, effect);
            }
        }
        let (unchanged, has_changed) =
            self.history.get(&exact).map_or((0, false), |call| (call.unchanged, call.has_changed));
        match is_change || is_new_result || has_changed {
            true => self.idle.record_news(),
            false => self.idle.record_idle_call(),
        }
        let call = &mut self.recent[index];
        (call.result, call.unchanged) = (Some(result), unchanged);
    }
}

impl LoopGuard {
    /// Returns the hash of a result without what is no news in it, and the hash of the state that it shows, by which it is
    /// compared after the run itself has repeated a change.
    fn result_of(&mut self, index: usize, output: &Value, failed: bool) -> (u64, u64) {
        let call = &self.recent[index];
        if failed || call.effect != CallEffect::Reads {
            let state = if failed { Cow::Borrowed(output) } else { times::remove_from(output) };
            let hash = |output: &Value| fingerprint::result(call.effect, output, failed);
            return (hash(output), hash(&state));
        }
        let is_limited = own_writes::is_limited(output);
        let without_own = self.own_writes.remove_from(output);
        let mut result = call.drift.remove_from(&without_own, &call.input, self.run).into_owned();
        let merged = self.own_writes.merge_equal_rows(&mut result);
        let newest = self.history.get(&call.exact).and_then(|call| call.results.back());
        // Rows are missing, because the removed ones took their place.
        let shows_less = is_limited && merged.removed > 0 && !merged.has_new;
        if let Some(newest) = newest.filter(|_| shows_less) {
            return (*newest, *newest);
        }
        let hash = |output: &Value| fingerprint::result(CallEffect::Reads, output, false);
        let full = hash(&result);
        if let (Drift::Counts, Some(fields)) = (call.drift, result.as_object_mut()) {
            // What the run writes waits for its embedding, for longer or shorter.
            fields.remove("embeddings");
        }
        if merged.removed > 0
            && let Some(fields) = result.as_object_mut()
        {
            own_writes::TOTALS.iter().for_each(|total| drop(fields.remove(*total)));
        }
        match call.drift {
            Drift::Nothing => (full, hash(&times::remove_from(&result))),
            _ => (full, hash(&result)),
        }
    }

    /// A call brought something new. What the model was told to be without progress is not any more.
    fn record_news(&mut self) {
        self.news += 1;
        self.failures.record_news();
        let count = self.warned.len();
        self.warned.retain(|warned| warned.kind != LoopKind::NothingNew || warned.has_progressed);
        self.idle_warnings -= count - self.warned.len();
        self.read_idle_warnings = self.read_idle_warnings.min(self.idle_warnings);
    }
}

impl CallEffect {
    fn may_change(self) -> bool {
        match self {
            Self::Writes | Self::External => true,
            Self::Reads | Self::NoTool => false,
        }
    }
}

impl CallHistory {
    /// Adds a result. `is_returned` says that it is known although it may not be among the newest.
    fn add_result(&mut self, result: u64, failed: bool, is_returned: bool, counts: Counts) {
        let is_known = is_returned || self.results.contains(&result);
        let is_revisit = self.news == counts.news && self.results.back() == Some(&result);
        self.revisits = if is_revisit { self.revisits + 1 } else { 1 };
        self.news = counts.news;
        self.has_changed = !is_known && !self.results.is_empty();
        self.unchanged = if is_known { self.unchanged + 1 } else { 0 };
        self.has_succeeded |= !failed;
        (self.changes, self.repeated_changes) = (counts.changes, counts.repeated_changes);
        self.results.push_back(result);
        if self.results.len() > MAX_RESULTS {
            self.results.pop_front();
        }
    }
}

impl WarnedLoop {
    fn has_call(&self, key: u64) -> bool {
        self.calls.binary_search(&key).is_ok()
    }

    fn record_progress(&mut self) {
        (self.stale_calls, self.is_excused, self.has_progressed) = (0, false, true);
    }
}
