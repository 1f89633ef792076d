//! `entities_query` lists objects by exact conditions, sorted, page by page.

use std::sync::Arc;

use emergent_domain::query::ObjectFilter;
use emergent_graph::Error;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    super::{
        define::read_tool,
        input::{ObjectFilterInput, Paging},
        view::{FieldSelection, page_json, page_json_at},
    },
    sort::{self, Order, SORT_PATTERN, Sort, SortPosition},
};
use crate::{Tool, ToolContext, ToolError};

pub(super) fn tool() -> Arc<dyn Tool> {
    read_tool(
        "entities_query",
        "Lists entities by exact conditions, such as all open tasks, in any order; by words or meaning use entities_search. \
         Returns `objects`.",
        query,
    )
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = json!({
    "type": "Task",
    "filters": [{ "path": "priority", "op": "eq", "value": "high" }],
    "fields": ["key", "title"],
}))]
struct QueryInput {
    /// Only this type.
    #[serde(rename = "type")]
    type_: Option<String>,
    #[serde(flatten)]
    filter: ObjectFilterInput,
    /// createdAt (default), updatedAt, key, status, type, or a property as `properties.priority`.
    #[serde(default)]
    #[schemars(with = "Option<String>", regex(pattern = SORT_PATTERN), length(max = 256))]
    sort: Sort,
    /// Sort order.
    #[serde(default)]
    order: Order,
    #[serde(flatten)]
    paging: Paging,
    #[serde(default)]
    fields: FieldSelection,
}

async fn query(context: ToolContext, input: QueryInput) -> Result<Value, ToolError> {
    let QueryInput { type_, filter, sort, order, paging, fields } = input;
    let mut filter = ObjectFilter::from(filter);
    filter.types.extend(type_);
    let (graph, project) = (&context.graph, context.project);
    if (&sort, order) == (&Sort::CreatedAt, Order::Desc) {
        let page = paging.page().map_err(Error::from)?;
        let page_of_objects = graph.list_objects(project, filter, page).await?;
        return Ok(page_json("objects", fields.objects_json(&page_of_objects.items), page_of_objects.next));
    }
    filter.check().map_err(Error::from)?;
    let Paging { limit, cursor } = paging;
    let after =
        cursor.map(|text| SortPosition::decode(&text, &sort, order)).transpose().map_err(Error::from)?;
    let sort_by = sort.clone();
    let read = move |tx: &mut emergent_store::Tx<'_>| {
        sort::sorted_page(tx, project, &filter, &sort_by, order, after, limit.get())
    };
    let (objects, next) = graph.db().snapshot(read).await?;
    Ok(page_json_at(
        "objects",
        fields.objects_json(&objects),
        next.map(|position| position.encode(&sort, order)),
    ))
}
