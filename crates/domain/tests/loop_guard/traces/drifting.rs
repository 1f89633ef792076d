//! Results of built-in tools that differ although nothing has changed that the call asks for, as loops and beside
//! honest work whose results do change.

use emergent_domain::loops::CallEffect::Reads;
use serde_json::{Value, json};

use super::{Label, Trace, TracedCall, add, call, read, write};

const SEARCHES: [&str; 4] = ["search_hybrid", "entities_search", "search_fts", "documents_search"];

/// A search after this many writes to the graph, each of which changes the scores a little.
fn drifting_search(tool: &str, query: &str, ids: &[usize], writes: usize) -> TracedCall {
    let hit = |(rank, id): (usize, &usize)| {
        let score = 4.434 - rank as f64 * 0.1 - writes as f64 * 0.002;
        json!({
            "score": score,
            "channels": { "text": { "rank": rank + 1, "score": score } },
            "object": { "id": id, "version": 1 },
        })
    };
    let hits: Vec<Value> = ids.iter().enumerate().map(hit).collect();
    call(tool, json!({ "query": query }), Reads, json!({ "hits": hits, "embedding": "used" }))
}

fn project_info(messages: usize, tasks: usize, pending: usize) -> TracedCall {
    let result = json!({
        "objects": messages + tasks,
        "objectsByType": { "SessionMessage": messages, "Task": tasks },
        "relationships": messages,
        "relationshipsByType": { "has_message": messages },
        "embeddings": { "done": messages, "pending": pending },
    });
    call("project_info", json!({}), Reads, result)
}

/// A call whose result contains the growing record of runs.
fn with_record(tool: &str, messages: usize) -> TracedCall {
    let record = |type_: &str| {
        let items = (0..messages).map(|n| json!({ "id": format!("r{n}"), "type": type_ }));
        items.chain([json!({ "id": "t", "type": "Task" })]).collect::<Vec<_>>()
    };
    let result = match tool {
        "entities_query" => {
            json!({ "objects": record("SessionMessage"), "nextCursor": messages.to_string() })
        }
        "relationships_list" => json!({ "relationships": record("has_message") }),
        "runs_messages" => json!({ "messages": record("text") }),
        _ => {
            json!({ "objectTypes": [{ "name": "SessionMessage", "count": messages }, { "name": "Task", "count": 3 }] })
        }
    };
    call(tool, json!({}), Reads, result)
}

pub(super) fn loops_of_drift(traces: &mut Vec<Trace>) {
    let one = Label::Loop { length: 1 };
    for tool in SEARCHES {
        for length in [1, 2, 3] {
            let search =
                |n: usize| drifting_search(tool, &format!("alpha {}", n % length), &[n % length, 7], n);
            let calls = (0..length * 8).map(search).collect();
            add(traces, format!("{length} of {tool} with scores that drift"), Label::Loop { length }, calls);
        }
    }
    for length in [1, 3] {
        let calls = (0..length * 8).map(|n| {
            let ids = if n / length % 2 == 0 { [1, 2] } else { [2, 1] };
            drifting_search("search_hybrid", &format!("alpha {}", n % length), &ids, n)
        });
        add(
            traces,
            format!("{length} searches whose hits change places"),
            Label::Loop { length },
            calls.collect(),
        );
    }
    let calls = (0..8).map(|n| {
        let mut search = drifting_search("search_hybrid", "alpha", &[], n);
        search.result["embedding"] = json!(if n % 2 == 0 { "used" } else { "unavailable" });
        search
    });
    add(traces, "a search whose embedder comes and goes".into(), one, calls.collect());
    let calls = (0..8).map(|n| project_info(n, 3, 0)).collect();
    add(traces, "project_info beside the record of the run".into(), one, calls);
    for tool in ["entities_query", "relationships_list", "runs_messages", "schema_list_types"] {
        let calls = (0..8).map(|n| with_record(tool, n * 2)).collect();
        add(traces, format!("{tool} beside the record of the run"), one, calls);
    }
}

pub(super) fn honest_waiting_beside_drift(traces: &mut Vec<Trace>) {
    for tool in ["search_hybrid", "documents_search"] {
        let ids: Vec<usize> = (0..20).collect();
        let calls = (0..20).map(|n| drifting_search(tool, "alpha", &ids[..=n], n)).collect();
        add(traces, format!("{tool} that has one more hit each time"), Label::Honest, calls);
    }
    let calls = (0..10).map(|n| {
        let mut search = drifting_search("search_hybrid", "alpha", &[1], n);
        search.result["hits"][0]["object"]["version"] = json!(n);
        search
    });
    add(traces, "a search whose hit changes".into(), Label::Honest, calls.collect());
    let calls = (0..20).map(|n| call("rank_images", json!({}), Reads, json!({ "score": n })));
    add(traces, "the score of an external tool".into(), Label::Honest, calls.collect());
    let calls = (0..30).map(|n| drifting_search("search_hybrid", &format!("topic {n}"), &[n, n + 1], n));
    add(traces, "thirty searches with other hits".into(), Label::Honest, calls.collect());
    let calls =
        (0..20).flat_map(|n| [write(n, n), drifting_search("search_hybrid", "alpha", &[1], n), read(n)]);
    add(traces, "the same search after each write".into(), Label::Honest, calls.collect());
    let calls = (0..20).map(|n| project_info(n, n, 0)).collect();
    add(traces, "an import that is waited for".into(), Label::Honest, calls);
    let calls = (0..20).map(|n| project_info(n, 3, 20 - n)).collect();
    add(traces, "embeddings that are waited for".into(), Label::Honest, calls);
}
