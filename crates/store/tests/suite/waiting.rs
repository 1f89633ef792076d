//! Runs that wait for a person: who wakes them, and that nobody wakes them twice or not at all.

use std::time::Duration;

use emergent_domain::{
    approval::{Approval, ApprovalKind, ApprovalStatus, Choice, Decision, OnExpiry},
    cursor::Page,
    ids::{ApprovalId, ObjectId, ProjectId, RunId, TokenId, ToolCallId},
    inbox::Webhook,
    project_event::{EventSubject, ProjectEvent},
    run::{Run, RunStatus},
    time::Timestamp,
    workflow::{Escalation, Workflow, WorkflowStatus},
};
use emergent_store::{
    Db, Tx,
    approvals::{self, ApprovalFilter, Decided},
    inbox_items, jobs, project_events, projects,
    runs::{self, claim, record, waiting},
    webhooks::{self, WebhookTarget},
    workflows,
};
use emergent_testkit::both_engines;
use serde_json::{Value, json};

use crate::{
    unreadable::now,
    unreadable_runs::{run, workflow},
};

const OWNER: &str = "runner";

fn later(seconds: u64) -> Timestamp {
    now() + Duration::from_secs(seconds)
}

fn running(project: ProjectId, parent: Option<RunId>) -> Run {
    Run {
        id: RunId::new(),
        parent,
        parent_call: None,
        status: RunStatus::Running,
        owner: Some(OWNER.to_owned()),
        seq: 3,
        started_at: Some(now()),
        deadline_base: Some(now()),
        ..run(project)
    }
}

fn request(run: &Run) -> Approval {
    Approval {
        id: ApprovalId::new(),
        project: run.project,
        kind: ApprovalKind::Approval,
        run: run.id,
        call: ToolCallId::new(),
        agent: run.agent,
        agent_name: run.agent_name.clone(),
        tool: "entities_delete".into(),
        server: None,
        input: json!({ "id": 1 }),
        digest: "d".into(),
        question: None,
        status: ApprovalStatus::Pending,
        decision: None,
        expires_at: None,
        on_expiry: OnExpiry::Deny,
        is_overdue: false,
        created_at: now(),
    }
}

fn decision(choice: Choice) -> Decision {
    Decision {
        choice,
        edited_input: None,
        answer: None,
        reason: Some("because".into()),
        objects_digest: None,
        by: Some(TokenId::new()),
        at: later(5),
    }
}

/// Inserts a run that waits for these many requests.
async fn insert_waiting(db: &Db, run: &Run, requests: usize) -> Vec<Approval> {
    let (run, requests) = (run.clone(), (0..requests).map(|_| request(run)).collect::<Vec<_>>());
    let inserted = requests.clone();
    db.write(move |tx| {
        runs::insert(tx, &run)?;
        approvals::insert(tx, &inserted)?;
        assert!(waiting::start_waiting(tx, run.id, OWNER, run.seq, ApprovalKind::Approval, now())?);
        Ok::<_, emergent_store::Error>(())
    })
    .await
    .unwrap();
    requests
}

async fn get(db: &Db, run: &Run) -> Run {
    let (project, id) = (run.project, run.id);
    db.read(move |tx| runs::get(tx, project, id)).await.unwrap().expect("the run is there")
}

async fn decide(db: &Db, approval: &Approval, choice: Choice) -> Decided {
    let approval = approval.clone();
    db.write(move |tx| approvals::decide(tx, &approval, &decision(choice))).await.unwrap()
}

async fn claim(db: &Db, project: ProjectId, at: Timestamp) -> Vec<Run> {
    db.write(move |tx| {
        let mut runs = claim::lock_queued(tx, project, 10)?;
        claim::mark_started(tx, OWNER, at, &mut runs)?;
        Ok::<_, emergent_store::Error>(runs)
    })
    .await
    .unwrap()
}

both_engines! { async fn a_run_goes_on_when_its_last_request_is_decided_and_its_clock_stood_still(db: TestDb) {
    let run = running(ProjectId::new(), None);
    let requests = insert_waiting(&db, &run, 2).await;
    let stored = get(&db, &run).await;
    assert_eq!((stored.status, stored.owner), (RunStatus::Waiting, None));
    assert_eq!(stored.waiting_for, Some(ApprovalKind::Approval));
    assert_eq!(decide(&db, &requests[0], Choice::Approve).await, Decided::Stored { is_queued: false });
    assert!(claim(&db, run.project, later(20)).await.is_empty());
    assert_eq!(decide(&db, &requests[1], Choice::Deny).await, Decided::Stored { is_queued: true });
    let claimed = claim(&db, run.project, later(60)).await;
    assert_eq!(claimed.len(), 1);
    let stored = get(&db, &run).await;
    assert_eq!((stored.status, stored.owner.as_deref()), (RunStatus::Running, Some(OWNER)));
    assert_eq!((stored.started_at, stored.deadline_base), (Some(now()), Some(later(60))));
    assert_eq!((stored.waiting_for, stored.waiting_since), (None, None));
    assert_eq!(claimed[0].deadline_base, Some(later(60)));
} }

both_engines! { async fn whoever_waits_for_a_run_is_woken_when_the_run_begins_to_wait(db: TestDb) {
    let run = running(ProjectId::new(), None);
    let mut waiter = db.waiter(&runs::ended_channel(run.id));
    insert_waiting(&db, &run, 1).await;
    let start = std::time::Instant::now();
    waiter.wait(Duration::from_secs(60)).await;
    assert!(start.elapsed() < Duration::from_secs(30), "nobody was woken");
} }

/// Inserts a run that waits with its owner, because an external server asks for input twice during one call.
async fn insert_asked(db: &Db, run: &Run) -> Vec<Approval> {
    let first = Approval {
        kind: ApprovalKind::Question,
        server: Some("post".into()),
        expires_at: Some(later(86_400)),
        ..request(run)
    };
    let earlier = Approval { id: ApprovalId::new(), status: ApprovalStatus::Decided, ..first.clone() };
    let (run, requests) = (run.clone(), vec![first, earlier]);
    let inserted = requests.clone();
    db.write(move |tx| {
        runs::insert(tx, &run)?;
        approvals::insert(tx, &inserted)?;
        let kind = ApprovalKind::Question;
        assert!(waiting::start_waiting_with_owner(tx, run.id, OWNER, run.seq, kind, now())?);
        Ok::<_, emergent_store::Error>(())
    })
    .await
    .unwrap();
    requests
}

both_engines! { async fn a_run_that_waits_with_its_owner_is_only_continued_by_it(db: TestDb) {
    let run = running(ProjectId::new(), None);
    let (project, id) = (run.project, run.id);
    let requests = insert_asked(&db, &run).await;
    let stored = get(&db, &run).await;
    assert_eq!((stored.status, stored.owner.as_deref()), (RunStatus::Waiting, Some(OWNER)));
    let go_on = |owner: &'static str| db.write(move |tx| waiting::continue_owned(tx, project, id, owner, later(60)));
    assert_eq!(go_on(OWNER).await.unwrap(), None, "nobody has decided");
    assert_eq!(decide(&db, &requests[0], Choice::Answer).await, Decided::Stored { is_queued: true });
    assert_eq!(get(&db, &run).await.status, RunStatus::Running);
    assert!(claim(&db, project, later(20)).await.is_empty(), "it has its owner");
    assert_eq!(go_on("another").await.unwrap(), None);
    let seq = get(&db, &run).await.seq + 1;
    assert_eq!(go_on(OWNER).await.unwrap(), Some((Duration::from_secs(60), seq)));
    let stored = get(&db, &run).await;
    assert_eq!((stored.status, stored.deadline_base, stored.waiting_since), (RunStatus::Running, Some(later(60)), None));
} }

both_engines! { async fn the_requests_of_a_run_whose_owner_is_gone_are_withdrawn_and_the_run_can_be_claimed(db: TestDb) {
    let run = running(ProjectId::new(), None);
    let requests = insert_asked(&db, &run).await;
    db.write(|tx| claim::register(tx, OWNER, later(9), now())).await.unwrap();
    let withdraw = |owner: &'static str, at: Timestamp| db.write(move |tx| {
        waiting::withdraw_orphaned(tx, owner, "it is gone", at, 10)?;
        claim::has_orphaned(tx, at)
    });
    assert!(!withdraw("other", later(5)).await.unwrap(), "its lease is valid");
    assert!(withdraw(OWNER, later(20)).await.unwrap(), "the owner itself knows better");
    assert_eq!(get(&db, &run).await.status, RunStatus::Waiting);
    assert!(withdraw("other", later(20)).await.unwrap());
    let (project, id) = (run.project, requests[0].id);
    let request = db.read(move |tx| approvals::get(tx, project, id)).await.unwrap().unwrap();
    assert_eq!(request.status, ApprovalStatus::Withdrawn);
    assert_eq!(request.decision.unwrap().reason.as_deref(), Some("it is gone"));
    let claimed = db.write(|tx| {
        let orphan = claim::lock_orphaned(tx, "other", &[], later(20), 10)?.remove(0);
        claim::claim_orphan(tx, "other", orphan, Duration::from_secs(9), later(20))
    });
    let claimed = claimed.await.unwrap().unwrap();
    assert_eq!((claimed.deadline_base, claimed.waiting_since), (Some(later(20)), None), "the clock stood still");
} }

both_engines! { async fn the_second_decision_about_a_request_gets_the_first(db: TestDb) {
    let run = running(ProjectId::new(), None);
    let requests = insert_waiting(&db, &run, 1).await;
    decide(&db, &requests[0], Choice::Deny).await;
    let Decided::NotPending(current) = decide(&db, &requests[0], Choice::Approve).await else { panic!() };
    assert_eq!(current.status, ApprovalStatus::Decided);
    assert_eq!(
        current.decision,
        Some(decision(Choice::Deny)).map(|d| Decision { by: current.decision.as_ref().unwrap().by, ..d })
    );
} }

both_engines! { async fn however_many_decide_at_once_the_run_is_queued_exactly_once(db: TestDb) {
    for _ in 0..10 {
        let run = running(ProjectId::new(), None);
        let requests = insert_waiting(&db, &run, 4).await;
        let decisions = requests.iter().flat_map(|request| [request, request]).map(|request| {
            let (db, request) = (Db::clone(&db), request.clone());
            tokio::spawn(async move { decide(&db, &request, Choice::Approve).await })
        });
        let (mut queued, mut refused) = (0, 0);
        for decided in decisions.collect::<Vec<_>>() {
            match decided.await.unwrap() {
                Decided::Stored { is_queued } => queued += i32::from(is_queued),
                Decided::NotPending(_) => refused += 1,
            }
        }
        assert_eq!((queued, refused), (1, 4));
        assert_eq!(claim(&db, run.project, later(60)).await.len(), 1);
    }
} }

both_engines! { async fn a_parent_whose_children_all_wait_is_woken_by_the_first_of_them(db: TestDb) {
    for _ in 0..10 {
        let parent = running(ProjectId::new(), None);
        let child = running(parent.project, Some(parent.id));
        let inserted = parent.clone();
        db.write(move |tx| runs::insert(tx, &inserted)).await.unwrap();
        let requests = insert_waiting(&db, &child, 1).await;
        // The parent starts to wait while the child is woken: in whichever order, the parent ends up queued or
        // goes on running, and never waits for ever.
        let (waits, db_of_parent) = (parent.clone(), Db::clone(&db));
        let waiting = tokio::spawn(async move {
            db_of_parent
                .write(move |tx| {
                    Ok::<_, emergent_store::Error>(
                        match waiting::lock_waiting_children(tx, waits.id, None, 1)? {
                            Some(kind) => {
                                waiting::start_waiting(tx, waits.id, OWNER, waits.seq, kind, now())?
                            }
                            None => false,
                        },
                    )
                })
                .await
                .unwrap()
        });
        decide(&db, &requests[0], Choice::Approve).await;
        let waited = waiting.await.unwrap();
        let status = get(&db, &parent).await.status;
        assert_eq!(status, if waited { RunStatus::Queued } else { RunStatus::Running });
        assert_eq!(get(&db, &child).await.status, RunStatus::Queued);
    }
} }

both_engines! { async fn cancelling_a_waiting_run_withdraws_its_requests_and_wakes_its_parent(db: TestDb) {
    let parent = running(ProjectId::new(), None);
    let child = running(parent.project, Some(parent.id));
    let inserted = parent.clone();
    db.write(move |tx| runs::insert(tx, &inserted)).await.unwrap();
    let requests = insert_waiting(&db, &child, 2).await;
    let (waits, cancelled) = (parent.clone(), child.clone());
    db.write(move |tx| {
        let kind = waiting::lock_waiting_children(tx, waits.id, None, 1)?.expect("the child waits");
        assert!(waiting::start_waiting(tx, waits.id, OWNER, waits.seq, kind, now())?);
        record::cancel_tree(tx, cancelled.project, cancelled.id, "enough", later(1))
    })
    .await
    .unwrap();
    assert_eq!(get(&db, &child).await.status, RunStatus::Cancelled);
    assert_eq!(get(&db, &parent).await.status, RunStatus::Queued);
    let (project, filter) = (parent.project, ApprovalFilter::default());
    let page = Page { limit: 10, after: None };
    let listed = db.read(move |tx| approvals::list(tx, project, &filter, &page)).await.unwrap().items;
    assert_eq!(listed.len(), 2);
    assert!(listed.iter().all(|approval| approval.status == ApprovalStatus::Withdrawn));
    let Decided::NotPending(current) = decide(&db, &requests[0], Choice::Approve).await else { panic!() };
    assert_eq!(current.status, ApprovalStatus::Withdrawn);
} }

both_engines! { async fn followers_of_the_project_are_woken_when_a_run_waits_and_goes_on(db: TestDb) {
    let run = running(ProjectId::new(), None);
    let (inserted, id, seq) = (run.clone(), run.id, run.seq);
    db.write(move |tx| runs::insert(tx, &inserted)).await.unwrap();
    let mut waiter = db.waiter(&project_events::channel(run.project));
    let start = move |tx: &mut Tx<'_>| waiting::start_waiting(tx, id, OWNER, seq, ApprovalKind::Question, now());
    assert!(db.write(start).await.unwrap());
    assert!(waiter.wait_for_wake(Duration::from_secs(20)).await, "the run waits");
    let mut waiter = db.waiter(&project_events::channel(run.project));
    assert!(db.write(move |tx| waiting::queue_again(tx, id)).await.unwrap());
    assert!(waiter.wait_for_wake(Duration::from_secs(20)).await, "the run goes on");
} }

async fn all_events(db: &Db, project: ProjectId) -> Vec<ProjectEvent> {
    let read = move |tx: &mut Tx<'_>| project_events::read_after(tx, project, Default::default(), 100);
    db.read(read).await.unwrap().items
}

both_engines! { async fn requests_and_their_ends_are_events_of_the_project(db: TestDb) {
    let (run, other) = (running(ProjectId::new(), None), ProjectId::new());
    let requests = insert_waiting(&db, &run, 3).await;
    decide(&db, &requests[0], Choice::Approve).await;
    let expired = requests[1].clone();
    db.write(move |tx| approvals::expire(tx, &expired, &decision(Choice::Deny))).await.unwrap();
    let (project, id) = (run.project, run.id);
    db.write(move |tx| record::cancel_tree(tx, project, id, "test", now())).await.unwrap();
    // On PostgreSQL an event is visible when all older transactions of the cluster have ended.
    let mut told = Vec::new();
    for _ in 0..2_000 {
        let events = all_events(&db, project).await;
        told = events.into_iter().filter_map(|event| match event {
            ProjectEvent::Status(event) if event.subject == EventSubject::Approval => Some(event),
            _ => None,
        }).collect();
        if told.len() >= 6 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let statuses: Vec<&str> = told.iter().map(|event| event.status.as_str()).collect();
    assert_eq!(statuses, ["pending", "pending", "pending", "decided", "expired", "withdrawn"]);
    for (event, request) in told.iter().skip(3).zip(&requests) {
        assert_eq!((event.subject_id, event.parent), (request.id.0, Some(run.id.0)));
        assert_eq!((event.name.as_str(), event.reason.as_deref()), (run.agent_name.as_str(), Some("approval")));
    }
    assert!(all_events(&db, other).await.is_empty());
} }

/// The targets and the notices of all deliveries that wait, in the order in which they were written.
async fn notices(db: &Db) -> Vec<(WebhookTarget, Value)> {
    let read = |tx: &mut Tx<'_>| {
        let mut claimed = Vec::new();
        for queue in [webhooks::QUEUE, webhooks::SERVER_QUEUE] {
            claimed.extend(jobs::claim(tx, queue, "test", Duration::from_secs(60), later(60), 100)?);
        }
        Ok::<_, emergent_store::Error>(claimed)
    };
    let mut claimed = db.write(read).await.unwrap();
    claimed.sort_by_key(|job| job.id);
    claimed.iter().map(|job| webhooks::read_job(job).expect("a notice")).collect()
}

both_engines! { async fn a_notice_is_written_with_the_request_and_with_its_end_if_somebody_wants_it(db: TestDb) {
    let insert = |tx: &mut Tx<'_>| projects::insert(tx, "told", false, now());
    let mut project = db.write(insert).await.unwrap().unwrap();
    let quiet = running(project.id, None);
    insert_waiting(&db, &quiet, 1).await;
    assert!(notices(&db).await.is_empty(), "nobody wants it");
    project.webhook = Some(Webhook { url: "https://example.com/hook".into(), secret: "KEY".into() });
    let changed = project.clone();
    db.write(move |tx| projects::update(tx, &changed)).await.unwrap();
    let (id, hook) = (project.id, project.webhook.clone());
    assert_eq!(db.read(move |tx| webhooks::get_project_webhook(tx, id)).await.unwrap(), hook);
    let run = running(project.id, None);
    let requests = insert_waiting(&db, &run, 1).await;
    let told = notices(&db).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, WebhookTarget::Project);
    assert_eq!(told[0].1["type"], "item_created");
    assert_eq!(told[0].1["item"]["id"], requests[0].id.to_string());
    assert_eq!((&told[0].1["item"]["kind"], &told[0].1["item"]["status"]), (&json!("approval"), &json!("pending")));
    assert!(told[0].1["item"].get("input").is_none(), "the input stays here");
    db.write(|tx| webhooks::set_server_webhook(tx, true, now())).await.unwrap();
    db.write(|tx| webhooks::set_server_webhook(tx, true, now())).await.unwrap();
    decide(&db, &requests[0], Choice::Deny).await;
    let told = notices(&db).await;
    assert_eq!(told.iter().map(|(target, _)| *target).collect::<Vec<_>>(), [WebhookTarget::Project, WebhookTarget::Server]);
    assert!(told.iter().all(|(_, notice)| notice["type"] == "item_decided" && notice["item"]["status"] == "decided"));
    let overdue = insert_waiting(&db, &running(run.project, None), 1).await.remove(0);
    notices(&db).await;
    for is_first in [true, false] {
        let request = overdue.clone();
        assert_eq!(db.write(move |tx| approvals::mark_overdue(tx, &request, later(1))).await.unwrap(), is_first);
    }
    let told = notices(&db).await;
    assert_eq!(told.len(), 2, "the project and the server are told once");
    assert!(told.iter().all(|(_, notice)| notice["type"] == "item_overdue" && notice["item"]["status"] == "pending"));
    db.write(|tx| webhooks::set_server_webhook(tx, false, later(1))).await.unwrap();
    project.webhook = None;
    db.write(move |tx| projects::update(tx, &project)).await.unwrap();
    insert_waiting(&db, &running(run.project, None), 1).await;
    assert!(notices(&db).await.is_empty(), "nobody wants it any more");
} }

both_engines! { async fn a_workflow_is_told_of_when_it_is_escalated_and_when_it_goes_on(db: TestDb) {
    let insert = |tx: &mut Tx<'_>| projects::insert(tx, "told", false, now());
    let project = db.write(insert).await.unwrap().unwrap().id;
    db.write(|tx| webhooks::set_server_webhook(tx, true, now())).await.unwrap();
    let running = Workflow { status: WorkflowStatus::Running, ..workflow(project) };
    let inserted = running.clone();
    db.write(move |tx| workflows::insert(tx, &inserted)).await.unwrap();
    let escalation = Escalation {
        reason: "nobody knows how".into(),
        task: None,
        discussion: None,
        options: Vec::new(),
        at: now(),
    };
    let escalated =
        Workflow { status: WorkflowStatus::Escalated, escalation: Some(escalation), ..running.clone() };
    for (from, to) in [(WorkflowStatus::Running, escalated), (WorkflowStatus::Escalated, running)] {
        assert!(db.write(move |tx| workflows::update(tx, from, &to)).await.unwrap());
    }
    let told = notices(&db).await;
    let items: Vec<_> = told.iter().map(|(_, notice)| (&notice["type"], &notice["item"]["kind"])).collect();
    let escalation = json!("escalation");
    assert_eq!(items, [(&json!("item_created"), &escalation), (&json!("item_decided"), &escalation)]);
    assert_eq!(told[0].1["item"]["title"], "nobody knows how");
} }

both_engines! { async fn a_workflow_that_waits_for_a_discussion_is_told_of_only_by_the_discussion(db: TestDb) {
    let insert = |tx: &mut Tx<'_>| projects::insert(tx, "asked", false, now());
    let project = db.write(insert).await.unwrap().unwrap().id;
    db.write(|tx| webhooks::set_server_webhook(tx, true, now())).await.unwrap();
    let running = Workflow { status: WorkflowStatus::Running, ..workflow(project) };
    let inserted = running.clone();
    db.write(move |tx| workflows::insert(tx, &inserted)).await.unwrap();
    let escalated_for = |reason: &str, discussion: Option<ObjectId>| {
        let (reason, at) = (reason.to_owned(), now());
        let escalation = Escalation { reason, task: None, discussion, options: Vec::new(), at };
        Workflow { status: WorkflowStatus::Escalated, escalation: Some(escalation), ..running.clone() }
    };
    let (id, escalated) = (running.id.0, WorkflowStatus::Escalated);
    let undecided = escalated_for("they do not agree", Some(ObjectId::new()));
    assert!(db.write(move |tx| workflows::update(tx, WorkflowStatus::Running, &undecided)).await.unwrap());
    assert!(notices(&db).await.is_empty(), "the discussion has an item");
    assert_eq!(db.read(move |tx| inbox_items::get(tx, project, id)).await.unwrap(), None);

    // What it waits for changes.
    let other = escalated_for("it is being cancelled", None);
    assert!(db.write(move |tx| workflows::update(tx, escalated, &other)).await.unwrap());
    let item = db.read(move |tx| inbox_items::get(tx, project, id)).await.unwrap().expect("an item");
    assert_eq!((item.title.as_str(), item.status), ("it is being cancelled", ApprovalStatus::Pending));
    assert_eq!(notices(&db).await.len(), 1);
} }
