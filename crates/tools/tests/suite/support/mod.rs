//! What the suites share: a graph with two projects, and calls as a run makes them.
#![allow(dead_code, reason = "each suite uses a part of it")]

use std::sync::Arc;

use emergent_domain::{
    author::Author,
    ids::{ProjectId, RunId, ToolCallId},
};
use emergent_graph::{Actor, Error, Graph};
use emergent_store::Tx;
use emergent_testkit::{TestDb, fixed_clock};
use emergent_tools::{Guard, GuardedOutput, Tool, ToolContext, ToolError, builtin};
use serde_json::Value;

mod history;

pub struct World {
    pub graph: Graph,
    pub guard: Guard,
    /// Where calls are made.
    pub project: ProjectId,
    pub other: ProjectId,
    pub run: RunId,
}

impl World {
    pub async fn new(db: &TestDb) -> Self {
        Self::with(db, None).await
    }

    /// One whose searches know meanings, as far as the built-in embedder goes.
    pub async fn embedding(db: &TestDb) -> Self {
        Self::with(db, Some(builtin_embedder())).await
    }

    async fn with(db: &TestDb, embedder: Option<Arc<dyn emergent_llm::Embedder>>) -> Self {
        let graph = Graph::new(db.db.clone(), fixed_clock(), embedder);
        let project = graph.create_project("here", false).await.unwrap().id;
        let other = graph.create_project("there", false).await.unwrap().id;
        Self { graph, guard: Guard::default(), project, other, run: RunId::new() }
    }

    /// The same, seen from the other project.
    pub fn over_there(&self) -> Self {
        Self {
            graph: self.graph.clone(),
            guard: self.guard.clone(),
            project: self.other,
            other: self.project,
            run: self.run,
        }
    }

    pub fn context(&self) -> ToolContext {
        ToolContext::new(self.graph.clone(), self.project, Some(self.run))
    }

    pub fn actor(&self) -> Actor {
        let author = Author::Run { run_id: self.run, tool_call_id: Some(ToolCallId::new()) };
        Actor { project: self.project, author }
    }

    /// A call as a run makes it: through the guard, and a change in a transaction.
    pub async fn call(&self, name: &str, input: Value) -> Result<Value, String> {
        self.call_tool(tool(name).as_ref(), input, Fate::Commit).await
    }

    /// The answer of a call that must work.
    pub async fn ok(&self, name: &str, input: Value) -> Value {
        self.call(name, input.clone()).await.unwrap_or_else(|why| panic!("{name} {input}: {why}"))
    }

    /// What a model hears of a call that must not work.
    pub async fn err(&self, name: &str, input: Value) -> String {
        match self.call(name, input.clone()).await {
            Err(why) => why,
            Ok(answer) => panic!("{name} {input} worked: {answer}"),
        }
    }

    pub async fn call_tool(&self, tool: &dyn Tool, input: Value, fate: Fate) -> Result<Value, String> {
        match self.guard.call(tool, &self.context(), input).await {
            GuardedOutput::Answer(answer) => Ok(answer),
            GuardedOutput::Error(why) => Err(why),
            GuardedOutput::Change(change) => {
                let (graph, mut actor) = (self.graph.clone(), self.actor());
                // Who chooses packs may read as well, which the row of a run says. This run has none.
                if tool.info().name.starts_with("schema_pack") {
                    actor.author = Author::System;
                }
                let seen = Arc::new(std::sync::Mutex::new(None));
                let answer = Arc::clone(&seen);
                let work = move |tx: &mut Tx<'_>| {
                    let writer = graph.write_context(tx, actor)?;
                    let made = change(tx, &writer)?;
                    *seen.lock().unwrap() = Some(made);
                    match fate {
                        Fate::Commit => Ok(()),
                        Fate::RollBack => Err(Error::Conflict { message: "rolled back".to_owned() }),
                    }
                };
                let done = self.graph.db().write(work).await;
                let answer = answer.lock().unwrap().take();
                match (done, answer) {
                    (Ok(()), Some(answer)) | (Err(Error::Conflict { .. }), Some(answer)) => {
                        Ok(self.guard.truncate_for(tool.info(), answer))
                    }
                    (Err(error), _) => Err(ToolError::from(error).to_string()),
                    (Ok(()), None) => unreachable!("a change that was written gave an answer"),
                }
            }
        }
    }

    /// A run that is over: it was asked, called a tool, and answered with `says`.
    pub async fn record_run(&self, agent: &str, says: &str) -> RunId {
        let (agent, says, project) = (agent.to_owned(), says.to_owned(), self.project);
        let now = self.graph.clock().now();
        let work = move |tx: &mut Tx<'_>| history::record(tx, project, &agent, &says, now);
        self.graph.db().write(work).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))
    }

    /// How many changes a project has seen. Counted in the table: on PostgreSQL the feed waits for
    /// the transactions of every other test.
    pub async fn changes(&self, project: ProjectId) -> i64 {
        let count = move |tx: &mut Tx<'_>| {
            let sql = "SELECT count(*) FROM graph_events WHERE project_id = $1";
            Ok(tx.query_opt(sql, &[project.into()], |row| row.get(0))?.unwrap_or(0))
        };
        self.graph.db().read(count).await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"))
    }
}

#[derive(Debug, Clone, Copy)]
pub enum Fate {
    Commit,
    RollBack,
}

pub fn tool(name: &str) -> Arc<dyn Tool> {
    let all = builtin::tools();
    all.into_iter().find(|tool| tool.info().name == name).unwrap_or_else(|| panic!("no tool {name}"))
}

/// The strings at a pointer below each item of a list.
pub fn each<'a>(answer: &'a Value, list: &str, pointer: &str) -> Vec<&'a str> {
    let items = answer[list].as_array().unwrap_or_else(|| panic!("no list `{list}` in {answer}"));
    items.iter().map(|item| item.pointer(pointer).and_then(Value::as_str).unwrap_or("-")).collect()
}

fn builtin_embedder() -> Arc<dyn emergent_llm::Embedder> {
    let spec = emergent_llm::EmbedderSpec::Builtin;
    emergent_llm::embedder(&spec, &Default::default()).unwrap().expect("the built-in embedder")
}
