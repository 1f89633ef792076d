//! Relationships: edges between objects. What the tools take is here, what they do in `calls`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    define::{destructive_tool, read_tool, write_tool},
    schema, source,
};
use crate::Tool;

mod calls;

use calls::{create, delete, get, list, update};

const MAX_EDGES: usize = 200;

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    let fields = || {
        schema::fields_schema(
            "`type`, `fromId`, `toId`, `properties`, `weight`, `version`, `createdAt`, `updatedAt`, `author`, `reason`",
        )
    };
    let with_example = |mut input: Value, example: Value| {
        input["examples"] = json!([example]);
        input
    };
    let by_ends = json!({ "type": "depends_on", "fromId": "Task/login", "toId": "Task/users" });
    vec![
        write_tool(
            "relationships_create",
            "Joins entities that exist: one relationship with `type`, `fromId` and `toId`, or several in \
             `relationships`, all or nothing. Making one that is there already returns it as it is; with `merge: true` \
             it is completed by what you say of it. Give the chunk that says it as `source`. Returns `relationships` in \
             your order, each with `created`; with `merge`, also its `outcome` (created, updated, unchanged) and what \
             stayed as it was although you said otherwise (`kept`).",
            with_example(
                schema::object(
                    &[],
                    schema::merge_properties(
                        edge_schema(),
                        &[json!({ "relationships": {
                            "type": "array",
                            "description": "Several relationships at once, instead of one.",
                            "items": schema::object(&["type", "fromId", "toId"], edge_schema()),
                            "minItems": 1,
                            "maxItems": MAX_EDGES,
                        },
                        "merge": source::merge_schema(
                            "Completes what is there already: fills what is missing, unites lists, replaces nothing.",
                        )})],
                    ),
                ),
                by_ends.clone(),
            ),
            create,
        ),
        read_tool(
            "relationships_get",
            "Reads one relationship, named by its `id` or by `type`, `fromId` and `toId`. Returns `relationship`.",
            with_example(
                schema::object(&[], schema::merge_properties(relationship_ref_schema(), &[fields()])),
                by_ends.clone(),
            ),
            get,
        ),
        read_tool(
            "relationships_list",
            "Lists relationships, newest first, by type and by the entities at their ends. To see an entity's \
             neighbours with what they say, use graph_neighbors. Returns `relationships`, and `nextCursor` when there \
             are more.",
            schema::object(
                &[],
                schema::merge_properties(
                    json!({
                        "types": schema::type_names("Any of these relationship types."),
                        "fromId": schema::object_ref("Only those that start from this entity"),
                        "toId": schema::object_ref("Only those that lead to this entity"),
                    }),
                    &[schema::paging(20), fields()],
                ),
            ),
            list,
        ),
        write_tool(
            "relationships_update",
            "Changes the properties or the weight of a relationship, named by its `id` or by `type`, `fromId` and \
             `toId`. Its type and ends never change: delete it and make another. Returns the `relationship`.",
            with_example(
                schema::object(
                    &[],
                    schema::merge_properties(
                        relationship_ref_schema(),
                        &[json!({
                            "properties": schema::properties("Properties to set; those you do not name stay, null deletes one."),
                            "weight": { "type": ["number", "null"], "description": "Another weight; null takes it away." },
                            "expectedVersion": schema::expected_version(),
                        })],
                    ),
                ),
                json!({ "type": "depends_on", "fromId": "Task/login", "toId": "Task/users", "weight": 0.5 }),
            ),
            update,
        ),
        destructive_tool(
            "relationships_delete",
            "Deletes a relationship, named by its `id` or by `type`, `fromId` and `toId`. The entities at its ends \
             stay. Returns what was `deleted`.",
            with_example(
                schema::object(
                    &[],
                    schema::merge_properties(
                        relationship_ref_schema(),
                        &[json!({ "expectedVersion": schema::expected_version() })],
                    ),
                ),
                by_ends,
            ),
            delete,
        ),
    ]
}

fn edge_schema() -> Value {
    json!({
        "type": schema::type_name("The relationship's type, such as `depends_on`."),
        "fromId": schema::object_ref("The entity it starts from"),
        "toId": schema::object_ref("The entity it leads to"),
        "properties": schema::properties("What the relationship says."),
        "weight": { "type": "number", "description": "How strong it is." },
        "source": source::source_schema("The passage that says so; it is kept with the relationship."),
    })
}

fn relationship_ref_schema() -> Value {
    json!({
        "id": schema::uuid("The relationship's id"),
        "type": schema::type_name("Without `id`: its type."),
        "fromId": schema::object_ref("Without `id`: the entity it starts from"),
        "toId": schema::object_ref("Without `id`: the entity it leads to"),
    })
}
