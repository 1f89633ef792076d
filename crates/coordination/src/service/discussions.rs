//! Loads a discussion, and decides one that was escalated to a person.

use emergent_domain::{
    approval::{Choice, Decision},
    audit::{AuditAction, NewAuditEntry},
    cursor::{Page, ResultPage},
    discussion_options::check_decision,
    filter::{Filter, Op},
    ids::{ObjectId, ProjectId, WorkflowId},
    invalid::Invalid,
    json::JsonObject,
    object::Object,
    query::ObjectFilter,
    run::Run,
    task::Task,
    workflow::WorkflowStatus,
    workflow_event::{EventActor, WorkflowEventBody},
};
use emergent_graph::Actor;
use emergent_rules::workflow::discussion::{DiscussionAction, next_action};
use emergent_store::{Tx, audit, inbox_items, objects, relationships, workflows};
use serde_json::{Value, json};

use super::changes::{check_not_ended, check_note, resume_workflow, token_of};
use crate::{
    decision_rights::check_may_decide,
    discussion::{decision_json, load_discussion},
    dispatcher::Dispatcher,
    error::{Error, Result},
    transactions::{lock_workflow, new_event, update_properties},
};

pub use emergent_domain::task_links::DISCUSSION_TYPE;

const ESCALATED: &str = "escalated";
const RESOLVED: &str = "resolved";
/// The property with what a person decided.
const DECIDED_BY_PERSON: &str = "decided_by_person";

/// A discussion with its entries and the runs of its turns.
#[derive(Debug, Clone)]
pub struct DiscussionDetail {
    pub discussion: Object,
    /// The entries, in the order in which they were made.
    pub entries: Vec<Object>,
    /// The runs of the turns, in the order in which they were started.
    pub runs: Vec<Run>,
}

impl Dispatcher {
    pub async fn discussion(&self, project: ProjectId, id: ObjectId) -> Result<DiscussionDetail> {
        let read = move |tx: &mut Tx<'_>| load_detail(tx, project, id);
        self.executor().graph().db().snapshot(read).await
    }

    /// The workflow of the task that a discussion is about.
    pub(super) async fn workflow_of_discussion(
        &self,
        project: ProjectId,
        id: ObjectId,
    ) -> Result<Option<WorkflowId>> {
        let read = move |tx: &mut Tx<'_>| {
            let discussion = get_discussion(tx, project, id)?;
            find_workflow(tx, project, &discussion)
        };
        self.executor().graph().db().snapshot(read).await
    }

    /// Lists the discussions of a project, newest first; with a status or a task, only those that have it. One that a
    /// person has decided is resolved, also before its workflow goes on, so a page may have fewer discussions than were
    /// asked for.
    pub async fn discussions(
        &self,
        project: ProjectId,
        status: Option<String>,
        task: Option<ObjectId>,
        page: Page,
    ) -> Result<ResultPage<Object>> {
        let equals = |path: &str, value: String| Filter {
            path: path.to_owned(),
            op: Op::Eq,
            value: Some(Value::String(value)),
        };
        let stored_status = status.as_ref().map(|status| match status.as_str() {
            // What a person decided is still stored as escalated until the driver of the workflow goes on.
            RESOLVED => Filter {
                op: Op::In,
                value: Some(json!([RESOLVED, ESCALATED])),
                ..equals("status", String::new())
            },
            _ => equals("status", status.clone()),
        });
        let task = task.map(|task| equals("task_id", task.to_string()));
        let filter = ObjectFilter {
            types: vec![DISCUSSION_TYPE.to_owned()],
            filters: stored_status.into_iter().chain(task).collect(),
            ..ObjectFilter::default()
        };
        filter.check()?;
        let read = move |tx: &mut Tx<'_>| {
            let mut found = objects::list(tx, project, &filter, &page)?;
            found.items.iter_mut().try_for_each(|discussion| resolve_decided(tx, project, discussion))?;
            let has_status =
                |discussion: &Object| status.is_none() || string_property(discussion, "status") == status;
            found.items.retain(has_status);
            Ok::<_, Error>(found)
        };
        self.executor().graph().db().snapshot(read).await
    }

    /// Decides an escalated discussion for a person. The decision becomes the outcome of its task, and
    /// the workflow continues. Where the participants could not agree on one of several options, the decision is one of
    /// them.
    pub async fn decide(
        &self,
        actor: Actor,
        id: ObjectId,
        decision: Value,
        reason: Option<String>,
    ) -> Result<DiscussionDetail> {
        self.decide_in(actor, id, Choice::Answer, ("decision", decision), reason).await
    }

    /// `choice` is what the inbox stores: an outcome in words, or that the last proposal is accepted. `field` is the name of
    /// the decision in the request.
    pub(super) async fn decide_in(
        &self,
        actor: Actor,
        id: ObjectId,
        choice: Choice,
        (field, decision): (&'static str, Value),
        reason: Option<String>,
    ) -> Result<DiscussionDetail> {
        check_note("reason", reason.as_deref())?;
        check_note(field, Some(&decision.to_string().replace("\\u0000", "\0")))?;
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| {
            // The workflow's row is locked before its objects, in the same order as the dispatcher.
            let unlocked = get_discussion(tx, actor.project, id)?;
            let workflow = match find_workflow(tx, actor.project, &unlocked)? {
                Some(workflow) => Some(lock_workflow(tx, actor.project, workflow)?),
                None => None,
            };
            workflow.as_ref().map_or(Ok(()), check_not_ended)?;
            let discussion = get_discussion(tx, actor.project, id)?;
            check_decidable(&discussion)?;
            check_may_decide(tx, actor.author, "discussion", id)?;
            let decision = match choice {
                Choice::Answer => {
                    let checked = check_decision(&offered_options(&discussion), decision.clone());
                    checked.map_err(|problem| Invalid::new(field, problem))?
                }
                _ => decision.clone(),
            };
            let mut writer = graph.write_context(tx, actor)?;
            writer.reason = Some(reason.clone().unwrap_or_else(|| "a person decided".to_owned()));
            let by = token_of(actor.author).map(|token| token.to_string());
            let reason_text = reason.clone().unwrap_or_default();
            let mut changes =
                json!({ "decided_by_person": { "decision": decision, "reason": reason_text, "by": by } });
            if workflow.is_none() {
                // No workflow drives the discussion, so the decision resolves it here.
                changes["status"] = json!(RESOLVED);
                changes["final_decision"] =
                    json!({ "decision": decision, "reason": reason_text, "by": "person" });
            }
            let stored = Decision {
                choice,
                edited_input: None,
                answer: (choice == Choice::Answer).then(|| decision.clone()),
                reason: reason.clone(),
                objects_digest: None,
                by: token_of(actor.author),
                at: writer.now,
            };
            inbox_items::store_decision(tx, actor.project, id.0, &stored)?;
            update_properties(tx, &writer, id, changes)?;
            let topic = string_property(&discussion, "topic").unwrap_or_default();
            let entry = NewAuditEntry::new(AuditAction::DiscussionDecide, Some(actor.project), &topic);
            audit::record(tx, &entry.id(id), writer.now)?;
            if let Some(workflow) = workflow {
                let task = string_property(&discussion, "task_id").and_then(|id| id.parse().ok());
                let decided = WorkflowEventBody::DiscussionDecided {
                    discussion: id,
                    decision: decision.clone(),
                    reason: reason_text,
                    by: EventActor::Person,
                };
                workflows::append_events(tx, workflow.id, &[new_event(task, None, &decided, writer.now)])?;
                if workflow.status == WorkflowStatus::Escalated {
                    resume_workflow(tx, &writer, workflow, reason.as_deref())?;
                } else {
                    workflows::bump_revision(tx, actor.project, workflow.id)?;
                }
            }
            Ok::<_, Error>(())
        };
        self.executor().graph().db().write(work).await?;
        let read = move |tx: &mut Tx<'_>| load_detail(tx, actor.project, id);
        self.executor().graph().db().snapshot(read).await
    }
}

fn load_detail(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<DiscussionDetail> {
    let mut discussion = get_discussion(tx, project, id)?;
    resolve_decided(tx, project, &mut discussion)?;
    let entries = list_entries(tx, project, id)?;
    Ok(DiscussionDetail { discussion, entries, runs: workflows::list_turns(tx, id)? })
}

/// Gives a discussion that a person has decided its outcome. The driver of its workflow writes the same outcome later,
/// with what follows from it: a moment later where a server runs, and otherwise with the next one.
fn resolve_decided(tx: &mut Tx<'_>, project: ProjectId, discussion: &mut Object) -> Result<()> {
    let mut properties = discussion.properties.to_map();
    let is_decided = properties.get(DECIDED_BY_PERSON).is_some_and(|decision| !decision.is_null());
    if !is_decided || properties.get("status").and_then(Value::as_str) != Some(ESCALATED) {
        return Ok(());
    }
    if let Some(conducted) = load_discussion(tx, project, discussion)?
        && let DiscussionAction::Resolve(outcome) =
            next_action(&conducted.settings, &conducted.turns, conducted.person_decision.as_ref())
    {
        properties.insert("status".to_owned(), json!(RESOLVED));
        properties.insert("consensus_level".to_owned(), json!(outcome.consensus_level.clamp(0.0, 1.0)));
        properties.insert("final_decision".to_owned(), decision_json(&outcome));
        discussion.properties = JsonObject::from_map(&properties);
    }
    Ok(())
}

fn get_discussion(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Object> {
    let object = objects::get(tx, project, id)?.filter(|object| object.type_ == DISCUSSION_TYPE);
    object.ok_or_else(|| Error::not_found("discussion", id))
}

fn list_entries(tx: &mut Tx<'_>, project: ProjectId, id: ObjectId) -> Result<Vec<Object>> {
    let filter = relationships::RelationshipFilter {
        types: vec!["has_entry".to_owned()],
        from: Some(id),
        ..Default::default()
    };
    let mut order = Vec::new();
    let mut page = Page::first(Page::MAX);
    loop {
        let edges = relationships::list(tx, project, &filter, &page)?;
        for edge in edges.items {
            let sequence = edge.properties.to_map().get("sequence").and_then(Value::as_i64);
            order.push((sequence.unwrap_or(i64::MAX), edge.created_at, edge.to));
        }
        match edges.next {
            Some(after) => page.after = Some(after),
            None => break,
        }
    }
    order.sort_unstable();
    let mut entries = Vec::with_capacity(order.len());
    for (_, _, entry) in order {
        entries.extend(objects::get(tx, project, entry)?);
    }
    Ok(entries)
}

/// The workflow of the task that a discussion is about; `None` if there is no such task or workflow.
fn find_workflow(tx: &mut Tx<'_>, project: ProjectId, discussion: &Object) -> Result<Option<WorkflowId>> {
    let task = string_property(discussion, "task_id").and_then(|id| id.parse().ok());
    let task = match task {
        Some(task) => objects::get(tx, project, task)?,
        None => None,
    };
    Ok(task.and_then(|task| Task::from_object(&task).workflow))
}

/// What a discussion offers to a person. Anybody may write to a discussion that no workflow conducts, so what is not a
/// list of texts is left out.
pub(super) fn offered_options(discussion: &Object) -> Vec<String> {
    let properties = discussion.properties.to_map();
    let listed = properties.get("escalation").and_then(|escalation| escalation.get("options"));
    let texts = listed.and_then(Value::as_array).into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Whether a discussion waits for the decision of a person.
pub(super) fn is_undecided(discussion: &Object) -> bool {
    check_decidable(discussion).is_ok()
}

/// Checks that a discussion is escalated and was not decided yet.
fn check_decidable(discussion: &Object) -> Result<()> {
    let status = string_property(discussion, "status").unwrap_or_default();
    let decided = discussion.properties.to_map().contains_key(DECIDED_BY_PERSON);
    match status.as_str() {
        ESCALATED if !decided => Ok(()),
        ESCALATED => Err(Error::Conflict(format!("discussion `{}` was decided already", discussion.id))),
        status => Err(Error::Conflict(format!(
            "discussion `{}` is {status}: a person can decide only an escalated discussion",
            discussion.id
        ))),
    }
}

fn string_property(object: &Object, name: &str) -> Option<String> {
    object.properties.to_map().get(name).and_then(Value::as_str).map(str::to_owned)
}
