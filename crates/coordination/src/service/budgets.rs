//! Reads and sets the daily budgets (UTC) of a project and its agents, with what was spent today.

use std::collections::BTreeMap;

use emergent_domain::{
    audit::{AuditAction, NewAuditEntry},
    ids::ProjectId,
    invalid::Invalid,
    pack::nearest_name,
    time::Timestamp,
    workflow::Limit,
};
use emergent_store::{
    Tx, agents, audit,
    budget::{self, Counter, DayStart},
};

use crate::{
    dispatcher::Dispatcher,
    error::{Error, Result},
};

/// The daily budgets of a project and of its agents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budgets {
    pub project: DayBudget,
    /// The agents that have a limit, or had one today, sorted by name.
    pub agents: Vec<(String, DayBudget)>,
}

/// A daily budget, and what was spent of it today.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DayBudget {
    pub limit: Limit,
    /// What was spent today. `None` if there was no limit today: without a limit, spend is not counted.
    pub today: Option<Counter>,
}

impl Dispatcher {
    pub async fn budgets(&self, project: ProjectId) -> Result<Budgets> {
        let today = budget::utc_day(self.executor().graph().clock().now());
        let read = move |tx: &mut Tx<'_>| load_budgets(tx, project, today);
        self.executor().graph().db().snapshot(read).await
    }

    /// Sets the daily budget of a project, or of the named agent. An unlimited `limit` removes it.
    pub async fn set_budget(
        &self,
        project: ProjectId,
        agent: Option<String>,
        limit: Limit,
    ) -> Result<Budgets> {
        let (db, clock) = (self.executor().graph().db(), self.executor().graph().clock());
        // The limit of an agent that was deleted can still be removed.
        let start = match limit.is_unlimited() {
            true => None,
            false => {
                let name = agent.clone();
                db.read(move |tx| check_agent(tx, project, name.as_deref())).await?;
                Some(DayStart::read(db, clock, project, agent.as_deref()).await?)
            }
        };
        let now = clock.now();
        let work = move |tx: &mut Tx<'_>| {
            let before = budget::get_day_limit(tx, project, agent.as_deref())?;
            match &start {
                Some(start) => {
                    check_agent(tx, project, agent.as_deref())?;
                    budget::set_day_limit(tx, start, limit, now)?;
                }
                None => budget::remove_day_limit(tx, project, agent.as_deref())?,
            }
            let name = agent.as_deref().unwrap_or_default();
            let entry = NewAuditEntry::new(AuditAction::BudgetUpdate, Some(project), name)
                .detail("microusd", limit.microusd)
                .detail("tokens", limit.tokens)
                .detail("microusdBefore", before.microusd)
                .detail("tokensBefore", before.tokens);
            audit::record(tx, &entry, now)?;
            load_budgets(tx, project, budget::utc_day(now))
        };
        db.write(work).await
    }
}

/// Refuses the name of an agent that does not exist.
fn check_agent(tx: &mut Tx<'_>, project: ProjectId, agent: Option<&str>) -> Result<()> {
    let Some(name) = agent else { return Ok(()) };
    if agents::get_by_name(tx, project, name)?.is_some() {
        return Ok(());
    }
    let names = agents::list_names(tx, project)?;
    let hint = match nearest_name(name, names.iter().map(String::as_str)) {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None => String::new(),
    };
    Err(Invalid::new("agent", format!("there is no agent `{name}`{hint}")).into())
}

/// Refuses to start work in a project whose budget for the day is used up: nothing of it could run.
pub(super) fn check_day_budget(tx: &mut Tx<'_>, project: ProjectId, now: Timestamp) -> Result<()> {
    let DayBudget { limit, today } = load_budgets(tx, project, budget::utc_day(now))?.project;
    let spent = today.unwrap_or_default().spent;
    let is_spent = limit.microusd.is_some_and(|limit| spent.microusd >= limit)
        || limit.tokens.is_some_and(|limit| spent.tokens >= limit);
    match is_spent {
        true => Err(Error::Conflict(
            "the project's budget for the day is used up, so nothing was started: raise it with `emergent budget set --usd N` or `--tokens N`, \
             or dispatch again on the next day (UTC)"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

fn load_budgets(tx: &mut Tx<'_>, project: ProjectId, today: i64) -> Result<Budgets> {
    let mut budgets: BTreeMap<Option<String>, DayBudget> = BTreeMap::new();
    for (agent, limit) in budget::list_day_limits(tx, project)? {
        budgets.entry(agent).or_default().limit = limit;
    }
    for (agent, counter) in budget::day_counters(tx, project, today)? {
        budgets.entry(agent).or_default().today = Some(counter);
    }
    let project = budgets.remove(&None).unwrap_or_default();
    Ok(Budgets {
        project,
        agents: budgets.into_iter().filter_map(|(agent, day_budget)| Some((agent?, day_budget))).collect(),
    })
}
