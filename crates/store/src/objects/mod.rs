//! Objects and their versions. `graph_objects` holds the newest version of each object, which may be a
//! tombstone. Earlier versions are in `graph_object_versions` and never change.

use std::{collections::HashMap, sync::LazyLock};

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{ObjectId, ProjectId},
    object::Object,
    query::ObjectFilter,
    time::Timestamp,
};

use crate::{
    author,
    engine::Engine,
    error::Result,
    filter, page, params,
    row::{TableRow, row},
    tx::Tx,
    value::{Param, Row},
};

mod as_of;
mod state_at;
mod write;

pub use as_of::{list_at, list_at_sql};
pub use state_at::{LAST_WITH_KEY_SQL, StateAt, state_at, state_by_key_at};
pub use write::{NewRow, insert_many, update};

row! {
    Object in "graph_objects" {
        id: "id",
        project: "project_id",
        type_: "type",
        key: "key",
        status: "status",
        labels: "labels",
        properties: "properties",
        version: "version",
        created_at: "created_at",
        updated_at: "updated_at",
        deleted_at: "deleted_at",
        author: author("author_token", "author_run", "author_tool_call"),
        reason: "reason",
    }
}

const COLUMNS: &str = Object::COLUMNS;

/// The columns of an object in `graph_object_versions`, where its id has another name.
pub(crate) static VERSION_COLUMNS: LazyLock<String> =
    LazyLock::new(|| COLUMNS.replacen("id", "object_id", 1));

/// The newest version of an object and its row number, locked for a change.
#[derive(Debug, Clone, PartialEq)]
pub struct LockedObject {
    pub no: i64,
    pub object: Object,
}

/// A live object.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Option<Object>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_objects WHERE id = $1 AND {}",
        page::on_row("project_id = $2 AND deleted_at IS NULL")
    );
    tx.query_opt(&sql, params![id, project], Object::from_row)
}

/// An object at one of its versions; `None` if there is no such version, or if it is the newest one and a tombstone. No
/// other version is read, because each may be large. One statement sees both tables at the same moment: with two, a
/// change in between could move the version to the history unseen.
pub fn get_version(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: ObjectId,
    version: i64,
) -> Result<Option<Object>> {
    let sql = format!(
        "SELECT {} FROM graph_object_versions WHERE object_id = $1 AND version = $3 AND {}
         UNION ALL
         SELECT {COLUMNS} FROM graph_objects WHERE id = $1 AND {}
         LIMIT 1",
        *VERSION_COLUMNS,
        page::on_row("project_id = $2"),
        page::on_row("project_id = $2 AND version = $3 AND deleted_at IS NULL")
    );
    tx.query_opt(&sql, params![id, project, version], Object::from_row)
}

/// The newest version of an object, even a tombstone, locked until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Option<LockedObject>> {
    if let Some(locked) = tx.locked_objects.remove(&id)
        && locked.object.project == project
    {
        return Ok(Some(locked));
    }
    let sql = format!(
        "SELECT no, {COLUMNS} FROM graph_objects WHERE id = $1 AND project_id = $2{}",
        tx.for_update()
    );
    tx.query_opt(&sql, params![id, project], locked_from_row)
}

/// Locks objects that this transaction is about to change with one statement, instead of one round trip for each.
/// [`lock`] then returns them as they are now. On SQLite there are neither locks nor round trips.
pub fn lock_many(tx: &mut Tx<'_>, project: ProjectId, ids: &[ObjectId]) -> Result<()> {
    if tx.engine() == Engine::Sqlite || ids.len() < 2 {
        return Ok(());
    }
    // All transactions lock in the order of the ids, also over several statements, so that they cannot deadlock.
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let sql = format!(
        "SELECT no, {COLUMNS} FROM graph_objects WHERE id = ANY(CAST($1 AS uuid[])) AND {} ORDER BY id FOR UPDATE",
        page::on_row("project_id = $2")
    );
    for ids in ids.chunks(page::MAX_CHUNK) {
        let locked = tx.query(&sql, &[Param::array(ids), Param::from(project)], locked_from_row)?;
        tx.locked_objects.extend(locked.into_iter().map(|locked| (locked.object.id, locked)));
    }
    Ok(())
}

/// The live object with this key, locked until the transaction ends.
pub fn lock_by_key(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    key: &str,
) -> Result<Option<LockedObject>> {
    let sql = format!("SELECT no, {COLUMNS} FROM graph_objects WHERE {}{}", has_key_sql(tx), tx.for_update());
    tx.query_opt(&sql, params![project, type_, key], locked_from_row)
}

/// The condition for the live object with the project `$1`, the type `$2` and the key `$3`. While the table is small, the
/// index of all objects of a type is as good to PostgreSQL as that of the keys. The order of the keys, of which there is
/// one, makes it take the latter; with `=` it would ignore the order.
fn has_key_sql(tx: &Tx<'_>) -> &'static str {
    match tx.engine() {
        Engine::Sqlite => "project_id = $1 AND type = $2 AND key = $3 AND deleted_at IS NULL",
        Engine::Postgres => {
            "project_id = $1 AND type = $2 AND key >= $3 AND key <= $3 AND deleted_at IS NULL ORDER BY key"
        }
    }
}

fn locked_from_row(row: &Row<'_>) -> Result<LockedObject> {
    Ok(LockedObject { no: row.get(0)?, object: Object::from_row_at(row, 1)? })
}

/// What an object, live or deleted, is called.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectKey {
    pub id: ObjectId,
    pub type_: String,
    pub key: Option<String>,
    pub created_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// The type and the key of each of these objects, also of deleted ones.
pub fn list_keys(tx: &mut Tx<'_>, project: ProjectId, ids: &[ObjectId]) -> Result<Vec<ObjectKey>> {
    let mut found = Vec::with_capacity(ids.len());
    for chunk in page::in_chunks(ids) {
        let sql = format!(
            "SELECT id, type, key, created_at, deleted_at FROM graph_objects WHERE id IN ({}) AND {}",
            page::placeholders(2, chunk.len()),
            page::on_row("project_id = $1")
        );
        let values: Vec<Param<'_>> =
            std::iter::once(Param::from(project)).chain(chunk.into_iter().map(Param::from)).collect();
        found.extend(tx.query(&sql, &values, |row| {
            Ok(ObjectKey {
                id: row.get(0)?,
                type_: row.get(1)?,
                key: row.get(2)?,
                created_at: row.get(3)?,
                deleted_at: row.get(4)?,
            })
        })?);
    }
    Ok(found)
}

/// What an object was called in an earlier version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EarlierName {
    pub object: ObjectId,
    pub type_: String,
    /// `None` if a version of this type had no key.
    pub key: Option<String>,
}

/// The name of a version as an index has it. A type has no slash, so that its end is known.
const VERSION_NAME: &str = "v.type || '/' || coalesce(v.key, '')";

/// The different names that each of these objects had in earlier versions, at most `limit` for each. Each name takes one
/// step in an index, however many versions there are.
pub fn list_earlier_names(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ids: &[ObjectId],
    limit: i64,
) -> Result<Vec<EarlierName>> {
    let mut found = Vec::new();
    for chunk in page::in_chunks(ids) {
        let sql = earlier_names_sql(chunk.len());
        let mut values = vec![Param::from(project), Param::from(limit)];
        values.extend(chunk.into_iter().map(Param::from));
        let rows: Vec<(ObjectId, String)> = tx.query(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        found.extend(rows.into_iter().filter_map(|(object, name)| {
            let (type_, key) = name.split_once('/')?;
            let key = (!key.is_empty()).then(|| key.to_owned());
            Some(EarlierName { object, type_: type_.to_owned(), key })
        }));
    }
    Ok(found)
}

/// The statement of [`list_earlier_names`] for this many objects: `$1` is the project, `$2` the limit, and the objects
/// follow. Both engines read only the first name after the last one in the index.
pub fn earlier_names_sql(count: usize) -> String {
    let first_name = |after: &str| {
        format!(
            "(SELECT {VERSION_NAME} FROM graph_object_versions AS v WHERE v.object_id = {after}
              ORDER BY {VERSION_NAME} LIMIT 1)"
        )
    };
    format!(
        "WITH RECURSIVE names (object_id, name, place) AS (
             SELECT o.id, {}, CAST(1 AS bigint) FROM graph_objects AS o WHERE o.id IN ({}) AND {}
             UNION ALL
             SELECT n.object_id, {}, n.place + 1 FROM names AS n WHERE n.name IS NOT NULL AND n.place < $2)
         SELECT object_id, name FROM names WHERE name IS NOT NULL",
        first_name("o.id"),
        page::placeholders(3, count),
        page::on_row("o.project_id = $1"),
        first_name(&format!("n.object_id AND {VERSION_NAME} > n.name")),
    )
}

/// The live objects of a type with these keys, each with its key.
pub fn list_by_keys(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    keys: &[&str],
) -> Result<Vec<(ObjectId, String)>> {
    let mut found = Vec::with_capacity(keys.len());
    for chunk in page::in_chunks(keys) {
        let sql = format!(
            "SELECT id, key FROM graph_objects
             WHERE project_id = $1 AND type = $2 AND key IN ({}) AND deleted_at IS NULL",
            page::placeholders(3, chunk.len())
        );
        let mut values = vec![Param::from(project), Param::from(type_)];
        values.extend(chunk.into_iter().map(Param::from));
        found.extend(tx.query(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    Ok(found)
}

/// The deleted objects of a type that had these keys last, each with its key.
pub fn list_deleted_by_keys(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    keys: &[&str],
) -> Result<Vec<(ObjectId, String)>> {
    let mut found = Vec::new();
    for chunk in page::in_chunks(keys) {
        let sql = format!(
            "SELECT id, key FROM (
                 SELECT id, key, ROW_NUMBER() OVER (PARTITION BY key ORDER BY deleted_at DESC, id DESC) AS place
                 FROM graph_objects
                 WHERE project_id = $1 AND type = $2 AND key IN ({}) AND deleted_at IS NOT NULL) AS placed
             WHERE place = 1",
            page::placeholders(3, chunk.len())
        );
        let mut values = vec![Param::from(project), Param::from(type_)];
        values.extend(chunk.into_iter().map(Param::from));
        found.extend(tx.query(&sql, &values, |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    Ok(found)
}

/// The id of the live object with this key; `None` when there is none.
pub fn id_by_key(tx: &mut Tx<'_>, project: ProjectId, type_: &str, key: &str) -> Result<Option<ObjectId>> {
    let sql = format!("SELECT id FROM graph_objects WHERE {}", has_key_sql(tx));
    tx.query_opt(&sql, params![project, type_, key], |row| row.get(0))
}

/// The object that had this key last: the live one, or the one deleted latest.
pub fn latest_id_by_key(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    key: &str,
) -> Result<Option<ObjectId>> {
    match id_by_key(tx, project, type_, key)? {
        Some(live) => Ok(Some(live)),
        None => deleted_id_by_key(tx, project, type_, key),
    }
}

/// The deleted object that had this key last; `None` if no deleted one had it.
pub fn deleted_id_by_key(
    tx: &mut Tx<'_>,
    project: ProjectId,
    type_: &str,
    key: &str,
) -> Result<Option<ObjectId>> {
    tx.query_opt(
        "SELECT id FROM graph_objects
         WHERE project_id = $1 AND type = $2 AND key = $3 AND deleted_at IS NOT NULL
         ORDER BY deleted_at DESC, id DESC LIMIT 1",
        params![project, type_, key],
        |row| row.get(0),
    )
}

/// Whether the object, live or deleted, has this type.
pub fn has_type(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId, type_: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM graph_objects WHERE project_id = $1 AND id = $2 AND type = $3";
    Ok(tx.query_opt(sql, params![project, id, type_], |_| Ok(()))?.is_some())
}

/// What a writer of an edge needs to know about an end of the edge.
#[derive(Debug, Clone, PartialEq)]
pub struct EndObject {
    pub type_: String,
    pub updated_at: Timestamp,
}

/// The live objects among these. They are locked, so that none is deleted before the transaction ends.
pub fn lock_live(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ids: &[ObjectId],
) -> Result<HashMap<ObjectId, EndObject>> {
    let lock = tx.for_share();
    select_live(tx, project, ids, lock)
}

/// The live objects among these, without a lock.
pub fn find_live(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ids: &[ObjectId],
) -> Result<HashMap<ObjectId, EndObject>> {
    select_live(tx, project, ids, "")
}

fn select_live(
    tx: &mut Tx<'_>,
    project: ProjectId,
    ids: &[ObjectId],
    lock: &str,
) -> Result<HashMap<ObjectId, EndObject>> {
    let mut ids = ids.to_vec();
    // All transactions lock in the order of the ids, so that they cannot deadlock.
    ids.sort_unstable();
    ids.dedup();
    let mut objects = HashMap::with_capacity(ids.len());
    for list in page::in_chunks(&ids) {
        let mut params = vec![Param::from(project)];
        // PostgreSQL gets the ids as one array, so that there is one statement to plan, however many there are.
        let is_listed = match tx.engine() {
            Engine::Sqlite => {
                params.extend(list.iter().map(|id| Param::from(*id)));
                format!("IN ({})", page::placeholders(2, list.len()))
            }
            Engine::Postgres => {
                params.push(Param::array(&list));
                "= ANY(CAST($2 AS uuid[]))".to_owned()
            }
        };
        let sql = format!(
            "SELECT id, type, updated_at FROM graph_objects WHERE id {is_listed} AND {} ORDER BY id{lock}",
            page::on_row("project_id = $1 AND deleted_at IS NULL"),
        );
        let rows = tx.query(&sql, &params, |row| {
            Ok((row.get(0)?, EndObject { type_: row.get(1)?, updated_at: row.get(2)? }))
        })?;
        objects.extend(rows);
    }
    Ok(objects)
}

/// Live objects that match a filter, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    project: ProjectId,
    object_filter: &ObjectFilter,
    page: &Page,
) -> Result<ResultPage<Object>> {
    list_with_state(tx, project, "o.deleted_at IS NULL", object_filter, page)
}

/// The tombstones of deleted objects that match a filter; those of the objects that were created last come first.
pub fn list_deleted(
    tx: &mut Tx<'_>,
    project: ProjectId,
    object_filter: &ObjectFilter,
    page: &Page,
) -> Result<ResultPage<Object>> {
    list_with_state(tx, project, "o.deleted_at IS NOT NULL", object_filter, page)
}

/// Each state has an index in the order of the list.
fn list_with_state(
    tx: &mut Tx<'_>,
    project: ProjectId,
    state: &str,
    object_filter: &ObjectFilter,
    page: &Page,
) -> Result<ResultPage<Object>> {
    let mut params = vec![Param::from(project)];
    let (after, values) = page::after_cursor_sql(page, "o.created_at", "o.id", params.len() + 1);
    params.extend(values);
    let (conditions, values) = filter::object_conditions(tx.engine(), object_filter, "o", params.len() + 1);
    params.extend(values);
    let sql = format!(
        "SELECT {} FROM graph_objects AS o WHERE o.project_id = $1 AND {state}{after}{conditions}
         ORDER BY o.created_at DESC, o.id DESC{}",
        Object::columns_of("o"),
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Object::from_row, |object| Cursor {
        created_at: object.created_at,
        id: object.id.0,
    })
}

/// Every version of an object, tombstones included, newest first. The cursor is the time of a version.
pub fn history(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId, page: &Page) -> Result<ResultPage<Object>> {
    let mut params = vec![Param::from(id), Param::from(project)];
    let mut after = String::new();
    if let Some(cursor) = page.after {
        after.push_str(" AND updated_at < $3");
        params.push(Param::from(cursor.created_at));
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM graph_objects WHERE id = $1 AND project_id = $2{after}
         UNION ALL
         SELECT {} FROM graph_object_versions WHERE object_id = $1 AND project_id = $2{after}
         ORDER BY version DESC{}",
        *VERSION_COLUMNS,
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Object::from_row, |object| Cursor {
        created_at: object.updated_at,
        id: object.id.0,
    })
}
