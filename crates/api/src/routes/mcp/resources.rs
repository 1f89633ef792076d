//! What can be read: the schema and the objects as resources, and the products' prompts.

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

use super::host::McpCaller;

const SCHEMA: &str = "emergent://schema";
const OBJECTS: &str = "emergent://objects/";
const JSON: &str = "application/json";
pub(super) const TYPE_TEMPLATE: &str = "emergent://schema/{type}";
pub(super) const ID_TEMPLATE: &str = "emergent://objects/{id}";
pub(super) const KEY_TEMPLATE: &str = "emergent://objects/{type}/{key}";

pub(super) async fn list(
    executor: &Executor,
    who: &McpCaller,
    cursor: Option<&str>,
) -> Result<JsonFields, Fault> {
    if !who.has_scope(Scope::GraphRead) {
        return JsonFields::from_object(&json!({ "resources": [] }));
    }
    let page =
        Page::new(Some(Page::MAX as i64), cursor).map_err(|wrong| Fault::invalid(wrong.to_string()))?;
    let found = executor.graph().list_objects(who.project, ObjectFilter::default(), page).await;
    let found = found.map_err(Fault::internal)?;
    let mut resources = Vec::new();
    if cursor.is_none() {
        resources.push(json!({
            "uri": SCHEMA, "name": "schema", "title": "Schema", "mimeType": JSON,
            "description": "The types of entities and relationships of this project.",
        }));
    }
    resources.extend(found.items.iter().map(resource_json));
    let mut result = json!({ "resources": resources });
    if let Some(next) = found.next {
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

pub(super) fn templates(who: &McpCaller) -> Result<JsonFields, Fault> {
    let mut templates = Vec::new();
    if who.has_scope(Scope::GraphRead) {
        let template = |uri: &str, name: &str, about: &str| json!({ "uriTemplate": uri, "name": name, "description": about, "mimeType": JSON });
        templates = vec![
            template(TYPE_TEMPLATE, "type", "What a type of entity or relationship looks like."),
            template(ID_TEMPLATE, "object", "An entity by its id, with its properties."),
            template(KEY_TEMPLATE, "object-by-key", "An entity by its type and key."),
        ];
    }
    JsonFields::from_object(&json!({ "resourceTemplates": templates }))
}

pub(super) async fn read(executor: &Executor, who: &McpCaller, uri: &str) -> Result<JsonFields, Fault> {
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
    who.require_scope(Scope::GraphRead)?;
    let answer = call_read_tool(executor, who, tool, input).await.ok_or_else(unknown)?;
    let content = json!({ "uri": uri, "mimeType": JSON, "text": answer.to_string() });
    JsonFields::from_object(&json!({ "contents": [content] }))
}

/// The tools read the same things for agents; a resource is one of their answers.
async fn call_read_tool(executor: &Executor, who: &McpCaller, tool: &str, input: Value) -> Option<Value> {
    let known = executor.tools().project_tools(who.project).await;
    let tool = known.iter().find(|one| one.info().server.is_none() && one.info().name == tool)?;
    let context = ToolContext { graph: executor.graph().clone(), project: who.project, run: None };
    match executor.settings().guard.call(tool.as_ref(), &context, input).await {
        GuardedOutput::Answer(answer) => Some(answer),
        _ => None,
    }
}

/// The names of the project's types; those of relationships come after those of objects.
pub(super) async fn types(
    executor: &Executor,
    who: &McpCaller,
    only_objects: bool,
) -> Result<Vec<String>, Fault> {
    let known = call_read_tool(executor, who, "schema_list_types", json!({})).await;
    let known = known.ok_or_else(|| Fault::internal("the types of a project could not be read"))?;
    let lists: &[&str] = if only_objects { &["objectTypes"] } else { &["objectTypes", "relationshipTypes"] };
    let all = lists.iter().flat_map(|list| known[*list].as_array().into_iter().flatten());
    Ok(all.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
}

/// The prompts of installed products. Two products may have one of the same name: each is then
/// called by its product as well.
async fn project_prompts(executor: &Executor, who: &McpCaller) -> Result<Vec<(String, Prompt)>, Fault> {
    let project = who.project;
    let all =
        executor.graph().db().read(move |tx| rows::list_all(tx, project)).await.map_err(Fault::internal)?;
    let times = |name: &str| all.iter().filter(|one| one.prompt.name == name).count();
    let named = all.iter().map(|one| {
        let name = match times(&one.prompt.name) {
            1 => one.prompt.name.clone(),
            _ => format!("{}.{}", one.product, one.prompt.name),
        };
        (name, one.prompt.clone())
    });
    Ok(named.collect())
}

pub(super) async fn prompts(executor: &Executor, who: &McpCaller) -> Result<JsonFields, Fault> {
    if !who.has_scope(Scope::AgentsRead) {
        return JsonFields::from_object(&json!({ "prompts": [] }));
    }
    let all = project_prompts(executor, who).await?;
    let listed = all.iter().map(|(name, prompt)| {
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

/// A prompt by the name it is listed with.
pub(super) async fn prompt_named(executor: &Executor, who: &McpCaller, name: &str) -> Result<Prompt, Fault> {
    let all = project_prompts(executor, who).await?;
    let found = all.into_iter().find(|(listed, _)| listed == name).map(|(_, prompt)| prompt);
    found.ok_or_else(|| Fault::invalid(format!("there is no prompt `{name}`")))
}

pub(super) async fn prompt(executor: &Executor, call: &HostCall<McpCaller>) -> Result<CallOutcome, Fault> {
    call.caller.require_scope(Scope::AgentsRead)?;
    let prompt = prompt_named(executor, &call.caller, &call.name).await?;
    let given: BTreeMap<String, String> = match &call.arguments {
        Value::Null => BTreeMap::new(),
        given => serde_json::from_value(given.clone())
            .map_err(|_| Fault::invalid("the arguments of a prompt are texts"))?,
    };
    let messages = prompt.render(&given).map_err(|wrong| Fault::invalid(wrong.to_string()))?;
    let said = |message: &PromptMessage| json!({ "role": message.role, "content": { "type": "text", "text": message.content } });
    let mut result = json!({ "messages": messages.iter().map(said).collect::<Vec<_>>() });
    if let Some(description) = &prompt.description {
        result["description"] = description.as_str().into();
    }
    Ok(CallOutcome::Done(JsonFields::from_object(&result)?))
}
