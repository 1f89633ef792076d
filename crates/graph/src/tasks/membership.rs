//! A task that an agent creates as a plain object joins the workflow that the agent works for.

use std::borrow::Cow;

use emergent_domain::{author::Author, ids::WorkflowId, object::NewObject, task::object_key};
use emergent_store::{Tx, runs};

use super::{is_task, task_workflow};
use crate::{WriteContext, error::Result, objects::ObjectDraft};

/// Returns the drafts, in which tasks without a workflow are assigned to the workflow of the run
/// that creates them.
pub(crate) fn assign_run_workflow<'d>(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: &'d [ObjectDraft],
) -> Result<Cow<'d, [ObjectDraft]>> {
    let loose = |draft: &ObjectDraft| is_task(draft.type_()) && task_workflow(draft.properties()).is_none();
    let Author::Run { run_id, .. } = ctx.author else { return Ok(Cow::Borrowed(drafts)) };
    if !drafts.iter().any(loose) {
        return Ok(Cow::Borrowed(drafts));
    }
    let run = runs::get(tx, ctx.project.id, run_id)?;
    let Some(workflow) = run.and_then(|run| run.workflow_link.workflow) else {
        return Ok(Cow::Borrowed(drafts));
    };
    let mut joined = Vec::with_capacity(drafts.len());
    for draft in drafts {
        joined.push(match loose(draft) {
            true => draft.modified(|new| set_workflow(new, workflow))?,
            false => draft.clone(),
        });
    }
    Ok(Cow::Owned(joined))
}

fn set_workflow(new: &mut NewObject, workflow: WorkflowId) {
    let text = |name: &str| new.properties.get(name).and_then(|value| value.as_str()).unwrap_or_default();
    let key = match (text("key"), new.key.as_deref()) {
        ("", Some(key)) => key.to_owned(),
        ("", None) => slug(text("title")),
        (key, _) => key.to_owned(),
    };
    new.properties.insert("workflow_id".to_owned(), workflow.to_string().into());
    if key.is_empty() {
        return;
    }
    new.key.get_or_insert_with(|| object_key(workflow, &key));
    new.properties.insert("key".to_owned(), key.into());
}

/// Converts a title to a key: `Build it!` becomes `build-it`.
fn slug(title: &str) -> String {
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = words.collect::<Vec<_>>().join("-").to_lowercase();
    slug.truncate(slug.char_indices().nth(60).map_or(slug.len(), |(index, _)| index));
    slug
}
