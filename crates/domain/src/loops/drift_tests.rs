use serde_json::{Value, json};

use super::*;

/// Makes a call of a tool eight times as this run, and returns whether the guard ends the run. The result is that of
/// the number of the call.
fn is_ended(run: RunId, tool: &str, input: &Value, result: impl Fn(usize) -> Value) -> bool {
    let mut guard = LoopGuard::for_run(run);
    (0..8).any(|n| {
        let id = ToolCallId::new();
        let call = ObservedCall { id, tool, input, effect: CallEffect::Reads };
        let check = guard.observe_answer([call])[0];
        guard.record_result(id, &result(n), false);
        matches!(check, LoopCheck::End { .. })
    })
}

/// Objects of which the newest are this many messages of a run.
fn objects_with_messages(run: RunId, count: usize) -> Value {
    let message = |n: usize| json!({ "id": format!("m{n}"), "type": "SessionMessage", "properties": { "run_id": run, "seq": n } });
    let objects = (0..count).rev().map(message).chain([json!({ "id": "t", "type": "Task" })]);
    objects.collect()
}

#[test]
fn scores_ranks_and_the_order_of_hits_are_no_news() {
    let hit = |id: &str, score: f64, rank: usize| {
        let channels = json!({ "text": { "rank": rank, "score": score } });
        json!({ "score": score, "channels": channels, "object": { "id": id, "version": 1 } })
    };
    let result = |n: usize| {
        let score = 4.434 - n as f64 * 0.002;
        let (first, second) = if n.is_multiple_of(2) { ("a", "b") } else { ("b", "a") };
        json!({ "hits": [hit(first, score, 1), hit(second, score - 0.001, 2)], "embedding": "used" })
    };
    let input = json!({ "query": "alpha" });
    for tool in ["search_hybrid", "search_fts", "entities_search", "search_linked", "search_similar"] {
        assert!(is_ended(RunId::new(), tool, &input, result), "{tool}");
    }
    assert!(
        !is_ended(RunId::new(), "rank_images", &input, result),
        "the scores of other tools are their results"
    );
}

#[test]
fn a_hit_that_is_new_or_has_changed_is_news() {
    let input = json!({ "query": "alpha" });
    let more =
        |n: usize| json!({ "hits": (0..=n).map(|id| json!({ "object": { "id": id } })).collect::<Vec<_>>() });
    assert!(!is_ended(RunId::new(), "search_hybrid", &input, more));
    let changed = |n: usize| json!({ "hits": [{ "score": 1.0, "object": { "id": "a", "version": n } }] });
    assert!(!is_ended(RunId::new(), "search_hybrid", &input, changed));
}

#[test]
fn hits_that_were_shortened_are_compared_by_what_they_are() {
    let result = |n: usize| {
        let text = "x".repeat(100 - n);
        json!({ "hits": [{ "score": 1.0, "object": { "id": "a", "version": 3, "properties": { "text": text } } }],
            "_cut": format!("`text` shortened to {} bytes", 100 - n) })
    };
    assert!(is_ended(RunId::new(), "search_fts", &json!({ "query": "alpha" }), result));
}

#[test]
fn messages_of_the_run_itself_are_no_news_but_those_of_other_runs_are() {
    let (run, other) = (RunId::new(), RunId::new());
    let messages = json!({ "type": "SessionMessage" });
    let list = |of: RunId| move |n: usize| json!({ "objects": objects_with_messages(of, n), "nextCursor": n.to_string() });
    assert!(is_ended(run, "entities_query", &messages, list(run)));
    assert!(!is_ended(run, "entities_query", &messages, list(other)), "the call asks for them");
    assert!(is_ended(run, "entities_query", &json!({}), list(other)), "the call does not ask for them");
    let hits = |of: RunId| {
        move |n: usize| {
            let objects = objects_with_messages(of, n);
            let hits =
                objects.as_array().unwrap().iter().map(|object| json!({ "score": 1.0, "object": object }));
            json!({ "hits": hits.collect::<Vec<_>>() })
        }
    };
    let input = json!({ "query": "alpha", "includeSystem": true });
    assert!(is_ended(run, "search_hybrid", &input, hits(run)));
    assert!(!is_ended(run, "search_hybrid", &input, hits(other)));
    let nodes = |of: RunId| {
        move |n: usize| {
            let edges =
                (0..n).map(|to| json!({ "type": "has_message", "fromId": "s", "toId": format!("m{to}") }));
            json!({ "nodes": objects_with_messages(of, n), "edges": edges.collect::<Vec<_>>(), "truncated": n > 4 })
        }
    };
    let input = json!({ "startIds": ["s"] });
    assert!(is_ended(run, "graph_traverse", &input, nodes(run)));
    assert!(!is_ended(run, "graph_traverse", &input, nodes(other)));
}

#[test]
fn the_progress_of_the_run_itself_is_no_news_but_that_of_other_runs_is() {
    let (run, other) = (RunId::new(), RunId::new());
    let shown =
        |id: RunId, n: usize| json!({ "id": id, "status": "running", "steps": n, "tokens": { "input": n } });
    assert!(is_ended(run, "runs_get", &json!({}), |n| json!({ "run": shown(run, n) })));
    assert!(!is_ended(run, "runs_get", &json!({ "id": other }), |n| json!({ "run": shown(other, n) })));
    assert!(is_ended(run, "runs_list", &json!({}), |n| json!({ "runs": [shown(run, n), shown(other, 3)] })));
    assert!(!is_ended(run, "runs_list", &json!({}), |n| json!({ "runs": [shown(run, n), shown(other, n)] })));
    let messages = |n: usize| json!({ "messages": vec!["said"; n] });
    assert!(is_ended(run, "runs_messages", &json!({}), messages));
    assert!(is_ended(run, "runs_messages", &json!({ "id": run }), messages));
    assert!(!is_ended(run, "runs_messages", &json!({ "id": other }), messages));
}

#[test]
fn numbers_of_messages_are_no_news_but_those_of_other_types_are() {
    let info = |messages: usize, tasks: usize| {
        json!({
            "objects": messages + tasks, "objectsByType": { "SessionMessage": messages, "Task": tasks },
            "relationships": messages, "relationshipsByType": { "has_message": messages },
            "embeddings": { "model": "m", "done": tasks, "pending": 0 },
        })
    };
    let input = json!({});
    assert!(is_ended(RunId::new(), "project_info", &input, |n| info(n, 3)));
    assert!(!is_ended(RunId::new(), "project_info", &input, |n| info(n, n)));
    let types = |messages: usize, tasks: usize| json!({ "objectTypes": [{ "name": "SessionMessage", "count": messages }, { "name": "Task", "count": tasks }] });
    assert!(is_ended(RunId::new(), "schema_list_types", &input, |n| types(n, 3)));
    assert!(!is_ended(RunId::new(), "schema_list_types", &input, |n| types(n, n)));
}
