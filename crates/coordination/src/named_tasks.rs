//! Finds the tasks that requests name: by id, as `SpecTask/key`, or by key.
//!
//! A task that is made outside of workflows has its key as a property, and its object has none: several tasks can have the
//! same key. Such a task is found by its key as long as it is the only one.

use emergent_domain::{
    ids::{InvalidId, ObjectId, ProjectId},
    object_ref::ObjectRef,
    task::TASK_TYPE,
};
use emergent_graph::object_refs::resolve_object;
use emergent_store::{
    Tx,
    tasks::{self, KeyedTask},
};

use crate::{
    dispatcher::Dispatcher,
    error::{Error, Result},
};

/// How many of the tasks with the same key a message names.
const MAX_NAMED: usize = 5;

impl Dispatcher {
    /// Returns the id of the task that a request names by id or as `SpecTask/key`. An id is not checked.
    pub async fn resolve_task(&self, project: ProjectId, reference: ObjectRef) -> Result<ObjectId> {
        if let ObjectRef::Id(id) = reference {
            return Ok(id);
        }
        self.executor().graph().db().read(move |tx| resolve_task(tx, project, &reference)).await
    }

    /// Like [`Dispatcher::resolve_task`] for several tasks in one read: a result for each, in their order.
    pub async fn resolve_tasks(
        &self,
        project: ProjectId,
        references: Vec<ObjectRef>,
    ) -> Result<Vec<Result<ObjectId>>> {
        let read = move |tx: &mut Tx<'_>| {
            let mut ids = Vec::with_capacity(references.len());
            for reference in &references {
                ids.push(match resolve_task(tx, project, reference) {
                    Err(error) if !is_about_name(&error) => return Err(error),
                    resolved => resolved,
                });
            }
            Ok(ids)
        };
        self.executor().graph().db().read(read).await
    }
}

/// Returns the id of the task that a reference names: the object with the key, or a task whose object has none, by its
/// property. Of the latter, one outside of workflows comes before those that a workflow has taken, and it does not give way to
/// an object with the key: whoever creates one would get what others say about the task. An id is returned without a check,
/// so the caller has to look it up in the project.
pub(crate) fn resolve_task(tx: &mut Tx<'_>, project: ProjectId, reference: &ObjectRef) -> Result<ObjectId> {
    let by_object_key = match resolve_object(tx, project, reference) {
        Err(missing @ emergent_graph::Error::NotFound { .. }) => Err(missing),
        found => Ok(found?),
    };
    let ObjectRef::Key { type_, key } = reference else { return Ok(by_object_key?) };
    // An id in place of a key names the object with this id.
    if type_ != TASK_TYPE || by_object_key.is_ok() && key.parse::<ObjectId>().is_ok() {
        return Ok(by_object_key?);
    }
    let found = tasks::list_by_property_key(tx, project, key)?;
    let ids = |tasks: &[KeyedTask]| -> Vec<ObjectId> { tasks.iter().map(|task| task.id).collect() };
    let outside: Vec<KeyedTask> = found.iter().filter(|task| !task.has_workflow).copied().collect();
    let fitting = match &by_object_key {
        Ok(id) => [vec![*id], ids(&outside)].concat(),
        Err(_) if outside.is_empty() => ids(&found),
        Err(_) => ids(&outside),
    };
    match fitting.as_slice() {
        [] => Ok(by_object_key?),
        [only] => Ok(*only),
        several => Err(Error::Conflict(several_tasks(key, several))),
    }
}

fn several_tasks(key: &str, several: &[ObjectId]) -> String {
    let ids: Vec<String> = several.iter().take(MAX_NAMED).map(|id| format!("`{id}`")).collect();
    let more = if several.len() > MAX_NAMED { " and others" } else { "" };
    format!("several tasks have the key `{key}`: name one by its id, {}{more}", ids.join(", "))
}

/// Whether a name is refused because it names no task, or several.
pub(crate) fn is_about_name(error: &Error) -> bool {
    matches!(error, Error::Conflict(_) | Error::Graph(emergent_graph::Error::NotFound { .. }))
}

/// Parses how a request names a task outside of workflows: an id, `SpecTask/key`, or a key.
pub(crate) fn parse_reference(text: &str) -> Result<ObjectRef, String> {
    let is_type_and_key =
        text.strip_prefix(TASK_TYPE).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1);
    if is_type_and_key || text.parse::<ObjectId>().is_ok() {
        return text.parse();
    }
    if text.is_empty() {
        return Err(format!("{InvalidId}, the key of a task, or have the form `{TASK_TYPE}/key`"));
    }
    format!("{TASK_TYPE}/{text}").parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_by_its_id_its_key_or_type_and_key() {
        let id = ObjectId::new();
        assert_eq!(parse_reference(&id.to_string()), Ok(ObjectRef::Id(id)));
        let key = |key: &str| Ok(ObjectRef::Key { type_: TASK_TYPE.to_owned(), key: key.to_owned() });
        assert_eq!(parse_reference("design"), key("design"));
        assert_eq!(parse_reference("SpecTask/design"), key("design"));
        assert_eq!(parse_reference("SpecTaskList"), key("SpecTaskList"));
        assert!(parse_reference("a\0b").is_err());
        let empty = parse_reference("").unwrap_err();
        assert!(empty.ends_with("`, the key of a task, or have the form `SpecTask/key`"), "{empty}");
    }
}
