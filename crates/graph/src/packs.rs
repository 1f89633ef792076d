//! Template packs: a project stores several versions of each, and assigns some of them.

use std::collections::HashMap;

use emergent_domain::{
    approval::ObjectNames,
    cursor::{Page, ResultPage},
    ids::{PackId, ProjectId},
    invalid::Invalid,
    pack::{TemplatePack, coordination_pack, limits},
    time::Timestamp,
};
use emergent_store::{Tx, packs as rows, projects};

pub use emergent_store::packs::StoredPack;
use tracing::{info, warn};

use crate::{Error, Graph, WriteContext, error::Result, withheld::check_may_choose_packs};

impl Graph {
    /// Stores a pack. It has no effect until it is assigned.
    pub async fn create_pack(&self, project: ProjectId, pack: TemplatePack) -> Result<StoredPack> {
        let pack = self.check_pack(project, pack).await?;
        let now = self.clock().now();
        self.db().write(move |tx| create(tx, project, &pack, now)).await
    }

    /// Validates a pack on a thread for such work, because its schemas are compiled for it.
    async fn check_pack(&self, project: ProjectId, pack: TemplatePack) -> Result<TemplatePack> {
        let checked = move || pack.check().map(|()| pack);
        Ok(self.0.validation_pool.run(project, checked).await??)
    }

    /// Checks that a pack can be compiled, and fits into memory together with those that are assigned.
    /// A type whose schema cannot be compiled could not be written.
    async fn check_assignable(&self, project: ProjectId, id: PackId) -> Result<()> {
        let read = move |tx: &mut Tx<'_>| {
            let pack = get(tx, project, id)?;
            let mut others = rows::list_assigned(tx, project)?;
            others.retain(|assigned| assigned.name != pack.pack.name);
            Ok::<_, Error>((others, pack.pack))
        };
        let (others, pack) = self.db().snapshot(read).await?;
        let bytes = self.compiled_bytes(project, others, pack).await?;
        if bytes > limits::COMPILED {
            let reason = format!(
                "the packs of the project would take {bytes} bytes of memory, more than the maximum of {}: \
                 unassign others, or use fewer and shorter patterns",
                limits::COMPILED
            );
            return Err(Invalid::new("", reason).into());
        }
        Ok(())
    }

    /// Lists the packs of the project and the built-in packs, newest first.
    pub async fn list_packs(&self, project: ProjectId, page: Page) -> Result<ResultPage<StoredPack>> {
        Ok(self.db().read(move |tx| rows::list(tx, project, &page)).await?)
    }

    pub async fn get_pack(&self, project: ProjectId, id: PackId) -> Result<StoredPack> {
        self.db().read(move |tx| get(tx, project, id)).await
    }

    /// The names of the pack that a call names, by how it is written; empty if there is none.
    pub async fn pack_names(
        &self,
        project: ProjectId,
        named: String,
    ) -> Result<HashMap<String, Vec<ObjectNames>>> {
        let read = move |tx: &mut Tx<'_>| {
            let Some(StoredPack { id, pack, .. }) = find_named(tx, project, &named)? else {
                return Ok(HashMap::new());
            };
            let newest = find_by_name(tx, project, &pack.name)?;
            let is_newest = newest.is_some_and(|newest| newest.id == id);
            let names = ObjectNames::of_pack(id, &pack.name, &pack.version, is_newest);
            Ok::<_, Error>(HashMap::from([(named.clone(), vec![names])]))
        };
        self.db().snapshot(read).await
    }

    /// Deletes a pack. A pack that is assigned or built in cannot be deleted.
    pub async fn delete_pack(&self, project: ProjectId, id: PackId) -> Result<()> {
        let now = self.clock().now();
        self.db().write(move |tx| delete(tx, project, id, now)).await
    }

    /// Assigns a pack. It replaces an assigned version of the same pack. Existing objects are not
    /// validated; they must conform when they are next written. A pack that was assigned by a
    /// product becomes the project's own choice, and remains when the product is uninstalled.
    pub async fn assign_pack(&self, project: ProjectId, id: PackId) -> Result<StoredPack> {
        self.check_assignable(project, id).await?;
        let graph = self.clone();
        let assigned = self.db().write(move |tx| assign(tx, project, id, graph.clock().now())).await;
        self.0.validation.forget(project);
        self.warm_rules(project).await;
        assigned
    }

    /// Unassigns a pack. A pack that is not assigned remains unchanged.
    pub async fn unassign_pack(&self, project: ProjectId, id: PackId) -> Result<StoredPack> {
        let graph = self.clone();
        let unassigned = self.db().write(move |tx| unassign(tx, project, id, graph.clock().now())).await;
        self.0.validation.forget(project);
        self.warm_rules(project).await;
        unassigned
    }

    /// Creates the built-in packs that do not exist yet. A project that uses an older version of
    /// one of them is upgraded.
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
                    info!(project = %project, "upgraded the pack `{}` from {has} to {}", pack.name, pack.version)
                }
                // The project keeps its version, so that the server can still start.
                Err(error @ (Error::Invalid(_) | Error::NotFound { .. })) => {
                    warn!(project = %project, error = %error, "could not upgrade the pack `{}`; it stays at version {has}", pack.name);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Compares versions of built-in packs, which have three numbers. The stored version may be newer
/// than that of this server.
fn is_older(version: &str, than: &str) -> bool {
    let numbers =
        |version: &str| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u64>>();
    numbers(version) < numbers(than)
}

/// Finds a pack by its id, as `name@version`, or by its name for the newest version.
pub fn find_named(tx: &mut Tx<'_>, project: ProjectId, named: &str) -> Result<Option<StoredPack>> {
    match named.parse() {
        Ok(id) => Ok(rows::get(tx, project, id)?),
        Err(_) => find_by_name(tx, project, named),
    }
}

/// The newest pack with this name, or the one with this name and version.
fn find_by_name(tx: &mut Tx<'_>, project: ProjectId, name: &str) -> Result<Option<StoredPack>> {
    let has_name =
        |pack: &TemplatePack| pack.name == name || format!("{}@{}", pack.name, pack.version) == name;
    let mut page = Page::first(Page::MAX);
    loop {
        let packs = rows::list(tx, project, &page)?;
        if let Some(pack) = packs.items.into_iter().find(|stored| has_name(&stored.pack)) {
            return Ok(Some(pack));
        }
        match packs.next {
            None => return Ok(None),
            next => page.after = next,
        }
    }
}

/// Stores a validated pack, as in [`Graph::create_pack`].
pub fn create(
    tx: &mut Tx<'_>,
    project: ProjectId,
    pack: &TemplatePack,
    now: Timestamp,
) -> Result<StoredPack> {
    let id = rows::insert(tx, Some(project), pack, now)?.ok_or_else(|| Error::Conflict {
        message: format!(
            "version {} of the pack `{}` already exists: publish the change as a new version",
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

/// Assigns a pack that can be compiled, as in [`Graph::assign_pack`].
pub fn assign(tx: &mut Tx<'_>, project: ProjectId, id: PackId, now: Timestamp) -> Result<StoredPack> {
    assign_as(tx, project, id, None, now)
}

/// Assigns a pack as [`assign`] does, for an author who may write the graph: a client or a run, with a tool.
pub fn assign_by(tx: &mut Tx<'_>, ctx: &WriteContext, id: PackId) -> Result<StoredPack> {
    check_may_choose_packs(tx, ctx)?;
    assign(tx, ctx.project.id, id, ctx.now)
}

/// Assigns a pack on behalf of a product. If the pack is already assigned, its assignment remains
/// unchanged.
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
    of_project.packs_revision += 1;
    of_project.updated_at = now;
    projects::update(tx, &of_project)?;
    Ok(StoredPack { assigned: true, assigned_by: product.map(str::to_owned), ..pack })
}

/// Unassigns a pack, as in [`Graph::unassign_pack`].
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

/// Deletes a pack, as in [`Graph::delete_pack`].
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

/// Locks the project, so that concurrent changes of its packs are serialised.
fn lock_project(tx: &mut Tx<'_>, id: ProjectId) -> Result<emergent_domain::project::Project> {
    projects::lock(tx, id)?.ok_or_else(|| Error::not_found("project", id))
}
