//! Lists objects as they were at an earlier time.
//!
//! Each object has one row in the present: it is live, or a tombstone. The list reads both in the order of its
//! pages, each with an index, and stops when the page is full. An object that was not changed since then is taken as
//! it is. For every other one, the history says whether it was live then, and whether it matches the filter.

use std::cmp::Reverse;

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ObjectId, ProjectId},
    object::Object,
    query::ObjectFilter,
    time::Timestamp,
};

use crate::{
    engine::Engine,
    error::Result,
    filter, page,
    traversal::{ByteRoom, Traversal},
    tx::Tx,
    value::Param,
};

/// Objects that were live at a time and matched a filter then, as they were, newest first. It needs a snapshot,
/// because a concurrent update moves a version to the history.
pub fn list_at(
    tx: &mut Tx<'_>,
    project: ProjectId,
    object_filter: &ObjectFilter,
    as_of: Timestamp,
    page: &Page,
) -> Result<ResultPage<Object>> {
    let (sql, params) = list_at_sql(tx.engine(), project, object_filter, as_of, page);
    let keys =
        tx.query(&sql, &params, |row| Ok(Cursor { created_at: row.get(0)?, id: row.get::<ObjectId>(1)?.0 }))?;
    let ResultPage { items: keys, next } = ResultPage::from_rows(keys, page.limit, |key| *key);
    let ids: Vec<ObjectId> = keys.iter().map(|key| ObjectId(key.id)).collect();
    let mut room = ByteRoom::new(page::MAX_PAGE_BYTES);
    let traversal = Traversal { project, relationship_types: &[], as_of: Some(as_of) };
    let mut objects = traversal.objects(tx, &ids, &[], &mut room)?;
    objects.sort_unstable_by_key(|object| Reverse((object.created_at, object.id)));
    if !room.is_full() {
        return Ok(ResultPage { items: objects, next });
    }
    let next = objects.last().map(|object| Cursor { created_at: object.created_at, id: object.id.0 });
    Ok(ResultPage { items: objects, next })
}

/// The statement that selects the creation times and ids of a page, and its parameters.
pub fn list_at_sql(
    engine: Engine,
    project: ProjectId,
    object_filter: &ObjectFilter,
    as_of: Timestamp,
    page: &Page,
) -> (String, Vec<Param<'static>>) {
    let mut params = vec![Param::from(project), Param::from(as_of)];
    let (after, values) = page::after_cursor_sql(page, "o.created_at", "o.id", params.len() + 1);
    params.extend(values);
    let (matches_now, values) = filter::object_conditions(engine, object_filter, "o", params.len() + 1);
    params.extend(values);
    let (matched_then, values) = filter::object_conditions(engine, object_filter, "v", params.len() + 1);
    params.extend(values);
    let limit = page::limit_sql(page);
    let created = format!("o.project_id = $1 AND o.created_at <= $2{after}");
    let was_live = format!(
        "o.updated_at > $2 AND EXISTS (SELECT 1 FROM graph_object_versions AS v WHERE v.object_id = o.id
             AND v.deleted_at IS NULL AND v.updated_at <= $2 AND v.valid_to > $2{matched_then})"
    );
    let sql = format!(
        "SELECT created_at, id FROM (
             SELECT o.created_at, o.id FROM graph_objects AS o WHERE {created} AND o.deleted_at IS NULL
                 AND ((o.updated_at <= $2{matches_now}) OR ({was_live}))
             ORDER BY o.created_at DESC, o.id DESC{limit}) AS live
         UNION ALL
         SELECT created_at, id FROM (
             SELECT o.created_at, o.id FROM graph_objects AS o WHERE {created} AND o.deleted_at IS NOT NULL
                 AND {was_live}
             ORDER BY o.created_at DESC, o.id DESC{limit}) AS deleted
         ORDER BY created_at DESC, id DESC{limit}"
    );
    (sql, params)
}
