//! Template packs: kept per project, several versions of each, some of them assigned.

use emergent_domain::{
    cursor::{Page, ResultPage},
    ids::{PackId, ProjectId},
    pack::{PackSet, TemplatePack, coordination_pack},
    time::Timestamp,
};
use emergent_store::{Tx, packs as rows, projects};

pub use emergent_store::packs::StoredPack;
use tracing::{info, warn};

use crate::{Error, Graph, error::Result};

impl Graph {
    /// Keeps a pack; it describes nothing until it is assigned.
    pub async fn create_pack(&self, project: ProjectId, pack: TemplatePack) -> Result<StoredPack> {
        pack.check()?;
        let now = self.clock().now();
        self.db().write(move |tx| create(tx, project, &pack, now)).await
    }

    /// The project's own and the built-in ones, newest first.
    pub async fn list_packs(&self, project: ProjectId, page: Page) -> Result<ResultPage<StoredPack>> {
        Ok(self.db().read(move |tx| rows::list(tx, project, &page)).await?)
    }

    pub async fn get_pack(&self, project: ProjectId, id: PackId) -> Result<StoredPack> {
        self.db().read(move |tx| get(tx, project, id)).await
    }

    /// Not while it is assigned, and never a built-in one.
    pub async fn delete_pack(&self, project: ProjectId, id: PackId) -> Result<()> {
        let now = self.clock().now();
        self.db().write(move |tx| delete(tx, project, id, now)).await
    }

    /// In place of another version of the same pack, if one is assigned. What is in the graph
    /// already is not looked at; it must fit when it is next written. One that is assigned for a
    /// product becomes the project's own choice, and stays when the product goes.
    pub async fn assign_pack(&self, project: ProjectId, id: PackId) -> Result<StoredPack> {
        let graph = self.clone();
        self.db().write(move |tx| assign(tx, project, id, graph.clock().now())).await
    }

    /// One that is not assigned stays as it is.
    pub async fn unassign_pack(&self, project: ProjectId, id: PackId) -> Result<StoredPack> {
        let graph = self.clone();
        self.db().write(move |tx| unassign(tx, project, id, graph.clock().now())).await
    }

    /// Makes the packs this program ships; what is there already stays. A project that uses an
    /// older version of one gets the new one in its place.
    pub async fn ensure_builtin_packs(&self) -> Result<()> {
        let (pack, now) = (coordination_pack(), self.clock().now());
        let ensure = move |tx: &mut Tx<'_>| {
            rows::insert(tx, None, pack, now)?;
            let id = rows::builtin_id(tx, &pack.name, &pack.version)?;
            Ok::<_, Error>((id, rows::users_of_builtin(tx, &pack.name)?))
        };
        let (id, users) = self.db().write(ensure).await?;
        let Some(id) = id else { return Ok(()) };
        for (project, has) in users.into_iter().filter(|(_, has)| is_older(has, &pack.version)) {
            match self.assign_pack(project, id).await {
                Ok(_) => {
                    info!(project = %project, "the pack `{}` went from {has} to {}", pack.name, pack.version)
                }
                // The project stays with what it has: better than a server that does not start.
                Err(error @ (Error::Invalid(_) | Error::NotFound { .. })) => {
                    warn!(project = %project, error = %error, "the pack `{}` stays at {has}", pack.name);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Of versions that this program gave out: three numbers. Another server may be newer than this one.
fn is_older(one: &str, other: &str) -> bool {
    let numbers =
        |version: &str| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u64>>();
    numbers(one) < numbers(other)
}

/// Keeps a pack that was checked, as [`Graph::create_pack`].
pub fn create(
    tx: &mut Tx<'_>,
    project: ProjectId,
    pack: &TemplatePack,
    now: Timestamp,
) -> Result<StoredPack> {
    let id = rows::insert(tx, Some(project), pack, now)?.ok_or_else(|| Error::Conflict {
        message: format!(
            "version {} of the pack `{}` is there already: a change is a new version",
            pack.version, pack.name
        ),
    })?;
    Ok(StoredPack {
        id,
        project: Some(project),
        pack: pack.clone(),
        created_at: now,
        assigned: false,
        product: None,
        assigned_by: None,
    })
}

/// As [`Graph::assign_pack`].
pub fn assign(tx: &mut Tx<'_>, project: ProjectId, id: PackId, now: Timestamp) -> Result<StoredPack> {
    assign_as(tx, project, id, None, now)
}

/// Assigns a pack for a product. One that is assigned already stays whose it was.
pub fn assign_for(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: PackId,
    product: &str,
    now: Timestamp,
) -> Result<StoredPack> {
    assign_as(tx, project, id, Some(product), now)
}

fn assign_as(
    tx: &mut Tx<'_>,
    project: ProjectId,
    id: PackId,
    product: Option<&str>,
    now: Timestamp,
) -> Result<StoredPack> {
    let mut of_project = lock_project(tx, project)?;
    let pack = get(tx, project, id)?;
    if pack.assigned {
        if product.is_some() || pack.assigned_by.is_none() {
            return Ok(pack);
        }
        rows::set_assigned_by(tx, project, id, None)?;
        return Ok(StoredPack { assigned_by: None, ..pack });
    }
    rows::assign(tx, project, &pack, product, now)?;
    // Packs that cannot be compiled together would block every write.
    PackSet::compile(&rows::list_assigned(tx, project)?)?;
    of_project.packs_revision += 1;
    of_project.updated_at = now;
    projects::update(tx, &of_project)?;
    Ok(StoredPack { assigned: true, assigned_by: product.map(str::to_owned), ..pack })
}

/// As [`Graph::unassign_pack`].
pub fn unassign(tx: &mut Tx<'_>, project: ProjectId, id: PackId, now: Timestamp) -> Result<StoredPack> {
    let mut of_project = lock_project(tx, project)?;
    let pack = get(tx, project, id)?;
    if !pack.assigned {
        return Ok(pack);
    }
    rows::unassign(tx, project, id)?;
    of_project.packs_revision += 1;
    of_project.updated_at = now;
    projects::update(tx, &of_project)?;
    Ok(StoredPack { assigned: false, assigned_by: None, ..pack })
}

/// As [`Graph::delete_pack`].
pub fn delete(tx: &mut Tx<'_>, project: ProjectId, id: PackId, now: Timestamp) -> Result<()> {
    lock_project(tx, project)?;
    let pack = get(tx, project, id)?;
    let refuse = |message: String| Err(Error::Conflict { message });
    if pack.project.is_none() {
        return refuse(format!("the pack `{}` is built in and stays", pack.pack.name));
    }
    if pack.assigned {
        return refuse(format!("the pack `{}` is assigned: unassign it first", pack.pack.name));
    }
    Ok(rows::delete(tx, id, now)?)
}

fn get(tx: &mut Tx<'_>, project: ProjectId, id: PackId) -> Result<StoredPack> {
    rows::get(tx, project, id)?.ok_or_else(|| Error::not_found("template pack", id))
}

/// Decisions about a project's packs wait for one another here.
fn lock_project(tx: &mut Tx<'_>, id: ProjectId) -> Result<emergent_domain::project::Project> {
    projects::lock(tx, id)?.ok_or_else(|| Error::not_found("project", id))
}
