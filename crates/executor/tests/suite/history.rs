//! Reading past runs. The tests write the records as a runner would.

use std::{collections::HashSet, time::Duration};

use emergent_domain::{
    agent::AgentDefinition,
    author::Author,
    chat::{Part, ToolCall, Usage},
    cursor::{Page, ResultPage},
    ids::{AgentId, MessageId, ProjectId, RunId, TokenId, ToolCallId},
    object::NewObject,
    run::{MessageRole, Origin, Reason, Run, RunEnd, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall, RunEventBody},
    time::Timestamp,
};
use emergent_executor::{
    Error, Executor, Settings,
    history::RunFilter,
    timeline::{MessageFilter, RunMessageContent, ToolCallFilter},
};
use emergent_graph::{Actor, Graph};
use emergent_llm::Models;
use emergent_store::runs::{self, record};
use emergent_testkit::{TestDb, both_engines, fixed_clock};
use emergent_tools::ToolPool;
use serde_json::{Value, json};

struct Harness {
    executor: Executor,
    actor: Actor,
    agent: AgentId,
}

const START: i64 = 1_700_000_000_000_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(START) + Duration::from_secs(seconds)
}

impl Harness {
    async fn new(db: &TestDb) -> Self {
        let graph = Graph::new(db.db.clone(), fixed_clock(), None);
        let executor = Executor::new(graph, Models::default(), ToolPool::default(), Settings::default());
        let project = executor.graph().create_project("test", false).await.unwrap().id;
        let actor = Actor { project, author: Author::Token { id: TokenId::new() } };
        let agent = executor.create_agent(actor, AgentDefinition::new("a")).await.unwrap().id;
        Self { executor, actor, agent }
    }

    fn project(&self) -> ProjectId {
        self.actor.project
    }

    fn blank(&self) -> Run {
        Run {
            id: RunId::new(),
            project: self.project(),
            agent: self.agent,
            agent_version: 1,
            agent_name: "a".into(),
            status: RunStatus::Running,
            reason: None,
            origin: Origin::Trigger,
            parent: None,
            parent_call: None,
            child_index: 0,
            depth: 0,
            resumed_from: None,
            schedule: None,
            cause: None,
            cause_depth: 0,
            workflow_link: Default::default(),
            model: "rehearsal/x".parse().unwrap(),
            step_count: 0,
            steps_before: 0,
            terms: Default::default(),
            max_steps: None,
            timeout_seconds: 300,
            deadline_base: Some(at(0)),
            owner: Some("me".into()),
            seq: 0,
            summary: None,
            error: None,
            started_by: None,
            created_at: at(0),
            started_at: Some(at(0)),
            completed_at: None,
            waiting_for: None,
            output: None,
            waiting_since: None,
        }
    }

    async fn keep(&self, change: impl FnOnce(&mut Run)) -> Run {
        let mut run = self.blank();
        change(&mut run);
        let kept = run.clone();
        self.write(move |tx| runs::insert(tx, &kept)).await;
        run
    }

    async fn write(
        &self,
        work: impl Fn(&mut emergent_store::Tx<'_>) -> emergent_store::Result<()> + Send + 'static,
    ) {
        self.executor.graph().db().write(work).await.unwrap();
    }

    /// Records two steps: the first has two calls, of which one fails and the other finishes last; the
    /// second is an answer.
    async fn conversation(&self, run: RunId) -> [ToolCallId; 2] {
        let (good, bad) = (ToolCallId::new(), ToolCallId::new());
        let answer = MessageId::new();
        let usage =
            |input, output| Some(Usage { input, output, reasoning: 1, cache_read: 2, cache_write: 3 });
        let message = |id, seq, role, step, content, usage, cost| {
            // All entries have the same timestamp, as they would with a fast model.
            RecordedMessage { id, seq, role, step, content, usage, cost, at: at(1) }
        };
        let text = |text: &str| MessageContent::Text { text: text.into(), injected: None };
        let call =
            |id, seq, tool: &str, input: Value, status, output, result_seq, duration_ms| RecordedToolCall {
                id,
                seq,
                message: answer,
                tool: tool.into(),
                step: 1,
                input,
                status,
                output: Some(output),
                result_seq: Some(result_seq),
                duration_ms: Some(duration_ms),
                at: at(1),
                effect: None,
            };
        let wanted =
            |id, name: &str, input| Part::Call(ToolCall { id, name: name.into(), input, provider: None });
        let parts = vec![
            Part::Thought { text: "Hm.".into(), provider: None },
            Part::text("Looking."),
            wanted(good, "search_hybrid", json!({ "query": "x" })),
            wanted(bad, "entities_get", json!({ "id": "y" })),
        ];
        let messages = [
            message(MessageId::new(), 2, MessageRole::System, 0, text("Be good."), None, None),
            message(MessageId::new(), 3, MessageRole::User, 1, text("Find x."), None, None),
            message(
                answer,
                4,
                MessageRole::Assistant,
                1,
                MessageContent::Parts(parts),
                usage(100, 10),
                Some(0.25),
            ),
            message(
                MessageId::new(),
                10,
                MessageRole::Assistant,
                2,
                MessageContent::Parts(vec![Part::text("Found.")]),
                usage(200, 20),
                Some(0.5),
            ),
        ];
        let calls = [
            call(
                good,
                5,
                "search_hybrid",
                json!({ "query": "x" }),
                ToolCallStatus::Completed,
                json!({ "hits": [] }),
                8,
                30,
            ),
            call(
                bad,
                6,
                "entities_get",
                json!({ "id": "y" }),
                ToolCallStatus::Error,
                json!("no such object"),
                7,
                11,
            ),
        ];
        self.write(move |tx| {
            record::insert_event(tx, run, 1, "run_started", &json!({ "recovered": false }), at(0))?;
            for message in &messages {
                record::insert_message(tx, run, message)?;
            }
            record::insert_calls(tx, run, &calls)?;
            let data = json!({ "call": bad, "tool": "entities_get", "count": 3 });
            record::insert_event(tx, run, 9, "loop_detected", &data, at(1))?;
            record::advance(tx, run, "me", 0, 10, 2)?;
            let end = RunEnd::Paused { reason: Reason::StepLimit, summary: "Half of it.".into() };
            let step = record::Advance { run, owner: "me", last_seq: 10, seq: 10, steps: 2 };
            let ended = record::mark_ended(tx, step, &end, at(3))?.expect("it is the owner");
            record::finish_end(tx, ended, &end, at(3))
        })
        .await;
        [good, bad]
    }
}

async fn walk<T>(limit: usize, mut get: impl AsyncFnMut(Page) -> Result<ResultPage<T>, Error>) -> Vec<T> {
    let mut page = Page::first(limit);
    let mut items = Vec::new();
    loop {
        let found = get(page).await.unwrap();
        assert!(found.items.len() <= limit);
        items.extend(found.items);
        // The cursor takes the same form as in a client's next request.
        let Some(next) = found.next else { return items };
        page.after = Some(next.encode().parse().unwrap());
    }
}

fn is_missing<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::NotFound { .. })), "{outcome:?}");
}

both_engines! {
    async fn runs_are_listed_newest_first_with_their_sums(db: TestDb) {
        let harness = Harness::new(&db).await;
        let mut kept = Vec::new();
        for second in 0..5 {
            kept.push(harness.keep(|run| run.created_at = at(second / 2)).await);
        }
        harness.conversation(kept[0].id).await;
        harness.keep(|run| { run.parent = Some(kept[0].id); run.created_at = at(9) }).await;
        let list = async |filter, page| harness.executor.list_runs(harness.project(), filter, page).await;
        let listed = walk(2, async |page| list(RunFilter::default(), page).await).await;
        assert_eq!(listed.len(), 6);
        assert!(listed.windows(2).all(|pair| pair[0].run.created_at >= pair[1].run.created_at));
        let first = listed.iter().find(|one| one.run.id == kept[0].id).unwrap();
        assert_eq!((first.tokens.input, first.tokens.output, first.tokens.cost), (300, 30, Some(0.75)));
        assert_eq!((first.child_count, first.run.status), (1, RunStatus::Paused));
        let none = listed.iter().find(|one| one.run.id == kept[1].id).unwrap();
        assert_eq!((none.tokens, none.child_count), (Default::default(), 0));

        let count = async |filter| list(filter, Page::first(100)).await.unwrap().items.len();
        assert_eq!(count(RunFilter { agent: Some(harness.agent), ..Default::default() }).await, 6);
        assert_eq!(count(RunFilter { statuses: vec![RunStatus::Paused], ..Default::default() }).await, 1);
        assert_eq!(count(RunFilter { parent: Some(kept[0].id), ..Default::default() }).await, 1);
        let both = RunFilter { parent: Some(kept[0].id), statuses: vec![RunStatus::Failed], ..Default::default() };
        assert_eq!(count(both).await, 0);
    }

    async fn a_deleted_agent_still_has_its_runs(db: TestDb) {
        let harness = Harness::new(&db).await;
        let run = harness.keep(|_| {}).await;
        harness.executor.delete_agent(harness.actor, harness.agent).await.unwrap();
        let filter = RunFilter { agent: Some(harness.agent), ..Default::default() };
        let listed = harness.executor.list_runs(harness.project(), filter, Page::first(10)).await.unwrap();
        assert_eq!(listed.items[0].run.id, run.id);
        let filter = RunFilter { agent: Some(AgentId::new()), ..Default::default() };
        is_missing(harness.executor.list_runs(harness.project(), filter, Page::first(10)).await);
    }

    async fn a_run_at_a_glance(db: TestDb) {
        let harness = Harness::new(&db).await;
        let ends = |run: &mut Run| { run.status = RunStatus::Paused; run.completed_at = Some(at(1)) };
        let oldest = harness.keep(ends).await;
        let older = harness.keep(|run| { ends(run); run.resumed_from = Some(oldest.id) }).await;
        let run = harness.keep(|run| run.resumed_from = Some(older.id)).await;
        let next = harness.keep(|next| next.resumed_from = Some(run.id)).await;
        harness.conversation(run.id).await;
        for part in 0..3 {
            harness.keep(|child| {
                child.parent = Some(run.id);
                child.child_index = part;
                child.agent_name = format!("child{part}");
                child.completed_at = (part == 0).then(|| at(2));
            }).await;
        }
        let detail = harness.executor.run_detail(harness.project(), run.id).await.unwrap();
        assert_eq!(detail.resume_chain, [older.id, oldest.id]);
        assert_eq!((detail.resumed_as, detail.loops), (Some(next.id), 1));
        let tokens = detail.tokens;
        assert_eq!((tokens.input, tokens.output, tokens.reasoning), (300, 30, 2));
        assert_eq!((tokens.cache_read, tokens.cache_write, tokens.cost), (4, 6, Some(0.75)));
        assert_eq!((detail.tool_calls.total, detail.tool_calls.errors), (2, 1));
        let tools: Vec<_> =
            detail.tool_calls.by_tool.iter().map(|one| (one.tool.as_str(), one.count, one.average_ms)).collect();
        assert_eq!(tools, [("entities_get", 1, Some(11)), ("search_hybrid", 1, Some(30))]);
        let children: Vec<_> =
            detail.children.iter().map(|child| (child.agent_name.as_str(), child.duration_ms)).collect();
        assert_eq!(children, [("child0", Some(2_000)), ("child1", None), ("child2", None)]);
        assert_eq!((detail.run.status, detail.run.step_count), (RunStatus::Paused, 2));
    }

    async fn a_conversation_reads_forward_and_every_page_size_sees_each_line_once(db: TestDb) {
        let harness = Harness::new(&db).await;
        let run = harness.keep(|_| {}).await.id;
        let [good, bad] = harness.conversation(run).await;
        let read = async |filter, page| harness.executor.run_messages(harness.project(), run, filter, page).await;
        let whole = read(MessageFilter::default(), Page::first(100)).await.unwrap();
        assert_eq!(whole.next, None);
        let roles: Vec<&str> = whole.items.iter().map(|line| line.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool_result", "tool_result", "assistant"]);
        for limit in 1..=6 {
            let pages = walk(limit, async |page| read(MessageFilter::default(), page).await).await;
            assert_eq!(pages, whole.items, "pages of {limit}");
        }
        let RunMessageContent::Answer { text, thoughts, calls } = &whole.items[2].content else { panic!() };
        assert_eq!((text.as_str(), thoughts.as_deref()), ("Looking.", Some("Hm.")));
        let calls: Vec<_> = calls.iter().map(|call| (call.id, call.tool.as_str(), call.status)).collect();
        let expected = [(good, "search_hybrid", ToolCallStatus::Completed), (bad, "entities_get", ToolCallStatus::Error)];
        assert_eq!(calls, expected);
        assert_eq!(whole.items[2].usage.unwrap().input, 100);
        // The failed call has its result first.
        assert_eq!(whole.items[3].id, bad.0);
        let RunMessageContent::Result { output, is_error, .. } = &whole.items[3].content else { panic!() };
        assert_eq!((output, *is_error), (&json!("no such object"), true));

        for (role, count) in [("system", 1), ("user", 1), ("assistant", 2), ("tool_result", 2)] {
            let filter = MessageFilter { role: MessageRole::parse(role), step: None };
            assert_eq!(walk(1, async |page| read(filter, page).await).await.len(), count, "{role}");
        }
        let filter = MessageFilter { role: None, step: Some(1) };
        assert_eq!(walk(1, async |page| read(filter, page).await).await.len(), 4);
        let filter = MessageFilter { role: Some(MessageRole::Assistant), step: Some(2) };
        assert_eq!(walk(1, async |page| read(filter, page).await).await.len(), 1);
    }

    async fn a_cursor_of_another_list_is_refused(db: TestDb) {
        let harness = Harness::new(&db).await;
        let run = harness.keep(|_| {}).await;
        harness.keep(|_| {}).await;
        let runs = harness.executor.list_runs(harness.project(), RunFilter::default(), Page::first(1)).await;
        let page = Page { limit: 1, after: runs.unwrap().next };
        let read = harness.executor.run_messages(harness.project(), run.id, MessageFilter::default(), page).await;
        assert!(matches!(read, Err(Error::Invalid(_))), "{read:?}");
    }

    async fn calls_are_listed_and_read(db: TestDb) {
        let harness = Harness::new(&db).await;
        let run = harness.keep(|_| {}).await.id;
        let [good, bad] = harness.conversation(run).await;
        let waiting = RecordedToolCall {
            id: ToolCallId::new(),
            seq: 12,
            message: MessageId::new(),
            tool: "search_hybrid".into(),
            step: 2,
            input: json!({}),
            status: ToolCallStatus::Pending,
            output: None,
            result_seq: None,
            duration_ms: None,
            at: at(1),
            effect: None,
        };
        let kept = waiting.clone();
        harness.write(move |tx| record::insert_calls(tx, run, std::slice::from_ref(&kept))).await;
        let list = async |filter: ToolCallFilter| {
            let get = async |page| {
                harness.executor.run_tool_calls(harness.project(), run, filter.clone(), page).await
            };
            walk(1, get).await.into_iter().map(|call| (call.id, call.status)).collect::<Vec<_>>()
        };
        let (done, failed, runs) = (ToolCallStatus::Completed, ToolCallStatus::Error, ToolCallStatus::Running);
        assert_eq!(list(ToolCallFilter::default()).await, [(good, done), (bad, failed), (waiting.id, runs)]);
        let named = ToolCallFilter { tool_names: vec!["hybrid_search".into(), "search_hybrid".into()], status: None };
        assert_eq!(list(named).await, [(good, done), (waiting.id, runs)]);
        for (status, id) in [(done, good), (failed, bad), (runs, waiting.id)] {
            assert_eq!(list(ToolCallFilter { status: Some(status), ..ToolCallFilter::default() }).await, [(id, status)]);
        }
        let call = harness.executor.run_tool_call(harness.project(), run, good).await.unwrap();
        assert_eq!((call.input, call.output), (json!({ "query": "x" }), Some(json!({ "hits": [] }))));
        is_missing(harness.executor.run_tool_call(harness.project(), run, ToolCallId::new()).await);
    }

    async fn a_tree_shows_what_was_spawned(db: TestDb) {
        let harness = Harness::new(&db).await;
        let root = harness.keep(|run| run.agent_name = "root".into()).await;
        let mut level = root.id;
        for depth in 1..=7 {
            let child = harness.keep(|run| {
                run.parent = Some(level);
                run.depth = depth;
                run.agent_name = format!("depth{depth}");
            }).await;
            level = child.id;
        }
        let paused = harness.keep(|run| { run.parent = Some(root.id); run.child_index = 1 }).await;
        let resumed = harness.keep(|run| run.resumed_from = Some(paused.id)).await;
        let tree = harness.executor.run_tree(harness.project(), root.id).await.unwrap();
        let names: Vec<&str> = tree.children.iter().map(|child| child.agent_name.as_str()).collect();
        assert_eq!(names, ["depth1", "a"]);
        assert_eq!(tree.children[1].resumed_as, Some(resumed.id));
        let mut node = &tree;
        let mut depth = 0;
        while let Some(child) = node.children.first() {
            assert!(!node.truncated);
            (node, depth) = (child, depth + 1);
        }
        assert_eq!((depth, node.truncated), (5, true));
        // The tree of a run in the middle starts at that run.
        let middle = harness.executor.run_tree(harness.project(), tree.children[0].id).await.unwrap();
        assert_eq!(middle.agent_name, "depth1");
    }

    async fn a_tree_ends_at_a_thousand_runs(db: TestDb) {
        let harness = Harness::new(&db).await;
        let root = harness.keep(|_| {}).await;
        let blank = harness.blank();
        let id = root.id;
        harness.write(move |tx| {
            for child_index in 0..1_005 {
                runs::insert(tx, &Run { id: RunId::new(), parent: Some(id), child_index, ..blank.clone() })?;
            }
            Ok(())
        }).await;
        let tree = harness.executor.run_tree(harness.project(), root.id).await.unwrap();
        assert_eq!((tree.children.len(), tree.truncated), (999, true));
    }

    async fn events_come_in_order_whole_and_once(db: TestDb) {
        let harness = Harness::new(&db).await;
        let run = harness.keep(|_| {}).await.id;
        let [good, bad] = harness.conversation(run).await;
        let events = async |after, limit| {
            harness.executor.run_events(harness.project(), run, after, limit).await.unwrap()
        };
        let all = events(0, 100).await;
        let kinds: Vec<&str> = all.iter().map(|event| event.body.kind()).collect();
        assert_eq!(kinds, [
            "run_started", "message", "message", "message", "tool_started", "tool_started", "tool_completed",
            "tool_completed", "loop_detected", "message", "run_ended",
        ]);
        assert!(all.iter().map(|event| event.seq.unwrap()).eq(1..=11));
        for limit in 1..=4 {
            let mut seen = Vec::new();
            while let Some(more) = Some(events(seen.len() as i64, limit).await).filter(|more| !more.is_empty()) {
                seen.extend(more);
            }
            assert_eq!(seen, all, "{limit} at a time");
        }
        let RunEventBody::Message(answer) = &all[3].body else { panic!() };
        let MessageContent::Parts(parts) = &answer.content else { panic!() };
        assert!(matches!(&parts[2], Part::Call(call) if call.id == good && call.input == json!({ "query": "x" })));
        let RunEventBody::ToolStarted(begun) = &all[4].body else { panic!() };
        assert_eq!((begun.status, &begun.output), (ToolCallStatus::Running, &None));
        let RunEventBody::ToolCompleted(ended) = &all[6].body else { panic!() };
        assert_eq!((ended.id, ended.status), (bad, ToolCallStatus::Error));
        assert_eq!(all[8].body, RunEventBody::LoopDetected { call: bad, tool: "entities_get".into(), count: 3 });
        let end = RunEventBody::Ended {
            status: RunStatus::Paused,
            reason: Some(Reason::StepLimit),
            summary: "Half of it.".into(),
            output: None,
            error: None,
        };
        assert_eq!(all[10].body, end);
    }

    async fn a_page_of_events_is_limited_by_its_bytes(db: TestDb) {
        let harness = Harness::new(&db).await;
        let run = harness.keep(|_| {}).await.id;
        harness.conversation(run).await;
        let fitting = async |after, limit, max_bytes| {
            let count = move |tx: &mut emergent_store::Tx<'_>| {
                runs::timeline::find_fitting(tx, run, after, limit, max_bytes)
            };
            let found = harness.executor.graph().db().read(count).await.unwrap();
            (found.count, found.last_seq, found.is_last)
        };
        assert_eq!(fitting(0, 100, usize::MAX).await, (11, 11, true), "all events are counted");
        assert_eq!(fitting(0, 11, usize::MAX).await, (11, 11, false), "there may be more");
        assert_eq!(fitting(0, 100, 0).await, (1, 1, false), "the first event is not refused");
        assert_eq!(fitting(10, 100, 0).await, (1, 11, true));
        assert_eq!(fitting(11, 100, 0).await, (0, 11, true));
    }

    async fn a_run_of_another_project_is_not_found(db: TestDb) {
        let harness = Harness::new(&db).await;
        let run = harness.keep(|_| {}).await.id;
        let [call, _] = harness.conversation(run).await;
        let executor = &harness.executor;
        let elsewhere = executor.graph().create_project("elsewhere", false).await.unwrap().id;
        is_missing(executor.get_run(elsewhere, run).await);
        is_missing(executor.run_detail(elsewhere, run).await);
        is_missing(executor.run_tree(elsewhere, run).await);
        is_missing(executor.run_messages(elsewhere, run, MessageFilter::default(), Page::first(1)).await);
        is_missing(executor.run_tool_calls(elsewhere, run, ToolCallFilter::default(), Page::first(1)).await);
        is_missing(executor.run_tool_call(elsewhere, run, call).await);
        is_missing(executor.run_events(elsewhere, run, 0, 10).await);
        is_missing(executor.revert_run(Actor { project: elsewhere, ..harness.actor }, run).await);
        assert_eq!(executor.list_runs(elsewhere, RunFilter::default(), Page::first(9)).await.unwrap().items, []);
    }

    async fn a_run_is_undone_once_it_has_ended(db: TestDb) {
        let harness = Harness::new(&db).await;
        let run = harness.keep(|_| {}).await.id;
        let author = Author::Run { run_id: run, tool_call_id: Some(ToolCallId::new()) };
        let agent = Actor { author, ..harness.actor };
        let note = NewObject { type_: "note".into(), ..NewObject::default() };
        let note = harness.executor.graph().create_object(agent, note).await.unwrap().id;
        let early = harness.executor.revert_run(harness.actor, run).await;
        assert!(matches!(&early, Err(Error::Conflict(why)) if why.contains("running")), "{early:?}");
        harness.conversation(run).await;
        let report = harness.executor.revert_run(harness.actor, run).await.unwrap();
        let undone: HashSet<_> = report.undone.iter().map(|one| one.id).collect();
        assert_eq!(undone, HashSet::from([note.0]));
        assert!(harness.executor.graph().get_object(harness.project(), note).await.is_err());
    }
}
