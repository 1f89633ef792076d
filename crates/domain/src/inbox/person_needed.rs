//! When a discussion or a workflow needs a person, and what becomes of its item in the inbox when it changes.

use serde_json::Value;

use super::{InboxItem, InboxItemKind};
use crate::{
    approval::ApprovalStatus,
    object::Object,
    task_links::DISCUSSION_TYPE,
    time::Timestamp,
    workflow::{Workflow, WorkflowStatus},
};

/// Whether a discussion or a workflow needs a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonNeeded {
    /// A person has to decide.
    Yes {
        /// The topic of the discussion, or why the workflow does not go on.
        title: String,
    },
    /// It was decided, or goes on.
    Settled,
    /// It was given up, or another item asks for the decision: nobody has to decide it any more.
    Abandoned,
}

impl PersonNeeded {
    /// Whether a workflow needs a person. One that waits for a discussion does not: the discussion has an item, and its
    /// outcome resumes the workflow.
    pub fn for_workflow(workflow: &Workflow) -> Self {
        match (workflow.status, &workflow.escalation) {
            (WorkflowStatus::Escalated, Some(why)) if why.discussion.is_some() => Self::Abandoned,
            (WorkflowStatus::Escalated, Some(why)) => Self::Yes { title: why.reason.clone() },
            (WorkflowStatus::Escalated, None) => Self::Yes { title: workflow.description.clone() },
            (WorkflowStatus::Cancelled, _) => Self::Abandoned,
            _ => Self::Settled,
        }
    }

    /// Whether a discussion needs a person; `None` if the object is not a discussion. Anybody may write to a discussion
    /// that no workflow conducts, so its properties can have any type.
    pub fn for_object(object: &Object) -> Option<Self> {
        if object.type_ != DISCUSSION_TYPE {
            return None;
        }
        if object.deleted_at.is_some() {
            return Some(Self::Abandoned);
        }
        let properties = object.properties.to_map();
        let is_decided = properties.get("decided_by_person").is_some_and(|decision| !decision.is_null());
        Some(match properties.get("status").and_then(Value::as_str) {
            _ if is_decided => Self::Settled,
            Some("resolved") => Self::Settled,
            Some("escalated") => Self::Yes { title: properties.get("topic").map(text).unwrap_or_default() },
            _ => Self::Abandoned,
        })
    }
}

/// A property as a text.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl InboxItem {
    /// Returns the item after a change of its discussion or workflow at this time; `None` if it stays as it is. `self` is
    /// the item as it would be if it were new. An item that waits goes on waiting with its first title. One that is
    /// needed again begins anew.
    pub fn after_change(self, current: Option<InboxItem>, needed: PersonNeeded) -> Option<Self> {
        let pending = current.filter(|item| item.status == ApprovalStatus::Pending);
        match (pending, needed) {
            (None, PersonNeeded::Yes { title }) => Some(Self { title, ..self }),
            (Some(_), PersonNeeded::Yes { .. }) | (None, _) => None,
            (Some(item), PersonNeeded::Settled) => Some(Self { status: ApprovalStatus::Decided, ..item }),
            // A person can decide to give it up.
            (Some(item), PersonNeeded::Abandoned) => {
                let is_decided = item.decision.is_some();
                let status = if is_decided { ApprovalStatus::Decided } else { ApprovalStatus::Withdrawn };
                Some(Self { status, ..item })
            }
        }
    }

    /// A new item that waits, without a title.
    pub fn new(
        id: uuid::Uuid,
        project: crate::ids::ProjectId,
        kind: InboxItemKind,
        created_at: Timestamp,
    ) -> Self {
        let (title, status, decision) = (String::new(), ApprovalStatus::Pending, None);
        Self { id, project, kind, title, status, decision, created_at }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::{
        approval::{Choice, Decision},
        author::Author,
        ids::{ObjectId, ProjectId},
        json::JsonObject,
    };

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn discussion(properties: Value) -> Object {
        let Value::Object(properties) = properties else { panic!("properties are an object") };
        Object {
            id: ObjectId::new(),
            project: ProjectId::new(),
            type_: DISCUSSION_TYPE.to_owned(),
            key: None,
            status: None,
            labels: Vec::new(),
            properties: JsonObject::from_map(&properties),
            version: 1,
            created_at: at(0),
            updated_at: at(0),
            deleted_at: None,
            author: Author::System,
            reason: None,
        }
    }

    fn needed(title: &str) -> PersonNeeded {
        PersonNeeded::Yes { title: title.to_owned() }
    }

    #[test]
    fn a_discussion_needs_a_person_while_it_is_escalated_and_nobody_decided() {
        let check = |properties: Value, expected: PersonNeeded| {
            assert_eq!(
                PersonNeeded::for_object(&discussion(properties.clone())),
                Some(expected),
                "{properties}"
            );
        };
        check(json!({ "status": "escalated", "topic": "lunch" }), needed("lunch"));
        check(json!({ "status": "escalated", "decided_by_person": null }), needed(""));
        check(json!({ "status": "escalated", "topic": 7 }), needed("7"));
        check(
            json!({ "status": "escalated", "decided_by_person": { "decision": "x" } }),
            PersonNeeded::Settled,
        );
        check(json!({ "status": "resolved" }), PersonNeeded::Settled);
        check(json!({ "status": "abandoned" }), PersonNeeded::Abandoned);
        check(json!({ "status": 1 }), PersonNeeded::Abandoned);
        check(json!({}), PersonNeeded::Abandoned);
        let mut deleted = discussion(json!({ "status": "resolved" }));
        deleted.deleted_at = Some(at(1));
        assert_eq!(PersonNeeded::for_object(&deleted), Some(PersonNeeded::Abandoned));
        deleted.type_ = "Note".to_owned();
        assert_eq!(PersonNeeded::for_object(&deleted), None);
    }

    #[test]
    fn an_item_begins_ends_and_begins_anew() {
        let project = ProjectId::new();
        let new = |time| InboxItem::new(Uuid::from_u128(1), project, InboxItemKind::Discussion, at(time));
        let after = |time, current: &InboxItem, needed| new(time).after_change(Some(current.clone()), needed);
        assert_eq!(new(1).after_change(None, PersonNeeded::Abandoned), None, "nobody was asked");
        let first = new(1).after_change(None, needed("lunch")).unwrap();
        assert_eq!((first.title.as_str(), first.status), ("lunch", ApprovalStatus::Pending));
        assert_eq!(after(2, &first, needed("dinner")), None, "it waits already");
        let withdrawn = after(2, &first, PersonNeeded::Abandoned).unwrap();
        assert_eq!((withdrawn.status, withdrawn.created_at), (ApprovalStatus::Withdrawn, at(1)));
        assert_eq!(after(3, &withdrawn, PersonNeeded::Settled), None, "it has ended");
        let again = after(4, &withdrawn, needed("dinner")).unwrap();
        assert_eq!((again.title.as_str(), again.created_at), ("dinner", at(4)));
        assert_eq!(after(5, &again, PersonNeeded::Settled).unwrap().status, ApprovalStatus::Decided);
    }

    #[test]
    fn what_a_person_gave_up_is_decided_and_a_decision_does_not_outlive_its_item() {
        let decision = Decision {
            choice: Choice::Deny,
            edited_input: None,
            answer: None,
            reason: None,
            objects_digest: None,
            by: None,
            at: at(2),
        };
        let new = InboxItem::new(Uuid::from_u128(1), ProjectId::new(), InboxItemKind::Escalation, at(1));
        let current = InboxItem { decision: Some(decision), ..new.clone() };
        let ended = new.clone().after_change(Some(current), PersonNeeded::Abandoned).unwrap();
        assert_eq!((ended.status, ended.decision.is_some()), (ApprovalStatus::Decided, true));
        assert_eq!(new.after_change(Some(ended), needed("again")).unwrap().decision, None);
    }
}
