//! The server under test: this test binary, started again. It drives runs with the real executor; its
//! model answers from the scripts, and reports each request to the test first.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_domain::{
    author::Author,
    chat::{Part, Speaker, StopReason, ToolCall, Usage},
    ids::{ProjectId, ToolCallId},
    object::ObjectPatch,
    time::Clock,
};
use emergent_executor::{Executor, Settings, StartOptions as Trigger};
use emergent_graph::{Actor, Graph, objects};
use emergent_llm::{Answer, ChatRequest, Delta, Error, Models, Provider};
use emergent_store::{Db, DbConfig, leases, objects as rows};
use emergent_tools::{Effect, Tool, ToolContext, ToolError, ToolInfo, ToolOutput, ToolPool};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    agent_scripts::{self, Task},
    wire::{Database, ObservedRequest, ROLE, Role, ServerMessage, Start, Ticket, say},
};

/// Does nothing in an ordinary test run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other tests start it as the server they kill"]
async fn server() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let role: Role = serde_json::from_str(&role).expect("a role");
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let executor = open(&role).await;
    let project = executor.graph().ensure_default_project().await.expect("a project").id;
    for agent in agent_scripts::agents() {
        if executor.find_agent(project, &agent.name).await.is_err() {
            // Another server may have created the agent first.
            let _ = executor.create_agent(actor(project), agent).await;
        }
    }
    let (_stop, stopping) = watch::channel(false);
    let runner = executor.clone();
    tokio::spawn(async move { runner.run(stopping).await });
    say::<()>(&role.observer, &ServerMessage::Ready).await;
    tokio::spawn(count_what_is_left(executor.clone(), role.clone()));
    loop {
        start_one(&executor, project, &role).await;
    }
}

async fn open(role: &Role) -> Executor {
    let config = match &role.database {
        Database::Sqlite(path) => DbConfig::Sqlite { path: path.clone() },
        Database::Postgres(url) => {
            DbConfig::Postgres { url: url.clone(), connections: 8, statement_cache: true }
        }
    };
    let (db, clock) = (Db::open(config).await.expect("the database"), Clock::system());
    if role.alone {
        let now = clock.now();
        db.write(move |tx| leases::expire_all(tx, now)).await.expect("the leases of the dead");
    }
    let outside = |name: &str, idempotent| -> Arc<dyn Tool> {
        let effect = Effect::External { read_only: false, idempotent };
        Arc::new(Outside { info: info(name, effect), process: role.process, observer: role.observer.clone() })
    };
    let increment = Increment {
        info: info("increment", Effect::Writes { destructive: false }),
        process: role.process,
        observer: role.observer.clone(),
    };
    let tools = ToolPool::new(emergent_tools::builtin::tools())
        .with_tool(outside("ring", false))
        .with_tool(outside("poke", true))
        .with_tool(Arc::new(increment));
    let model = Planned { process: role.process, observer: role.observer.clone() };
    let models = Models::default().with_provider(Arc::new(model));
    let mut settings = Settings { max_runs: role.slots, ..Settings::default() };
    settings.lease = role.lease_ms.map_or(settings.lease, Duration::from_millis);
    Executor::new(Graph::new(db, clock, None), models, tools, settings)
}

fn actor(project: ProjectId) -> Actor {
    Actor { project, author: Author::System }
}

/// Starts one requested run. A run is reported as accepted only after its commit.
async fn start_one(executor: &Executor, project: ProjectId, role: &Role) {
    let Start { agent, task } = say(&role.observer, &ServerMessage::Next).await;
    let agent = executor.find_agent(project, &agent).await.expect("an agent of the plan");
    let start = Trigger { input: task.text(), ..Trigger::default() };
    let run = executor.trigger(actor(project), agent.id, start).await.expect("a run");
    say::<()>(&role.observer, &ServerMessage::Accepted { key: task.key, run: run.id }).await;
}

async fn count_what_is_left(executor: Executor, role: Role) {
    loop {
        let left = executor.graph().db().read(|tx| {
            let sql = "SELECT count(*) FROM agent_runs WHERE status IN ('queued', 'running')";
            tx.query_opt(sql, &[], |row| row.get::<i64>(0))
        });
        let left: Result<_, emergent_store::Error> = left.await;
        let runs = left.expect("a count").unwrap_or(0);
        say::<()>(&role.observer, &ServerMessage::Left { process: role.process, runs }).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A model that follows the scripts. Its answer depends only on the conversation.
struct Planned {
    process: usize,
    observer: PathBuf,
}

#[async_trait]
impl Provider for Planned {
    fn name(&self) -> &str {
        agent_scripts::PROVIDER
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        _: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let asked = ObservedRequest {
            process: self.process,
            run: request.meta.run.expect("a run asks"),
            step: request.meta.step,
            system: request.system.to_owned(),
            turns: serde_json::to_value(request.turns).expect("turns are JSON"),
            with_tools: !request.tools.is_empty(),
        };
        let number = say(&self.observer, &ServerMessage::ObservedRequest(asked)).await;
        let task = Task { request: Some(number), ..Task::read(&request.turns[0].text()) };
        let answers = request.turns.iter().filter(|turn| turn.speaker == Speaker::Assistant).count();
        let wanted = match request.tools.is_empty() {
            true => Vec::new(),
            false => agent_scripts::calls(request.meta.agent, &task, answers),
        };
        let stop = if wanted.is_empty() { StopReason::End } else { StopReason::ToolCalls };
        let mut parts = vec![Part::text(task.text())];
        parts.extend(wanted.into_iter().enumerate().map(|(at, wanted)| {
            // Provider data that the provider expects back unchanged.
            let provider = Some(json!({ "signature": format!("{number}-{at}") }));
            Part::Call(ToolCall {
                id: ToolCallId::new(),
                name: wanted.tool.into(),
                input: wanted.input,
                provider,
            })
        }));
        Ok(Answer {
            parts,
            usage: Usage { input: 10, output: 1, ..Usage::default() },
            stop,
            response: Default::default(),
        })
    }
}

fn info(name: &str, effect: Effect) -> ToolInfo {
    let input_schema = json!({
        "type": "object",
        "properties": { "key": { "type": "string" }, "step": { "type": "integer" } },
        "required": ["key"],
    });
    let (name, description) = (name.to_owned(), format!("Does a {name}."));
    ToolInfo {
        name,
        server: None,
        description: description.into(),
        input_schema: input_schema.into(),
        effect,
        scope: None,
    }
}

fn key_of(input: &Value) -> String {
    input["key"].as_str().expect("the schema requires it").to_owned()
}

/// An external effect: the test counts the calls.
struct Outside {
    info: ToolInfo,
    process: usize,
    observer: PathBuf,
}

#[async_trait]
impl Tool for Outside {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        let (process, tool) = (self.process, self.info.name.clone());
        let ticket: Ticket =
            say(&self.observer, &ServerMessage::Called { process, tool, key: key_of(&input) }).await;
        Ok(ToolOutput::Answer(json!(ticket)))
    }
}

/// Increments a counter object, so that a repeated call is visible in its value. The preparation takes
/// time, so that servers often die just before the write.
struct Increment {
    info: ToolInfo,
    process: usize,
    observer: PathBuf,
}

#[async_trait]
impl Tool for Increment {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        let (key, process, tool) = (key_of(&input), self.process, self.info.name.clone());
        let _: Ticket = say(&self.observer, &ServerMessage::Called { process, tool, key: key.clone() }).await;
        Ok(ToolOutput::Change(Box::new(move |tx, writer| {
            let found = rows::lock_by_key(tx, writer.project.id, "Thing", &key)?;
            let found =
                found.ok_or_else(|| emergent_graph::Error::NotFound { what: "object", id: key.clone() })?;
            let n = found.object.properties.to_map()["n"].as_i64().unwrap_or(0) + 1;
            let properties = json!({ "n": n }).as_object().cloned();
            let patch = ObjectPatch { properties, ..ObjectPatch::default() };
            objects::update(tx, writer, found.object.id, &patch)?;
            Ok(json!({ "n": n, "process": process }))
        })))
    }
}
