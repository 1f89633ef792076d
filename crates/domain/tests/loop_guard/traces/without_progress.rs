//! Loops whose calls differ each time but bring nothing new, and honest work that resembles them.

use emergent_domain::loops::CallEffect::{NoTool, Reads, Writes};
use serde_json::json;

use super::{Label, Trace, TracedCall, add, call, external, failing, look, read, search, write};

/// A call of a tool that does not exist.
fn unknown_tool(n: usize) -> TracedCall {
    unknown_name("nosuch_tool", n)
}

/// A call of a tool that does not exist, under this name.
fn unknown_name(name: &str, n: usize) -> TracedCall {
    let call = call(name, json!({ "n": n }), NoTool, json!(null));
    failing(call, &format!("tool not found: there is no tool `{name}`; your tools are entities_get"))
}

/// A call of a tool that does not exist, under a name that no call had before.
fn invented_tool(n: usize) -> TracedCall {
    const WORDS: [&str; 10] =
        ["read", "write", "list", "open", "find", "fetch", "query", "load", "show", "scan"];
    unknown_name(&format!("{}_{}_file", WORDS[n % 10], WORDS[n / 10 % 10]), n)
}

/// A call with an argument that the tool does not have.
fn invalid_arguments(value: &str) -> TracedCall {
    let error = format!("invalid arguments: `idd` is not an argument (got \"{value}\"); `id` is missing");
    failing(call("entities_get", json!({ "idd": value }), Reads, json!(null)), &error)
}

fn limited(tool: &str, limit: usize, hits: usize) -> TracedCall {
    let input = json!({ "query": "ada lovelace", "limit": limit });
    call(tool, input, Reads, json!({ "items": vec!["a hit"; hits] }))
}

/// The same tool fails in the same way, whatever its arguments are.
pub(super) fn loops_of_failures(traces: &mut Vec<Trace>) {
    let one = Label::Loop { length: 1 };
    add(traces, "a tool that does not exist".into(), one, (0..60).map(unknown_tool).collect());
    add(traces, "an invented tool in each call".into(), one, (0..60).map(invented_tool).collect());
    for before in [1, 4, 12] {
        let calls = (0..before).map(read).chain((0..60).map(invented_tool)).collect();
        add(traces, format!("invented tools after {before} reads"), one, calls);
    }
    let names = ["file_read", "read_file", "fs.read", "open"];
    let calls = (0..60).map(|n| unknown_name(names[n % 4], n)).collect();
    add(traces, "four names that no tool has, in turn".into(), one, calls);
    for others in [1, 3] {
        let calls = (0..30).flat_map(|n| (0..others).map(|_| search("known", 1)).chain([invented_tool(n)]));
        let label = Label::Loop { length: others + 1 };
        add(traces, format!("an invented tool, and {others} known searches"), label, calls.collect());
    }
    let calls = (0..60).map(|n| invalid_arguments(&format!("x{n}"))).collect();
    add(traces, "invalid arguments".into(), one, calls);
    let words = ["amber", "birch", "cedar", "dogwood", "elder", "fir", "ginkgo", "hazel", "ivy", "juniper"];
    let calls = (0..60).map(|n| invalid_arguments(&format!("{} {}", words[n % 10], words[n / 10]))).collect();
    add(traces, "invalid arguments in words".into(), one, calls);
    let refused = |n: usize| failing(write(n, 0), &format!("write {n} is not allowed"));
    add(traces, "writes that are refused".into(), one, (0..60).map(refused).collect());
    for others in [1, 2, 4] {
        let calls = (0..30).flat_map(|n| {
            let known = (0..others).map(|_| search("known", 1));
            known.chain([unknown_tool(n)])
        });
        let label = Label::Loop { length: others + 1 };
        add(
            traces,
            format!("a tool that does not exist, and {others} known searches"),
            label,
            calls.collect(),
        );
    }
}

/// The same question with another number of results.
pub(super) fn loops_of_limits(traces: &mut Vec<Trace>) {
    for hits in [0, 1, 7] {
        for tool in ["entities_query", "search_hybrid"] {
            let calls = (1..=60).map(|limit| limited(tool, limit, hits.min(limit))).collect();
            add(traces, format!("{tool} with any limit, {hits} hits"), Label::Loop { length: 1 }, calls);
        }
    }
}

/// Calls that are repeated between others, all of which have the same empty result.
pub(super) fn loops_of_revisits(traces: &mut Vec<Trace>) {
    for repeated in [1, 2, 3] {
        for others in [1, 2, 3] {
            let calls = (0..12).flat_map(|round| {
                let again = (0..repeated).map(|n| search(&format!("again {n}"), 0));
                again.chain((0..others).map(move |n| search(&format!("other {}", round * others + n), 0)))
            });
            let label = Label::Loop { length: repeated + others };
            let name = format!("{repeated} searches again, {others} others, all without a hit");
            add(traces, name, label, calls.collect());
        }
    }
}

/// Searches and lookups of which most find nothing.
pub(super) fn honest_exploration(traces: &mut Vec<Trace>) {
    for every in [2, 3, 5] {
        let calls = (0..30).map(|n| search(&format!("topic {n}"), if n % every == 0 { n + 1 } else { 0 }));
        add(traces, format!("searches, one of {every} has hits"), Label::Honest, calls.collect());
        let lookup = |n: usize| match n % every {
            0 => read(n),
            _ => failing(read(n), &format!("there is no object `{n}`")),
        };
        add(traces, format!("lookups, one of {every} exists"), Label::Honest, (0..30).map(lookup).collect());
        // The same overview is read between searches, and some of these find something.
        let calls = (0..20).flat_map(|n| {
            [look(1, 0), search(&format!("topic {n}"), if n % every == 0 { n + 1 } else { 0 })]
        });
        add(
            traces,
            format!("an overview between searches, one of {every} has hits"),
            Label::Honest,
            calls.collect(),
        );
    }
    let calls = (0..10).map(|n| search(&format!("name {n}"), 0)).chain([search("surname", 2), read(1)]);
    add(traces, "ten searches without a hit, then one with hits".into(), Label::Honest, calls.collect());
    let calls = (0..4).flat_map(|n| [search("again", 0), search(&format!("other {n}"), 0)]).chain([read(1)]);
    add(traces, "four looks at the same empty search".into(), Label::Honest, calls.collect());
    let growing = [1, 5, 20, 50, 100, 200].map(|limit| limited("search_hybrid", limit, limit));
    add(traces, "more results each time".into(), Label::Honest, growing.to_vec());
    let all = [10, 20, 50].map(|limit| limited("search_hybrid", limit, 7));
    add(traces, "three limits, the same results".into(), Label::Honest, all.to_vec());
}

/// A model that reads the errors and changes what it does.
pub(super) fn honest_mending(traces: &mut Vec<Trace>) {
    for errors in [1, 2, 4, 7] {
        let mut calls: Vec<TracedCall> = (0..errors).map(|n| invalid_arguments(&format!("x{n}"))).collect();
        calls.extend((0..5).map(read));
        add(traces, format!("arguments mended after {errors} errors"), Label::Honest, calls);
        let mut calls: Vec<TracedCall> = (0..errors).map(unknown_tool).collect();
        calls.extend((0..5).map(read));
        add(traces, format!("another tool after {errors} errors"), Label::Honest, calls);
        let mut calls: Vec<TracedCall> = (0..errors).map(invented_tool).collect();
        calls.extend((0..5).map(read));
        add(traces, format!("a tool that exists after {errors} invented names"), Label::Honest, calls);
        // Each invented name is followed by work that brings something new.
        let calls = (0..40).flat_map(|n| (0..errors).map(move |i| invented_tool(n + i)).chain([read(n)]));
        add(traces, format!("{errors} invented names before each new read"), Label::Honest, calls.collect());
        // A list of which parts are refused, as long as other parts are written.
        let calls = (0..60).map(|n| match n % (errors + 1) {
            0 => write(n, n),
            _ => failing(write(n, 0), &format!("the name `{n}` is taken")),
        });
        add(
            traces,
            format!("a list with {errors} refused writes after each one"),
            Label::Honest,
            calls.collect(),
        );
    }
    // The warning is read, and the next call is right.
    let mut calls: Vec<TracedCall> = (0..9).map(|n| invalid_arguments(&format!("x{n}"))).collect();
    calls.extend((0..5).map(read));
    add(traces, "arguments mended after the warning".into(), Label::Honest, calls);
    let mut calls: Vec<TracedCall> = (0..9).map(invented_tool).collect();
    calls.extend((0..5).map(read));
    add(traces, "a tool that exists after the warning about names".into(), Label::Honest, calls);
    // Each field is named by an error of its own.
    let fields = ["name", "type", "key", "status", "owner", "labels", "source", "target", "weight", "notes"];
    let mut calls: Vec<TracedCall> = Vec::new();
    for (n, field) in fields.iter().enumerate() {
        let attempt = call("entities_create", json!({ "n": n }), Writes, json!(null));
        calls.push(failing(attempt, &format!("the field `{field}` is missing")));
    }
    calls.push(write(1, 1));
    add(traces, "one missing field after the other".into(), Label::Honest, calls);
    // A queue is waited for, and says so with an error.
    let mut calls: Vec<TracedCall> =
        (0..20).map(|n| failing(external(1, json!(null)), &format!("busy, {} before you", 20 - n))).collect();
    calls.push(external(1, json!({ "page": 1 })));
    add(traces, "a queue that becomes shorter".into(), Label::Honest, calls);
}
