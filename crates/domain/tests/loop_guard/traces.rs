//! Generates the labelled set: loops of many shapes, and honest work that looks like a loop.

mod drifting;
mod idle;
mod own_changes;
mod small_graph;
mod without_progress;

use emergent_domain::loops::CallEffect::{self, External, Reads, Writes};
use serde_json::{Value, json};

/// A tool call as it is made if the guard allows it, with its result.
#[derive(Debug, Clone)]
pub struct TracedCall {
    pub tool: String,
    pub input: Value,
    pub effect: CallEffect,
    pub result: Value,
    pub failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    Honest,
    /// A loop; `length` is the number of calls in one repetition.
    Loop {
        length: usize,
    },
}

#[derive(Debug, Clone)]
pub struct Trace {
    pub name: String,
    pub label: Label,
    pub calls: Vec<TracedCall>,
}

pub fn labelled_set() -> Vec<Trace> {
    let mut traces = Vec::new();
    simple_loops(&mut traces);
    loops_with_other_calls(&mut traces);
    loops_of_writes(&mut traces);
    loops_without_order(&mut traces);
    without_progress::loops_of_failures(&mut traces);
    without_progress::loops_of_limits(&mut traces);
    without_progress::loops_of_revisits(&mut traces);
    without_progress::honest_exploration(&mut traces);
    without_progress::honest_mending(&mut traces);
    drifting::loops_of_drift(&mut traces);
    drifting::honest_waiting_beside_drift(&mut traces);
    idle::loops_without_news(&mut traces);
    idle::honest_searching(&mut traces);
    traces.extend(set_beside_own_writes());
    honest_polling(&mut traces);
    honest_paging(&mut traces);
    honest_retries(&mut traces);
    honest_revisits(&mut traces);
    honest_work(&mut traces);
    traces
}

/// The traces of runs that read what they write themselves.
pub fn set_beside_own_writes() -> Vec<Trace> {
    let mut traces = Vec::new();
    own_changes::loops_of_toggles(&mut traces);
    own_changes::loops_of_duplicates(&mut traces);
    own_changes::loops_outside(&mut traces);
    own_changes::honest_work_beside_own_writes(&mut traces);
    traces
}

fn call(tool: &str, input: Value, effect: CallEffect, result: Value) -> TracedCall {
    TracedCall { tool: tool.into(), input, effect, result, failed: false }
}

/// A read whose result never changes.
fn read(what: usize) -> TracedCall {
    call("entities_get", json!({ "id": what }), Reads, json!({ "id": what, "name": format!("n{what}") }))
}

/// A read whose result is the `state`.
fn look(what: usize, state: usize) -> TracedCall {
    call("entities_query", json!({ "type": what }), Reads, json!({ "total": state }))
}

fn search(query: &str, hits: usize) -> TracedCall {
    call("search_hybrid", json!({ "query": query }), Reads, json!({ "items": vec!["a hit"; hits] }))
}

/// A write that returns a new id each time.
fn write(what: usize, id: usize) -> TracedCall {
    call("entities_create", json!({ "name": what }), Writes, json!({ "id": id }))
}

fn external(what: usize, result: Value) -> TracedCall {
    call("web_fetch", json!({ "url": format!("https://example.org/{what}") }), External, result)
}

fn failing(mut call: TracedCall, error: &str) -> TracedCall {
    (call.result, call.failed) = (json!({ "error": error }), true);
    call
}

fn add(traces: &mut Vec<Trace>, name: String, label: Label, calls: Vec<TracedCall>) {
    traces.push(Trace { name, label, calls });
}

/// Cycles of every length, after some honest calls, of reads and of calls to other servers.
fn simple_loops(traces: &mut Vec<Trace>) {
    for length in [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32] {
        for before in [0, 1, 7] {
            let prefix = (0..before).map(|index| read(1_000 + index));
            let cycle = (0..length).map(read);
            let calls = prefix.chain(std::iter::repeat_n(cycle, 8).flatten()).collect();
            add(traces, format!("{length} reads, {before} before"), Label::Loop { length }, calls);
        }
        let cycle = (0..length).map(|what| external(what, json!({ "status": 404 })));
        let calls = std::iter::repeat_n(cycle, 8).flatten().collect();
        add(traces, format!("{length} external calls"), Label::Loop { length }, calls);
        let cycle = (0..length).map(|what| failing(read(what), "not found"));
        let calls = std::iter::repeat_n(cycle, 8).flatten().collect();
        add(traces, format!("{length} failing calls"), Label::Loop { length }, calls);
    }
}

/// `A A A B` and its relatives: the loop goes on after other calls, some of them always new.
fn loops_with_other_calls(traces: &mut Vec<Trace>) {
    for length in [1, 2, 3] {
        for others in [1, 2, 5] {
            for kind in ["the same read", "new reads", "new writes", "new external calls"] {
                let mut calls = Vec::new();
                for round in 0..12 {
                    for _ in 0..3 {
                        calls.extend((0..length).map(read));
                    }
                    for other in 0..others {
                        let new = 100 + round * others + other;
                        calls.push(match kind {
                            "the same read" => read(50 + other),
                            "new reads" => read(new),
                            "new writes" => write(new, new),
                            _ => external(new, json!({ "page": new })),
                        });
                    }
                }
                // The others lie between two repetitions, and do not count as repetitions themselves.
                let label = Label::Loop { length: length + others };
                add(traces, format!("{length} three times, then {others}: {kind}"), label, calls);
            }
        }
    }
    for gap in [1, 3, 10, 40] {
        let mut calls = vec![read(1), read(1), read(1)];
        for round in 0..3 {
            calls.extend((0..gap).map(|index| read(100 + round * gap + index)));
            calls.push(read(1));
        }
        add(traces, format!("again after {gap} other calls"), Label::Loop { length: gap + 1 }, calls);
    }
}

/// Writes that are repeated although they succeed, alone and with a look at the result.
fn loops_of_writes(traces: &mut Vec<Trace>) {
    for length in [1, 2, 3, 5, 8] {
        let calls = (0..length * 8).map(|index| write(index % length, index)).collect();
        add(traces, format!("{length} writes"), Label::Loop { length }, calls);
        let calls = (0..8).flat_map(|round| {
            (0..length).flat_map(move |what| [write(what, round * length + what), read(what)])
        });
        add(
            traces,
            format!("{length} writes, each read back"),
            Label::Loop { length: 2 * length },
            calls.collect(),
        );
    }
}

/// The same calls in another order each time, other spellings, and results that alternate.
fn loops_without_order(traces: &mut Vec<Trace>) {
    for (seed, count) in [(1, 3), (2, 3), (3, 4), (4, 4), (5, 5), (6, 5), (7, 6), (8, 6)] {
        let mut random = seed as u64;
        let mut calls = Vec::new();
        for _ in 0..20 {
            let mut round: Vec<usize> = (0..count).collect();
            for index in (1..count).rev() {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                round.swap(index, (random >> 33) as usize % (index + 1));
            }
            calls.extend(round.into_iter().map(read));
        }
        let label = Label::Loop { length: count * 2 };
        add(traces, format!("{count} reads in any order, {seed}"), label, calls);
    }
    for hits in [0, 1, 3] {
        let spellings = ["bees", "Bees", "bees ", "BEES", "bees?", " bees"];
        let calls = (0..18).map(|index| search(spellings[index % 6], hits)).collect();
        add(traces, format!("other spellings, {hits} hits"), Label::Loop { length: 1 }, calls);
    }
    for period in [2, 3] {
        let calls = (0..20).map(|index| look(1, index % period)).collect();
        add(traces, format!("results with the period {period}"), Label::Loop { length: period }, calls);
    }
}

/// A poll is repeated until its result says that it is done; the result changes in between.
fn honest_polling(traces: &mut Vec<Trace>) {
    for polls in [2, 4, 8, 15, 30, 60] {
        for plateau in [1, 2] {
            // A poll whose first two results are the same is what the specification calls a loop.
            let calls = (0..polls).map(|index| look(1, (index + 1) / plateau)).collect();
            add(traces, format!("{polls} polls, each state {plateau} times"), Label::Honest, calls);
        }
        let calls = (0..polls).map(|index| external(1, json!({ "elapsed": index, "state": "running" })));
        add(traces, format!("{polls} external polls"), Label::Honest, calls.collect());
        let calls = (0..polls).flat_map(|index| [look(1, index), look(2, 0)]).collect();
        add(traces, format!("{polls} polls of two, one changes"), Label::Honest, calls);
        let calls = (0..polls).flat_map(|index| [look(1, index), read(200 + index)]).collect();
        add(traces, format!("{polls} polls with other work"), Label::Honest, calls);
    }
}

fn honest_paging(traces: &mut Vec<Trace>) {
    for pages in [3, 6, 12, 25, 50] {
        let page = |index: usize| {
            call("documents_list", json!({ "cursor": index }), Reads, json!({ "page": index }))
        };
        add(traces, format!("{pages} pages"), Label::Honest, (0..pages).map(page).collect());
        let calls = (0..pages).flat_map(|index| [page(index), read(index)]).collect();
        add(traces, format!("{pages} pages with a read each"), Label::Honest, calls);
        // Every month, every name: other arguments with the same empty result.
        let calls = (0..pages).map(|index| search(&format!("name {index}"), 0)).collect();
        add(traces, format!("{pages} searches without a hit"), Label::Honest, calls);
        let empty =
            |index: usize| call("events_list", json!({ "month": index }), Reads, json!({ "items": [] }));
        add(traces, format!("{pages} empty months"), Label::Honest, (0..pages).map(empty).collect());
    }
}

/// A call is repeated because it failed, each time in another way or with other arguments.
fn honest_retries(traces: &mut Vec<Trace>) {
    for retries in [1, 2, 3, 5] {
        for effect in [Reads, Writes, External] {
            let attempt = |result: Value, failed: bool| TracedCall {
                failed,
                ..call("run_query", json!({ "sql": "select 1" }), effect, result)
            };
            let mut calls: Vec<TracedCall> = (0..retries)
                .map(|index| attempt(json!({ "error": format!("busy, {index} before you") }), true))
                .collect();
            calls.push(attempt(json!({ "rows": 1 }), false));
            calls.push(read(1));
            add(traces, format!("{retries} retries of {effect:?}"), Label::Honest, calls);
        }
        let mut calls: Vec<TracedCall> =
            (0..retries * 3).map(|index| failing(write(index, 0), "the name is taken")).collect();
        calls.push(write(99, 1));
        add(traces, format!("{} other arguments", retries * 3), Label::Honest, calls);
    }
}

/// A call is repeated because something was written that it shows.
fn honest_revisits(traces: &mut Vec<Trace>) {
    for writes in [2, 4, 8, 20, 50] {
        let calls = (0..writes).flat_map(|index| [write(index, index), look(1, index + 1)]).collect();
        add(traces, format!("{writes} writes, each checked"), Label::Honest, calls);
        let calls = (0..writes).flat_map(|index| [look(1, 0), write(index, index), read(5)]).collect();
        add(traces, format!("{writes} writes between reads that stay the same"), Label::Honest, calls);
        let calls = (0..writes).flat_map(|index| {
            let edit = call("edit_file", json!({ "patch": index }), External, json!({ "ok": true }));
            let test = call("run_tests", json!({}), External, json!({ "failed": writes - index }));
            [edit, test]
        });
        add(traces, format!("{writes} edits with tests"), Label::Honest, calls.collect());
        // Warned once, then each look follows a write and shows something new.
        let mut calls = vec![look(1, 0), look(1, 0), look(1, 0)];
        calls.extend((0..writes).flat_map(|index| [write(index, index), look(1, index + 1)]));
        add(traces, format!("{writes} checked writes after a warning"), Label::Honest, calls);
        let calls = (0..writes).flat_map(|index| [write(index, index), read(1), read(2), read(3)]).collect();
        add(traces, format!("{writes} writes with three reads each"), Label::Honest, calls);
    }
}

/// Long work without repetition, and with a few repetitions that are no loop.
fn honest_work(traces: &mut Vec<Trace>) {
    for steps in [10, 50, 200] {
        add(traces, format!("{steps} reads"), Label::Honest, (0..steps).map(read).collect());
        let calls = (0..steps).map(|index| write(index, index)).collect();
        add(traces, format!("{steps} writes that differ"), Label::Honest, calls);
        let calls = (0..steps).flat_map(|index| [read(index), read(index)]).collect();
        add(traces, format!("{steps} reads, each twice"), Label::Honest, calls);
        let calls = (0..steps).flat_map(|index| [read(0), read(index + 1)]).collect();
        add(traces, format!("{steps} reads with a look at the same object"), Label::Honest, calls);
        let deletes =
            |index| call("entities_delete", json!({ "id": index }), Writes, json!({ "deleted": true }));
        add(traces, format!("{steps} deletes"), Label::Honest, (0..steps).map(deletes).collect());
    }
    let twice = std::iter::repeat_n((0..20).map(read), 2).flatten().collect();
    add(traces, "the same twenty reads twice".into(), Label::Honest, twice);
}
