//! Some lines of a file, written as one transaction: objects first, then the edges between them.
//!
//! An object is found again by its type and key, or by its id when it has no key; an edge by its
//! type and ends. So a file that was imported half, or twice, or changed a little, comes out as
//! if it had been imported once.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object::{Object, ObjectPatch},
    relationship::Relationship,
};
use emergent_store::{
    Engine, Tx,
    objects::{self as rows, EndObject},
    transfer::{self as bulk, IdUse},
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{
    line::{EdgeLine, EndRef, Line, LineError, ObjectLine},
    split::RawLine,
};
use crate::{Error, WriteContext, objects, relationships};

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

/// What became of a batch. Lines with errors left nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchOutcome {
    pub objects: Counts,
    pub relationships: Counts,
    /// In the order of the lines.
    pub errors: Vec<LineError>,
    /// Ids of the file that stand for another object here, and cannot be computed.
    pub(crate) renamed: Vec<(ObjectId, ObjectId)>,
}

/// Ids of earlier batches that stand for another object here.
pub(crate) type IdMap = HashMap<ObjectId, ObjectId>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// A batch with a wrong line is not written, and no later one.
    #[default]
    Stop,
    /// Wrong lines are told and left out.
    Skip,
}

pub(crate) enum BatchError {
    Stopped(Vec<LineError>),
    Failed(Error),
}

impl From<Error> for BatchError {
    fn from(error: Error) -> Self {
        BatchError::Failed(error)
    }
}

impl From<emergent_store::Error> for BatchError {
    fn from(error: emergent_store::Error) -> Self {
        BatchError::Failed(error.into())
    }
}

/// Lines that were read and checked, as far as that needs no database.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    objects: Vec<(u64, ObjectLine)>,
    edges: Vec<(u64, EdgeLine)>,
    refused: Vec<LineError>,
}

impl Batch {
    /// Takes a moment for many lines: not for an async thread.
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

    pub(crate) fn write(
        &self,
        tx: &mut Tx<'_>,
        writer: &WriteContext,
        renamed: &IdMap,
        on_error: OnError,
    ) -> Result<BatchOutcome, BatchError> {
        let mut outcome = BatchOutcome { errors: self.refused.clone(), ..BatchOutcome::default() };
        if on_error == OnError::Skip || outcome.errors.is_empty() {
            ObjectBatch::new(tx, writer, &self.objects)?.write(tx, &mut outcome)?;
            let ends = EdgeEnds::lock(tx, writer, &self.edges, renamed, &outcome.renamed)?;
            write_edges(tx, writer, &self.edges, &ends, &mut outcome)?;
        }
        outcome.errors.sort_by_key(|error| error.line);
        if on_error == OnError::Stop && !outcome.errors.is_empty() {
            return Err(BatchError::Stopped(outcome.errors));
        }
        Ok(outcome)
    }
}

/// The id an object gets in a project where the id of the file is taken. The same each time, so
/// that the file's edges, and the file when it comes again, find it.
fn derived_id(project: ProjectId, given: ObjectId) -> ObjectId {
    let hash = Sha256::new().chain_update(project.0).chain_update(given.0).finalize();
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&given.0.as_bytes()[..6]);
    bytes[6..].copy_from_slice(&hash[..10]);
    bytes[6] = 0x70 | (bytes[6] & 0x0f);
    bytes[8] = 0x80 | (bytes[8] & 0x3f);
    ObjectId(Uuid::from_bytes(bytes))
}

/// What the database has to do with an object line.
enum ObjectAction<'a> {
    Create(&'a ObjectLine, Option<ObjectId>),
    Change(&'a ObjectLine, ObjectId),
    Restore(&'a ObjectLine, ObjectId),
}

struct ObjectBatch<'a> {
    writer: &'a WriteContext,
    actions: Vec<(u64, ObjectAction<'a>)>,
    /// As they were before the batch.
    current: HashMap<ObjectId, Object>,
    renamed: Vec<(ObjectId, ObjectId)>,
}

impl<'a> ObjectBatch<'a> {
    /// Looks up what is there, and decides.
    fn new(
        tx: &mut Tx<'_>,
        writer: &'a WriteContext,
        lines: &'a [(u64, ObjectLine)],
    ) -> Result<Self, BatchError> {
        let project = writer.project.id;
        let mut by_key: HashMap<(&str, &str), ObjectId> = HashMap::new();
        let mut current = HashMap::new();
        let keyed = || lines.iter().filter_map(|(_, line)| Some((line.draft.type_(), line.draft.key()?)));
        for (type_, keys) in group_by_type(keyed()) {
            for object in bulk::objects_by_key(tx, project, type_, &keys)? {
                current.insert(object.id, object);
            }
        }
        let found: HashMap<(&str, &str), ObjectId> = current
            .values()
            .filter_map(|object: &Object| Some(((object.type_.as_str(), object.key.as_deref()?), object.id)))
            .collect();
        for place in keyed() {
            if let Some(id) = found.get(&place) {
                by_key.insert(place, *id);
            }
        }
        drop(found);

        let known = |line: &ObjectLine| {
            line.draft.key().and_then(|key| by_key.get(&(line.draft.type_(), key))).copied()
        };
        let given: Vec<ObjectId> =
            lines.iter().filter(|(_, line)| known(line).is_none()).filter_map(|(_, line)| line.id).collect();
        let mut ids = IdAllocator::load(tx, project, &given)?;
        let mut renamed = Vec::new();
        let plans: Vec<(u64, ObjectAction<'a>)> = lines
            .iter()
            .map(|(number, line)| {
                let plan = match (known(line), line.id) {
                    (Some(there), given) => {
                        renamed.extend(given.filter(|given| *given != there).map(|given| (given, there)));
                        ObjectAction::Change(line, there)
                    }
                    (None, None) => ObjectAction::Create(line, None),
                    (None, Some(given)) if line.draft.key().is_some() => {
                        ObjectAction::Create(line, ids.allocate(given))
                    }
                    (None, Some(given)) => ids.action_by_id(line, given),
                };
                (*number, plan)
            })
            .collect();

        let unseen: Vec<ObjectId> = plans
            .iter()
            .filter_map(|(_, plan)| match plan {
                ObjectAction::Change(_, id) if !current.contains_key(id) => Some(*id),
                _ => None,
            })
            .collect();
        current
            .extend(bulk::objects_by_id(tx, project, &unseen)?.into_iter().map(|object| (object.id, object)));
        Ok(Self { writer, actions: plans, current, renamed })
    }

    fn write(mut self, tx: &mut Tx<'_>, outcome: &mut BatchOutcome) -> Result<(), BatchError> {
        let mut new = Vec::new();
        let mut drafts = Vec::new();
        let mut changes: Vec<(u64, ObjectId, &ObjectPatch)> = Vec::new();
        let mut restores = Vec::new();
        for (number, plan) in &self.actions {
            match plan {
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
        for ((number, line), made) in new.into_iter().zip(objects::create_each(tx, self.writer, &drafts)?) {
            let here = match made {
                Ok(object) => {
                    outcome.objects.created += 1;
                    let id = object.id;
                    self.current.insert(id, object);
                    id
                }
                // An earlier line of this batch made it, or someone else at this moment.
                Err(Error::KeyTaken { id, .. }) => {
                    changes.push((number, id, &line.patch));
                    id
                }
                Err(error) => {
                    outcome.errors.push(line_error(number, error)?);
                    continue;
                }
            };
            if let Some(given) =
                line.id.filter(|given| *given != here && derived_id(self.writer.project.id, *given) != here)
            {
                self.renamed.push((given, here));
            }
        }
        for (number, id, patch) in restores {
            let allowed = objects::check_restored(tx, self.writer, id, patch);
            match allowed.and_then(|()| objects::restore(tx, self.writer, id)) {
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
        for (number, id, patch) in changes {
            let before = self.current.get(id);
            if before.is_some_and(|before| patch.apply(before).is_none()) {
                outcome.objects.unchanged += 1;
                continue;
            }
            let version = before.map(|before| before.version);
            match objects::update(tx, self.writer, *id, patch) {
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

/// Which ids of a file can be kept.
struct IdAllocator {
    project: ProjectId,
    in_use: HashMap<ObjectId, IdUse>,
    /// By earlier lines of this batch.
    used: HashSet<ObjectId>,
}

impl IdAllocator {
    fn load(tx: &mut Tx<'_>, project: ProjectId, given: &[ObjectId]) -> Result<Self, BatchError> {
        let mut taken = bulk::ids_in_use(tx, given)?;
        let own: Vec<ObjectId> = given
            .iter()
            .filter(|id| taken.contains_key(id) || !is_uuid_v7(**id))
            .map(|id| derived_id(project, *id))
            .collect();
        taken.extend(bulk::ids_in_use(tx, &own)?);
        Ok(Self { project, in_use: taken, used: HashSet::new() })
    }

    fn is_free(&self, id: ObjectId) -> bool {
        is_uuid_v7(id) && !self.in_use.contains_key(&id) && !self.used.contains(&id)
    }

    /// An id for a new object, the given one if that can be.
    fn allocate(&mut self, given: ObjectId) -> Option<ObjectId> {
        let id = [given, derived_id(self.project, given)].into_iter().find(|id| self.is_free(*id))?;
        self.used.insert(id);
        Some(id)
    }

    /// What to do with an object that only its id identifies.
    fn action_by_id<'a>(&mut self, line: &'a ObjectLine, given: ObjectId) -> ObjectAction<'a> {
        for id in [given, derived_id(self.project, given)] {
            match self.in_use.get(&id) {
                Some(taken) if taken.project == self.project && taken.live => {
                    return ObjectAction::Change(line, id);
                }
                Some(taken) if taken.project == self.project => return ObjectAction::Restore(line, id),
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

/// Ids are UUIDv7 here; another kind sorts wrongly.
fn is_uuid_v7(id: ObjectId) -> bool {
    id.0.get_version_num() == 7
}

fn group_by_type<'a>(places: impl Iterator<Item = (&'a str, &'a str)>) -> HashMap<&'a str, Vec<&'a str>> {
    let mut seen = HashSet::new();
    let mut types: HashMap<&str, Vec<&str>> = HashMap::new();
    for (type_, key) in places.filter(|place| seen.insert(*place)) {
        types.entry(type_).or_default().push(key);
    }
    types
}

/// What is wrong with a line; an error that concerns more than the line goes on.
fn line_error(number: u64, error: Error) -> Result<LineError, Error> {
    match error {
        Error::Invalid(invalid) => Ok(LineError::invalid(number, &invalid)),
        Error::KeyTaken { .. } | Error::NotFound { .. } | Error::Conflict { .. } => {
            Ok(LineError::new(number, error.to_string()))
        }
        other => Err(other),
    }
}

/// The living objects that the edges of a batch join, held until the transaction ends.
struct EdgeEnds {
    by_ref: HashMap<EndRef, ObjectId>,
    rows: HashMap<ObjectId, EndObject>,
}

impl EdgeEnds {
    fn lock(
        tx: &mut Tx<'_>,
        writer: &WriteContext,
        lines: &[(u64, EdgeLine)],
        renamed: &IdMap,
        renamed_now: &[(ObjectId, ObjectId)],
    ) -> Result<Self, BatchError> {
        let project = writer.project.id;
        let mut ends = Self { by_ref: HashMap::new(), rows: HashMap::new() };
        let refs = || lines.iter().flat_map(|(_, line)| [&line.from, &line.to]);
        let keyed = refs().filter_map(|end| match end {
            EndRef::Key { type_, key } => Some((type_.as_str(), key.as_str())),
            EndRef::Id(_) => None,
        });
        for (type_, keys) in group_by_type(keyed) {
            for (key, end) in bulk::lock_by_keys(tx, project, type_, &keys)? {
                ends.by_ref.insert(EndRef::Key { type_: type_.to_owned(), key }, end.id);
                ends.rows.insert(end.id, EndObject { type_: type_.to_owned(), updated_at: end.updated_at });
            }
        }
        let renamed_now: IdMap = renamed_now.iter().copied().collect();
        let candidates: HashMap<ObjectId, Vec<ObjectId>> = refs()
            .filter_map(|end| match end {
                EndRef::Id(id) => Some(*id),
                EndRef::Key { .. } => None,
            })
            .map(|id| {
                let other = renamed_now.get(&id).or_else(|| renamed.get(&id)).copied();
                (id, other.into_iter().chain([id, derived_id(project, id)]).collect())
            })
            .collect();
        let wanted: Vec<ObjectId> = candidates.values().flatten().copied().collect();
        let living = rows::lock_live(tx, project, &wanted)?;
        for (id, places) in candidates {
            if let Some(place) = places.into_iter().find(|place| living.contains_key(place)) {
                ends.by_ref.insert(EndRef::Id(id), place);
            }
        }
        ends.rows.extend(living);
        Ok(ends)
    }

    fn find(&self, number: u64, field: &str, end: &EndRef) -> Result<ObjectId, LineError> {
        self.by_ref.get(end).copied().ok_or_else(|| LineError {
            line: number,
            field: Some(field.to_owned()),
            message: format!("there is no {end} in this project"),
        })
    }
}

fn write_edges(
    tx: &mut Tx<'_>,
    writer: &WriteContext,
    lines: &[(u64, EdgeLine)],
    ends: &EdgeEnds,
    outcome: &mut BatchOutcome,
) -> Result<(), BatchError> {
    let mut found = Vec::with_capacity(lines.len());
    for (number, line) in lines {
        match (ends.find(*number, "from", &line.from), ends.find(*number, "to", &line.to)) {
            (Ok(from), Ok(to)) => found.push((*number, line, from, to)),
            (Err(error), _) | (_, Err(error)) => outcome.errors.push(error),
        }
    }
    let there = match tx.engine() {
        // Asking costs as much as trying.
        Engine::Sqlite => HashMap::new(),
        // Trying costs a round trip for each that is there.
        Engine::Postgres => {
            let places: Vec<_> =
                found.iter().map(|(_, line, from, to)| (*from, line.draft.type_(), *to)).collect();
            bulk::edges_between(tx, &places)?
        }
    };
    let mut new = Vec::new();
    let mut drafts = Vec::new();
    let mut changes: Vec<(u64, &EdgeLine, Relationship)> = Vec::new();
    for (number, line, from, to) in found {
        match there.get(&(from, line.draft.type_().to_owned(), to)) {
            Some(edge) => changes.push((number, line, edge.clone())),
            None => {
                new.push((number, line));
                drafts.push(line.draft.with_ends(from, to));
            }
        }
    }
    relationships::notify_workflows(tx, writer, &drafts)?;
    for ((number, line), made) in
        new.into_iter().zip(relationships::create_between(tx, writer, &drafts, &ends.rows)?)
    {
        match made {
            Ok((_, true)) => outcome.relationships.created += 1,
            Ok((edge, false)) => changes.push((number, line, edge)),
            Err(error) => outcome.errors.push(line_error(number, error)?),
        }
    }
    for (number, line, edge) in changes {
        if line.patch.apply(&edge).is_none() {
            outcome.relationships.unchanged += 1;
            continue;
        }
        match relationships::update(tx, writer, edge.id, &line.patch) {
            Ok(after) if after.version == edge.version => outcome.relationships.unchanged += 1,
            Ok(_) => outcome.relationships.updated += 1,
            Err(error) => outcome.errors.push(line_error(number, error)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_gives_a_taken_id_always_the_same_other_one() {
        let (project, given) = (ProjectId::new(), ObjectId::new());
        let own = derived_id(project, given);
        assert_eq!(own, derived_id(project, given));
        assert!(own != given && own != derived_id(ProjectId::new(), given));
        assert!(is_uuid_v7(own), "it is a UUIDv7");
        assert_eq!(own.0.as_bytes()[..6], given.0.as_bytes()[..6], "and sorts where the given one does");
    }
}
