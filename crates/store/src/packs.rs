//! Template packs and their assignment to projects. A pack belongs to one project or is built in.

use emergent_domain::{
    cursor::{Cursor, Page, ResultPage},
    ids::{PackId, ProjectId},
    pack::TemplatePack,
    time::Timestamp,
};

use crate::{
    error::Result,
    page, params,
    row::{TableRow, read_row, to_param},
    tx::Tx,
    value::Param,
};

/// A pack as one project sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPack {
    pub id: PackId,
    /// The project that the pack belongs to. `None` for a built-in pack, which every project sees and none
    /// can delete.
    pub project: Option<ProjectId>,
    pub pack: TemplatePack,
    pub created_at: Timestamp,
    /// Whether the pack is assigned to the project it was read for.
    pub assigned: bool,
    /// The product that installed the pack; `None` for built-in packs and those the project added itself.
    pub product: Option<String>,
    /// The product that assigned the pack; `None` when the project assigned it itself, or it is not assigned.
    pub assigned_by: Option<String>,
}

// In every statement with these columns, `$1` is the project that the packs are read for.
read_row! {
    StoredPack in "template_packs" {
        id: "k.id",
        project: "k.project_id",
        pack: "k.pack",
        created_at: "k.created_at",
        assigned: "EXISTS (SELECT 1 FROM project_template_packs AS a WHERE a.project_id = $1 AND a.pack_id = k.id)",
        product: "k.product",
        assigned_by: "(SELECT a.product FROM project_template_packs AS a WHERE a.project_id = $1 AND a.pack_id = k.id)",
    }
}

const COLUMNS: &str = StoredPack::COLUMNS;
/// The condition for packs that the project `$1` can see.
const VISIBLE: &str = "(k.project_id = $1 OR k.project_id IS NULL) AND k.deleted_at IS NULL";

/// Stores a pack of a project, or a built-in pack when `project` is `None`. Returns `None` when this
/// version of the pack is stored already.
pub fn insert(
    tx: &mut Tx<'_>,
    project: Option<ProjectId>,
    pack: &TemplatePack,
    now: Timestamp,
) -> Result<Option<PackId>> {
    // There are two partial indexes, because a unique index never treats two NULLs as equal.
    let conflict_target = match project {
        Some(_) => "(project_id, name, version) WHERE deleted_at IS NULL AND project_id IS NOT NULL",
        None => "(name, version) WHERE deleted_at IS NULL AND project_id IS NULL",
    };
    let id = PackId::new();
    let columns = [
        ("id", Param::from(id)),
        ("project_id", Param::from(project)),
        ("name", Param::from(&pack.name)),
        ("version", Param::from(&pack.version)),
        ("pack", to_param(pack, StoredPack::TABLE, "pack")?),
        ("created_at", Param::from(now)),
    ];
    let tail = format!("ON CONFLICT {conflict_target} DO NOTHING");
    let inserted = tx.insert_columns(StoredPack::TABLE, columns, &tail)?;
    Ok((inserted == 1).then_some(id))
}

/// A pack that the project can see; `None` when there is no such pack.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, id: PackId) -> Result<Option<StoredPack>> {
    let sql = format!("SELECT {COLUMNS} FROM template_packs AS k WHERE k.id = $2 AND {VISIBLE}");
    tx.query_opt(&sql, params![project, id], StoredPack::from_row)
}

/// The packs a project can see, newest first.
pub fn list(tx: &mut Tx<'_>, project: ProjectId, page: &Page) -> Result<ResultPage<StoredPack>> {
    let mut params = vec![Param::from(project)];
    let (after, values) = page::after_cursor_sql(page, "k.created_at", "k.id", 2);
    params.extend(values);
    let sql = format!(
        "SELECT {COLUMNS} FROM template_packs AS k WHERE {VISIBLE}{after}
         ORDER BY k.created_at DESC, k.id DESC{}",
        page::limit_sql(page)
    );
    page::query_page(tx, page.limit, &sql, &params, StoredPack::from_row, |pack| Cursor {
        created_at: pack.created_at,
        id: pack.id.0,
    })
}

/// Every pack a project can see, by name and age.
pub fn list_all(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<StoredPack>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM template_packs AS k WHERE {VISIBLE} ORDER BY k.name, k.created_at, k.id"
    );
    tx.query(&sql, params![project], StoredPack::from_row)
}

/// Sets the product that a pack belongs to.
pub fn set_product(tx: &mut Tx<'_>, project: ProjectId, id: PackId, product: Option<&str>) -> Result<()> {
    tx.execute(
        "UPDATE template_packs SET product = $3 WHERE id = $2 AND project_id = $1",
        params![project, id, product],
    )?;
    Ok(())
}

/// The packs that are assigned to a project, by name.
pub fn list_assigned(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<TemplatePack>> {
    tx.query(
        "SELECT k.pack FROM project_template_packs AS a JOIN template_packs AS k ON k.id = a.pack_id
         WHERE a.project_id = $1 AND k.deleted_at IS NULL ORDER BY k.name, k.id",
        params![project],
        |row| row.read(0, StoredPack::TABLE, "pack"),
    )
}

/// The live projects that a built-in pack is assigned to, each with the assigned version.
pub fn users_of_builtin(tx: &mut Tx<'_>, name: &str) -> Result<Vec<(ProjectId, String)>> {
    tx.query(
        "SELECT a.project_id, k.version FROM template_packs AS k
         JOIN project_template_packs AS a ON a.pack_id = k.id JOIN projects AS p ON p.id = a.project_id
         WHERE k.name = $1 AND k.project_id IS NULL AND k.deleted_at IS NULL AND p.deleted_at IS NULL",
        params![name],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// The id of a version of a built-in pack; `None` when it is not stored.
pub fn builtin_id(tx: &mut Tx<'_>, name: &str, version: &str) -> Result<Option<PackId>> {
    tx.query_opt(
        "SELECT id FROM template_packs
         WHERE name = $1 AND version = $2 AND project_id IS NULL AND deleted_at IS NULL",
        params![name, version],
        |row| row.get(0),
    )
}

/// Assigns a pack to a project and unassigns its other versions. `product` is the product that assigns it;
/// `None` when the project does.
pub fn assign(
    tx: &mut Tx<'_>,
    project: ProjectId,
    pack: &StoredPack,
    product: Option<&str>,
    now: Timestamp,
) -> Result<()> {
    tx.execute(
        "DELETE FROM project_template_packs WHERE project_id = $1
         AND pack_id IN (SELECT id FROM template_packs WHERE name = $2 AND id <> $3)",
        params![project, &pack.pack.name, pack.id],
    )?;
    tx.execute(
        "INSERT INTO project_template_packs (project_id, pack_id, assigned_at, product) VALUES ($1, $2, $3, $4)
         ON CONFLICT (project_id, pack_id) DO NOTHING",
        params![project, pack.id, now, product],
    )?;
    Ok(())
}

/// Sets the product that assigned a pack; `None` is the project itself.
pub fn set_assigned_by(
    tx: &mut Tx<'_>,
    project: ProjectId,
    pack: PackId,
    product: Option<&str>,
) -> Result<()> {
    tx.execute(
        "UPDATE project_template_packs SET product = $3 WHERE project_id = $1 AND pack_id = $2",
        params![project, pack, product],
    )?;
    Ok(())
}

pub fn unassign(tx: &mut Tx<'_>, project: ProjectId, pack: PackId) -> Result<()> {
    tx.execute(
        "DELETE FROM project_template_packs WHERE project_id = $1 AND pack_id = $2",
        params![project, pack],
    )?;
    Ok(())
}

/// Marks a pack as deleted. The row stays.
pub fn delete(tx: &mut Tx<'_>, id: PackId, now: Timestamp) -> Result<()> {
    tx.execute("UPDATE template_packs SET deleted_at = $2 WHERE id = $1", params![id, now])?;
    Ok(())
}
