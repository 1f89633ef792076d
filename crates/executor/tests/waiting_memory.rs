//! A run that waits for a person is a row of the database, and nothing of it stays in the memory of the server. What
//! the process has from the system also contains what the allocator and SQLite hold for later, so the test counts the
//! bytes that are allocated and not freed.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use emergent_domain::{
    agent::{Agent, AgentDefinition},
    author::Author,
    chat::{Part, StopReason, ToolCall},
    ids::{ProjectId, ToolCallId},
    run::RunStatus,
};
use emergent_executor::{Executor, Settings, StartOptions};
use emergent_graph::{Actor, Graph};
use emergent_llm::{Answer, ChatRequest, Delta, Error, Models, Provider};
use emergent_store::{Db, params};
use emergent_testkit::{TestDb, scripted::USAGE};
use emergent_tools::ToolPool;
use serde_json::json;
use tokio::sync::watch;

/// How many runs wait before anything is measured: they fill the caches that do not grow with runs.
const BEFORE: usize = 1_000;
const RUNS: usize = 10_000;
/// The most bytes of each waiting run.
const MAX_BYTES: i64 = 1_024;
/// How many runs are started at the same time, as by as many callers.
const CALLERS: usize = 32;

/// The bytes that Rust code has allocated and not freed.
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

struct CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn count(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[expect(unsafe_code, reason = "the trait of allocators has no safe functions")]
// SAFETY: every function passes its arguments on to the allocator of the system, and returns what that returns.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(count(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(count(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE_BYTES.fetch_add(count(size) - count(layout.size()), Ordering::Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// A model that says something and then calls a tool. Unlike the scripted model, it keeps no request.
struct Caller;

#[async_trait]
impl Provider for Caller {
    fn name(&self) -> &str {
        "caller"
    }

    async fn chat(
        &self,
        _: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        on_delta(Delta::Text("I write down what I found. ".repeat(20)));
        let input = json!({ "type": "Note", "properties": { "text": "found ".repeat(50) } });
        let call = ToolCall { id: ToolCallId::new(), name: "entities_create".into(), input, provider: None };
        let parts = vec![Part::text("I write down what I found. ".repeat(20)), Part::Call(call)];
        Ok(Answer { parts, usage: USAGE, stop: StopReason::ToolCalls, response: Default::default() })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_run_keeps_no_memory_on_sqlite() {
    let db = TestDb::sqlite().await;
    story(&db).await;
}

async fn story(db: &Db) {
    let models = Models::default().with_provider(Arc::new(Caller));
    let graph = Graph::new(db.clone(), emergent_domain::time::Clock::system(), None);
    let project = graph.ensure_default_project().await.unwrap().id;
    let pool = ToolPool::new(emergent_tools::builtin::tools());
    let executor = Executor::new(graph, models, pool, Settings::default());
    let (stop, stopped) = watch::channel(false);
    let runner = tokio::spawn({
        let executor = executor.clone();
        async move { executor.run(stopped).await }
    });
    let rules = json!([{ "tools": ["entities_create"], "action": "ask" }]);
    let definition = AgentDefinition {
        model: Some("caller/any".parse().unwrap()),
        tools: vec!["entities_create".to_owned()],
        approvals: serde_json::from_value(rules).unwrap(),
        ..AgentDefinition::new("careful")
    };
    let agent = executor.create_agent(actor(project), definition).await.unwrap();

    start_and_wait(&executor, &agent, BEFORE).await;
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    start_and_wait(&executor, &agent, RUNS).await;
    let each = (LIVE_BYTES.load(Ordering::Relaxed) - before) / count(RUNS);
    let page = emergent_domain::cursor::Page { limit: 1, after: None };
    let newest = executor.list_approvals(project, Default::default(), page).await.unwrap();
    println!("{each} bytes of each of {RUNS} waiting runs");
    assert_eq!(newest.items.len(), 1, "the runs wait for people");
    assert!(each < MAX_BYTES, "each waiting run keeps {each} bytes");
    assert!(before > 100_000, "the allocator of this test counts: {before}");
    let _ = stop.send(true);
    let _ = runner.await;
}

fn actor(project: ProjectId) -> Actor {
    Actor { project, author: Author::System }
}

/// Starts runs of the agent, and returns when all of them wait and none is driven.
async fn start_and_wait(executor: &Executor, agent: &Agent, count: usize) {
    let started = (0..CALLERS).map(|caller| {
        let (executor, agent) = (executor.clone(), agent.clone());
        tokio::spawn(async move {
            for _ in (caller..count).step_by(CALLERS) {
                let start = StartOptions { input: "Go.".to_owned(), ..StartOptions::default() };
                executor.trigger(actor(agent.project), agent.id, start).await.unwrap();
            }
        })
    });
    for caller in started.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    for _ in 0..6_000 {
        let others: i64 = executor
            .graph()
            .db()
            .read(|tx| {
                let sql = "SELECT count(*) FROM agent_runs WHERE status <> $1";
                Ok::<_, emergent_store::Error>(
                    tx.query_opt(sql, params![RunStatus::Waiting], |row| row.get(0))?.unwrap_or(0),
                )
            })
            .await
            .unwrap();
        if others == 0 && executor.driven_count() == 0 {
            // What the last driver held is freed, and the pool of blocking threads is at rest.
            tokio::time::sleep(Duration::from_millis(500)).await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the runs do not wait");
}
