//! Lists and counts of many runs: what each filter finds, how a search goes on, and what it costs.

use std::time::{Duration, Instant};

use emergent_domain::{
    cursor::Page,
    ids::{AgentId, MessageId, ProjectId, RunId},
    run::{MessageRole, Origin, Reason, Run, RunStatus},
    run_event::{MessageContent, RecordedMessage},
    time::Timestamp,
};
use emergent_store::{
    Db, Engine, Tx, params,
    runs::{
        self,
        filter::{Eligibility, MAX_SEARCHED_RUNS, RunFilter, find},
        history, record, stats,
    },
};
use emergent_testkit::both_engines;

use crate::{unreadable::now, unreadable_runs::run};

fn at(minutes: u64) -> Timestamp {
    now() + Duration::from_secs(minutes * 60)
}

fn new_run(project: ProjectId, minutes: u64) -> Run {
    Run { id: RunId::new(), parent: None, parent_call: None, created_at: at(minutes), ..run(project) }
}

/// Inserts runs, each with its input.
async fn insert(db: &Db, all: Vec<(Run, &'static str)>) {
    let work = move |tx: &mut Tx<'_>| {
        for (run, input) in &all {
            runs::insert(tx, run)?;
            let message = |seq, role, text: &str| RecordedMessage {
                id: MessageId::new(),
                seq,
                role,
                step: 1,
                content: MessageContent::Text { text: text.to_owned(), injected: None },
                usage: None,
                cost: None,
                at: run.created_at,
            };
            let first = [
                message(1, MessageRole::System, "You find everything."),
                message(2, MessageRole::User, input),
            ];
            record::insert_messages(tx, run.id, &first)?;
        }
        Ok::<_, emergent_store::Error>(())
    };
    db.write(work).await.unwrap();
}

async fn listed(db: &Db, project: ProjectId, filter: RunFilter) -> Vec<RunId> {
    let read = move |tx: &mut Tx<'_>| history::list(tx, project, &filter, &Page::first(50));
    db.read(read).await.unwrap().items.into_iter().map(|summary| summary.run.id).collect()
}

both_engines! { async fn each_filter_finds_the_runs_that_it_names(db: TestDb) {
    let (project, agent) = (ProjectId::new(), AgentId::new());
    let done = Run { status: RunStatus::Completed, reason: None, summary: Some("Found 7% of_it!".into()), ..new_run(project, 0) };
    let paused = Run {
        status: RunStatus::Paused, reason: Some(Reason::Timeout), origin: Origin::Schedule, summary: None,
        agent, ..new_run(project, 10)
    };
    let child = Run {
        status: RunStatus::Failed, reason: Some(Reason::Budget), origin: Origin::Spawn, summary: None,
        parent: Some(done.id), ..new_run(project, 20)
    };
    let resumed = Run { status: RunStatus::Queued, reason: None, origin: Origin::Resume, summary: None, ..new_run(project, 30) };
    let elsewhere = new_run(ProjectId::new(), 5);
    insert(&db, vec![
        (done.clone(), "Look for the Needle"), (paused.clone(), "sort the hay"), (child.clone(), "look closer"),
        (resumed.clone(), "go on"), (elsewhere, "Look for the needle"),
    ]).await;
    let all = RunFilter::default;
    let cases: Vec<(RunFilter, Vec<&Run>)> = vec![
        (all(), vec![&resumed, &child, &paused, &done]),
        (RunFilter { agent: Some(agent), ..all() }, vec![&paused]),
        (RunFilter { statuses: vec![RunStatus::Failed], ..all() }, vec![&child]),
        (RunFilter { statuses: vec![RunStatus::Queued, RunStatus::Failed], ..all() }, vec![&resumed, &child]),
        (
            RunFilter { statuses: vec![RunStatus::Queued, RunStatus::Failed], since: Some(at(25)), ..all() },
            vec![&resumed],
        ),
        (RunFilter { reason: Some(Reason::Timeout), ..all() }, vec![&paused]),
        (RunFilter { origin: Some(Origin::Spawn), ..all() }, vec![&child]),
        (RunFilter { parent: Some(done.id), ..all() }, vec![&child]),
        (RunFilter { is_root: true, ..all() }, vec![&resumed, &paused, &done]),
        (RunFilter { since: Some(at(10)), until: Some(at(30)), ..all() }, vec![&child, &paused]),
        (RunFilter { text: Some("look".into()), ..all() }, vec![&child, &done]),
        (RunFilter { text: Some("the nEEdle".into()), ..all() }, vec![&done]),
        (RunFilter { text: Some("everything".into()), ..all() }, vec![]),
        (RunFilter { text: Some("7% OF_it!".into()), ..all() }, vec![&done]),
        (RunFilter { text: Some("%".into()), ..all() }, vec![&done]),
        (RunFilter { text: Some("look".into()), is_root: true, ..all() }, vec![&done]),
        (RunFilter { eligibility: Eligibility::Cancellable, ..all() }, vec![&resumed]),
        (RunFilter { eligibility: Eligibility::Resumable, ..all() }, vec![&paused]),
    ];
    for (filter, expected) in cases {
        let expected: Vec<RunId> = expected.into_iter().map(|run| run.id).collect();
        assert_eq!(listed(&db, project, filter.clone()).await, expected, "{filter:?}");
    }
    let successor = Run { resumed_from: Some(paused.id), ..new_run(project, 40) };
    insert(&db, vec![(successor, "go on")]).await;
    let resumable = RunFilter { eligibility: Eligibility::Resumable, ..all() };
    assert_eq!(listed(&db, project, resumable).await, [], "it was resumed");
} }

/// Inserts copies of a run, so many as `count` says, one per second.
async fn insert_copies(db: &Db, template: &Run, count: usize) {
    insert(db, vec![(template.clone(), "common")]).await;
    const CHUNK: usize = 5_000;
    let id = template.id;
    for first in (1..count).step_by(CHUNK) {
        let last = (first + CHUNK).min(count) - 1;
        let work = move |tx: &mut Tx<'_>| {
            let (new_id, later) = match tx.engine() {
                Engine::Sqlite => ("randomblob(16)", "created_at + n.n * 1000000"),
                Engine::Postgres => ("gen_random_uuid()", "created_at + n.n * interval '1 second'"),
            };
            let sql = format!(
                "WITH RECURSIVE n(n) AS (SELECT CAST($2 AS bigint) UNION ALL SELECT n + 1 FROM n WHERE n < $3)
                 INSERT INTO agent_runs (id, project_id, agent_id, agent_version, agent_name, status, reason, origin,
                     part, depth, model, model_config, step_count, steps_before, timeout_seconds, seq, summary,
                     created_at, cause_depth, terms)
                 SELECT {new_id}, project_id, agent_id, agent_version, agent_name,
                     CASE n.n % 5 WHEN 0 THEN 'failed' WHEN 1 THEN 'paused' ELSE 'completed' END, NULL, origin, part,
                     depth, model, model_config, step_count, steps_before, timeout_seconds, seq, summary, {later},
                     cause_depth, terms
                 FROM agent_runs, n WHERE agent_runs.id = $1"
            );
            tx.execute(&sql, params![id, first, last])
        };
        db.write(work).await.unwrap();
    }
}

both_engines! { async fn a_search_goes_on_where_it_stopped_and_finds_the_oldest_run(db: TestDb) {
    let project = ProjectId::new();
    let oldest = Run { summary: Some("a needle".into()), ..new_run(project, 0) };
    insert(&db, vec![(oldest.clone(), "x")]).await;
    let common = Run { summary: Some("hay".into()), ..new_run(project, 1) };
    insert_copies(&db, &common, MAX_SEARCHED_RUNS + 50).await;
    let filter = RunFilter { text: Some("needle".into()), ..RunFilter::default() };
    let (mut page, mut found, mut pages) = (Page::first(10), Vec::new(), 0);
    loop {
        let (filter, requested) = (filter.clone(), page);
        let listed = db.read(move |tx| history::list(tx, project, &filter, &requested)).await.unwrap();
        found.extend(listed.items.into_iter().map(|summary| summary.run.id));
        pages += 1;
        let Some(next) = listed.next else { break };
        page.after = Some(next);
    }
    assert_eq!((found, pages), (vec![oldest.id], 2), "the first page is empty and has a cursor");
    let hay = RunFilter { text: Some("HAY".into()), ..RunFilter::default() };
    let (runs, has_more) = db.read(move |tx| find(tx, project, &hay, 1_000)).await.unwrap();
    assert_eq!((runs.len(), has_more), (1_000, true));
    assert!(runs.windows(2).all(|pair| pair[0].created_at > pair[1].created_at), "newest first");
} }

both_engines! { async fn a_list_has_the_beginning_of_each_input(db: TestDb) {
    let project = ProjectId::new();
    let (plain, chat, bare) = (new_run(project, 0), new_run(project, 1), new_run(project, 2));
    insert(&db, vec![(plain.clone(), "Look for\n\n  the needle")]).await;
    let (chat_id, written) = (chat.id, [chat.clone(), bare.clone()]);
    let work = move |tx: &mut Tx<'_>| {
        for run in &written {
            runs::insert(tx, run)?;
        }
        // What was said before in the conversation has step 0, and what the executor adds comes later.
        let message = |seq, step, text: String| RecordedMessage {
            id: MessageId::new(),
            seq,
            role: MessageRole::User,
            step,
            content: MessageContent::Text { text, injected: None },
            usage: None,
            cost: None,
            at: now(),
        };
        let messages =
            [message(1, 0, "earlier".into()), message(2, 1, "x ".repeat(5_000)), message(3, 2, "later".into())];
        record::insert_messages(tx, chat_id, &messages)
    };
    db.write(work).await.unwrap();
    let read = move |tx: &mut Tx<'_>| history::list(tx, project, &RunFilter::default(), &Page::first(9));
    let listed = db.read(read).await.unwrap().items;
    let previews: Vec<_> =
        listed.iter().map(|summary| (summary.run.id, summary.input_preview.as_deref())).collect();
    let cut = listed[1].input_preview.as_deref().unwrap();
    assert_eq!(previews, [(bare.id, None), (chat.id, Some(cut)), (plain.id, Some("Look for the needle"))]);
    assert!(cut.starts_with("x x x") && cut.ends_with('…') && cut.chars().count() <= 200, "{cut}");
} }

both_engines! { async fn counts_by_agent_and_hour_are_those_of_the_time(db: TestDb) {
    let (project, other) = (ProjectId::new(), AgentId::new());
    let hour = Timestamp::from_micros(now().as_micros() / 3_600_000_000 * 3_600_000_000);
    let made = |minutes: u64, status| Run {
        status, reason: None, created_at: hour + Duration::from_secs(minutes * 60), ..new_run(project, 0)
    };
    let first = made(0, RunStatus::Completed);
    let second = Run { agent: other, agent_name: "other".into(), ..made(59, RunStatus::Failed) };
    let third = Run { agent: first.agent, ..made(60, RunStatus::Completed) };
    let outside = made(120, RunStatus::Completed);
    let elsewhere = Run { project: ProjectId::new(), ..made(1, RunStatus::Completed) };
    insert(&db, [&first, &second, &third, &outside, &elsewhere].map(|run| (run.clone(), "x")).to_vec()).await;
    let until = hour + Duration::from_secs(2 * 3_600);
    let mut agents = db.read(move |tx| stats::count_by_agent(tx, project, hour, until)).await.unwrap();
    agents.sort_by_key(|count| count.runs);
    let counts: Vec<_> = agents.iter().map(|count| (count.agent, count.status, count.runs)).collect();
    assert_eq!(counts, [(other, RunStatus::Failed, 1), (first.agent, RunStatus::Completed, 2)]);
    assert_eq!(agents[0].name, "other");
    let hours = db.read(move |tx| stats::count_by_hour(tx, project, hour, until)).await.unwrap();
    let counts: Vec<_> = hours.iter().map(|count| (count.hour, count.status, count.runs)).collect();
    let next = hour + Duration::from_secs(3_600);
    assert_eq!(counts, [
        (hour, RunStatus::Completed, 1), (hour, RunStatus::Failed, 1), (next, RunStatus::Completed, 1),
    ]);
} }

both_engines! { async fn runs_that_have_not_ended_are_counted_whenever_they_were_created(db: TestDb) {
    let project = ProjectId::new();
    let with = |status| (Run { status, reason: None, ..new_run(project, 0) }, "x");
    insert(&db, vec![
        with(RunStatus::Queued), with(RunStatus::Queued), with(RunStatus::Running), with(RunStatus::Waiting),
        with(RunStatus::Completed), with(RunStatus::Paused), (new_run(ProjectId::new(), 0), "x"),
    ]).await;
    let counts = db.read(move |tx| stats::count_active(tx, project)).await.unwrap();
    assert_eq!(counts, [(RunStatus::Queued, 2), (RunStatus::Running, 1), (RunStatus::Waiting, 1)]);
} }

both_engines! { async fn a_hundred_thousand_runs_are_counted_and_the_times_are_printed(db: TestDb) {
    let project = ProjectId::new();
    let common = Run { summary: Some("hay ".repeat(50)), ..new_run(project, 0) };
    insert_copies(&db, &common, 100_000).await;
    let (since, until) = (at(0), at(40 * 24 * 60));
    let started = Instant::now();
    let agents = db.read(move |tx| stats::count_by_agent(tx, project, since, until)).await.unwrap();
    let by_agent = started.elapsed();
    let hours = db.read(move |tx| stats::count_by_hour(tx, project, since, until)).await.unwrap();
    let by_hour = started.elapsed() - by_agent;
    let needle = RunFilter { text: Some("needle".into()), ..RunFilter::default() };
    db.read(move |tx| history::list(tx, project, &needle, &Page::first(20))).await.unwrap();
    let search = started.elapsed() - by_agent - by_hour;
    println!("100000 runs: by agent {by_agent:?}, by hour {by_hour:?}, one page of a search {search:?}");
    assert_eq!(agents.iter().map(|count| count.runs).sum::<i64>(), 100_000);
    assert_eq!(hours.iter().map(|count| count.runs).sum::<i64>(), 100_000);
} }
