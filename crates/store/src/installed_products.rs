//! Which products a project has, with the manifest each was installed from.

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

/// What is on record. The manifest and its source are JSON text: what they mean is for others.
#[derive(Debug, Clone, PartialEq)]
pub struct InstalledProduct {
    pub id: ProductId,
    pub project: ProjectId,
    pub name: String,
    pub version: String,
    pub manifest: String,
    pub source: String,
    /// Counts changes, from 1.
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
        revision: "revision",
        installed_at: "installed_at",
        updated_at: "updated_at",
    }
}

const COLUMNS: &str = InstalledProduct::COLUMNS;

/// The products of a project, in the order they came.
pub fn list_all(tx: &mut Tx<'_>, project: ProjectId) -> Result<Vec<InstalledProduct>> {
    let sql =
        format!("SELECT {COLUMNS} FROM installed_products WHERE project_id = $1 ORDER BY installed_at, id");
    tx.query(&sql, params![project], InstalledProduct::from_row)
}

pub fn get(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<Option<InstalledProduct>> {
    let sql = format!("SELECT {COLUMNS} FROM installed_products WHERE project_id = $1 AND name = $2");
    tx.query_opt(&sql, params![project, name], InstalledProduct::from_row)
}

/// Adds a product as it stands. The caller holds the project and has seen that it is not there.
pub fn insert(tx: &mut Tx<'_>, product: &InstalledProduct, by: Author) -> Result<()> {
    let [token, ..] = author::params(by);
    tx.insert_row(product, [("author_token", token)], "")?;
    Ok(())
}

/// Writes the next revision of a product; false when someone wrote in between.
pub fn update(tx: &mut Tx<'_>, next: &InstalledProduct, by: Author) -> Result<bool> {
    let [token, ..] = author::params(by);
    let columns = [
        ("version", Param::from(&next.version)),
        ("manifest", json(&next.manifest)),
        ("source", json(&next.source)),
        ("revision", Param::from(next.revision)),
        ("updated_at", Param::from(next.updated_at)),
        ("author_token", token),
    ];
    let before = [Param::from(next.id), Param::from(next.revision - 1)];
    let changed = tx.update_columns(InstalledProduct::TABLE, columns, "id = $1 AND revision = $2", before)?;
    Ok(changed == 1)
}

pub fn delete(tx: &mut Tx<'_>, project: ProjectId, id: ProductId) -> Result<()> {
    tx.execute("DELETE FROM installed_products WHERE project_id = $1 AND id = $2", params![project, id])?;
    Ok(())
}
