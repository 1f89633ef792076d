//! `entities_query`: objects by what they are, in an order, page by page.

use std::sync::Arc;

use emergent_domain::{cursor::Page, filter::Filter, query::ObjectFilter};
use emergent_graph::Error;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::{
        define::read_tool,
        schema,
        view::{FieldSelection, page_json, page_json_at},
    },
    sort::{self, Order, Sort, SortPosition},
};
use crate::{Tool, ToolContext, ToolError};

const DESCRIPTION: &str = "Lists entities by type, labels, status and property filters, in an order of your choice, page \
by page. Use it for exact conditions (all open tasks, everything of a type); to find by words or meaning use \
entities_search. Returns `objects`, and `nextCursor` when there are more.";

pub(super) fn tool() -> Arc<dyn Tool> {
    let sorting = json!({
        "type": schema::type_name("Only this object type."),
        "sort": {
            "type": "string",
            "description": "What to sort by: `createdAt` (when absent), `updatedAt`, `key`, `status`, `type`, or a \
                            property as `properties.priority`. What lacks it comes last.",
            "pattern": "^(createdAt|updatedAt|key|status|type|properties(\\.[A-Za-z0-9_-]+)+)$",
            "maxLength": 256,
            "examples": ["updatedAt"],
        },
        "order": {
            "type": "string",
            "description": "`desc` (newest or largest first; when absent) or `asc`.",
            "enum": ["desc", "asc"],
        },
    });
    let mut input = schema::object(
        &[],
        schema::merge_properties(
            sorting,
            &[schema::object_filter(), schema::paging(20), schema::object_fields()],
        ),
    );
    input["examples"] = json!([{
        "type": "Task",
        "filters": [{ "path": "priority", "op": "eq", "value": "high" }],
        "fields": ["key", "title"],
    }]);
    read_tool("entities_query", DESCRIPTION, input, query)
}

#[derive(Deserialize)]
struct QueryInput {
    #[serde(rename = "type")]
    type_: Option<String>,
    #[serde(default)]
    types: Vec<String>,
    #[serde(default)]
    labels: Vec<String>,
    status: Option<String>,
    #[serde(default)]
    filters: Vec<Filter>,
    #[serde(default)]
    sort: Sort,
    #[serde(default)]
    order: Order,
    limit: Option<i64>,
    cursor: Option<String>,
    #[serde(default)]
    fields: FieldSelection,
}

async fn query(context: ToolContext, input: QueryInput) -> Result<Value, ToolError> {
    let QueryInput { type_, mut types, labels, status, filters, sort, order, limit, cursor, fields } = input;
    types.extend(type_);
    let wanted = ObjectFilter { types, labels, status, key: None, filters };
    let (graph, project) = (&context.graph, context.project);
    if (&sort, order) == (&Sort::CreatedAt, Order::Desc) {
        let wanted_page = Page::new(Some(limit.unwrap_or(20)), cursor.as_deref()).map_err(Error::from)?;
        let found = graph.list_objects(project, wanted, wanted_page).await?;
        return Ok(page_json("objects", fields.objects_json(&found.items), found.next));
    }
    wanted.check().map_err(Error::from)?;
    let limit = Page::new(Some(limit.unwrap_or(20)), None).map_err(Error::from)?.limit;
    let after =
        cursor.map(|text| SortPosition::decode(&text, &sort, order)).transpose().map_err(Error::from)?;
    let by = sort.clone();
    let read = move |tx: &mut emergent_store::Tx<'_>| {
        sort::sorted_page(tx, project, &wanted, &by, order, after, limit)
    };
    let (objects, next) = graph.db().snapshot(read).await?;
    Ok(page_json_at("objects", fields.objects_json(&objects), next.map(|place| place.encode(&sort, order))))
}
