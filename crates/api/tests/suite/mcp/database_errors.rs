//! What a client reads if the database did not do what it asked for.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_api::{App, AppOptions};
use emergent_domain::{json::Schema, object::NewObject, token::Scope};
use emergent_executor::{Executor, Settings};
use emergent_graph::objects::{self, ObjectDraft};
use emergent_llm::Models;
use emergent_store::{Db, Error, TimeLimits};
use emergent_testkit::both_engines;
use emergent_tools::{Effect, GraphChange, Tool, ToolContext, ToolError, ToolInfo, ToolOutput, ToolPool};
use serde_json::{Value, json};

use crate::mcp::{common::Server, peer::Peer};

/// A tool that writes an object, and then fails as the database would.
struct FailingWrite {
    info: ToolInfo,
    error: fn() -> Error,
}

impl FailingWrite {
    fn tool(name: &str, error: fn() -> Error) -> Arc<dyn Tool> {
        let info = ToolInfo {
            name: name.to_owned(),
            server: None,
            description: "Writes.".into(),
            input_schema: Schema::from(json!({ "type": "object" })),
            effect: Effect::Writes { destructive: false },
            scope: Some(Scope::GraphWrite),
        };
        Arc::new(Self { info, error })
    }
}

#[async_trait]
impl Tool for FailingWrite {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    async fn call(&self, _context: &ToolContext, _input: Value) -> Result<ToolOutput, ToolError> {
        let error = self.error;
        let change: GraphChange = Box::new(move |tx, writer| {
            let new = NewObject { type_: "Note".into(), ..NewObject::default() };
            objects::create(tx, writer, &ObjectDraft::new(new)?)?;
            Err(error().into())
        });
        Ok(ToolOutput::Change(change))
    }
}

both_engines! {
    async fn a_change_that_is_stopped_is_a_failed_call_that_says_what_to_do(db: TestDb) {
        let server = Server::start(&db).await;
        let slow = || Error::TooSlow { limit: Duration::from_millis(2_500) };
        let tools = ToolPool::new(emergent_tools::builtin::tools())
            .with_tool(FailingWrite::tool("slow_write", slow))
            .with_tool(FailingWrite::tool("crowded_write", || Error::TooManyWrites { limit: 512 }))
            .with_tool(FailingWrite::tool("broken_write", || Error::Broken));
        let executor = Executor::new(server.graph.clone(), Models::default(), tools, Settings::default());
        let app = App::with_options(executor, server.app.secrets.clone(), AppOptions::default());
        let server = Server { router: emergent_api::router(app.clone()), app, ..server };
        for peer in [Peer::modern(server.admin()), Peer::legacy(server.admin()).await] {
            for (tool, said) in [("slow_write", ["2.5 seconds", "smaller calls"]), ("crowded_write", ["512 writes", "fewer"])] {
                let failed = peer.call(tool, json!({})).await;
                assert_eq!(failed["isError"], true, "{failed}");
                let text = failed["content"][0]["text"].as_str().unwrap();
                assert!(said.iter().all(|part| text.contains(part)), "{text}");
            }
            let broken = peer.fails("tools/call", json!({ "name": "broken_write", "arguments": {} })).await;
            assert_eq!(broken["code"], -32603, "a defect of the server is not for the model: {broken}");
        }
        let stored = server.admin().get("/api/graph/objects").await;
        assert_eq!(stored.is(200).as_array().map(Vec::len), Some(0), "nothing was written");
    }

    async fn a_read_that_takes_too_long_names_the_limit(db: TestDb) {
        let mut db = db;
        let limits = TimeLimits { read: Duration::from_nanos(1), write: Duration::from_secs(30) };
        db.db = Db::open_with(db.config().clone(), limits).await.unwrap();
        let server = Server::start(&db).await;
        let peer = Peer::legacy(server.admin()).await;
        let listed = peer.send("resources/list", json!({})).await;
        assert_eq!((listed.status.as_u16(), &listed.body["error"]["code"]), (429, &json!(-32004)), "{}", listed.text);
        let message = listed.body["error"]["message"].as_str().unwrap();
        assert!(message.contains("longer than the limit"), "{message}");
    }
}
