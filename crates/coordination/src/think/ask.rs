//! The questions themselves: when one is worth asking, what it says, and how its answer is read.

use emergent_domain::{
    agent::ModelConfig,
    ids::{ObjectId, ProjectId, WorkflowId},
    run::RunStatus,
    task::{Task, VerdictKind},
};
use emergent_executor::{AskOnce, Executor};
use tokio::time::Duration;
use tracing::warn;

use super::{About, Asked, Thought, Thoughts};
use crate::{
    Dispatcher,
    evaluate::{self, Evaluation},
    known::Known,
    question::Question,
    select::{self, AgentCard},
    settle::Judged,
    state::Attempt,
    threading::{self, Source},
    triage::{self, Failure, Triage},
};

/// How long a model may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The model that is asked, for one workflow.
pub(crate) struct Judge {
    executor: Executor,
    model: ModelConfig,
    project: ProjectId,
    workflow: WorkflowId,
}

impl Judge {
    /// `None` where no model is set up for this.
    pub fn of(dispatcher: &Dispatcher, project: ProjectId, workflow: WorkflowId) -> Option<Self> {
        let model = dispatcher.settings().judge.clone()?;
        Some(Self { executor: dispatcher.executor().clone(), model, project, workflow })
    }

    /// Asks once; while an answer is kept, that is the answer. `who` is whom the spending is told of.
    fn ask(
        &self,
        thoughts: &mut Thoughts,
        about: About,
        who: &'static str,
        question: Question,
        read: impl FnOnce(&str) -> Option<Thought> + Send + 'static,
    ) -> Asked {
        match thoughts.on(about, &question) {
            Asked::No => {}
            asked => return asked,
        }
        let (About::Agent(task) | About::Telling(task) | About::Attempt(task, _)) = about;
        let Question { system, prompt, schema } = question.clone();
        // A choice is a name or a few numbers; a judgement has reasons.
        let max_tokens = if matches!(about, About::Attempt(..)) { 1_000 } else { 500 };
        let ask = AskOnce {
            project: self.project,
            workflow: Some(self.workflow),
            task: Some(task),
            agent: who.to_owned(),
            model: self.model.clone(),
            system,
            prompt,
            output_schema: Some(schema),
            max_tokens,
            timeout: PATIENCE,
        };
        let executor = self.executor.clone();
        thoughts.ask(about, question, async move {
            match executor.ask_once(ask).await {
                Ok(answer) => read(&answer),
                Err(error) => {
                    warn!(task.id = %task, error = %error, "the {who} did not answer, rules decide");
                    None
                }
            }
        });
        Asked::Thinking
    }
}

/// Who should do a task.
pub(crate) fn agent(judge: &Judge, thoughts: &mut Thoughts, task: &Task, cards: Vec<AgentCard>) -> Asked {
    let question = select::llm_prompt(task, &cards);
    judge.ask(thoughts, About::Agent(task.id), "selector", question, move |answer| {
        select::read_answer(answer, &cards).map(Thought::Agent)
    })
}

/// Which of these sources a task needs.
pub(crate) fn telling(judge: &Judge, thoughts: &mut Thoughts, task: &Task, sources: &[Source]) -> Asked {
    let question = threading::narrow_prompt(task, sources);
    let among: Vec<ObjectId> = sources.iter().map(|source| source.id).collect();
    judge.ask(thoughts, About::Telling(task.id), "threader", question, move |answer| {
        threading::narrow(answer, &among).map(Thought::Keep)
    })
}

/// What is thought of an attempt that has ended; `None` while a model is being asked.
pub(crate) fn attempt(
    judge: Option<&Judge>,
    thoughts: &mut Thoughts,
    known: &Known,
    task: &Task,
    attempt: &Attempt,
) -> Option<Option<Judged>> {
    let about = About::Attempt(task.id, attempt.run);
    let evaluates = known.workflow().settings.evaluate
        && attempt.status == RunStatus::Completed
        && task.verdict == VerdictKind::None;
    let (asked, by_rules) = if evaluates {
        let by_rules = evaluated(evaluate::fallback(&attempt.summary));
        let question = evaluate::prompt(task, &attempt.summary);
        let read = |answer: &str| evaluate::read(answer).map(|said| Thought::Judged(evaluated(said)));
        (judge.map(|judge| judge.ask(thoughts, about, "evaluator", question, read)), by_rules)
    } else if attempt.status == RunStatus::Failed && task.has_retries_left() {
        let failure = Failure {
            agent: attempt.agent.clone(),
            reason: attempt.reason,
            error: attempt.error.clone().unwrap_or_default(),
            text: attempt.summary.clone(),
        };
        // What trying again cannot mend is not worth a question.
        if let Triage::GiveUp { reason } = triage::fallback(task, &failure) {
            return Some(Some(Judged::GiveUp { why: reason }));
        }
        let cards = known.cards();
        let question = triage::prompt(task, &failure, &cards);
        let judged = task.clone();
        let read = move |answer: &str| {
            triage::read(answer, &judged, &failure, &cards).map(|said| Thought::Judged(triaged(said)))
        };
        let by_rules = Some(Judged::Retry { note: String::new() });
        (judge.map(|judge| judge.ask(thoughts, about, "triage", question, read)), by_rules)
    } else {
        return Some(None);
    };
    match asked {
        Some(Asked::Thinking) => None,
        Some(Asked::Said(Some(Thought::Judged(judged)))) => Some(judged),
        _ => Some(by_rules),
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
        Triage::GiveUp { reason } => Judged::GiveUp { why: reason },
    })
}
