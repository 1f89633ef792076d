//! Resources: the schema and the objects of the project. Also the prompts of its products.

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
    let prompt = executor.graph().list_objects(who.project, ObjectFilter::default(), page).await;
    let prompt = prompt.map_err(Fault::internal)?;
    let mut resources = Vec::new();
    if cursor.is_none() {
        resources.push(json!({
            "uri": SCHEMA, "name": "schema", "title": "Schema", "mimeType": JSON,
            "description": "The types of entities and relationships of this project.",
        }));
    }
    resources.extend(prompt.items.iter().map(resource_json));
    let mut result = json!({ "resources": resources });
    if let Some(next) = prompt.next {
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
            template(TYPE_TEMPLATE, "type", "The definition of a type of entity or relationship."),
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
        ("schema_get_type", json!({ "name": percent_decode(name).ok_or_else(unknown)? }))
    } else if let Some(id) = uri.strip_prefix(OBJECTS) {
        ("entities_get", json!({ "id": percent_decode(id).ok_or_else(unknown)? }))
    } else {
        return Err(unknown());
    };
    who.require_scope(Scope::GraphRead)?;
    let answer = call_read_tool(executor, who, tool, input).await.ok_or_else(unknown)?;
    let content = json!({ "uri": uri, "mimeType": JSON, "text": answer.to_string() });
    JsonFields::from_object(&json!({ "contents": [content] }))
}

/// Tools provide the same data to agents; a resource is the output of one of them.
async fn call_read_tool(executor: &Executor, who: &McpCaller, tool: &str, input: Value) -> Option<Value> {
    let tools = executor.tools().project_tools(who.project).await;
    let tool =
        tools.iter().find(|candidate| candidate.info().server.is_none() && candidate.info().name == tool)?;
    let context = ToolContext { graph: executor.graph().clone(), project: who.project, run: None };
    match executor.settings().guard.call(tool.as_ref(), &context, input).await {
        GuardedOutput::Answer(answer) => Some(answer),
        _ => None,
    }
}

/// Returns the names of the project's types, first those of objects, then those of relationships.
pub(super) async fn types(
    executor: &Executor,
    who: &McpCaller,
    only_objects: bool,
) -> Result<Vec<String>, Fault> {
    let types_output = call_read_tool(executor, who, "schema_list_types", json!({})).await;
    let types_output =
        types_output.ok_or_else(|| Fault::internal("could not load the types of the project"))?;
    let lists: &[&str] = if only_objects { &["objectTypes"] } else { &["objectTypes", "relationshipTypes"] };
    let all = lists.iter().flat_map(|list| types_output[*list].as_array().into_iter().flatten());
    Ok(all.filter_map(|one| one["name"].as_str().map(str::to_owned)).collect())
}

/// Decodes a part of a URI; `None` if it is not valid text.
fn percent_decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// Returns the prompts of installed products. If two products have a prompt of the same name, each is
/// also prefixed with its product.
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

/// Returns the prompt with the name under which it is listed.
pub(super) async fn prompt_named(executor: &Executor, who: &McpCaller, name: &str) -> Result<Prompt, Fault> {
    let all = project_prompts(executor, who).await?;
    let prompt = all.into_iter().find(|(listed, _)| listed == name).map(|(_, prompt)| prompt);
    prompt.ok_or_else(|| Fault::invalid(format!("there is no prompt `{name}`")))
}

pub(super) async fn prompt(executor: &Executor, call: &HostCall<McpCaller>) -> Result<CallOutcome, Fault> {
    call.caller.require_scope(Scope::AgentsRead)?;
    let prompt = prompt_named(executor, &call.caller, &call.name).await?;
    let given: BTreeMap<String, String> = match &call.arguments {
        Value::Null => BTreeMap::new(),
        given => serde_json::from_value(given.clone())
            .map_err(|_| Fault::invalid("the arguments of a prompt must be strings"))?,
    };
    let messages = prompt.render(&given).map_err(|wrong| Fault::invalid(wrong.to_string()))?;
    let message_json = |message: &PromptMessage| json!({ "role": message.role, "content": { "type": "text", "text": message.content } });
    let mut result = json!({ "messages": messages.iter().map(message_json).collect::<Vec<_>>() });
    if let Some(description) = &prompt.description {
        result["description"] = description.as_str().into();
    }
    Ok(CallOutcome::Done(JsonFields::from_object(&result)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_uri_may_be_anything() {
        assert_eq!(percent_decode("Task/a%20b%2Fc").as_deref(), Some("Task/a b/c"));
        assert_eq!(percent_decode("gr%C3%BC%C3%9Fe").as_deref(), Some("grüße"));
        for wrong in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(percent_decode(wrong), None, "{wrong}");
        }
    }
}
