//! Resources and prompts of a project: its schema and its objects are resources, and its products have
//! prompts.

use std::collections::BTreeMap;

use emergent_domain::{
    cursor::Page,
    object::Object,
    prompt::{Prompt, PromptMessage},
    query::ObjectFilter,
    token::Scope,
};
use emergent_executor::Executor;
use emergent_mcp::server::{CallOutcome, Fault, HostCall, JsonFields};
use emergent_net::percent;
use emergent_store::prompts as rows;
use emergent_tools::{GuardedOutput, ToolContext};
use serde_json::{Value, json};

use super::{database_errors::request_failure, host::McpCaller};

const SCHEMA: &str = "emergent://schema";
const OBJECTS: &str = "emergent://objects/";
const JSON: &str = "application/json";
pub(super) const TYPE_TEMPLATE: &str = "emergent://schema/{type}";
pub(super) const ID_TEMPLATE: &str = "emergent://objects/{id}";
pub(super) const KEY_TEMPLATE: &str = "emergent://objects/{type}/{key}";

/// Returns a page of `resources/list`: the schema first, then the objects. Empty without the scope.
pub(super) async fn list(
    executor: &Executor,
    caller: &McpCaller,
    cursor: Option<&str>,
) -> Result<JsonFields, Fault> {
    if !caller.has_scope(Scope::GraphRead) {
        return JsonFields::from_object(&json!({ "resources": [] }));
    }
    let page =
        Page::new(Some(Page::MAX as i64), cursor).map_err(|invalid| Fault::invalid(invalid.to_string()))?;
    let objects = executor.graph().list_objects(caller.project, ObjectFilter::default(), page).await;
    let objects = objects.map_err(request_failure)?;
    let mut resources = Vec::new();
    if cursor.is_none() {
        resources.push(json!({
            "uri": SCHEMA, "name": "schema", "title": "Schema", "mimeType": JSON,
            "description": "The types of entities and relationships of this project.",
        }));
    }
    resources.extend(objects.items.iter().map(resource_json));
    let mut result = json!({ "resources": resources });
    if let Some(next) = objects.next {
        result["nextCursor"] = next.encode().into();
    }
    JsonFields::from_object(&result)
}

fn resource_json(object: &Object) -> Value {
    let name = match &object.key {
        Some(key) => format!("{}/{key}", object.type_),
        None => format!("{}/{}", object.type_, object.id),
    };
    json!({ "uri": format!("{OBJECTS}{}", object.id), "name": name, "mimeType": JSON })
}

/// Returns `resources/templates/list`.
pub(super) fn templates(caller: &McpCaller) -> Result<JsonFields, Fault> {
    let mut templates = Vec::new();
    if caller.has_scope(Scope::GraphRead) {
        let template = |uri: &str, name: &str, about: &str| json!({ "uriTemplate": uri, "name": name, "description": about, "mimeType": JSON });
        templates = vec![
            template(TYPE_TEMPLATE, "type", "What a type of entity or relationship looks like."),
            template(ID_TEMPLATE, "object", "An entity by its id, with its properties."),
            template(KEY_TEMPLATE, "object-by-key", "An entity by its type and key."),
        ];
    }
    JsonFields::from_object(&json!({ "resourceTemplates": templates }))
}

/// Returns `resources/read`: the JSON that the matching tool returns to agents.
pub(super) async fn read(executor: &Executor, caller: &McpCaller, uri: &str) -> Result<JsonFields, Fault> {
    let unknown = || Fault::ResourceNotFound { uri: uri.to_owned() };
    let (tool, input) = if uri == SCHEMA {
        ("schema_list_types", json!({}))
    } else if let Some(name) = uri.strip_prefix("emergent://schema/") {
        ("schema_get_type", json!({ "name": percent::decode(name).ok_or_else(unknown)? }))
    } else if let Some(id) = uri.strip_prefix(OBJECTS) {
        ("entities_get", json!({ "id": percent::decode(id).ok_or_else(unknown)? }))
    } else {
        return Err(unknown());
    };
    caller.require_scope(Scope::GraphRead)?;
    let value = call_read_tool(executor, caller, tool, input).await.ok_or_else(unknown)?;
    let content = json!({ "uri": uri, "mimeType": JSON, "text": value.to_string() });
    JsonFields::from_object(&json!({ "contents": [content] }))
}

/// Calls a local read-only tool of the project. Returns `None` if the tool does not exist or fails.
async fn call_read_tool(executor: &Executor, caller: &McpCaller, tool: &str, input: Value) -> Option<Value> {
    let tools = executor.tools().project_tools(caller.project).await;
    let tool =
        tools.iter().find(|candidate| candidate.info().server.is_none() && candidate.info().name == tool)?;
    let context = ToolContext::new(executor.graph().clone(), caller.project, None);
    match executor.settings().guard.call(tool.as_ref(), &context, input).await {
        GuardedOutput::Answer(value) => Some(value),
        _ => None,
    }
}

/// Returns the names of the project's object types and, unless `only_objects`, then of its relationship
/// types.
pub(super) async fn types(
    executor: &Executor,
    caller: &McpCaller,
    only_objects: bool,
) -> Result<Vec<String>, Fault> {
    let types = call_read_tool(executor, caller, "schema_list_types", json!({})).await;
    let types = types.ok_or_else(|| Fault::internal("the types of a project could not be read"))?;
    let lists: &[&str] = if only_objects { &["objectTypes"] } else { &["objectTypes", "relationshipTypes"] };
    let listed = lists.iter().flat_map(|list| types[*list].as_array().into_iter().flatten());
    Ok(listed.filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect())
}

/// Returns the prompts of installed products with their listed names. If several products have a prompt of
/// the same name, each is listed as `product.name`.
async fn project_prompts(executor: &Executor, caller: &McpCaller) -> Result<Vec<(String, Prompt)>, Fault> {
    let project = caller.project;
    let stored =
        executor.graph().db().read(move |tx| rows::list_all(tx, project)).await.map_err(request_failure)?;
    let count_named = |name: &str| stored.iter().filter(|row| row.prompt.name == name).count();
    let named = stored.iter().map(|row| {
        let name = match count_named(&row.prompt.name) {
            1 => row.prompt.name.clone(),
            _ => format!("{}.{}", row.product, row.prompt.name),
        };
        (name, row.prompt.clone())
    });
    Ok(named.collect())
}

/// Returns `prompts/list`; empty without the scope.
pub(super) async fn prompts(executor: &Executor, caller: &McpCaller) -> Result<JsonFields, Fault> {
    if !caller.has_scope(Scope::AgentsRead) {
        return JsonFields::from_object(&json!({ "prompts": [] }));
    }
    let prompts = project_prompts(executor, caller).await?;
    let listed = prompts.iter().map(|(name, prompt)| {
        let mut listed = json!({ "name": name });
        for (field, text) in [("title", &prompt.title), ("description", &prompt.description)] {
            if let Some(text) = text {
                listed[field] = text.as_str().into();
            }
        }
        if !prompt.arguments.is_empty() {
            listed["arguments"] = json!(prompt.arguments);
        }
        listed
    });
    JsonFields::from_object(&json!({ "prompts": listed.collect::<Vec<_>>() }))
}

/// Returns the prompt that is listed with this name.
pub(super) async fn prompt_named(
    executor: &Executor,
    caller: &McpCaller,
    name: &str,
) -> Result<Prompt, Fault> {
    let prompts = project_prompts(executor, caller).await?;
    let prompt = prompts.into_iter().find(|(listed, _)| listed == name).map(|(_, prompt)| prompt);
    prompt.ok_or_else(|| Fault::invalid(format!("there is no prompt `{name}`")))
}

/// Returns `prompts/get`: the messages of a prompt with the caller's arguments.
pub(super) async fn prompt(executor: &Executor, call: &HostCall<McpCaller>) -> Result<CallOutcome, Fault> {
    call.caller.require_scope(Scope::AgentsRead)?;
    let prompt = prompt_named(executor, &call.caller, &call.name).await?;
    let arguments: BTreeMap<String, String> = match &call.arguments {
        Value::Null => BTreeMap::new(),
        arguments => serde_json::from_value(arguments.clone())
            .map_err(|_| Fault::invalid("the arguments of a prompt must be strings"))?,
    };
    let messages = prompt.render(&arguments).map_err(|invalid| Fault::invalid(invalid.to_string()))?;
    let message_json = |message: &PromptMessage| json!({ "role": message.role, "content": { "type": "text", "text": message.content } });
    let mut result = json!({ "messages": messages.iter().map(message_json).collect::<Vec<_>>() });
    if let Some(description) = &prompt.description {
        result["description"] = description.as_str().into();
    }
    Ok(CallOutcome::Done(JsonFields::from_object(&result)?))
}
