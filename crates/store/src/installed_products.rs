//! The products installed in a project, each with the manifest it was installed from.

use emergent_domain::{
    author::Author,
    ids::{ProductId, ProjectId},
    time::Timestamp,
};

use crate::{
    author,
    error::Result,
    params,
    row::{TableRow, row},
    tx::Tx,
    value::{Param, json},
};

/// The stored row of a product. The store does not interpret the JSON texts of the manifest, its source
/// and what was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledProduct {
    pub id: ProductId,
    pub project: ProjectId,
    pub name: String,
    pub version: String,
    pub manifest: String,
    pub source: String,
    /// What was accepted of the product, as JSON. `None` if it was installed before this was asked.
    pub accepted: Option<String>,
    /// Starts at 1 and is incremented with each change.
    pub revision: i64,
    pub installed_at: Timestamp,
    pub updated_at: Timestamp,
}

row! {
    InstalledProduct in "installed_products" {
        id: "id",
        project: "project_id",
        name: "name",
        version: "version",
        manifest: "manifest",
        source: "source",
        accepted: "accepted",
        revision: "revision",
        installed_at: "installed_at",
        updated_at: "updated_at",
    }
}

const COLUMNS: &str = InstalledProduct::COLUMNS;

/// The products of a project, in the order of their installation.
pub fn list_all(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<InstalledProduct>> {
    let sql =
        format!("SELECT {COLUMNS} FROM installed_products WHERE project_id = $1 ORDER BY installed_at, id");
    tx.query(&sql, params![project], InstalledProduct::from_row)
}

/// The product of this name.
pub fn get(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<Option<InstalledProduct>> {
    let sql = format!("SELECT {COLUMNS} FROM installed_products WHERE project_id = $1 AND name = $2");
    tx.query_opt(&sql, params![project, name], InstalledProduct::from_row)
}

/// Inserts a product. The caller has locked the project and checked that the product is not installed.
pub fn insert(tx: &mut Tx<'_>, product: &InstalledProduct, by: Author) -> Result<()> {
    let [token, ..] = author::params(by);
    tx.insert_row(product, [("author_token", token)], "")?;
    Ok(())
}

/// Writes the next revision of a product; false when the stored revision is not the previous one, because
/// another transaction wrote first.
pub fn update(tx: &mut Tx<'_>, next: &InstalledProduct, by: Author) -> Result<bool> {
    let [token, ..] = author::params(by);
    let columns = [
        ("version", Param::from(&next.version)),
        ("manifest", json(&next.manifest)),
        ("source", json(&next.source)),
        ("accepted", next.accepted.as_deref().map_or(Param::Null, json)),
        ("revision", Param::from(next.revision)),
        ("updated_at", Param::from(next.updated_at)),
        ("author_token", token),
    ];
    let previous = [Param::from(next.id), Param::from(next.revision - 1)];
    let changed =
        tx.update_columns(InstalledProduct::TABLE, columns, "id = $1 AND revision = $2", previous)?;
    Ok(changed == 1)
}

pub fn delete(tx: &mut Tx<'_>, project: ProjectId, id: ProductId) -> Result<()> {
    tx.execute("DELETE FROM installed_products WHERE project_id = $1 AND id = $2", params![project, id])?;
    Ok(())
}
