//! Projects. The rows of a deleted project stay, but no function here returns it except [`deleted_since`].

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::ProjectId,
    project::Project,
    time::Timestamp,
};

use crate::{
    engine::Engine,
    error::Result,
    page, params,
    row::{TableRow, read_row},
    tx::Tx,
    value::Param,
};

read_row! {
    Project in "projects" {
        id: "id",
        no: "no",
        name: "name",
        strict: "strict",
        packs_revision: "packs_revision",
        created_at: "created_at",
        updated_at: "updated_at",
    }
}

const COLUMNS: &str = Project::COLUMNS;

/// Inserts a project; `None` when a live project has the name.
pub fn insert(tx: &mut Tx<'_>, name: &str, strict: bool, now: Timestamp) -> Result<Option<Project>> {
    let no = match tx.engine() {
        Engine::Sqlite => "(SELECT coalesce(max(no), 0) + 1 FROM projects)",
        Engine::Postgres => "nextval('projects_no_seq')",
    };
    let sql = format!(
        "INSERT INTO projects (no, id, name, strict, packs_revision, created_at, updated_at)
         VALUES ({no}, $1, $2, $3, 0, $4, $4)
         ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING RETURNING {COLUMNS}"
    );
    tx.query_opt(&sql, params![ProjectId::new(), name, strict, now], Project::from_row)
}

pub fn get(tx: &mut Tx<'_>, id: ProjectId) -> Result<Option<Project>> {
    let sql = format!("SELECT {COLUMNS} FROM projects WHERE id = $1 AND deleted_at IS NULL");
    tx.query_opt(&sql, params![id], Project::from_row)
}

/// A live project, locked until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, id: ProjectId) -> Result<Option<Project>> {
    let sql =
        format!("SELECT {COLUMNS} FROM projects WHERE id = $1 AND deleted_at IS NULL{}", tx.for_update());
    tx.query_opt(&sql, params![id], Project::from_row)
}

pub fn get_by_name(tx: &mut Tx<'_>, name: &str) -> Result<Option<Project>> {
    let sql = format!("SELECT {COLUMNS} FROM projects WHERE name = $1 AND deleted_at IS NULL");
    tx.query_opt(&sql, params![name], Project::from_row)
}

/// Live projects, newest first.
pub fn list(tx: &mut Tx<'_>, page: &Page) -> Result<ResultPage<Project>> {
    let (after, params) = page::after_cursor_sql(page, "created_at", "id", 1);
    let sql = format!(
        "SELECT {COLUMNS} FROM projects WHERE deleted_at IS NULL{after} ORDER BY created_at DESC, id DESC{}",
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, Project::from_row, |project| Cursor {
        created_at: project.created_at,
        id: project.id.0,
    })
}

/// Writes the name, strictness and pack revision of a project that the caller has locked.
pub fn update(tx: &mut Tx<'_>, project: &Project) -> Result<()> {
    tx.execute(
        "UPDATE projects SET name = $2, strict = $3, packs_revision = $4, updated_at = $5 WHERE id = $1",
        params![project.id, &project.name, project.strict, project.packs_revision, project.updated_at],
    )?;
    Ok(())
}

/// The projects that were deleted at or after `since`.
pub fn deleted_since(tx: &mut Tx<'_>, since: Timestamp) -> Result<Vec<ProjectId>> {
    tx.query("SELECT id FROM projects WHERE deleted_at >= $1", params![since], |row| row.get(0))
}

/// Marks a project as deleted. Its rows stay.
pub fn delete(tx: &mut Tx<'_>, id: ProjectId, now: Timestamp) -> Result<()> {
    tx.execute(
        "UPDATE projects SET deleted_at = $2, updated_at = $2 WHERE id = $1 AND deleted_at IS NULL",
        &[Param::from(id), Param::from(now)],
    )?;
    Ok(())
}
