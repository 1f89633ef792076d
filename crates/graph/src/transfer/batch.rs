//! Writes a batch of lines, or a part of it, in one transaction: first the objects, then the edges between them.
//!
//! An existing object is found by its type and key, or by its id if it has no key. An existing edge
//! is found by its type and ends. Importing a file partially, twice, or with small changes
//! therefore has the same result as importing it once.

mod edges;

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object::{Object, ObjectPatch},
};
use emergent_store::{
    Tx,
    transfer::{self as bulk, IdUse},
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use edges::{EdgeEnds, write_edges};

use super::{
    line::{EdgeLine, Line, LineError, ObjectLine},
    split::RawLine,
};
use crate::{
    Error, Graph, WriteContext, objects,
    validation::{MayBePending, PendingValidation},
    withheld::may_read,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    pub created: u64,
    pub updated: u64,
    pub unchanged: u64,
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.created + self.updated + self.unchanged
    }

    pub(crate) fn add(&mut self, more: Counts) {
        self.created += more.created;
        self.updated += more.updated;
        self.unchanged += more.unchanged;
    }
}

/// The result of a batch. Lines with errors have no effect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchOutcome {
    pub objects: Counts,
    pub relationships: Counts,
    /// The errors in the order of the lines.
    pub errors: Vec<LineError>,
    /// Ids of the file that refer to an object with another id in this project, and that cannot be
    /// derived.
    pub(crate) renamed: Vec<(ObjectId, ObjectId)>,
}

impl BatchOutcome {
    /// Adds the outcome of another part of the batch.
    pub(crate) fn add(&mut self, part: BatchOutcome) {
        self.objects.add(part.objects);
        self.relationships.add(part.relationships);
        self.errors.extend(part.errors);
        self.renamed.extend(part.renamed);
    }
}

/// Ids of earlier batches that refer to an object with another id in this project.
pub(crate) type IdMap = HashMap<ObjectId, ObjectId>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// A batch with an invalid line is not written, and neither are later batches.
    #[default]
    Stop,
    /// Invalid lines are reported and skipped.
    Skip,
}

pub(crate) enum BatchError {
    /// There are errors, so the rest was not written. The counts are those of earlier parts.
    Stopped(Box<BatchOutcome>),
    Failed(Error),
}

impl From<Error> for BatchError {
    fn from(error: Error) -> Self {
        BatchError::Failed(error)
    }
}

impl MayBePending for BatchError {
    fn into_pending(self) -> Result<Box<PendingValidation>, Self> {
        match self {
            BatchError::Failed(Error::NotValidated(pending)) => Ok(pending),
            other => Err(other),
        }
    }
}

impl From<emergent_store::Error> for BatchError {
    fn from(error: emergent_store::Error) -> Self {
        BatchError::Failed(error.into())
    }
}

/// Lines that were parsed and validated, as far as that is possible without a database.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    objects: Vec<(u64, ObjectLine)>,
    edges: Vec<(u64, EdgeLine)>,
    refused: Vec<LineError>,
}

/// The lines of a batch that one transaction writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BatchPart {
    objects: Range<usize>,
    edges: Range<usize>,
    /// Whether the lines that could not be parsed are reported with this part.
    reports_refused: bool,
}

impl BatchPart {
    /// The same lines in two parts; `None` if there is only one. All objects come before the edges, which may refer
    /// to them.
    pub(crate) fn halves(&self) -> Option<(Self, Self)> {
        let (objects, edges) = (self.objects.clone(), self.edges.clone());
        let middle = |range: &Range<usize>| range.start + range.len() / 2;
        let (first, second) = match (objects.len(), edges.len()) {
            (0, 0 | 1) | (1, 0) => return None,
            (0, _) => {
                let middle = middle(&edges);
                ((objects.clone(), edges.start..middle), (objects, middle..edges.end))
            }
            (_, 0) => {
                let middle = middle(&objects);
                ((objects.start..middle, edges.clone()), (middle..objects.end, edges))
            }
            _ => ((objects, 0..0), (0..0, edges)),
        };
        let part = |(objects, edges), reports_refused| Self { objects, edges, reports_refused };
        Some((part(first, self.reports_refused), part(second, false)))
    }
}

impl Batch {
    /// All lines of the batch.
    pub(crate) fn whole(&self) -> BatchPart {
        BatchPart { objects: 0..self.objects.len(), edges: 0..self.edges.len(), reports_refused: true }
    }

    /// Parsing many lines takes a while, so this must not run on an async thread.
    pub(crate) fn parse(lines: &[RawLine]) -> Self {
        let mut batch = Self::default();
        for line in lines {
            match line.parse() {
                Ok(Some(Line::Object(object))) => batch.objects.push((line.number, object)),
                Ok(Some(Line::Edge(edge))) => batch.edges.push((line.number, edge)),
                Ok(None) => {}
                Err(error) => batch.refused.push(error),
            }
        }
        batch
    }

    /// Validates the new objects against the packs of the project.
    pub(crate) async fn validated(self, graph: &Graph, project: ProjectId) -> Result<Self, Error> {
        let objects = graph.validate_items(project, self.objects, |(_, line)| &mut line.draft).await?;
        Ok(Self { objects, ..self })
    }

    pub(crate) fn write(
        &self,
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        part: &BatchPart,
        renamed: &IdMap,
        on_error: OnError,
    ) -> Result<BatchOutcome, BatchError> {
        let (objects, edges) = (&self.objects[part.objects.clone()], &self.edges[part.edges.clone()]);
        let refused = if part.reports_refused { self.refused.clone() } else { Vec::new() };
        let mut outcome = BatchOutcome { errors: refused, ..BatchOutcome::default() };
        // Also if lines were refused and the transaction will be rolled back, so that every wrong line is named at once.
        ObjectBatch::new(tx, ctx, objects)?.write(tx, &mut outcome)?;
        let ends = EdgeEnds::lock(tx, ctx, edges, renamed, &outcome.renamed)?;
        write_edges(tx, ctx, edges, &ends, &mut outcome)?;
        outcome.errors.sort_by_key(|error| error.line);
        if on_error == OnError::Stop && !outcome.errors.is_empty() {
            let errors = outcome.errors;
            return Err(BatchError::Stopped(Box::new(BatchOutcome { errors, ..BatchOutcome::default() })));
        }
        Ok(outcome)
    }
}

/// Returns the id of an object in a project where the id of the file is already in use. It is the
/// same each time, so that the edges of the file, and a repeated import, find the object.
fn derived_id(project: ProjectId, original: ObjectId) -> ObjectId {
    let hash = Sha256::new().chain_update(project.0).chain_update(original.0).finalize();
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&original.0.as_bytes()[..6]);
    bytes[6..].copy_from_slice(&hash[..10]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    ObjectId(Uuid::from_bytes(bytes))
}

/// What to write for a line with an object.
enum ObjectAction<'a> {
    Create(&'a ObjectLine, Option<ObjectId>),
    Change(&'a ObjectLine, ObjectId),
    Restore(&'a ObjectLine, ObjectId),
}

struct ObjectBatch<'a> {
    ctx: &'a WriteContext,
    actions: Vec<(u64, ObjectAction<'a>)>,
    /// The objects as they were before the batch.
    current: HashMap<ObjectId, Object>,
    renamed: Vec<(ObjectId, ObjectId)>,
}

impl<'a> ObjectBatch<'a> {
    /// Looks up the existing objects and decides what to do with each line.
    fn new(
        tx: &mut Tx<'_>,
        ctx: &'a WriteContext,
        lines: &'a [(u64, ObjectLine)],
    ) -> Result<Self, BatchError> {
        let project = ctx.project.id;
        let mut by_key: HashMap<(&str, &str), ObjectId> = HashMap::new();
        let mut current = HashMap::new();
        let keyed = || lines.iter().filter_map(|(_, line)| Some((line.draft.type_(), line.draft.key()?)));
        for (type_, keys) in group_by_type(keyed()) {
            for object in bulk::objects_by_key(tx, project, type_, &keys)? {
                current.insert(object.id, object);
            }
        }
        let ids_by_key: HashMap<(&str, &str), ObjectId> = current
            .values()
            .filter_map(|object: &Object| Some(((object.type_.as_str(), object.key.as_deref()?), object.id)))
            .collect();
        for type_and_key in keyed() {
            if let Some(id) = ids_by_key.get(&type_and_key) {
                by_key.insert(type_and_key, *id);
            }
        }
        drop(ids_by_key);

        let existing = |line: &ObjectLine| {
            line.draft.key().and_then(|key| by_key.get(&(line.draft.type_(), key))).copied()
        };
        let file_ids: Vec<ObjectId> = lines
            .iter()
            .filter(|(_, line)| existing(line).is_none())
            .filter_map(|(_, line)| line.id)
            .collect();
        let mut ids = IdAllocator::load(tx, project, &file_ids)?;
        let mut renamed = Vec::new();
        let actions: Vec<(u64, ObjectAction<'a>)> = lines
            .iter()
            .map(|(number, line)| {
                let action = match (existing(line), line.id) {
                    (Some(existing), file_id) => {
                        renamed.extend(file_id.filter(|id| *id != existing).map(|id| (id, existing)));
                        ObjectAction::Change(line, existing)
                    }
                    (None, None) => ObjectAction::Create(line, None),
                    (None, Some(file_id)) if line.draft.key().is_some() => {
                        ObjectAction::Create(line, ids.allocate(file_id))
                    }
                    (None, Some(file_id)) => ids.action_by_id(line, file_id),
                };
                (*number, action)
            })
            .collect();

        let unseen: Vec<ObjectId> = actions
            .iter()
            .filter_map(|(_, action)| match action {
                ObjectAction::Change(_, id) if !current.contains_key(id) => Some(*id),
                _ => None,
            })
            .collect();
        current
            .extend(bulk::objects_by_id(tx, project, &unseen)?.into_iter().map(|object| (object.id, object)));
        Ok(Self { ctx, actions, current, renamed })
    }

    fn write(mut self, tx: &mut Tx<'_>, outcome: &mut BatchOutcome) -> Result<(), BatchError> {
        let mut new = Vec::new();
        let mut drafts = Vec::new();
        let mut changes: Vec<(u64, ObjectId, &ObjectPatch)> = Vec::new();
        let mut restores = Vec::new();
        for (number, action) in &self.actions {
            match action {
                ObjectAction::Create(line, id) => {
                    new.push((*number, *line));
                    let draft = line.draft.clone();
                    drafts.push(match id {
                        Some(id) => draft.with_id(*id),
                        None => draft,
                    });
                }
                ObjectAction::Change(line, id) => changes.push((*number, *id, &line.patch)),
                ObjectAction::Restore(line, id) => restores.push((*number, *id, &line.patch)),
            }
        }
        for ((number, line), result) in new.into_iter().zip(objects::create_each(tx, self.ctx, &drafts)?) {
            let stored_id = match result {
                Ok(object) => {
                    outcome.objects.created += 1;
                    let id = object.id;
                    self.current.insert(id, object);
                    id
                }
                // An earlier line of this batch created it, or a concurrent writer.
                Err(Error::KeyTaken { id, .. }) => {
                    changes.push((number, id, &line.patch));
                    id
                }
                Err(error) => {
                    outcome.errors.push(line_error(number, error)?);
                    continue;
                }
            };
            if let Some(file_id) =
                line.id.filter(|id| *id != stored_id && derived_id(self.ctx.project.id, *id) != stored_id)
            {
                self.renamed.push((file_id, stored_id));
            }
        }
        for (number, id, patch) in restores {
            let allowed = objects::check_restored(tx, self.ctx, id, patch);
            match allowed.and_then(|()| objects::restore(tx, self.ctx, id)) {
                Ok(_) => changes.push((number, id, patch)),
                Err(error) => outcome.errors.push(line_error(number, error)?),
            }
        }
        changes.sort_by_key(|(number, _, _)| *number);
        self.change(tx, &changes, outcome)?;
        outcome.renamed = self.renamed;
        Ok(())
    }

    fn change(
        &mut self,
        tx: &mut Tx<'_>,
        changes: &[(u64, ObjectId, &ObjectPatch)],
        outcome: &mut BatchOutcome,
    ) -> Result<(), BatchError> {
        // Whoever may not read gets the answer that a change would get, which only the update finds out.
        let may_read = may_read(tx, self.ctx)?;
        for (number, id, patch) in changes {
            let before = self.current.get(id);
            if may_read && before.is_some_and(|before| patch.apply(before).is_none()) {
                outcome.objects.unchanged += 1;
                continue;
            }
            let version = before.map(|before| before.version);
            match objects::update(tx, self.ctx, *id, patch) {
                Ok(after) => {
                    let changed = version != Some(after.version);
                    *(if changed { &mut outcome.objects.updated } else { &mut outcome.objects.unchanged }) +=
                        1;
                    self.current.insert(*id, after);
                }
                Err(error) => outcome.errors.push(line_error(*number, error)?),
            }
        }
        Ok(())
    }
}

/// Decides which ids of a file can be used.
struct IdAllocator {
    project: ProjectId,
    in_use: HashMap<ObjectId, IdUse>,
    /// The ids that earlier lines of this batch use.
    used: HashSet<ObjectId>,
}

impl IdAllocator {
    fn load(tx: &mut Tx<'_>, project: ProjectId, file_ids: &[ObjectId]) -> Result<Self, BatchError> {
        let mut in_use = bulk::ids_in_use(tx, file_ids)?;
        let own: Vec<ObjectId> = file_ids
            .iter()
            .filter(|id| in_use.contains_key(id) || !is_uuid_v7(**id))
            .map(|id| derived_id(project, *id))
            .collect();
        in_use.extend(bulk::ids_in_use(tx, &own)?);
        Ok(Self { project, in_use, used: HashSet::new() })
    }

    fn is_free(&self, id: ObjectId) -> bool {
        is_uuid_v7(id) && !self.in_use.contains_key(&id) && !self.used.contains(&id)
    }

    /// Returns an id for a new object: that of the file if it is free.
    fn allocate(&mut self, file_id: ObjectId) -> Option<ObjectId> {
        let id = [file_id, derived_id(self.project, file_id)].into_iter().find(|id| self.is_free(*id))?;
        self.used.insert(id);
        Some(id)
    }

    /// Returns the action for an object that only its id identifies.
    fn action_by_id<'a>(&mut self, line: &'a ObjectLine, file_id: ObjectId) -> ObjectAction<'a> {
        for id in [file_id, derived_id(self.project, file_id)] {
            match self.in_use.get(&id) {
                Some(entry) if entry.project == self.project && entry.live => {
                    return ObjectAction::Change(line, id);
                }
                Some(entry) if entry.project == self.project => return ObjectAction::Restore(line, id),
                None if self.used.contains(&id) => return ObjectAction::Change(line, id),
                None if is_uuid_v7(id) => {
                    self.used.insert(id);
                    return ObjectAction::Create(line, Some(id));
                }
                _ => {}
            }
        }
        ObjectAction::Create(line, None)
    }
}

/// Ids must be UUIDv7, because others would sort incorrectly.
fn is_uuid_v7(id: ObjectId) -> bool {
    id.0.get_version_num() == 7
}

fn group_by_type<'a>(keys: impl Iterator<Item = (&'a str, &'a str)>) -> HashMap<&'a str, Vec<&'a str>> {
    let mut seen = HashSet::new();
    let mut types: HashMap<&str, Vec<&str>> = HashMap::new();
    for (type_, key) in keys.filter(|key| seen.insert(*key)) {
        types.entry(type_).or_default().push(key);
    }
    types
}

/// Converts an error to that of a line. An error that concerns more than the line is returned as it
/// is.
fn line_error(number: u64, error: Error) -> Result<LineError, Error> {
    match error {
        Error::Invalid(invalid) => Ok(LineError::invalid(number, &invalid)),
        Error::KeyTaken { .. }
        | Error::NotFound { .. }
        | Error::Conflict { .. }
        | Error::MissingScope { .. } => Ok(LineError::new(number, error.to_string())),
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_halved_until_each_line_is_a_part() {
        let whole = BatchPart { objects: 0..3, edges: 0..2, reports_refused: true };
        let (mut parts, mut single) = (vec![whole], Vec::new());
        while let Some(part) = parts.pop() {
            match part.halves() {
                Some((first, second)) => parts.extend([second, first]),
                None => single.push((part.objects, part.edges, part.reports_refused)),
            }
        }
        let object = |n: usize, first| (n..n + 1, 0..0, first);
        let edge = |n: usize| (0..0, n..n + 1, false);
        assert_eq!(single, [object(0, true), object(1, false), object(2, false), edge(0), edge(1)]);
    }

    #[test]
    fn a_project_gives_a_taken_id_always_the_same_other_one() {
        let (project, file_id) = (ProjectId::new(), ObjectId::new());
        let own = derived_id(project, file_id);
        assert_eq!(own, derived_id(project, file_id));
        assert!(own != file_id && own != derived_id(ProjectId::new(), file_id));
        assert!(is_uuid_v7(own), "it is a UUIDv7");
        assert_eq!(own.0.as_bytes()[..6], file_id.0.as_bytes()[..6], "and sorts where the given one does");
    }
}
