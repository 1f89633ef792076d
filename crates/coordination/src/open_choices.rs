//! Chooses by rules the agents of the tasks that start in one pass of a driver. What is the same for all tasks of a kind
//! is computed once. If there are many tasks and agents, or long tasks, a blocking thread chooses, because other work
//! waits for the threads of the runtime. It does so for one workflow of a project at a time, and within a time limit.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    task::Task,
};
use emergent_graph::WorkPool;
use emergent_rules::workflow::select::{self, AgentCard, AgentIndex, AgentSelection};
use tokio::time::Instant;

use crate::{dispatcher::MAX_SELECTION_TIME, loaded_workflow::LoadedWorkflow};

/// From this many pairs of a task and an agent on, a blocking thread chooses. They take a few milliseconds.
const MANY_PAIRS: usize = 1_000;
/// A task with longer texts counts as several.
const BYTES_OF_ONE_TASK: usize = 1_000;

/// What the rules chose, by task.
pub(crate) type Selections = HashMap<ObjectId, AgentSelection>;

/// The tasks for which neither they themselves nor a rule of the project name an agent.
pub(crate) struct OpenChoices {
    kinds: Vec<KindOfTasks>,
}

/// Tasks of one kind. The cards say how earlier tasks of this kind ended, so each kind has its own.
struct KindOfTasks {
    cards: Vec<AgentCard>,
    tasks: Vec<Task>,
}

impl OpenChoices {
    pub fn new<'a>(loaded: &LoadedWorkflow, tasks: impl Iterator<Item = &'a Task>) -> Self {
        let rules = &loaded.coordination.selection_rules;
        let mut kinds: HashMap<String, KindOfTasks> = HashMap::new();
        for task in tasks.filter(|task| task.assigned_agent.is_none()) {
            if select::select_by_project_rules(task, loaded.agent_cards(), rules).is_some() {
                continue;
            }
            let kind = kinds
                .entry(task.kind.to_ascii_lowercase())
                .or_insert_with(|| KindOfTasks { cards: loaded.agent_cards_for(task), tasks: Vec::new() });
            kind.tasks.push(task.clone());
        }
        Self { kinds: kinds.into_values().collect() }
    }

    /// Chooses an agent for each of the tasks. There is none for the tasks that are left when the time is up: they fail,
    /// and a person names their agents. A task may be missing in the result; then its agent is chosen by itself.
    pub async fn select(self, pool: &WorkPool, project: ProjectId) -> Selections {
        if self.pairs() < MANY_PAIRS {
            return self.select_until(Instant::now() + MAX_SELECTION_TIME);
        }
        let choices = Arc::new(self);
        loop {
            let choices = Arc::clone(&choices);
            let work = move || choices.select_until(Instant::now() + MAX_SELECTION_TIME);
            match pool.run(project, work).await {
                Ok(selections) => return selections,
                // Nobody waits for an answer, so the workflow waits for its turn.
                Err(emergent_graph::Error::Overloaded { .. }) => {}
                Err(_) => return Selections::new(),
            }
        }
    }

    fn pairs(&self) -> usize {
        let weight = |task: &Task| 1 + (task.title.len() + task.description.len()) / BYTES_OF_ONE_TASK;
        let pairs = |kind: &KindOfTasks| kind.cards.len() * kind.tasks.iter().map(weight).sum::<usize>();
        self.kinds.iter().map(pairs).sum()
    }

    fn select_until(&self, deadline: Instant) -> Selections {
        let is_over = || Instant::now() >= deadline;
        let mut selections = Selections::new();
        for KindOfTasks { cards, tasks } in &self.kinds {
            let index = AgentIndex::new(cards);
            selections.extend(
                tasks.iter().map(|task| {
                    (task.id, index.select_by_rules_until(task, &is_over).unwrap_or_else(too_slow))
                }),
            );
        }
        selections
    }
}

fn too_slow() -> AgentSelection {
    let reason = format!(
        "choosing the agents takes longer than {} seconds, which is the limit: name the agent of the task",
        MAX_SELECTION_TIME.as_secs()
    );
    // No model is asked: comparing the task with all agents again would take as long.
    AgentSelection { agent: None, score: 0.0, reason, clear: true }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use emergent_domain::{agent::AgentDefinition, task::NewTask};
    use emergent_testkit::fixtures;

    use super::*;

    fn cards(subjects: &[&str]) -> Vec<AgentCard> {
        let definition = |subject: &&str| AgentDefinition {
            description: format!("Writes reports about {subject}."),
            ..AgentDefinition::new(*subject)
        };
        subjects.iter().map(|subject| AgentCard::from_definition(&definition(subject))).collect()
    }

    fn tasks(subjects: &[&str], count: usize) -> Vec<Task> {
        let new = |number: usize| NewTask {
            key: format!("t{number}"),
            title: format!("A report about {}", subjects[number % subjects.len()]),
            ..NewTask::default()
        };
        (0..count).map(|number| fixtures::task(new(number))).collect()
    }

    fn pool() -> WorkPool {
        WorkPool::new("tests are running", 2, Duration::from_millis(20))
    }

    /// Hundreds of patterns that are found nowhere, for each of many agents and long tasks.
    fn slow_choices(tasks_count: usize) -> OpenChoices {
        let patterns: Vec<String> = (0..200).map(|number| format!("aaaab{number}")).collect();
        let definition = |number: usize| AgentDefinition {
            config: serde_json::from_value(serde_json::json!({ "handles": { "patterns": patterns } }))
                .unwrap(),
            ..AgentDefinition::new(format!("agent-{number}"))
        };
        let cards = (0..40).map(|number| AgentCard::from_definition(&definition(number))).collect();
        let mut tasks = tasks(&["geology"], tasks_count);
        for task in &mut tasks {
            task.description = "aaaa ".repeat(4_000);
        }
        OpenChoices { kinds: vec![KindOfTasks { cards, tasks }] }
    }

    #[test]
    fn a_choice_ends_at_its_deadline_also_within_one_task() {
        let choices = slow_choices(100);
        let started = Instant::now();
        let chosen = choices.select_until(started + Duration::from_millis(200));
        // Rating one agent takes a part of a second, and rating all of them for all tasks takes minutes.
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert_eq!(chosen.len(), 100);
        assert!(chosen.values().all(|one| one.agent.is_none() && one.reason.contains("5 seconds")));
    }

    #[tokio::test]
    async fn the_choices_of_one_project_wait_for_each_other_and_not_for_those_of_another() {
        let (pool, busy) = (pool(), ProjectId::new());
        let turn = pool.turn(busy).await.unwrap();
        assert!(slow_choices(2).pairs() >= MANY_PAIRS, "a few long tasks are chosen on a blocking thread");
        let subjects = ["geology", "botany"];
        let many = || OpenChoices {
            kinds: vec![KindOfTasks { cards: cards(&subjects), tasks: tasks(&subjects, MANY_PAIRS) }],
        };
        assert_eq!(many().select(&pool, ProjectId::new()).await.len(), MANY_PAIRS);
        // A workflow waits for its turn however long that takes.
        let waiting = many().select(&pool, busy);
        let release = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(turn);
        };
        assert_eq!(tokio::join!(waiting, release).0.len(), MANY_PAIRS);
    }

    #[tokio::test]
    async fn many_tasks_get_the_agents_that_each_would_get_by_itself() {
        let subjects = ["geology", "astronomy", "botany", "medicine"];
        // With the larger number a blocking thread chooses.
        for count in [3, MANY_PAIRS / subjects.len() + 1] {
            let (cards, tasks) = (cards(&subjects), tasks(&subjects, count));
            let expected: Selections =
                tasks.iter().map(|task| (task.id, select::select_by_rules(task, &cards))).collect();
            let choices = OpenChoices { kinds: vec![KindOfTasks { cards, tasks }] };
            let chosen = choices.select(&pool(), ProjectId::new()).await;
            assert_eq!(chosen, expected);
            assert!(chosen.values().all(|selection| selection.agent.is_some()));
        }
    }
}
