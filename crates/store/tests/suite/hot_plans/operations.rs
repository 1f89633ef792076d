//! The operations, each with the most blocks that it may read. An index of these tables has two or three levels, so a
//! row that is found by an index takes up to four blocks, and a row that is written takes about four for each index.

use std::{collections::HashMap, time::Duration};

use emergent_domain::{
    author::Author,
    change::FeedPosition,
    cursor::Page,
    ids::{ObjectId, ProjectId, RelationshipId},
    indexed_text::indexed_text,
    json::JsonObject,
    object::Object,
    project_event::StreamPosition,
    query::Direction,
    relationship::Relationship,
    run::{MessageRole, RunEnd, ToolCallStatus},
    run_event::RecordedToolCall,
};
use emergent_store::{
    Result, Tx, feed,
    jobs::{self, NewJob},
    objects, project_events, relationships,
    runs::{self, claim, conversation, record, rehearsals},
    search, tasks, transfer,
    triggers::{
        self,
        firings::{self, DueFirings},
    },
    workflows::{self, ClaimLimits, NewWorkflowEvent},
};
use serde_json::json;
use uuid::Uuid;

use super::rows::{
    EDGE, HELD_BACK, HUB, JOB, MESSAGE, OWNER, PROJECT, QUEUE, QUIET, RUN, RUN_SEQ, SESSION, TASK, WATCHER,
    WORKFLOW, due_later, first_due, message, now, tool_call,
};

pub type Operation = fn(&mut Tx<'_>) -> Result<()>;

const LEASE: Duration = Duration::from_secs(30);

fn new_object() -> Object {
    Object {
        id: ObjectId::new(),
        project: PROJECT,
        type_: "SpecTask".to_owned(),
        key: Some("new".to_owned()),
        status: None,
        labels: Vec::new(),
        properties: JsonObject::empty(),
        version: 1,
        created_at: now(),
        updated_at: now(),
        deleted_at: None,
        author: Author::System,
        reason: None,
    }
}

fn new_edge() -> Relationship {
    Relationship {
        id: RelationshipId::new(),
        project: PROJECT,
        type_: "mentions".to_owned(),
        from: TASK,
        to: MESSAGE,
        properties: JsonObject::empty(),
        weight: None,
        version: 1,
        created_at: now(),
        updated_at: now(),
        deleted_at: None,
        deleted_with: None,
        author: Author::System,
        reason: None,
    }
}

/// Each has a name, the most blocks that it may read, and what it does.
pub const OPERATIONS: &[(&str, i64, Operation)] = &[
    ("creating an object", 150, |tx| {
        let (object, text) = (new_object(), indexed_text("SpecTask", None, &[], &serde_json::Map::new()));
        let inserted = objects::insert_many(tx, 1, &[objects::NewRow { object: &object, text: &text }])?;
        assert!(inserted[0].is_some(), "no other object has the key");
        Ok(())
    }),
    ("changing an object", 150, |tx| {
        let locked = objects::lock(tx, PROJECT, TASK)?.expect("the task");
        let next = Object { version: locked.object.version + 1, updated_at: now(), ..locked.object };
        objects::update(tx, locked.no, &next)
    }),
    ("locking objects together", 40, |tx| {
        objects::lock_many(tx, PROJECT, &[TASK, MESSAGE, SESSION])?;
        assert!(objects::lock(tx, PROJECT, SESSION)?.is_some());
        Ok(())
    }),
    ("getting an object", 12, |tx| {
        assert!(objects::get(tx, PROJECT, TASK)?.is_some());
        Ok(())
    }),
    ("getting the number of an object", 12, |tx| {
        assert!(search::object_no(tx, PROJECT, TASK)?.is_some());
        Ok(())
    }),
    ("locking an object by its key", 16, |tx| {
        assert!(objects::lock_by_key(tx, PROJECT, "SpecTask", "k4")?.is_some());
        Ok(())
    }),
    ("finding an object by its key", 12, |tx| {
        assert_eq!(objects::id_by_key(tx, PROJECT, "SpecTask", "k4")?, Some(TASK));
        Ok(())
    }),
    ("finding objects by their keys", 40, |tx| {
        let keys = ["k4", "k8", "k12", "k16"];
        assert_eq!(transfer::objects_by_key(tx, PROJECT, "SpecTask", &keys)?.len(), 4);
        Ok(())
    }),
    ("reading the versions of an object", 30, |tx| {
        assert_eq!(objects::history(tx, PROJECT, TASK, &Page::first(10))?.items.len(), 2);
        Ok(())
    }),
    ("finding an object by the key that it had", 40, |tx| {
        let found = objects::state_by_key_at(tx, PROJECT, "Note", "old4", now())?;
        assert_eq!(found.map(|state| (state.id, state.key)), Some((TASK, Some("k4".to_owned()))));
        Ok(())
    }),
    ("listing the names that objects had", 60, |tx| {
        let names = objects::list_earlier_names(tx, PROJECT, &[TASK, MESSAGE], 51)?;
        assert!(names.iter().any(|name| name.object == TASK && name.key.as_deref() == Some("old4")));
        Ok(())
    }),
    ("creating an edge", 120, |tx| {
        assert_eq!(relationships::insert_many(tx, 1, &[new_edge()])?, [true]);
        Ok(())
    }),
    ("finding an edge", 12, |tx| {
        assert!(relationships::find(tx, SESSION, "has_message", MESSAGE)?.is_some());
        Ok(())
    }),
    ("getting an edge", 24, |tx| {
        assert!(relationships::get(tx, PROJECT, EDGE)?.is_some());
        Ok(())
    }),
    ("locking an edge", 28, |tx| {
        assert!(relationships::lock(tx, PROJECT, EDGE)?.is_some());
        Ok(())
    }),
    ("counting the messages of a session", 12, |tx| {
        assert_eq!(relationships::count_from(tx, PROJECT, SESSION, "has_message")?, 1);
        Ok(())
    }),
    ("listing the edges of an object", 60, |tx| {
        let page = Page::first(10);
        let edges = relationships::list_for_object(tx, PROJECT, SESSION, Direction::Out, &[], &page)?;
        assert_eq!(edges.items.len(), 1);
        Ok(())
    }),
    ("finding out which objects have edges", 60, |tx| {
        assert_eq!(relationships::with_edges(tx, &[TASK, SESSION, HUB])?.len(), 3);
        Ok(())
    }),
    ("finding the next events of a limited trigger", 40, |tx| {
        assert_eq!(firings::list_first_due(tx, HELD_BACK, now(), 2)?.len(), 2);
        Ok(())
    }),
    ("finding due events behind those that are held back", 60, |tx| {
        let which = DueFirings::Without(&[HELD_BACK]);
        let due = firings::list_due(tx, PROJECT, which, &HashMap::new(), now(), 10)?;
        assert_eq!(due.iter().map(|firing| firing.agent).collect::<Vec<_>>(), [QUIET]);
        Ok(())
    }),
    ("finding the events of an agent that share a run", 60, |tx| {
        assert_eq!(firings::list_pending(tx, PROJECT, HELD_BACK, None, 10)?.len(), 10);
        Ok(())
    }),
    ("finding the events of an object that share a run", 40, |tx| {
        assert_eq!(firings::list_pending(tx, PROJECT, WATCHER, Some(HUB.0), 10)?.len(), 2);
        Ok(())
    }),
    ("finding when the next event is due", 60, |tx| {
        let due = (firings::next_due_at(tx)?, firings::next_due_after(tx, now())?);
        assert_eq!(due, (Some(first_due()), Some(due_later())));
        Ok(())
    }),
    ("finding the projects with due events", 60, |tx| {
        assert_eq!(triggers::projects_with_due_firings(tx, now())?, [PROJECT]);
        Ok(())
    }),
    ("getting a run", 16, |tx| {
        assert!(runs::get(tx, PROJECT, RUN)?.is_some());
        Ok(())
    }),
    ("locking a run", 16, |tx| {
        assert!(runs::get_for_update(tx, PROJECT, RUN)?.is_some());
        Ok(())
    }),
    ("getting a run of its owner", 12, |tx| {
        assert!(claim::get_owned(tx, OWNER, RUN)?.is_some());
        Ok(())
    }),
    ("loading a conversation", 30, |tx| {
        assert_eq!(conversation::load(tx, RUN)?.messages.len(), 2);
        Ok(())
    }),
    ("recording a step", 120, |tx| {
        assert!(record::advance(tx, RUN, OWNER, RUN_SEQ, RUN_SEQ + 4, 1)?, "the run has its owner");
        record::insert_message(tx, RUN, &message(RUN_SEQ + 1, MessageRole::User))?;
        let call = tool_call(RUN_SEQ + 2);
        record::insert_calls(tx, RUN, std::slice::from_ref(&call))?;
        let (status, output) = (ToolCallStatus::Completed, Some(json!({ "found": 1 })));
        let ended = RecordedToolCall { status, output, result_seq: Some(RUN_SEQ + 3), ..call };
        assert!(record::complete_call(tx, RUN, &ended)?, "the call had no result");
        record::insert_event(tx, RUN, RUN_SEQ + 4, "limit_reached", &json!({}), now())
    }),
    ("ending a run", 120, |tx| {
        let (end, seq) = (RunEnd::completed("Done."), RUN_SEQ + 1);
        let step = record::Advance { run: RUN, owner: OWNER, last_seq: RUN_SEQ, seq, steps: 1 };
        let ended = record::mark_ended(tx, step, &end, now())?.expect("the run has its owner");
        record::finish_end(tx, ended, &end, now())
    }),
    ("finding the projects with queued runs", 60, |tx| {
        assert!(claim::list_waiting_projects(tx, ProjectId(Uuid::nil()))?.contains(&PROJECT));
        Ok(())
    }),
    ("claiming a run", 120, |tx| {
        let mut queued = claim::lock_queued(tx, PROJECT, 1)?;
        assert_eq!(queued.len(), 1);
        claim::mark_started(tx, OWNER, now(), &mut queued)
    }),
    ("renewing the lease of a runner", 20, |tx| {
        assert!(claim::renew_lease(tx, OWNER, now() + LEASE)?);
        Ok(())
    }),
    ("finding lost runs", 12, |tx| {
        assert!(claim::list_lost(tx, OWNER, &[RUN])?.is_empty());
        Ok(())
    }),
    ("adding a job", 40, |tx| {
        assert!(jobs::enqueue(tx, &NewJob { key: Some("k"), ..NewJob::new(QUEUE, now()) })?.is_some());
        Ok(())
    }),
    ("claiming a job", 60, |tx| {
        assert_eq!(jobs::claim(tx, QUEUE, "another worker", LEASE, now(), 1)?.len(), 1);
        Ok(())
    }),
    ("renewing the lease of a job", 40, |tx| {
        assert!(jobs::heartbeat(tx, JOB, OWNER, now() + LEASE)?);
        Ok(())
    }),
    ("completing a job", 60, |tx| {
        assert!(jobs::lock_owned(tx, JOB, OWNER)?);
        assert!(jobs::complete(tx, JOB, OWNER, now())?);
        Ok(())
    }),
    ("claiming a workflow", 80, |tx| {
        let limits = ClaimLimits { total: 1, per_project: 4, owned: HashMap::new() };
        assert_eq!(workflows::claim(tx, "a dispatcher", &limits, now(), now() + LEASE)?.len(), 1);
        Ok(())
    }),
    ("deciding for a workflow", 80, |tx| {
        assert!(workflows::lock_owned(tx, PROJECT, WORKFLOW, OWNER)?.is_some());
        let started = NewWorkflowEvent {
            kind: "task_started",
            task: Some(TASK),
            run: None,
            data: json!({}),
            at: now(),
        };
        workflows::write_decisions(tx, WORKFLOW, now() + LEASE, &[started])
    }),
    ("changing a task of a workflow", 60, |tx| {
        assert!(workflows::bump_revision(tx, PROJECT, WORKFLOW)?);
        Ok(())
    }),
    ("locking a workflow", 16, |tx| {
        assert!(workflows::lock(tx, PROJECT, WORKFLOW)?.is_some());
        Ok(())
    }),
    ("listing the tasks of a workflow", 60, |tx| {
        assert_eq!(tasks::list_for_workflow(tx, PROJECT, WORKFLOW)?.len(), 16);
        Ok(())
    }),
    ("counting the tasks of a workflow", 60, |tx| {
        assert_eq!(tasks::count(tx, PROJECT, WORKFLOW)?, 16);
        Ok(())
    }),
    ("listing the blockers in a workflow", 420, |tx| {
        assert_eq!(tasks::list_blocks(tx, PROJECT, WORKFLOW)?.len(), 15);
        Ok(())
    }),
    ("finding out whether a task is blocked", 24, |tx| {
        assert!(tasks::is_blocked(tx, TASK)?);
        Ok(())
    }),
    ("listing the neighbours of a task", 40, |tx| {
        let (blockers, dependents) = tasks::neighbours(tx, PROJECT, TASK)?;
        assert_eq!((blockers.len(), dependents.len()), (1, 1));
        Ok(())
    }),
    ("listing the sessions of a workflow", 40, |tx| {
        assert_eq!(workflows::list_sessions(tx, WORKFLOW)?.len(), 2);
        Ok(())
    }),
    ("listing the attempts of a workflow", 24, |tx| {
        assert_eq!(workflows::list_attempts(tx, WORKFLOW)?.len(), 2);
        Ok(())
    }),
    ("finding rehearsals among workflows", 24, |tx| {
        assert!(rehearsals::list_rehearsed_workflows(tx, &[WORKFLOW])?.is_empty());
        Ok(())
    }),
    ("reading the change feed", 40, |tx| {
        // A reader stops before a transaction that another test has open, so nothing is said about the changes.
        feed::read_after(tx, PROJECT, FeedPosition::default(), 10).map(drop)
    }),
    ("reading the end of the change feed", 20, |tx| feed::latest(tx, PROJECT).map(drop)),
    ("reading the events of a project", 80, |tx| {
        project_events::read_after(tx, PROJECT, StreamPosition::default(), 10).map(drop)
    }),
];
