//! The objects that the texts in the input of a call may name, and what these objects are called, now and before.
//!
//! Rules decide about a call before it is made, and the call finds its objects later, each tool in its own way. So every
//! object that a text can mean is a candidate: the live one with the key, the last deleted one that had it, the one whose id
//! is written in place of a key, the one that had the key at the time of which the call reads, and a task of the workflow.

use std::collections::{BTreeMap, HashMap, HashSet};

use emergent_domain::{
    approval::{NamedObject, ObjectNames, OwnWork, References},
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    object_ref::ObjectRef,
    task::TASK_TYPE,
    time::Timestamp,
};
use emergent_store::{
    Tx,
    objects::{self, ObjectKey},
    runs, tasks, workflows,
};

use crate::{
    Graph,
    error::{Error, Result},
    object_refs::list_ids_at,
};

/// How many of the names that an object had before count. Of an object that had more, none of the earlier ones is known.
const MAX_EARLIER_NAMES: i64 = 50;

/// How the objects with some keys are found.
type FindKeys = fn(&mut Tx<'_>, ProjectId, &str, &[&str]) -> emergent_store::Result<Vec<(ObjectId, String)>>;

/// The objects that each text may name.
type Candidates<'a> = BTreeMap<&'a str, Vec<ObjectKey>>;

/// An object that a text may name, if it has this type.
struct Candidate<'a> {
    text: &'a str,
    id: ObjectId,
    type_: Option<&'a str>,
}

/// Finds the objects that the texts of an input may name. What was created after `until` is passed over. `run` is the one
/// that makes the call, if its tool finds tasks by their keys in a workflow.
fn find_candidates<'a>(
    tx: &mut Tx<'_>,
    project: ProjectId,
    references: &'a References,
    until: Option<Timestamp>,
    run: Option<RunId>,
) -> Result<Candidates<'a>> {
    let mut found = list_by_keys(tx, project, references)?;
    for (text, reference) in &references.objects {
        match reference {
            ObjectRef::Id(id) => found.push(Candidate { text, id: *id, type_: None }),
            // Lists name an object without a key as `Type/id`.
            ObjectRef::Key { type_, key } => {
                found.extend(key.parse().map(|id| Candidate { text, id, type_: Some(type_) }));
                if let Some(as_of) = references.as_of {
                    let then = list_ids_at(tx, project, type_, key, as_of)?;
                    found.extend(then.into_iter().map(|id| Candidate { text, id, type_: None }));
                }
            }
        }
    }
    if let Some(run) = run {
        found.extend(list_tasks(tx, project, references, run)?);
    }
    let ids: HashSet<ObjectId> = found.iter().map(|candidate| candidate.id).collect();
    let ids: Vec<ObjectId> = ids.into_iter().collect();
    let objects: HashMap<ObjectId, ObjectKey> =
        objects::list_keys(tx, project, &ids)?.into_iter().map(|object| (object.id, object)).collect();
    let mut candidates = Candidates::new();
    for Candidate { text, id, type_ } in found {
        let Some(object) = objects.get(&id) else { continue };
        let is_meant = type_.is_none_or(|type_| object.type_ == type_)
            && until.is_none_or(|until| object.created_at <= until);
        let of_text = candidates.entry(text).or_default();
        if is_meant && !of_text.contains(object) {
            of_text.push(object.clone());
        }
    }
    candidates.retain(|_, objects| !objects.is_empty());
    Ok(candidates)
}

/// The live objects with the keys, and the last deleted ones that had them.
fn list_by_keys<'a>(
    tx: &mut Tx<'_>,
    project: ProjectId,
    references: &'a References,
) -> Result<Vec<Candidate<'a>>> {
    let mut keys: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (_, reference) in &references.objects {
        if let ObjectRef::Key { type_, key } = reference {
            keys.entry(type_).or_default().push(key);
        }
    }
    let mut found = Vec::new();
    for find in [objects::list_by_keys as FindKeys, objects::list_deleted_by_keys] {
        let mut by_key: HashMap<(&str, String), ObjectId> = HashMap::new();
        for (type_, keys) in &keys {
            by_key.extend(find(tx, project, type_, keys)?.into_iter().map(|(id, key)| ((*type_, key), id)));
        }
        for (text, reference) in &references.objects {
            if let ObjectRef::Key { type_, key } = reference
                && let Some(id) = by_key.get(&(type_.as_str(), key.clone()))
            {
                found.push(Candidate { text, id: *id, type_: None });
            }
        }
    }
    Ok(found)
}

/// The tasks with these keys in the workflow that the input names, and in that of the run.
fn list_tasks<'a>(
    tx: &mut Tx<'_>,
    project: ProjectId,
    references: &'a References,
    run: RunId,
) -> Result<Vec<Candidate<'a>>> {
    let alone = |(text, reference): &'a (String, ObjectRef)| match reference {
        ObjectRef::Key { type_, key } if type_ == TASK_TYPE && key == text => Some(text.as_str()),
        ObjectRef::Key { .. } | ObjectRef::Id(_) => None,
    };
    let texts: HashSet<&str> = references.objects.iter().filter_map(alone).collect();
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let own = find_own_work(tx, project, run)?.workflow;
    let searched: HashSet<WorkflowId> = references.workflow.into_iter().chain(own).collect();
    let mut found = Vec::new();
    for workflow in searched {
        for (key, id) in tasks::list_keys(tx, project, workflow)? {
            found.extend(texts.get(key.as_str()).copied().map(|text| Candidate { text, id, type_: None }));
        }
    }
    Ok(found)
}

/// What a run works at.
fn find_own_work(tx: &mut Tx<'_>, project: ProjectId, run: RunId) -> Result<OwnWork> {
    let link = runs::get(tx, project, run)?.map(|run| run.workflow_link).unwrap_or_default();
    let workflow = match link.workflow {
        Some(own) => Some(own),
        None => workflows::find_started_by(tx, project, run)?,
    };
    Ok(OwnWork { run: Some(run), task: link.task, workflow })
}

/// The keys that tasks have in their workflows.
fn list_keys_in_workflows(
    tx: &mut Tx<'_>,
    project: ProjectId,
    objects: &HashMap<ObjectId, &ObjectKey>,
) -> Result<HashMap<ObjectId, String>> {
    let of_task = |object: &&&ObjectKey| object.type_ == TASK_TYPE;
    let ids: Vec<ObjectId> = objects.values().filter(of_task).map(|object| object.id).collect();
    let tasks = tasks::task_names(tx, project, &ids)?.into_iter();
    Ok(tasks.filter_map(|(id, task)| Some((id, task.key.filter(|_| task.workflow.is_some())?))).collect())
}

/// What objects are called.
fn list_names(
    tx: &mut Tx<'_>,
    project: ProjectId,
    objects: &HashMap<ObjectId, &ObjectKey>,
) -> Result<HashMap<ObjectId, ObjectNames>> {
    let ids: Vec<ObjectId> = objects.keys().copied().collect();
    // One more than counts tells whether there are others.
    let limit = MAX_EARLIER_NAMES + 1;
    let mut earlier: HashMap<ObjectId, Vec<objects::EarlierName>> = HashMap::new();
    for name in objects::list_earlier_names(tx, project, &ids, limit)? {
        earlier.entry(name.object).or_default().push(name);
    }
    let in_workflow = list_keys_in_workflows(tx, project, objects)?;
    let names = |(id, object): (&ObjectId, &&ObjectKey)| {
        let earlier = earlier.remove(id).unwrap_or_default();
        let is_known = i64::try_from(earlier.len()).is_ok_and(|count| count < limit);
        let (mut keys, mut types) = (Vec::new(), Vec::new());
        for name in earlier.into_iter().filter(|_| is_known) {
            match name.key {
                Some(key) => keys.push(format!("{}/{key}", name.type_)),
                None => types.push(name.type_),
            }
        }
        if object.key.is_none() && !types.contains(&object.type_) {
            types.push(object.type_.clone());
        }
        let present = object.key.as_ref().map(|key| format!("{}/{key}", object.type_));
        keys.retain(|key| Some(key) != present.as_ref());
        keys.sort_unstable();
        types.sort_unstable();
        let keys = present.into_iter().chain(keys).collect();
        let names = ObjectNames::new(*id, &object.type_, keys).without_key_as(&types);
        let names = match in_workflow.get(id) {
            Some(key) => names.with_key_in_workflow(key),
            None => names,
        };
        let names = if object.deleted_at.is_some() { names.deleted() } else { names };
        (*id, if is_known { names } else { names.with_unknown_keys() })
    };
    Ok(objects.iter().map(names).collect())
}

impl Graph {
    /// What a run works at: what its calls are about if they do not say it.
    pub async fn own_work(&self, project: ProjectId, run: RunId) -> Result<OwnWork> {
        self.db().read(move |tx| find_own_work(tx, project, run)).await
    }

    /// The names of the objects that the texts of an input may name, also of deleted ones. A text that names nothing is left
    /// out. `run` is the one that makes the call, if its tool finds tasks by their keys in a workflow.
    pub async fn object_names(
        &self,
        project: ProjectId,
        references: References,
        run: Option<RunId>,
    ) -> Result<HashMap<String, Vec<ObjectNames>>> {
        let is_of_the_past = references.as_of.is_some();
        let read = move |tx: &mut Tx<'_>| {
            let found = find_candidates(tx, project, &references, None, run)?;
            let objects = found.values().flatten().map(|object| (object.id, object)).collect();
            let names = list_names(tx, project, &objects)?;
            let of_text = |(text, objects): (&&str, &Vec<ObjectKey>)| {
                let names = objects.iter().filter_map(|object| names.get(&object.id).cloned());
                ((*text).to_owned(), names.collect())
            };
            Ok::<HashMap<String, Vec<ObjectNames>>, Error>(found.iter().map(of_text).collect())
        };
        // A concurrent update moves a version to the history.
        match is_of_the_past {
            true => self.db().snapshot(read).await,
            false => self.db().read(read).await,
        }
    }

    /// The objects that the texts of an input may name, also deleted ones. What was created after `until` is passed over,
    /// and a text that names nothing is left out.
    pub async fn objects_named(
        &self,
        project: ProjectId,
        references: References,
        until: Timestamp,
    ) -> Result<BTreeMap<String, Vec<NamedObject>>> {
        let is_of_the_past = references.as_of.is_some();
        let read = move |tx: &mut Tx<'_>| {
            let found = find_candidates(tx, project, &references, Some(until), None)?;
            let named =
                |object: ObjectKey| NamedObject { id: object.id, is_deleted: object.deleted_at.is_some() };
            let of_text = |(text, objects): (&str, Vec<ObjectKey>)| {
                (text.to_owned(), objects.into_iter().map(named).collect())
            };
            Ok::<BTreeMap<String, Vec<NamedObject>>, Error>(found.into_iter().map(of_text).collect())
        };
        match is_of_the_past {
            true => self.db().snapshot(read).await,
            false => self.db().read(read).await,
        }
    }
}
