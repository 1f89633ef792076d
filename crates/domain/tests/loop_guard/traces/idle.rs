//! Calls in a row with other arguments each time that bring nothing new, and honest work in which much is found in
//! vain.

use emergent_domain::loops::CallEffect::Reads;
use serde_json::json;

use super::{Label, Trace, TracedCall, add, call, look, read, search, write};

/// Calls without news that are warned about, and as many more end the run. So many count as one repetition.
const IDLE_CALLS: usize = 30;
const CALLS: usize = 500;

fn empty_type(n: usize) -> TracedCall {
    call("entities_query", json!({ "type": format!("Ty{n}") }), Reads, json!({ "objects": [] }))
}

fn search_without_hits(n: usize) -> TracedCall {
    let result = json!({ "hits": [], "embedding": if n.is_multiple_of(2) { "used" } else { "unavailable" } });
    call("search_hybrid", json!({ "query": format!("zzqx{n}") }), Reads, result)
}

pub(super) fn loops_without_news(traces: &mut Vec<Trace>) {
    let label = Label::Loop { length: IDLE_CALLS };
    let mut add_loop = |name: &str, make: &dyn Fn(usize) -> TracedCall| {
        add(traces, name.into(), label, (0..CALLS).map(make).collect());
    };
    add_loop("types without objects", &empty_type);
    add_loop("searches for invented words", &search_without_hits);
    add_loop("filters that change nothing", &|n| {
        let filters = json!([{ "path": "priority", "op": "ne", "value": n }]);
        let objects = json!({ "objects": [{ "id": 1 }, { "id": 2 }] });
        call("entities_query", json!({ "type": "Task", "filters": filters }), Reads, objects)
    });
    add_loop("other words, the same hits", &|n| {
        let hits = json!([{ "score": 4.0 - n as f64 * 0.002, "object": { "id": 1 } }]);
        call("search_hybrid", json!({ "query": format!("alpha zzqx{n}") }), Reads, json!({ "hits": hits }))
    });
    add_loop("ids that do not exist", &|n| {
        let missing = json!({ "objects": [], "missing": [n.to_string()] });
        call("entities_get", json!({ "ids": [n.to_string()] }), Reads, missing)
    });
    add_loop("two tools in turn", &|n| if n % 2 == 0 { empty_type(n) } else { search_without_hits(n) });
    add_loop("invented words after twelve reads", &|n| if n < 12 { read(n) } else { search_without_hits(n) });
    let calls = (0..8 * 40).map(|n| read(n % 40)).collect();
    add(traces, "40 reads in the same order".into(), Label::Loop { length: 40 }, calls);
}

pub(super) fn honest_searching(traces: &mut Vec<Trace>) {
    for every in [10, 29, 40] {
        let calls = (0..200).map(|n| search(&format!("topic {n}"), if n % every == 0 { n + 1 } else { 0 }));
        add(traces, format!("200 searches, one of {every} has hits"), Label::Honest, calls.collect());
    }
    let twice = (0..2).flat_map(|_| (0..50).map(read)).collect();
    add(traces, "fifty reads, and the same once more".into(), Label::Honest, twice);
    let page = |n: usize| {
        let documents = if n < 45 { vec![] } else { vec!["a document"] };
        call("documents_list", json!({ "cursor": n }), Reads, json!({ "documents": documents }))
    };
    add(
        traces,
        "45 empty pages, then one with a document".into(),
        Label::Honest,
        (0..46).map(page).collect(),
    );
    let calls = (0..20).flat_map(|n| [write(n, n)].into_iter().chain((0..6).map(read)));
    add(traces, "20 writes, each with a look at six objects".into(), Label::Honest, calls.collect());
    let calls = (0..5).flat_map(|n| {
        [look(9, n)].into_iter().chain((0..25).map(move |m| search(&format!("name {}", n * 25 + m), 0)))
    });
    add(
        traces,
        "a state that changes, and 25 searches without a hit after each look".into(),
        Label::Honest,
        calls.collect(),
    );
}
