//! What a model is asked on the way, beside the rules: who should do a task, whether what it
//! brought will do, what to do after a failure. It is asked outside any transaction and beside
//! everything else; without a model, or without an answer that can be used, rules decide.

use std::collections::{HashMap, HashSet};

use emergent_domain::{
    ids::ObjectId,
    run::RunStatus,
    task::{Task, VerdictKind},
};
use emergent_executor::AskOnce;
use tokio::{task::JoinSet, time::Duration};
use tracing::warn;

use crate::{
    Dispatcher,
    evaluate::{self, Evaluation},
    known::Known,
    question::Question,
    select::{self, AgentCard},
    settle::Judged,
    state::Attempt,
    triage::{self, Failure, Triage},
    walk::Walk,
};

/// How long a model may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) enum Thought {
    Chosen(Option<(String, String)>),
    Judged(Option<Judged>),
}

#[derive(Default)]
pub(crate) struct Thoughts {
    open: HashSet<ObjectId>,
    chosen: HashMap<ObjectId, Option<(String, String)>>,
    judged: HashMap<ObjectId, Option<Judged>>,
}

impl Thoughts {
    pub fn begun(&mut self, about: ObjectId) {
        self.open.insert(about);
    }

    pub fn came(&mut self, thought: Result<(ObjectId, Thought), tokio::task::JoinError>) {
        let Ok((about, thought)) = thought else {
            // It crashed: rules decide.
            self.open.clear();
            return;
        };
        self.open.remove(&about);
        match thought {
            Thought::Chosen(choice) => {
                self.chosen.insert(about, choice);
            }
            Thought::Judged(judged) => {
                self.judged.insert(about, judged);
            }
        }
    }

    /// The tasks a model is being asked about.
    pub fn about(&self) -> impl Iterator<Item = ObjectId> {
        self.open.iter().copied()
    }

    /// Who was chosen for a task, once.
    pub fn chosen(&mut self, task: ObjectId) -> Option<(String, String)> {
        match self.chosen.get(&task) {
            Some(Some(_)) => self.chosen.remove(&task).flatten(),
            _ => None,
        }
    }

    /// Whether a model was asked for an agent, and knew none.
    pub fn tried(&mut self, task: ObjectId) -> bool {
        self.chosen.remove(&task).is_some()
    }

    /// What is thought of an attempt that has ended; `None` while a model is being asked.
    pub fn on(
        &mut self,
        thinking: &mut JoinSet<(ObjectId, Thought)>,
        dispatcher: &Dispatcher,
        known: &Known,
        task: &Task,
        attempt: &Attempt,
    ) -> Option<Option<Judged>> {
        if self.open.contains(&task.id) {
            return None;
        }
        if let Some(judged) = self.judged.remove(&task.id) {
            return Some(judged);
        }
        let evaluates = known.workflow().settings.evaluate
            && attempt.status == RunStatus::Completed
            && task.verdict == VerdictKind::None;
        let triages = attempt.status == RunStatus::Failed && task.has_retries_left();
        if !evaluates && !triages {
            return Some(None);
        }
        let cards = known.cards();
        let failure = Failure {
            agent: attempt.agent.clone(),
            reason: attempt.reason,
            error: attempt.error.clone().unwrap_or_default(),
            text: attempt.summary.clone(),
        };
        let (about, question, by_rules) = match evaluates {
            true => {
                let by_rules = evaluated(evaluate::fallback(&attempt.summary));
                ("evaluator", evaluate::prompt(task, &attempt.summary), by_rules)
            }
            false => {
                ("triage", triage::prompt(task, &failure, &cards), triaged(triage::fallback(task, &failure)))
            }
        };
        let Some(ask) = ask(dispatcher, known.workflow(), task, about, question) else {
            return Some(by_rules);
        };
        self.begun(task.id);
        let (dispatcher, task) = (dispatcher.clone(), task.clone());
        thinking.spawn(async move {
            let answer = dispatcher.executor().ask_once(ask).await.inspect_err(|error| {
                warn!(task.id = %task.id, error = %error, "the {about} did not answer, rules decide");
            });
            let judged = answer.ok().and_then(|answer| match evaluates {
                true => evaluate::read(&answer).map(evaluated),
                false => triage::read(&answer, &task, &failure, &cards).map(triaged),
            });
            (task.id, Thought::Judged(judged.unwrap_or(by_rules)))
        });
        None
    }
}

fn evaluated(evaluation: Evaluation) -> Option<Judged> {
    match evaluation {
        Evaluation::Accept => None,
        Evaluation::Redo { why } => Some(Judged::Redo { why }),
    }
}

fn triaged(triage: Triage) -> Option<Judged> {
    Some(match triage {
        Triage::Retry { note } => Judged::Retry { note },
        Triage::Reassign { agent, note } => Judged::Reassign { agent, why: note },
        Triage::Escalate { reason } => Judged::Escalate { why: reason },
    })
}

/// Asks a model who should do a task; false when there is none to ask.
pub(crate) fn choice(walk: &mut Walk, task: &Task, cards: &[AgentCard]) -> bool {
    let (project, workflow) = (walk.project, walk.id);
    let Some(model) = walk.dispatcher.settings().judge.clone() else { return false };
    let Question { system, prompt, schema } = select::llm_prompt(task, cards);
    let ask = AskOnce {
        project,
        workflow: Some(workflow),
        task: Some(task.id),
        agent: "selector".to_owned(),
        model,
        system,
        prompt,
        output_schema: Some(schema),
        max_tokens: 500,
        timeout: PATIENCE,
    };
    let (executor, cards, id) = (walk.dispatcher.executor().clone(), cards.to_vec(), task.id);
    walk.think(id, async move {
        let answer = executor.ask_once(ask).await;
        let answer = answer.inspect_err(|error| {
            warn!(task.id = %id, error = %error, "the selector did not answer, rules decide");
        });
        let chosen = answer.ok().and_then(|text| select::read_answer(&text, &cards));
        Thought::Chosen(chosen.map(|name| (name, "chosen by a model among the project's agents".to_owned())))
    });
    true
}

/// A question to the judge, where there is one.
fn ask(
    dispatcher: &Dispatcher,
    workflow: &emergent_domain::workflow::Workflow,
    task: &Task,
    agent: &str,
    Question { system, prompt, schema }: Question,
) -> Option<AskOnce> {
    Some(AskOnce {
        project: workflow.project,
        workflow: Some(workflow.id),
        task: Some(task.id),
        agent: agent.to_owned(),
        model: dispatcher.settings().judge.clone()?,
        system,
        prompt,
        output_schema: Some(schema),
        max_tokens: 1_000,
        timeout: PATIENCE,
    })
}
