//! The tools, prompts and resources that the suite expects, with fixed names and contents. Only tests
//! serve them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_api::McpCaller;
use emergent_mcp::server::{
    CallOutcome, Fault, Host, HostCall, JsonFields, Level, ListKind, ServerInfo, Tool, ToolList,
};
use futures_util::{StreamExt, stream, stream::BoxStream};
use serde_json::{Value, json, value::to_raw_value};
use tokio::{sync::broadcast, time::sleep};

use crate::questions::{Questions, elicit, sample};

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const A_MOMENT: Duration = Duration::from_millis(50);

pub struct Fixtures {
    about: ServerInfo,
    offer: Arc<ToolList>,
    changed: broadcast::Sender<ListKind>,
    questions: Questions,
}

impl Default for Fixtures {
    fn default() -> Self {
        let list_changed = json!({ "listChanged": true });
        let about = ServerInfo {
            server: json!({ "name": "fixtures", "version": "1.0.0" }),
            capabilities: json!({
                "tools": list_changed, "prompts": list_changed,
                "resources": { "subscribe": true, "listChanged": true }, "completions": {}, "logging": {},
            }),
            instructions: None,
        };
        let listed = |(name, schema): (&str, Value)| Tool {
            name: name.to_owned(),
            title: None,
            description: format!("The fixture {name}."),
            input_schema: to_raw_value(&schema).unwrap(),
            annotations: None,
        };
        let offer = ToolList::from_tools(&tools().into_iter().map(listed).collect::<Vec<_>>()).unwrap();
        let changed = broadcast::channel(16).0;
        Self { about, offer: Arc::new(offer), changed, questions: Questions::default() }
    }
}

fn tools() -> Vec<(&'static str, Value)> {
    let none = || json!({ "type": "object", "properties": {} });
    let text = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    let region = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } }, "required": ["region"] });
    let mut all = vec![
        ("json_schema_2020_12_tool", rich_schema()),
        ("test_elicitation", text("message")),
        ("test_header_param", region),
        ("test_sampling", text("prompt")),
    ];
    all.extend(crate::questions::NAMES.iter().map(|name| (*name, none())));
    let plain = [
        "test_audio_content",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_embedded_resource",
        "test_error_handling",
        "test_image_content",
        "test_logging_tool",
        "test_missing_capability",
        "test_multiple_content_types",
        "test_simple_text",
        "test_streaming_elicitation",
        "test_tool_with_logging",
        "test_tool_with_progress",
        "test_trigger_prompt_change",
        "test_trigger_tool_change",
    ];
    all.extend(plain.map(|name| (name, none())));
    all.sort_by_key(|(name, _)| *name);
    all
}

fn rich_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "$anchor": "addressDef", "type": "object", "properties": { "street": { "type": "string" }, "city": { "type": "string" } } } },
        "properties": {
            "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" }, "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] }, "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

pub fn done(result: &Value) -> Result<CallOutcome, Fault> {
    Ok(CallOutcome::Done(JsonFields::from_object(result)?))
}

pub fn says(text: &str) -> Result<CallOutcome, Fault> {
    done(&json!({ "content": [{ "type": "text", "text": text }] }))
}

fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

fn embedded(uri: &str, kind: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": text } })
}

#[async_trait]
impl Host for Fixtures {
    type Caller = McpCaller;

    fn server_info(&self) -> &ServerInfo {
        &self.about
    }

    async fn tools(&self, _: &McpCaller) -> Result<Arc<ToolList>, Fault> {
        Ok(Arc::clone(&self.offer))
    }

    async fn call(&self, call: HostCall<McpCaller>) -> Result<CallOutcome, Fault> {
        let link = &call.channel;
        match call.name.as_str() {
            "test_simple_text" => says("This is a simple text response for testing."),
            "test_image_content" => done(&json!({ "content": [image()] })),
            "test_audio_content" => {
                done(&json!({ "content": [{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }] }))
            }
            "test_embedded_resource" => {
                let text = "This is an embedded resource content.";
                done(&json!({ "content": [embedded("test://embedded-resource", "text/plain", text)] }))
            }
            "test_multiple_content_types" => done(&json!({ "content": [
                { "type": "text", "text": "Multiple content types test:" },
                image(),
                embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
            ] })),
            "test_error_handling" => done(&json!({
                "isError": true,
                "content": [{ "type": "text", "text": "This tool intentionally returns an error for testing" }],
            })),
            "test_tool_with_progress" => {
                for progress in [0.0, 50.0, 100.0] {
                    link.progress(progress, Some(100.0), None);
                    sleep(A_MOMENT).await;
                }
                says("done")
            }
            "test_tool_with_logging" => {
                for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    link.log(Level::Info, "fixtures", &json!(text));
                    sleep(A_MOMENT).await;
                }
                says("done")
            }
            "test_logging_tool" => {
                link.log(Level::Info, "fixtures", &json!("only for whoever wants logs"));
                says("done")
            }
            "test_missing_capability" => {
                link.require_capability("sampling")?;
                says("ok")
            }
            "test_trigger_tool_change" | "test_trigger_prompt_change" => {
                let kind = if call.name.contains("tool") { ListKind::Tools } else { ListKind::Prompts };
                let _ = self.changed.send(kind);
                says("ok")
            }
            "test_sampling" => {
                let question = sample(call.arguments["prompt"].as_str().unwrap_or_default(), 100);
                let answer = link.ask("sampling/createMessage", &question["params"]).await?;
                says(&format!("LLM response: {}", answer["content"]["text"].as_str().unwrap_or_default()))
            }
            name if name.starts_with("test_elicitation") => {
                let question = crate::questions::form(name, &call.arguments);
                let answer = link.ask("elicitation/create", &question["params"]).await?;
                says(&format!(
                    "User response: <action: {}, content: {}>",
                    answer["action"], answer["content"]
                ))
            }
            "json_schema_2020_12_tool" | "test_header_param" => says("ok"),
            _ => self.questions.call(&call),
        }
    }

    async fn prompts(&self, _: &McpCaller) -> Result<JsonFields, Fault> {
        let prompt = |name: &str, arguments: &[&str]| {
            let arguments: Vec<_> =
                arguments.iter().map(|name| json!({ "name": name, "required": true })).collect();
            json!({ "name": name, "description": format!("The fixture {name}."), "arguments": arguments })
        };
        JsonFields::from_object(&json!({ "prompts": [
            prompt("test_simple_prompt", &[]),
            prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
            prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
            prompt("test_prompt_with_image", &[]),
            prompt("test_input_required_result_prompt", &[]),
        ] }))
    }

    async fn prompt(&self, call: HostCall<McpCaller>) -> Result<CallOutcome, Fault> {
        let given = |name: &str| call.arguments[name].as_str().unwrap_or_default().to_owned();
        let text = |text: String| json!({ "type": "text", "text": text });
        let contents = match call.name.as_str() {
            "test_simple_prompt" => vec![text("This is a simple prompt for testing.".to_owned())],
            "test_prompt_with_arguments" => {
                vec![text(format!(
                    "Prompt with arguments: arg1='{}', arg2='{}'",
                    given("arg1"),
                    given("arg2")
                ))]
            }
            "test_prompt_with_embedded_resource" => vec![
                embedded(&given("resourceUri"), "text/plain", "Embedded resource content for testing."),
                text("Please process the embedded resource above.".to_owned()),
            ],
            "test_prompt_with_image" => vec![image(), text("Please analyze the image above.".to_owned())],
            "test_input_required_result_prompt" => {
                let Some(said) = call.answers["user_context"]["content"]["context"].as_str() else {
                    let question = elicit(
                        "What context should the prompt use?",
                        json!({ "context": { "type": "string" } }),
                    );
                    return Ok(CallOutcome::NeedsInput {
                        requests: json!({ "user_context": question }),
                        state: None,
                    });
                };
                vec![text(said.to_owned())]
            }
            other => return Err(Fault::invalid(format!("there is no prompt `{other}`"))),
        };
        let messages: Vec<_> =
            contents.iter().map(|content| json!({ "role": "user", "content": content })).collect();
        done(&json!({ "messages": messages }))
    }

    async fn resources(&self, _: &McpCaller, _: Option<&str>) -> Result<JsonFields, Fault> {
        let resource = |name: &str, kind: &str| json!({ "uri": format!("test://{name}"), "name": name, "mimeType": kind });
        JsonFields::from_object(&json!({ "resources": [
            resource("static-text", "text/plain"),
            resource("static-binary", "image/png"),
            resource("watched-resource", "text/plain"),
        ] }))
    }

    async fn templates(&self, _: &McpCaller) -> Result<JsonFields, Fault> {
        JsonFields::from_object(&json!({ "resourceTemplates": [
            { "uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json" },
        ] }))
    }

    async fn read(&self, _: &McpCaller, uri: &str) -> Result<JsonFields, Fault> {
        let template = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let content = match (uri, template) {
            ("test://static-text" | "test://watched-resource", _) => {
                json!({ "uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource." })
            }
            ("test://static-binary", _) => json!({ "uri": uri, "mimeType": "image/png", "blob": PNG }),
            (_, Some(id)) => {
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() })
            }
            _ => return Err(Fault::ResourceNotFound { uri: uri.to_owned() }),
        };
        JsonFields::from_object(&json!({ "contents": [content] }))
    }

    async fn complete(&self, _: &McpCaller, _: Value) -> Result<JsonFields, Fault> {
        JsonFields::from_object(
            &json!({ "completion": { "values": ["test1", "test2"], "total": 2, "hasMore": false } }),
        )
    }

    async fn subscribe(&self, _: &McpCaller, _: &str) -> Result<u64, Fault> {
        Ok(1)
    }

    fn changes(&self, _: &McpCaller) -> BoxStream<'static, ListKind> {
        let heard = self.changed.subscribe();
        stream::unfold(heard, |mut heard| async move { heard.recv().await.ok().map(|one| (one, heard)) })
            .boxed()
    }
}
