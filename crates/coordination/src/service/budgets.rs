//! What a project and its agents may spend in a day (UTC), and have spent today.

use std::collections::BTreeMap;

use emergent_domain::{ids::ProjectId, invalid::Invalid, workflow::Limit};
use emergent_store::{
    Tx, agents,
    budget::{self, Counter},
};

use crate::{dispatcher::Dispatcher, error::Result};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budgets {
    pub project: DayBudget,
    /// By name: those that have a limit, or had one today.
    pub agents: Vec<(String, DayBudget)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DayBudget {
    pub limit: Limit,
    /// `None` where nothing is counted, since there was no limit today.
    pub today: Option<Counter>,
}

impl Dispatcher {
    pub async fn budgets(&self, project: ProjectId) -> Result<Budgets> {
        let today = budget::utc_day(self.executor().graph().clock().now());
        let read = move |tx: &mut Tx<'_>| load_budgets(tx, project, today);
        self.executor().graph().db().snapshot(read).await
    }

    /// Sets what a project may spend in a day, or one of its agents when it is named; a limit of
    /// nothing takes it away.
    pub async fn set_budget(
        &self,
        project: ProjectId,
        agent: Option<String>,
        limit: Limit,
    ) -> Result<Budgets> {
        let now = self.executor().graph().clock().now();
        let work = move |tx: &mut Tx<'_>| {
            // The limit of an agent that is gone can still be taken away.
            if let Some(name) = agent.as_deref().filter(|_| !limit.is_unlimited())
                && agents::get_by_name(tx, project, name)?.is_none()
            {
                let names = agents::list_names(tx, project)?.join(", ");
                return Err(
                    Invalid::new("agent", format!("there is no agent `{name}`; there are {names}")).into()
                );
            }
            budget::set_day_limit(tx, project, agent.as_deref(), limit, now)?;
            load_budgets(tx, project, budget::utc_day(now))
        };
        self.executor().graph().db().write(work).await
    }
}

fn load_budgets(tx: &mut Tx<'_>, project: ProjectId, today: i64) -> Result<Budgets> {
    let mut all: BTreeMap<Option<String>, DayBudget> = BTreeMap::new();
    for (agent, limit) in budget::list_day_limits(tx, project)? {
        all.entry(agent).or_default().limit = limit;
    }
    for (agent, counter) in budget::day_counters(tx, project, today)? {
        all.entry(agent).or_default().today = Some(counter);
    }
    let project = all.remove(&None).unwrap_or_default();
    Ok(Budgets { project, agents: all.into_iter().filter_map(|(agent, one)| Some((agent?, one))).collect() })
}
