//! Finds the new tasks of projects with `autoDispatch` and gives them to their standing workflows. This runs beside
//! the loop that claims workflows, so that it delays none.
//!
//! Tasks that `blocks` joins are adopted together, in a transaction of bounded size. If that fails, each of them is
//! adopted alone. A task that cannot be adopted is recorded with the reason, and is not tried again until it changes.
//! If the database fails, the project waits, and the next pass continues behind the task that failed.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    time::Timestamp,
};
use emergent_net::backoff::Backoff;
use emergent_store::{
    Tx, projects,
    unassigned_tasks::{self, JoinLimits, JoinedTasks, TaskHead, TaskPosition, UnassignedFilter},
};
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep},
};
use tracing::warn;

use crate::{
    dispatcher::Dispatcher,
    error::{Error, Result},
    existing_tasks::{FreeTasks, list_free},
    standing_workflow::adopt_tasks,
};

/// How often new tasks are looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A new task is taken when nobody has changed it for this long: whoever creates tasks one by one needs time to say
/// what blocks them.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// The most tasks that one query finds.
const PAGE_SIZE: usize = 200;
/// The most tasks and bytes that one transaction adopts: SQLite allows a write 2.5 seconds.
const TX_LIMITS: JoinLimits = JoinLimits { max_tasks: 100, max_bytes: 4 << 20 };
/// How long one project is worked on before the next one has its turn.
const PROJECT_TURN: Duration = Duration::from_secs(2);
/// How long a project waits after the database failed for one of its tasks.
const PROJECT_BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
const MAX_REASON_CHARS: usize = 2_000;

/// Where the adoption of a project's tasks is.
#[derive(Default)]
struct ProjectProgress {
    /// How many passes in a row failed.
    failures: u32,
    /// The project is left alone until then.
    wait_until: Option<Instant>,
    /// The next pass starts behind this task.
    after: Option<TaskPosition>,
}

impl ProjectProgress {
    fn is_waiting(&self) -> bool {
        self.wait_until.is_some_and(|until| Instant::now() < until)
    }

    fn record_failure(&mut self) {
        self.wait_until = Some(Instant::now() + PROJECT_BACKOFF.delay(self.failures));
        self.failures = self.failures.saturating_add(1);
    }

    fn record_success(&mut self) {
        (self.failures, self.wait_until) = (0, None);
    }
}

impl Dispatcher {
    /// Adopts new tasks until `stop` is true.
    pub(crate) async fn adopt_until_stopped(&self, mut stop: watch::Receiver<bool>) {
        let mut progress: HashMap<ProjectId, ProjectProgress> = HashMap::new();
        while !*stop.borrow() {
            let pass = async {
                if let Err(error) = self.adopt_new_tasks(&mut progress).await {
                    warn!(error = %error, "could not look for new tasks, trying again");
                }
                sleep(POLL_INTERVAL).await;
            };
            tokio::select! {
                () = pass => {}
                stopped = stop.changed() => if stopped.is_err() { return },
            }
        }
    }

    /// Gives each project with `autoDispatch` its turn.
    async fn adopt_new_tasks(&self, progress: &mut HashMap<ProjectId, ProjectProgress>) -> Result<()> {
        let settled = self.executor().graph().clock().now() - SETTLE_TIME;
        let projects: Result<_, emergent_store::Error> =
            self.executor().graph().db().read(projects::list_auto_dispatch).await;
        let projects = projects?;
        progress.retain(|id, _| projects.iter().any(|project| project.id == *id));
        for project in projects {
            let Some(since) = project.auto_dispatch_since else { continue };
            let progress = progress.entry(project.id).or_default();
            if progress.is_waiting() {
                continue;
            }
            let filter = UnassignedFilter { since, settled, after: progress.after };
            match self.adopt_from_project(project.id, filter, progress).await {
                Ok(()) => progress.record_success(),
                // One project whose tasks cannot be taken must not stop the others.
                Err(error) => {
                    progress.record_failure();
                    warn!(project.id = %project.id, error = %error, "could not take the new tasks of a project");
                }
            }
        }
        Ok(())
    }

    /// Adopts the tasks of one project from a position on, until none is left or its turn is over.
    async fn adopt_from_project(
        &self,
        project: ProjectId,
        mut filter: UnassignedFilter,
        progress: &mut ProjectProgress,
    ) -> Result<()> {
        let db = self.executor().graph().db();
        let begin = Instant::now();
        let mut handled: HashSet<ObjectId> = HashSet::new();
        loop {
            let read =
                move |tx: &mut Tx<'_>| unassigned_tasks::list_unassigned(tx, project, &filter, PAGE_SIZE);
            let page: Result<Vec<TaskPosition>, emergent_store::Error> = db.read(read).await;
            let page = page?;
            for position in &page {
                if begin.elapsed() > PROJECT_TURN {
                    return Ok(());
                }
                progress.after = Some(*position);
                if !handled.contains(&position.1) {
                    handled.extend(self.adopt_with_joined(project, position.1, filter.settled).await?);
                }
            }
            if page.len() < PAGE_SIZE {
                // The next pass starts with the oldest task again.
                progress.after = None;
                return Ok(());
            }
            filter.after = page.last().copied();
        }
    }

    /// Adopts a task and those that are joined with it, unless one of them is being written. Returns their ids.
    async fn adopt_with_joined(
        &self,
        project: ProjectId,
        task: ObjectId,
        settled: Timestamp,
    ) -> Result<Vec<ObjectId>> {
        let read = move |tx: &mut Tx<'_>| list_free(tx, project, &[task], TX_LIMITS, FreeTasks::Unassigned);
        let JoinedTasks { mut heads, is_cut } = self.executor().graph().db().read(read).await?;
        let ids = heads.iter().map(|head| head.id).collect();
        if heads.iter().any(|head| head.has_active_author || head.updated_at > settled) {
            return Ok(ids);
        }
        if is_cut && heads.len() > 1 {
            // What exceeds the limits comes with the next transaction. The task itself stays.
            let last = heads.iter().rposition(|head| head.id != task);
            last.map(|index| heads.remove(index));
        }
        if heads.len() == 1 {
            self.adopt_one(project, heads[0]).await?;
            return Ok(ids);
        }
        if let Err(error) = self.adopt(project, heads.clone()).await {
            warn!(project.id = %project, error = %error, "could not take {} joined tasks, taking each alone", heads.len());
            for head in heads {
                self.adopt_one(project, head).await?;
            }
        }
        Ok(ids)
    }

    /// Adopts one task, or records why that is impossible. Fails only if the database does.
    async fn adopt_one(&self, project: ProjectId, head: TaskHead) -> Result<()> {
        let Err(error) = self.adopt(project, vec![head]).await else { return Ok(()) };
        // A conflict means that somebody changed the task meanwhile, and a failure of the database says nothing
        // about it.
        if error.is_database_failure() || matches!(error, Error::Conflict(_)) {
            return Err(error);
        }
        let reason: String = error.to_string().chars().take(MAX_REASON_CHARS).collect();
        warn!(project.id = %project, task.id = %head.id, "task `{}` is not executed by itself: {reason}", head.id);
        let now = self.executor().graph().clock().now();
        let record =
            move |tx: &mut Tx<'_>| unassigned_tasks::upsert_refusal(tx, project, &head, &reason, now);
        let recorded: Result<(), emergent_store::Error> = self.executor().graph().db().write(record).await;
        Ok(recorded?)
    }

    async fn adopt(&self, project: ProjectId, heads: Vec<TaskHead>) -> Result<()> {
        let graph = self.executor().graph().clone();
        let work = move |tx: &mut Tx<'_>| adopt_tasks(tx, &graph, project, &heads);
        self.executor().graph().db().write(work).await
    }
}
