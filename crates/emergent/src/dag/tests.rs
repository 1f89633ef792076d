//! Tests of the drawing of a workflow.

use serde_json::{Value, json};

use super::*;

/// A stable id for a name.
fn id(name: &str) -> String {
    let number = name.bytes().fold(7_u64, |number, byte| (number * 131 + u64::from(byte)) % 0xffff_ffff_ffff);
    format!("0198c0de-0000-7000-8000-{number:012x}")
}

fn task(name: &str, status: &str, blocked_by: &[&str]) -> Value {
    json!({ "id": id(name), "key": name, "title": name, "kind": "", "status": status, "priority": "medium",
        "agent": null, "attempts": 0, "maxRetries": 2, "runIds": [], "blockedBy": blocked_by,
        "requiresCollaboration": false, "verdict": "none", "summary": null })
}

fn workflow_json(status: &str, tasks: &[Value]) -> Value {
    let nothing = json!({ "tokens": 0, "usd": 0.0 });
    let settings = json!({ "maxConcurrent": 8, "selector": "hybrid", "evaluate": false, "threading": "rules",
        "onFailure": "escalate", "planner": null, "budget": {} });
    json!({ "id": id("w"), "status": status, "description": "Build tagging", "settings": settings,
        "eventSeq": 0, "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
        "completedAt": null, "tasks": tasks,
        "budget": { "limit": {}, "spent": nothing, "reserved": nothing, "byTask": [], "byAgent": [],
            "unpricedCalls": 0, "lostCalls": 0 } })
}

fn read(workflow: &Value) -> WorkflowView {
    serde_json::from_value(workflow.clone()).unwrap()
}

fn workflow(status: &str, tasks: &[Value]) -> WorkflowView {
    read(&workflow_json(status, tasks))
}

fn diamond() -> WorkflowView {
    read(&diamond_json())
}

fn diamond_json() -> Value {
    workflow_json(
        "running",
        &[
            task("research", "pending", &[]),
            task("design", "pending", &["research"]),
            task("docs", "pending", &["research"]),
            task("ship", "pending", &["design", "docs"]),
        ],
    )
}

fn event(kind: &str, task: &str, second: u32, data: Value) -> WorkflowEventView {
    event_with_task(kind, Some(id(task)), second, data)
}

fn event_with_task(kind: &str, task: Option<String>, second: u32, data: Value) -> WorkflowEventView {
    let sent = json!({ "seq": 1, "type": kind, "workflowId": id("w"), "taskId": task, "runId": null,
        "data": data, "at": format!("2026-01-01T00:00:{second:02}Z") });
    serde_json::from_value(sent).unwrap()
}

fn options_at(second: u32) -> RenderOptions {
    RenderOptions::plain(format!("2026-01-01T00:00:{second:02}Z").parse().unwrap())
}

fn drawn(dag: &Dag, options: &RenderOptions) -> String {
    dag.lines(options).join("\n")
}

#[test]
fn tasks_are_drawn_in_layers_below_their_blockers() {
    let dag = Dag::new(&diamond());
    assert_eq!(
        drawn(&dag, &options_at(0)),
        "\
▸ Build tagging  running  0 of 4 done  0ms
1 ─ ◦ research
2 ┬ · design                    ← research
  └ · docs                      ← research
3 ─ · ship                      ← design, docs"
    );
}

#[test]
fn events_change_the_status_and_duration_of_tasks() {
    let mut dag = Dag::new(&diamond());
    for event in [
        event("task_started", "research", 1, json!({ "agent": "researcher", "attempt": 1 })),
        event("task_completed", "research", 3, json!({})),
        event("task_started", "design", 3, json!({ "agent": "architect", "attempt": 1 })),
        event("task_started", "docs", 4, json!({ "agent": "writer", "attempt": 1 })),
        event("task_retried", "docs", 5, json!({ "reason": "the run failed" })),
        event("task_started", "docs", 6, json!({ "agent": "writer", "attempt": 2 })),
        event("discussion_started", "design", 7, json!({ "topic": "design" })),
        event("discussion_turn", "design", 8, json!({ "round": 2 })),
    ] {
        assert!(dag.apply_event(&event), "{event:?}");
    }
    assert_eq!(
        drawn(&dag, &options_at(9)),
        "\
▸ Build tagging  running  1 of 4 done  9.0s
1 ─ ✓ research  researcher          2.0s
2 ┬ ▸ design    architect           6.0s  discussed, round 2  ← research
  └ ▸ docs      writer      ×2      4.0s  ← research
3 ─ · ship                                ← design, docs"
    );
    dag.apply_event(&event("task_failed", "design", 9, json!({})));
    dag.apply_event(&event("task_skipped", "ship", 9, json!({})));
    dag.apply_event(&event_with_task("workflow_ended", None, 10, json!({ "status": "failed" })));
    let end = drawn(&dag, &options_at(30));
    assert!(end.starts_with("✗ Build tagging  failed  1 of 4 done, 1 skipped  10.0s\n"), "{end}");
    assert!(end.contains("✗ design") && end.contains("⊘ ship"), "{end}");
}

#[test]
fn the_clock_of_a_task_stops_with_its_workflow() {
    let mut dag = Dag::new(&diamond());
    dag.apply_event(&event("task_started", "research", 1, json!({ "agent": "researcher", "attempt": 1 })));
    dag.apply_event(&event_with_task("workflow_ended", None, 3, json!({ "status": "cancelled" })));
    let end = drawn(&dag, &options_at(30));
    assert!(end.contains("research  researcher          2.0s\n"), "{end}");
}

#[test]
fn a_workflow_whose_tasks_were_all_skipped_says_so() {
    let dag = Dag::new(&workflow("completed", &[task("a", "skipped", &[]), task("b", "skipped", &["a"])]));
    let drawing = drawn(&dag, &options_at(0));
    assert!(drawing.starts_with("✓ Build tagging  completed  0 of 2 done, 2 skipped  "), "{drawing}");
}

#[test]
fn unknown_tasks_require_a_refresh_which_retains_durations() {
    let mut dag = Dag::new(&diamond());
    dag.apply_event(&event("task_started", "research", 1, json!({ "agent": "researcher", "attempt": 1 })));
    assert!(!dag.apply_event(&event("task_added", "later", 2, json!({ "key": "later" }))));
    assert!(!dag.apply_event(&event("task_started", "later", 2, json!({}))));
    let mut grown = diamond_json();
    grown["tasks"][0]["status"] = json!("in_progress");
    grown["tasks"].as_array_mut().unwrap().push(task("later", "pending", &["ship"]));
    dag.refresh(&read(&grown));
    let now = drawn(&dag, &options_at(4));
    assert!(now.contains("1 ─ ▸ research") && now.contains("3.0s") && now.contains("4 ─ · later"), "{now}");
}

#[test]
fn a_task_that_waits_for_another_workflow_shows_the_reason() {
    let mut waits = task("ship", "pending", &["8f1c"]);
    waits["waiting"] = json!("it waits for `api` of workflow `w2`");
    let mut dag = Dag::new(&workflow("running", &[waits]));
    let shown = "1 ─ · ship                  ← 8f1c  it waits for `api` of workflow `w2`";
    assert_eq!(dag.lines(&options_at(0))[1], shown);
    assert!(!dag.apply_event(&event("task_waiting", "ship", 1, json!({ "reason": "it was taken by hand" }))));
    dag.apply_event(&event("task_skipped", "ship", 2, json!({})));
    assert!(!drawn(&dag, &options_at(2)).contains("it waits"));
}

#[test]
fn a_task_whose_run_waits_for_a_person_has_the_flag_and_names_the_command() {
    let run = id("run");
    // The second text is that of servers of earlier versions.
    for waiting in [
        "waits for a person: emergent inbox list".to_owned(),
        format!("it waits for a person, who finds run `{run}` in the inbox"),
    ] {
        let mut asks = task("paint", "in_progress", &[]);
        (asks["agent"], asks["waiting"]) = (json!("asker"), json!(waiting));
        let mut dag = Dag::new(&workflow("running", &[asks]));
        dag.apply_times(&event("task_started", "paint", 1, json!({ "agent": "asker", "attempt": 1 })));
        let options = RenderOptions { width: 80, ..options_at(3) };
        let shown = "1 ─ ⚑ paint  asker          2.0s  waits for a person: emergent inbox list";
        assert_eq!(dag.lines(&options)[1], shown);
    }
    let mut taken = task("ship", "in_progress", &[]);
    taken["waiting"] = json!("it was taken by hand, and is waited for until somebody finishes it");
    let dag = Dag::new(&workflow("running", &[taken]));
    assert!(drawn(&dag, &options_at(0)).contains("▸ ship"), "it waits for no decision");
}

#[test]
fn a_drawing_that_does_not_fit_folds_done_layers_then_waiting_layers() {
    let mut tasks = Vec::new();
    for index in 0..30 {
        let status = match index {
            0..10 => "completed",
            10..12 => "in_progress",
            _ => "pending",
        };
        let blocker = format!("t{}", index - index % 5 - 5);
        let blocked_by: Vec<&str> = if index < 5 { Vec::new() } else { vec![&blocker] };
        tasks.push(task(&format!("t{index}"), status, &blocked_by));
    }
    let dag = Dag::new(&workflow("running", &tasks));
    let options = |height| RenderOptions { width: 60, height, ..options_at(0) };
    assert_eq!(dag.lines(&options(100)).len(), 31);
    let some = dag.lines(&options(25));
    assert!(some[1].starts_with("1–2 ─ ✓ 10 done"), "{some:#?}");
    assert_eq!(some.len(), 22);
    let few = dag.lines(&options(10));
    assert_eq!(few.len(), 8, "{few:#?}");
    assert!(few[7].starts_with("4–6 ─ · 15 waiting"), "{few:#?}");
    let least = dag.lines(&options(5));
    assert_eq!((least.len(), least[4].as_str()), (5, "… 4 lines more"));
    assert!(dag.lines(&options(100)).iter().all(|line| console::measure_text_width(line) <= 60));
}

#[test]
fn a_rehearsal_is_marked_and_a_narrow_head_retains_its_facts() {
    let mut dag = Dag::new(&diamond());
    dag.mark_rehearsal();
    dag.refresh(&diamond());
    assert!(drawn(&dag, &options_at(0)).starts_with("▸ Build tagging  rehearsal  running  0 of 4 done"));
    let mut long = diamond_json();
    long["description"] = json!("Break down and implement a document tagging system for the knowledge base");
    long["rehearsal"] = json!(true);
    let dag = Dag::new(&read(&long));
    let head = dag.lines(&RenderOptions { width: 80, ..options_at(0) })[0].clone();
    assert_eq!(head, "▸ Break down and implement a document…  rehearsal  running  0 of 4 done  0ms");
    let lines = dag.lines(&RenderOptions { width: 40, height: 6, ..options_at(0) });
    assert_eq!(
        lines[..2],
        ["▸ Break down and implement a document…", "  rehearsal  running  0 of 4 done  0ms"]
    );
    assert!(lines.len() <= 6, "{lines:#?}");
    let lines = dag.lines(&RenderOptions { width: 30, ..options_at(0) });
    assert_eq!(lines[1..3], ["  rehearsal  running", "  0 of 4 done  0ms"]);
}

#[test]
fn colour_is_used_only_when_it_is_enabled() {
    let dag = Dag::new(&diamond());
    assert!(!drawn(&dag, &options_at(0)).contains('\x1b'));
    assert!(
        drawn(&dag, &RenderOptions { colour: true, ..options_at(0) }).contains("\x1b[1mBuild tagging\x1b[0m")
    );
}

#[test]
fn a_workflow_without_a_plan_yet_is_drawn_as_planning() {
    let dag = Dag::new(&workflow("planning", &[]));
    assert_eq!(
        drawn(&dag, &options_at(1)),
        "▸ Build tagging  planning  0 of 0 done  1.0s\nits tasks are being planned"
    );
}

#[test]
fn each_event_is_one_line_with_its_reason() {
    let dag = Dag::new(&diamond());
    let describe = |event: &WorkflowEventView| dag.describe_event(event).unwrap();
    let started =
        event("task_started", "docs", 1, json!({ "agent": "writer", "attempt": 2, "reason": "it fits" }));
    assert_eq!(describe(&started), "▸ docs  writer, attempt 2: it fits");
    assert_eq!(describe(&event("task_failed", "docs", 1, json!({ "reason": "no\nluck" }))), "✗ docs: no");
    let ended = event_with_task(
        "workflow_ended",
        None,
        1,
        json!({ "status": "completed", "reason": "every task is done" }),
    );
    assert_eq!(describe(&ended), "✓ completed: every task is done");
    let waits = json!({ "asker": "agent", "agent": "writer", "error": "429", "attempt": 1, "waitMs": 2_500 });
    assert_eq!(
        describe(&event("model_retry", "docs", 1, waits)),
        "↻ docs  the model of writer is asked again in 2.5 s: 429"
    );
    let refused = event_with_task("tasks_refused", None, 1, json!({ "reason": "a cycle" }));
    assert_eq!(describe(&refused), "✗ tasks that a discussion asked for were refused: a cycle");
    assert_eq!(dag.describe_event(&event_with_task("something_new", None, 1, json!({}))), None);
}

#[test]
fn a_task_that_waits_for_a_decision_is_marked_also_without_events() {
    let mut workflow = workflow_json("escalated", &[task("design", "in_progress", &[])]);
    workflow["escalation"] = json!({ "reason": "no end", "taskId": id("design"), "discussionId": id("D"),
        "options": ["decide"], "at": "2026-01-01T00:00:00Z" });
    let lines =
        Dag::new(&read(&workflow)).lines(&RenderOptions::plain("2026-01-01T00:00:05Z".parse().unwrap()));
    assert!(lines[1].contains("⚑ design") && lines[1].contains("waits for a decision"), "{lines:#?}");
}

#[test]
fn an_escalated_workflow_gets_the_commands_for_its_options() {
    assert!(advice(&diamond().facts).is_empty());
    let (workflow, task, discussion) = (id("w"), id("T"), id("D"));
    let action = |(option, command): (&str, String)| json!({ "option": option, "command": format!("emergent {command}"), "request": "", "body": "" });
    let advice_for = |discussion: Option<&str>, actions: Vec<(&str, String)>| {
        let mut workflow = diamond_json();
        workflow["escalation"] = json!({
            "reason": "it waits", "taskId": task, "discussionId": discussion, "options": [],
            "actions": actions.into_iter().map(action).collect::<Vec<_>>(), "at": "2026-01-01T00:00:00Z",
        });
        let lines = advice(&read(&workflow).facts).into_iter();
        lines.map(|(label, command)| format!("{label:<17} {command}")).collect::<Vec<_>>()
    };
    let retry = format!("task retry {task}");
    let cancel = format!("workflow cancel {workflow}");
    assert_eq!(
        advice_for(
            None,
            vec![
                ("retry", retry.clone()),
                ("resume", format!("workflow resume {workflow}")),
                ("cancel", cancel.clone()),
                ("newer", "x".into())
            ]
        ),
        [
            format!("try again         emergent {retry}"),
            format!("everything again  emergent workflow resume {workflow}"),
            format!("give up           emergent {cancel}"),
        ]
    );
    let decide = format!("discussion decide {discussion} DECISION");
    assert_eq!(
        advice_for(Some(&discussion), vec![("decide", decide.clone())]),
        [
            format!("read              emergent discussion show {discussion}"),
            format!("decide            emergent {decide}"),
            format!("give up           emergent {cancel}"),
        ],
        "nothing goes on before the decision"
    );
    let resume = format!("workflow resume {workflow}");
    assert_eq!(
        advice_for(
            None,
            vec![
                ("resume", "budget set --usd N".into()),
                ("resume", resume.clone()),
                ("resume", format!("{resume} --budget-tokens N"))
            ]
        ),
        [
            "a larger budget   emergent budget set --usd N".to_owned(),
            format!("everything again  emergent {resume}"),
            format!("with more budget  emergent {resume} --budget-tokens N"),
            format!("give up           emergent {cancel}"),
        ]
    );
}
