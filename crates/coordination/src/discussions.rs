//! Discussions as people see them, and as a person settles one that did not come to an end.

use emergent_domain::{
    author::Author,
    cursor::Page,
    ids::{ObjectId, ProjectId},
    object::Object,
    run::Run,
    task::Task,
    workflow::WorkflowStatus,
};
use emergent_graph::Actor;
use emergent_store::{Tx, objects, relationships, workflows};
use serde_json::{Value, json};

use crate::{
    Dispatcher, Error, Result,
    service::{check_words, event, go_on, held, is_not_over, set},
};

pub const DISCUSSION_TYPE: &str = "Discussion";

/// A discussion with what was said in it.
#[derive(Debug, Clone)]
pub struct ShownDiscussion {
    pub discussion: Object,
    /// In the order they were said.
    pub entries: Vec<Object>,
    /// The turns, in the order they were asked for.
    pub runs: Vec<Run>,
}

impl Dispatcher {
    pub async fn discussion(&self, project: ProjectId, id: ObjectId) -> Result<ShownDiscussion> {
        let read = move |tx: &mut Tx<'_>| {
            let discussion = found(tx, project, id)?;
            let entries = entries(tx, project, id)?;
            Ok(ShownDiscussion { discussion, entries, runs: workflows::turns(tx, id)? })
        };
        self.executor().graph().db().snapshot(read).await
    }

    /// A person settles an escalated discussion: its task takes the decision for its outcome, and
    /// its workflow goes on.
    pub async fn decide(
        &self,
        actor: Actor,
        id: ObjectId,
        decision: Value,
        reason: Option<String>,
    ) -> Result<ShownDiscussion> {
        check_words("reason", reason.as_deref())?;
        check_words("decision", Some(&decision.to_string().replace("\\u0000", "\0")))?;
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            // The workflow's row is held before any of its objects, as a walk does.
            let before = found(tx, actor.project, id)?;
            let workflow = match workflow_of(tx, actor.project, &before)? {
                Some(workflow) => Some(held(tx, actor.project, workflow)?),
                None => None,
            };
            workflow.as_ref().map_or(Ok(()), is_not_over)?;
            let discussion = found(tx, actor.project, id)?;
            may_be_decided(&discussion)?;
            let mut writer = graph.writer(tx, actor)?;
            writer.dispatcher = true;
            writer.reason = Some(reason.clone().unwrap_or_else(|| "a person decided".to_owned()));
            let by = match actor.author {
                Author::Token { id } => Some(id.to_string()),
                _ => None,
            };
            let words = reason.clone().unwrap_or_default();
            let mut changes =
                json!({ "decided_by_person": { "decision": decision, "reason": words, "by": by } });
            if workflow.is_none() {
                // Nobody walks it: the decision is all there is to do.
                changes["status"] = json!("resolved");
                changes["final_decision"] = json!({ "decision": decision, "reason": words, "by": "person" });
            }
            set(tx, &writer, id, changes)?;
            if let Some(workflow) = workflow {
                let task = property(&discussion, "task_id").and_then(|id| id.parse().ok());
                let data = json!({ "discussion": id, "decision": decision, "reason": words, "by": "person" });
                workflows::record(tx, workflow.id, &[event("discussion_decided", task, data, writer.now)])?;
                if workflow.status == WorkflowStatus::Escalated {
                    go_on(tx, &writer, workflow, reason.as_deref())?;
                } else {
                    workflows::touch(tx, actor.project, workflow.id)?;
                }
            }
            Ok::<_, Error>(())
        };
        self.executor().graph().db().write(work).await?;
        self.discussion(actor.project, id).await
    }
}

fn found(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Object> {
    let object = objects::get(tx, project, id)?.filter(|object| object.type_ == DISCUSSION_TYPE);
    object.ok_or_else(|| Error::not_found("discussion", id))
}

fn entries(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Vec<Object>> {
    let wanted = relationships::RelationshipFilter {
        types: vec!["has_entry".to_owned()],
        from: Some(id),
        ..Default::default()
    };
    let mut places = Vec::new();
    let mut page = Page::first(Page::MAX);
    loop {
        let edges = relationships::list(tx, project, &wanted, &page)?;
        for edge in edges.items {
            let place = edge.properties.to_map().get("sequence").and_then(Value::as_i64);
            places.push((place.unwrap_or(i64::MAX), edge.created_at, edge.to));
        }
        match edges.next {
            Some(after) => page.after = Some(after),
            None => break,
        }
    }
    places.sort_unstable();
    let mut said = Vec::with_capacity(places.len());
    for (_, _, entry) in places {
        said.extend(objects::get(tx, project, entry)?);
    }
    Ok(said)
}

fn workflow_of(
    tx: &mut Tx<'_>,
    project: ProjectId,
    discussion: &Object,
) -> Result<Option<emergent_domain::ids::WorkflowId>> {
    let task = property(discussion, "task_id").and_then(|id| id.parse().ok());
    let task = match task {
        Some(task) => objects::get(tx, project, task)?,
        None => None,
    };
    Ok(task.and_then(|task| Task::of(&task).workflow))
}

fn may_be_decided(discussion: &Object) -> Result<()> {
    let status = property(discussion, "status").unwrap_or_default();
    let decided = discussion.properties.to_map().contains_key("decided_by_person");
    match status.as_str() {
        "escalated" if !decided => Ok(()),
        "escalated" => Err(Error::Conflict(format!("discussion `{}` was decided already", discussion.id))),
        status => Err(Error::Conflict(format!(
            "discussion `{}` is {status}: a person decides only one that is escalated",
            discussion.id
        ))),
    }
}

fn property(object: &Object, name: &str) -> Option<String> {
    object.properties.to_map().get(name).and_then(Value::as_str).map(str::to_owned)
}
