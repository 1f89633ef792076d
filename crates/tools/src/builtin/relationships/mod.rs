//! The tools that create, read, change and delete relationships, the edges between objects. Their work is in
//! `calls`.

use std::sync::Arc;

use super::define::{destructive_tool, read_tool, write_tool};
use crate::Tool;

mod calls;

use calls::{create, delete, get, list, update};

pub(super) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        write_tool(
            "relationships_create",
            "Connects existing entities: give `type`, `fromId` and `toId` of one relationship, or several in `relationships`, all \
             or nothing. One that exists is returned unchanged, or completed with `merge: true`. Returns `relationships` in \
             your order with `created`; with `merge` also `outcome`, and `kept`: values that were not replaced.",
            create,
        ),
        read_tool(
            "relationships_get",
            "Reads one relationship, named by `id` or by `type`, `fromId` and `toId`, with the `sources` that back it.",
            get,
        ),
        read_tool(
            "relationships_list",
            "Lists relationships by type and ends, newest first; graph_neighbors also shows the entities. Returns \
             `relationships`.",
            list,
        ),
        write_tool(
            "relationships_update",
            "Changes properties or weight of a relationship, named by `id` or by `type`, `fromId` and `toId`, which cannot \
             change.",
            update,
        ),
        destructive_tool(
            "relationships_delete",
            "Deletes a relationship, named by `id` or by `type`, `fromId` and `toId`; its entities stay. If a text says that it \
             ended, give the chunk as `source`; it is still found at an earlier time.",
            delete,
        ),
    ]
}
