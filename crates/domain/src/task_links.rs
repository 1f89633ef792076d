//! The properties that link a task or a discussion to a workflow, a run or a decision.
//!
//! Whoever writes them makes the dispatcher start or resume agents, or decides in the name of a person. So
//! only the dispatcher and the commands on workflows write them, which need a scope of their own. To an author
//! who may write the graph and nothing more, they are read-only.

use serde_json::{Map, Value};

use crate::task::TASK_TYPE;

/// The object type of discussions.
pub const DISCUSSION_TYPE: &str = "Discussion";

const WORKFLOW_ID: &str = "workflow_id";
const SETTINGS: &str = "settings";
const TASK_LINKS: &[&str] = &[WORKFLOW_ID, "run_id", "resumes", "needs_person"];
/// The agents of a task, and what makes them work again. Without a workflow they are a wish. With one, the
/// dispatcher starts them.
const TASK_AGENTS: &[&str] = &[
    "assigned_agent",
    "agent_is_named",
    "requires_collaboration",
    "collaborators",
    "discussion",
    "max_retries",
    "retry_count",
    "verdict",
    "verifies",
];
const DISCUSSION_LINKS: &[&str] =
    &[SETTINGS, "run_id", "task_id", "entered", "absent", "required", "decided_by_person"];
/// What a discussion that the dispatcher conducts has come to.
const DISCUSSION_OUTCOME: &[&str] = &["status", "final_decision", "consensus_level", "escalation"];

/// Who changes an object, as far as links depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkAuthor {
    /// A token that writes the object like any other.
    Token,
    /// A run, through one of its tools. It works under a definition that somebody with more rights saved.
    Run,
}

/// A property that the author may not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedLink {
    pub property: &'static str,
    type_: &'static str,
}

impl RefusedLink {
    /// Whether it is the workflow of a task.
    pub fn names_workflow(&self) -> bool {
        self.type_ == TASK_TYPE && self.property == WORKFLOW_ID
    }

    /// Why the change is refused, and what to do instead.
    pub fn reason(&self) -> &'static str {
        match (self.type_, self.property) {
            (TASK_TYPE, WORKFLOW_ID) => {
                "only the dispatcher sets it: leave it out, and add the task to a workflow with `POST \
                 /api/coordination/tasks` or the tool `tasks_create`"
            }
            (TASK_TYPE, property) if TASK_AGENTS.contains(&property) => {
                "belongs to the workflow of the task: change it with `POST /api/coordination/tasks/{id}/reassign` \
                 or the tool `tasks_update`"
            }
            (DISCUSSION_TYPE, "decided_by_person") => {
                "is set when a person decides, with `POST /api/coordination/discussions/{id}/decide`: leave it out"
            }
            (DISCUSSION_TYPE, property) if DISCUSSION_OUTCOME.contains(&property) => {
                "the dispatcher conducts this discussion and sets it: leave it out; a person decides an escalated \
                 discussion with `POST /api/coordination/discussions/{id}/decide`"
            }
            _ => "only the dispatcher sets it: leave it out",
        }
    }
}

/// Returns the links that a change would write. `before` has the properties of the object if it had the same
/// type before.
pub fn find_refused_links(
    type_: &str,
    before: Option<&Map<String, Value>>,
    after: &Map<String, Value>,
    author: LinkAuthor,
) -> Vec<RefusedLink> {
    let find = |type_: &'static str, groups: [&[&'static str]; 2]| -> Vec<RefusedLink> {
        let changed = groups.into_iter().flatten().copied().filter(|name| {
            before.and_then(|before| present_value(before, name)) != present_value(after, name)
        });
        changed.map(|property| RefusedLink { property, type_ }).collect()
    };
    match type_ {
        TASK_TYPE => {
            let is_driven = present_value(after, WORKFLOW_ID).is_some();
            let agents = if is_driven && author == LinkAuthor::Token { TASK_AGENTS } else { &[] };
            find(TASK_TYPE, [TASK_LINKS, agents])
        }
        DISCUSSION_TYPE => {
            let is_conducted = before.is_some_and(|before| present_value(before, SETTINGS).is_some());
            let outcome = if is_conducted { DISCUSSION_OUTCOME } else { &[] };
            find(DISCUSSION_TYPE, [DISCUSSION_LINKS, outcome])
        }
        _ => Vec::new(),
    }
}

/// The first property that links a task to a workflow, a run or a decision. With another type, the object would have
/// no links: whoever changes the type could remove them and make it a task again that nobody decides about.
pub fn find_link_of_task(type_: &str, properties: &Map<String, Value>) -> Option<&'static str> {
    let links = if type_ == TASK_TYPE { TASK_LINKS } else { &[] };
    links.iter().copied().find(|name| present_value(properties, name).is_some())
}

/// Who may delete a discussion, or turn it into an object of another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscussionRemoval {
    /// Whoever may write the graph: the dispatcher does not conduct it.
    Anybody,
    /// Whoever may change the tasks of its workflow: it has ended, and its decision counts there.
    EditorOfWorkflow,
    /// Nobody, because the dispatcher would start it again.
    Nobody,
}

/// Who may remove a discussion with these properties.
pub fn discussion_removal(properties: &Map<String, Value>) -> DiscussionRemoval {
    let status = present_value(properties, "status").and_then(Value::as_str);
    match (present_value(properties, SETTINGS), status) {
        (None, _) => DiscussionRemoval::Anybody,
        (Some(_), Some("resolved" | "abandoned")) => DiscussionRemoval::EditorOfWorkflow,
        (Some(_), _) => DiscussionRemoval::Nobody,
    }
}

/// A property that is null is absent.
fn present_value<'a>(properties: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    properties.get(name).filter(|value| !value.is_null())
}

/// Removes the links of an object that comes from a file: they lead to workflows and runs that the file does
/// not contain.
pub fn remove_links(type_: &str, properties: &mut Map<String, Value>) {
    let links = match type_ {
        TASK_TYPE => TASK_LINKS,
        DISCUSSION_TYPE => DISCUSSION_LINKS,
        _ => return,
    };
    for link in links {
        properties.remove(*link);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(type_: &str, before: Option<Value>, after: Value, author: LinkAuthor) -> Option<&'static str> {
        let map = |value: Value| value.as_object().cloned().unwrap();
        let before = before.map(map);
        find_refused_links(type_, before.as_ref(), &map(after), author)
            .first()
            .map(|refused| refused.property)
    }

    fn by_token(type_: &str, before: Option<Value>, after: Value) -> Option<&'static str> {
        refused(type_, before, after, LinkAuthor::Token)
    }

    #[test]
    fn a_wish_is_no_link() {
        let wish = json!({ "title": "t", "kind": "test", "assigned_agent": "a", "collaborators": ["b"] });
        assert_eq!(by_token("SpecTask", None, wish.clone()), None);
        assert_eq!(by_token("SpecTask", Some(json!({})), wish), None);
        assert_eq!(by_token("Note", None, json!({ "workflow_id": "w", "decided_by_person": {} })), None);
    }

    #[test]
    fn links_to_workflows_runs_and_decisions_are_refused() {
        for name in ["workflow_id", "run_id", "resumes", "needs_person"] {
            assert_eq!(by_token("SpecTask", None, json!({ name: "x" })), Some(name));
            assert_eq!(by_token("SpecTask", Some(json!({ name: "x" })), json!({ name: "y" })), Some(name));
            assert_eq!(by_token("SpecTask", Some(json!({ name: "x" })), json!({})), Some(name), "removed");
            let same = json!({ name: "x", "title": "new" });
            assert_eq!(by_token("SpecTask", Some(json!({ name: "x" })), same), None);
        }
        for name in ["settings", "run_id", "task_id", "entered", "absent", "required", "decided_by_person"] {
            assert_eq!(by_token("Discussion", None, json!({ name: "x", "topic": "t" })), Some(name));
        }
    }

    #[test]
    fn the_agents_of_a_task_belong_to_its_workflow() {
        let before = || Some(json!({ "workflow_id": "w", "assigned_agent": "a" }));
        let after = json!({ "workflow_id": "w", "assigned_agent": "b" });
        assert_eq!(by_token("SpecTask", before(), after.clone()), Some("assigned_agent"));
        assert_eq!(refused("SpecTask", before(), after, LinkAuthor::Run), None);
    }

    #[test]
    fn a_task_is_linked_by_any_of_its_links() {
        let link = |type_, value: Value| find_link_of_task(type_, value.as_object().unwrap());
        assert_eq!(link("SpecTask", json!({ "workflow_id": null, "run_id": "r" })), Some("run_id"));
        assert_eq!(link("SpecTask", json!({ "workflow_id": null, "assigned_agent": "a" })), None);
        assert_eq!(link("Note", json!({ "workflow_id": "w" })), None);
    }

    #[test]
    fn the_outcome_of_a_discussion_belongs_to_whoever_conducts_it() {
        let conducted = || Some(json!({ "settings": {}, "status": "active" }));
        let resolved = json!({ "settings": {}, "status": "resolved" });
        assert_eq!(by_token("Discussion", conducted(), resolved), Some("status"));
        let plain = Some(json!({ "status": "active" }));
        assert_eq!(by_token("Discussion", plain, json!({ "status": "resolved" })), None);
    }

    #[test]
    fn a_discussion_is_not_removed_while_it_is_conducted() {
        let removal = |value: Value| discussion_removal(value.as_object().unwrap());
        assert_eq!(removal(json!({ "status": "active" })), DiscussionRemoval::Anybody);
        for status in ["active", "escalated"] {
            let conducted = json!({ "settings": {}, "status": status });
            assert_eq!(removal(conducted), DiscussionRemoval::Nobody);
        }
        let ended = json!({ "settings": {}, "status": "resolved" });
        assert_eq!(removal(ended), DiscussionRemoval::EditorOfWorkflow);
    }

    #[test]
    fn an_object_from_a_file_has_no_links() {
        let mut task = json!({ "title": "t", "workflow_id": "w", "run_id": "r", "resumes": 1 });
        remove_links("SpecTask", task.as_object_mut().unwrap());
        assert_eq!(task, json!({ "title": "t" }));
        let mut note = json!({ "workflow_id": "w" });
        remove_links("Note", note.as_object_mut().unwrap());
        assert_eq!(note, json!({ "workflow_id": "w" }));
    }
}
