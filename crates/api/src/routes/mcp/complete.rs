//! Completions for an argument of a prompt or of a resource's URI.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{cursor::Page, object::Object, query::ObjectFilter, token::Scope};
use emergent_executor::Executor;
use emergent_mcp::server::{Fault, JsonFields};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{database_errors::request_failure, host::McpCaller, resources};

/// The maximum number of values that the protocol allows in one response.
const MAX_VALUES: usize = 100;
/// The maximum number of pages of objects that are searched, newest first, a hundred each.
const MAX_PAGES: usize = 10;

#[derive(Deserialize)]
struct CompleteParams {
    r#ref: CompletionRef,
    argument: Argument,
    #[serde(default)]
    context: Context,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum CompletionRef {
    #[serde(rename = "ref/prompt")]
    Prompt { name: String },
    #[serde(rename = "ref/resource")]
    Resource { uri: String },
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    value: String,
}

#[derive(Deserialize, Default)]
struct Context {
    #[serde(default)]
    arguments: BTreeMap<String, String>,
}

/// The kind of value of an argument.
enum ArgumentKind {
    /// A type of entities, or of relationships as well.
    Type {
        of_objects: bool,
    },
    /// A key of an entity, of this type if it is known.
    Key {
        type_: Option<String>,
    },
    Id,
}

/// Returns the result of `completion/complete`.
pub(super) async fn complete(
    executor: &Executor,
    caller: &McpCaller,
    params: Value,
) -> Result<JsonFields, Fault> {
    let params: CompleteParams = serde_json::from_value(params)
        .map_err(|error| Fault::invalid(format!("`params` are invalid: {error}")))?;
    let kind = match &params.r#ref {
        CompletionRef::Prompt { name } => {
            prompt_argument(executor, caller, name, &params.argument.name).await?
        }
        CompletionRef::Resource { uri } => template_argument(uri, &params)?,
    };
    let (mut values, has_more) = match caller.has_scope(Scope::GraphRead) {
        true => candidates(executor, caller, kind, &params.argument.value).await?,
        false => (Vec::new(), false),
    };
    let has_more = has_more || values.len() > MAX_VALUES;
    values.truncate(MAX_VALUES);
    JsonFields::from_object(&json!({ "completion": { "values": values, "hasMore": has_more } }))
}

/// Guesses the kind of a prompt's argument from its name. Arguments of prompts are free text: most name an
/// entity, and some name a type.
async fn prompt_argument(
    executor: &Executor,
    caller: &McpCaller,
    name: &str,
    argument: &str,
) -> Result<ArgumentKind, Fault> {
    caller.require_scope(Scope::AgentsRead)?;
    let prompt = resources::prompt_named(executor, caller, name).await?;
    if !prompt.arguments.iter().any(|declared| declared.name == argument) {
        return Err(Fault::invalid(format!("the prompt `{name}` has no argument `{argument}`")));
    }
    match argument == "type" || argument.ends_with("_type") {
        true => Ok(ArgumentKind::Type { of_objects: true }),
        false => Ok(ArgumentKind::Key { type_: None }),
    }
}

/// Returns the kind of an argument of a resource template.
fn template_argument(uri: &str, params: &CompleteParams) -> Result<ArgumentKind, Fault> {
    match (uri, params.argument.name.as_str()) {
        (resources::TYPE_TEMPLATE, "type") => Ok(ArgumentKind::Type { of_objects: false }),
        (resources::KEY_TEMPLATE, "type") => Ok(ArgumentKind::Type { of_objects: true }),
        (resources::KEY_TEMPLATE, "key") => {
            Ok(ArgumentKind::Key { type_: params.context.arguments.get("type").cloned() })
        }
        (resources::ID_TEMPLATE, "id") => Ok(ArgumentKind::Id),
        (resources::TYPE_TEMPLATE | resources::KEY_TEMPLATE | resources::ID_TEMPLATE, other) => {
            Err(Fault::invalid(format!("the template `{uri}` has no argument `{other}`")))
        }
        _ => Err(Fault::invalid(format!(
            "there is no template `{uri}`; `resources/templates/list` lists all templates"
        ))),
    }
}

/// Returns the values that start with the typed text, and whether there may be more.
async fn candidates(
    executor: &Executor,
    caller: &McpCaller,
    kind: ArgumentKind,
    typed: &str,
) -> Result<(Vec<String>, bool), Fault> {
    let typed = typed.to_lowercase();
    let matches = |text: &str| text.to_lowercase().starts_with(&typed);
    match kind {
        ArgumentKind::Type { of_objects } => {
            let types = resources::types(executor, caller, of_objects).await?;
            Ok((types.into_iter().filter(|name| matches(name)).collect(), false))
        }
        ArgumentKind::Key { type_ } => {
            let matching_key = |object: &Object| object.key.clone().filter(|key| matches(key));
            object_values(executor, caller, type_, matching_key).await
        }
        ArgumentKind::Id => {
            let matching_id = |object: &Object| Some(object.id.to_string()).filter(|id| matches(id));
            object_values(executor, caller, None, matching_id).await
        }
    }
}

/// Returns the distinct values that `value` finds in the newest objects, and whether there may be more.
async fn object_values(
    executor: &Executor,
    caller: &McpCaller,
    type_: Option<String>,
    value: impl Fn(&Object) -> Option<String>,
) -> Result<(Vec<String>, bool), Fault> {
    let filter = ObjectFilter { types: type_.into_iter().collect(), ..ObjectFilter::default() };
    if filter.check().is_err() {
        return Ok((Vec::new(), false));
    }
    let (mut values, mut seen, mut cursor) = (Vec::new(), BTreeSet::new(), None::<String>);
    for _ in 0..MAX_PAGES {
        let page = Page::new(Some(Page::MAX as i64), cursor.as_deref());
        let page = page.map_err(|invalid| Fault::invalid(invalid.to_string()))?;
        let objects = executor.graph().list_objects(caller.project, filter.clone(), page).await;
        let objects = objects.map_err(request_failure)?;
        values.extend(objects.items.iter().filter_map(&value).filter(|value| seen.insert(value.clone())));
        match objects.next {
            Some(next) if values.len() <= MAX_VALUES => cursor = Some(next.encode()),
            next => return Ok((values, next.is_some())),
        }
    }
    Ok((values, true))
}
