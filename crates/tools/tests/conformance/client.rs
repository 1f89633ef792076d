//! The client that the official conformance suite drives: connects to the address that is its last
//! argument, lists the tools, and calls them as the scenario asks. Everything but what is called is
//! the product's own client.

#![expect(
    clippy::disallowed_methods,
    reason = "a program for tests; the suite passes its settings as variables"
)]

use std::{
    process::ExitCode,
    sync::{Arc, OnceLock},
    time::Duration,
};

use emergent_mcp::client::{
    CallOptions, Client, ClientOptions, Endpoint, Error, RemoteTool, RequestHandler, Target,
};
use emergent_net::http;
use serde_json::{Map, Value, json};

const WITHIN: Duration = Duration::from_secs(20);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    if let Err(error) = run().await {
        eprintln!("conformance client: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn run() -> Result<(), Error> {
    let url = std::env::args().next_back().unwrap_or_default();
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
    let context: Value = context.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let questions = Arc::new(Agreeable::default());
    let endpoint = Endpoint {
        http: http::public_client(true).map_err(Error::Unreachable)?,
        url: url.parse().map_err(|error| Error::Unreachable(format!("`{url}`: {error}")))?,
        headers: Default::default(),
    };
    let options = ClientOptions {
        request_handler: Arc::clone(&questions) as Arc<dyn RequestHandler>,
        ..ClientOptions::default()
    };
    let client = Client::connect(Target::Http(endpoint), options).await?;
    let tools = client.list_tools(WITHIN).await?;
    let caller = Caller { client: client.clone(), tools };
    if let Some(calls) = context["toolCalls"].as_array() {
        for one in calls {
            caller.call(one["name"].as_str().unwrap_or_default(), object(&one["arguments"])).await?;
        }
    } else {
        match scenario.as_str() {
            "sep-2322-client-request-state" => {
                let _ = questions.between.set(client.clone());
                for name in ["test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_no_result_type"] {
                    caller.call(name, Map::new()).await?;
                }
            }
            "json-schema-2020-12-preservation" => {
                let schema = caller.schema("json_schema_2020_12_tool");
                caller.call("json_schema_echo", object(&json!({ "schema": schema }))).await?;
            }
            // Listed, and nothing fetched that a schema names.
            "json-schema-ref-no-deref" => {}
            _ => {
                for tool in &caller.tools {
                    caller.call(&tool.name, sample(&schema_of(tool))).await?;
                }
            }
        }
    }
    if scenario == "http-standard-headers" {
        for (list, field, key, read) in [
            ("resources/list", "resources", "uri", "resources/read"),
            ("prompts/list", "prompts", "name", "prompts/get"),
        ] {
            let listed = client.request(list, Map::new(), WITHIN).await?;
            let listed: Value = serde_json::from_str(listed.get()).unwrap_or_default();
            for one in listed[field].as_array().into_iter().flatten() {
                client.request(read, object(&json!({ key: one[key] })), WITHIN).await?;
            }
        }
    }
    client.close().await;
    Ok(())
}

struct Caller {
    client: Client,
    tools: Vec<RemoteTool>,
}

impl Caller {
    fn schema(&self, name: &str) -> Value {
        self.tools.iter().find(|tool| tool.name == name).map(schema_of).unwrap_or_default()
    }

    async fn call(&self, name: &str, arguments: Map<String, Value>) -> Result<(), Error> {
        self.client.call_tool(name, &self.schema(name), arguments, options()).await.map(drop)
    }
}

fn options() -> CallOptions {
    CallOptions { within: WITHIN, progress: None, input: None }
}

fn schema_of(tool: &RemoteTool) -> Value {
    serde_json::from_str(tool.input_schema.get()).unwrap_or_default()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

/// What a schema requires, of the right types.
fn sample(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        _ => json!("x"),
    };
    required.map(|name| (name.to_owned(), value(name))).collect()
}

/// Agrees to everything, with the defaults of what it is asked.
#[derive(Default)]
struct Agreeable {
    /// Another call is made before an answer is given, which must know nothing of it.
    between: OnceLock<Client>,
}

impl RequestHandler for Agreeable {
    fn capabilities(&self) -> Value {
        json!({ "elicitation": { "applyDefaults": true }, "sampling": {}, "roots": {} })
    }

    fn answer(&self, method: &str, params: &Value) -> Option<Value> {
        if let Some(client) = self.between.get() {
            let call = client.call_tool("test_mrtr_unrelated", &Value::Null, Map::new(), options());
            let done = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(call));
            if let Err(error) = done {
                eprintln!("conformance client: the call in between failed: {error}");
            }
        }
        match method {
            "elicitation/create" => {
                let asked = object(&params["requestedSchema"]["properties"]);
                let filled = asked.into_iter().filter_map(|(name, schema)| {
                    let plain = (schema["type"] == "boolean").then_some(Value::Bool(true));
                    Some((name, schema.get("default").cloned().or(plain)?))
                });
                Some(json!({ "action": "accept", "content": filled.collect::<Map<_, _>>() }))
            }
            "roots/list" => Some(json!({ "roots": [] })),
            _ => None,
        }
    }
}
