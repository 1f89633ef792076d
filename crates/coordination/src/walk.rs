//! One workflow, walked from task to task: look, decide, write, wait. What is known is kept in
//! memory while nobody else changes it; a change from outside makes it look again.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use emergent_domain::{
    ids::{ObjectId, ProjectId, RunId, WorkflowId},
    task::{Task, TaskStatus},
    workflow::{OnFailure, Workflow, WorkflowStatus},
};
use emergent_store::{Db, Tx, workflows};
use tokio::time::Duration;

use crate::{
    Dispatcher, Error, Result,
    apply::{self, Applied, Item, Settle, Work},
    begin,
    dispatcher::{LEASE, Share},
    figures::Tally,
    known::{self, Known, WAITING},
    plan::{self, Next},
    planning,
    settle::{Enacted, Move, To, enact},
    summary, talk,
    think::{self, Judge, Thoughts},
    threading::failure_note,
};

/// How often to look without being woken.
const POLL: Duration = Duration::from_secs(1);

pub(crate) struct Walk {
    pub dispatcher: Dispatcher,
    pub project: ProjectId,
    pub id: WorkflowId,
    owner: Arc<str>,
    share: Share,
    /// What a model was asked, and what it said.
    pub thoughts: Thoughts,
    /// Tasks whose run could not be started, and why.
    refused: HashMap<ObjectId, Refusal>,
    /// Turns of discussions that could not be started, and why.
    unheard: talk::Unheard,
    /// The planner could not be started.
    no_plan: Option<String>,
    /// What waits and is told already, with what was told of it.
    told: HashMap<ObjectId, String>,
    /// More could start if this server had more slots.
    starved: bool,
}

struct Refusal {
    why: String,
    /// What the workflow may spend is spent.
    budget: bool,
}

impl Walk {
    pub fn new(dispatcher: &Dispatcher, workflow: &Workflow, owner: &Arc<str>) -> Self {
        Self {
            dispatcher: dispatcher.clone(),
            project: workflow.project,
            id: workflow.id,
            owner: Arc::clone(owner),
            share: Share::new(dispatcher),
            thoughts: Thoughts::default(),
            refused: HashMap::new(),
            unheard: talk::Unheard::new(),
            no_plan: None,
            told: HashMap::new(),
            starved: false,
        }
    }

    fn db(&self) -> &Db {
        self.dispatcher.executor().graph().db()
    }

    /// Until the workflow is over, waits for a person, or is another server's.
    /// After an error it can go on: what was asked meanwhile, and answered, is kept.
    pub async fn go(&mut self) -> Result<()> {
        let mut changed = self.db().waiter(&workflows::changed(self.id));
        let mut ended = self.dispatcher.executor().ended_runs(self.id);
        let mut known = None;
        // Whether what happened since is to be looked for in the database.
        let mut looks = true;
        let mut heard = false;
        loop {
            let mut now = match known.take() {
                Some(known) => known,
                None => match self.load().await? {
                    Some(known) if known.workflow().status.is_live() => known,
                    _ => return Ok(()),
                },
            };
            if std::mem::replace(&mut looks, true) && !self.look(&mut now).await? {
                continue;
            }
            let items = self.decide(&mut now).await?;
            if !items.is_empty() {
                let (answered, tally) = (think::behind(&items), Tally::of(&items));
                let reload = items.iter().any(|item| !matches!(item, Item::Begin(_) | Item::Settle(_)));
                match self.write(&now, items).await {
                    Ok(applied) => {
                        self.thoughts.written(&answered);
                        self.dispatcher.counters().written(tally, &applied);
                        if !reload {
                            settled(&mut now, &applied);
                            known = Some(now);
                            // Whatever came meanwhile has woken us.
                            (looks, heard) = (false, false);
                        }
                    }
                    Err(Error::Stale(_)) => {}
                    Err(Error::Refused { turn: Some(turn), why, .. }) => {
                        self.unheard.insert(turn, why);
                    }
                    Err(Error::Refused { task: Some(task), why, budget, .. }) => {
                        self.refused.insert(task, Refusal { why, budget });
                    }
                    Err(Error::Refused { task: None, why, .. }) => self.no_plan = Some(why),
                    Err(Error::Lost(_)) => return Ok(()),
                    Err(error) => return Err(error),
                }
                continue;
            }
            // What woke us may have been more than what was heard.
            if std::mem::take(&mut heard) {
                known = Some(now);
                continue;
            }
            self.share.keep(now.snapshot.busy());
            tokio::select! {
                () = changed.wait(POLL) => {
                    heard = now.hear(&mut ended);
                    looks = !heard;
                }
                () = self.dispatcher.slots().freed.notified(), if self.starved => {}
                true = self.thoughts.hear() => {}
            }
            known = (!now.snapshot.looks_outside()).then_some(now);
        }
    }

    async fn load(&self) -> Result<Option<Known>> {
        let (project, id) = (self.project, self.id);
        Ok(self.db().snapshot(move |tx| known::load(tx, project, id)).await?)
    }

    /// Which runs have ended meanwhile; false when tasks were changed by others.
    async fn look(&self, known: &mut Known) -> Result<bool> {
        let (project, id, seen, awaited) =
            (self.project, self.id, known.workflow().revision, known.awaited());
        let waits: HashSet<RunId> = awaited.iter().copied().collect();
        let at_work = known.snapshot.tasks().iter().filter_map(|task| Some((task.run?, task)));
        let tasks: HashMap<RunId, Task> =
            at_work.filter(|(run, _)| waits.contains(run)).map(|(run, task)| (run, task.clone())).collect();
        let read = move |tx: &mut Tx<'_>| {
            let Some(workflow) = workflows::get(tx, project, id)? else { return Ok(None) };
            if workflow.revision != seen || !workflow.status.is_live() {
                return Ok(None);
            }
            let mut attempts = Vec::new();
            let mut others = Vec::new();
            for run in workflows::ended_among(tx, project, &awaited)? {
                match tasks.get(&run.id) {
                    Some(task) => attempts.push((task.id, known::attempt(tx, task, &run)?)),
                    None => others.push(run),
                }
            }
            Ok::<_, emergent_store::Error>(Some((attempts, others)))
        };
        let Some((attempts, others)) = self.db().read(read).await? else { return Ok(false) };
        attempts.into_iter().for_each(|(task, attempt)| known.ended(task, attempt));
        if !others.is_empty() {
            // A turn of a discussion, or the planner: read what it said with everything else.
            let fresh = self.load().await?;
            match fresh {
                Some(fresh) if fresh.workflow().revision == seen => *known = fresh,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// What is to be written now, in order. The snapshot is moved along as if it were.
    async fn decide(&mut self, known: &mut Known) -> Result<Vec<Item>> {
        if known.workflow().status == WorkflowStatus::Planning {
            return planning::next(self, known, self.no_plan.clone()).await;
        }
        let mut items = match known.waits.take() {
            Some(waits) => self.untold(waits).await?,
            None => Vec::new(),
        };
        for next in plan::ended(&known.snapshot) {
            match next {
                Next::Settle(task) => items.extend(self.settle(known, task)),
                Next::Discuss(task) => match talk::open(known, task) {
                    Some(item) => items.push(item),
                    // Nobody to talk to: what it brought stands.
                    None => items.extend(self.settle(known, task)),
                },
                Next::Talk(task) => items.extend(talk::next(known, task, &self.unheard)),
                _ => {}
            }
        }
        self.start(known, &mut items);
        if items.is_empty() && self.thoughts.is_idle() && !self.starved {
            for next in plan::at_rest(&known.snapshot) {
                items.extend(self.rest(known, next).await?);
            }
        }
        Ok(items)
    }

    /// What waits, as far as the newest event about it does not say so already. That is looked up once,
    /// not at every look.
    async fn untold(&mut self, waits: Vec<(ObjectId, String)>) -> Result<Vec<Item>> {
        // One that waits no longer may wait again, for the same: that is told again.
        self.told.retain(|task, _| waits.iter().any(|(one, _)| one == task));
        let mut items = Vec::new();
        for (task, why) in waits {
            if self.told.get(&task) == Some(&why) {
                continue;
            }
            let id = self.id;
            let read = move |tx: &mut Tx<'_>| workflows::newest_event_of(tx, id, task);
            let newest: Result<_, emergent_store::Error> = self.db().read(read).await;
            if newest?.is_some_and(|(kind, data)| kind == WAITING && data["reason"] == why.as_str()) {
                self.told.insert(task, why);
            } else {
                items.push(Item::Waits { task, why });
            }
        }
        Ok(items)
    }

    fn settle(&mut self, known: &mut Known, id: ObjectId) -> Vec<Item> {
        let (Some(task), Some(attempt)) =
            (known.snapshot.get(id).cloned(), known.snapshot.attempts.get(&id).cloned())
        else {
            return Vec::new();
        };
        let judge = self.judge();
        let judged = think::attempt(judge.as_ref(), &mut self.thoughts, known, &task, &attempt);
        let Some(judged) = judged else { return Vec::new() };
        let Some(Enacted { attempt, moves }) = enact(&mut known.snapshot, id, judged.as_ref()) else {
            return Vec::new();
        };
        vec![Item::Settle(Box::new(Settle {
            task: id,
            run: attempt.run,
            status: attempt.status,
            session: known.sessions.get(&id).copied(),
            moves,
            verdict: attempt.verdict,
            summary: attempt.summary,
        }))]
    }

    fn start(&mut self, known: &mut Known, items: &mut Vec<Item>) {
        self.share.keep(known.snapshot.busy());
        let mut wanted = plan::start(&known.snapshot, usize::MAX);
        wanted.retain(|next| match next {
            Next::Start(task) => !self.thoughts.hold_up(*task),
            _ => true,
        });
        let got = self.share.take(wanted.len());
        self.starved = got < wanted.len();
        wanted.truncate(got);
        for next in wanted {
            let (Next::Start(id) | Next::Resume(id)) = next else { continue };
            let Some(task) = known.snapshot.get(id).cloned() else { continue };
            if let Some(refused) = self.refused.remove(&id) {
                let options = if refused.budget { plan::FOR_A_BUDGET } else { plan::FOR_A_TASK };
                items.push(not_started(known, &task, &refused.why, options));
                continue;
            }
            let begun = match next {
                Next::Resume(_) => begin::resume(self, known, &task),
                _ => begin::attempt(self, known, &task),
            };
            match begun {
                begin::Begun::Now(begun) => {
                    began(known, &begun);
                    items.push(Item::Begin(begun));
                }
                begin::Begun::Thinking => {}
                begin::Begun::Nobody(why) => {
                    items.push(not_started(known, &task, &why, plan::FOR_A_TASK));
                }
            }
        }
    }

    /// The model that is asked where rules leave something open, if there is one.
    pub fn judge(&self) -> Option<Judge> {
        Judge::of(&self.dispatcher, self.project, self.id)
    }

    async fn rest(&mut self, known: &mut Known, next: Next) -> Result<Vec<Item>> {
        Ok(match next {
            Next::Skip { task, why } => {
                let Some(found) = known.snapshot.get_mut(task) else { return Ok(Vec::new()) };
                let before = Box::new(found.clone());
                found.status = TaskStatus::Skipped;
                vec![Item::Decide { step: Move { task, to: To::Skipped, why }, before }]
            }
            Next::Escalate(mut trouble) => {
                trouble.discussion = trouble.task.and_then(|task| known.undecided(task));
                let why = trouble.reason.clone();
                vec![Item::Workflow {
                    to: WorkflowStatus::Escalated,
                    why,
                    summary: None,
                    escalation: Some(trouble),
                }]
            }
            Next::End { status, why } => {
                let summary =
                    summary::of(self.db(), known, status, self.dispatcher.executor().graph().clock().now())
                        .await?;
                vec![Item::Workflow { to: status, why, summary: Some(summary), escalation: None }]
            }
            _ => Vec::new(),
        })
    }

    async fn write(&self, known: &Known, items: Vec<Item>) -> Result<Applied> {
        let work = Work {
            project: self.project,
            workflow: self.id,
            owner: Arc::clone(&self.owner),
            until: self.dispatcher.executor().graph().clock().now() + LEASE,
            seen: known.workflow().revision,
            items,
        };
        let executor = self.dispatcher.executor().clone();
        let places = executor.places(work.items.iter().map(Item::runs).sum());
        let on = executor.clone();
        executor.write_and_drive(places, move |tx, doorman| apply::apply(tx, doorman, &on, &work)).await
    }
}

/// A task that nobody can do, or whose run was refused.
fn not_started(known: &mut Known, task: &Task, why: &str, options: &[&str]) -> Item {
    if let Some(found) = known.snapshot.get_mut(task.id) {
        found.status = TaskStatus::Failed;
    }
    let why = format!("it could not be started: {why}");
    let asks = known.workflow().settings.on_failure == OnFailure::Escalate;
    let to = To::Failed {
        failure_context: failure_note(&task.failure_context, task.retry_count + 1, &why),
        needs_person: asks.then(|| plan::needs_person(task, &why, options)),
    };
    Item::Decide { step: Move { task: task.id, to, why }, before: Box::new(task.clone()) }
}

/// The attempt is on its way: the snapshot knows it as queued.
fn began(known: &mut Known, begun: &apply::Begin) {
    let id = begun.task.id;
    known.snapshot.began(id, begun.run, &begun.agent_name, begun.resumes.is_some());
    known.sessions.insert(id, begun.session);
}

/// What was decided is written: the snapshot's versions are the graph's.
fn settled(known: &mut Known, applied: &Applied) {
    for (task, version) in &applied.versions {
        if let Some(task) = known.snapshot.get_mut(*task) {
            task.version = *version;
        }
    }
    known.snapshot.workflow.revision = applied.revision;
}
