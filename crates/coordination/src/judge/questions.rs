//! Decides when a model is asked, builds its question, and parses its answer.

use emergent_domain::{
    agent::ModelConfig,
    ids::{ObjectId, ProjectId, WorkflowId},
    run::RunStatus,
    task::{Task, VerdictKind},
};
use emergent_executor::{Executor, ModelQuery};
use emergent_net::errors::error_chain;
use emergent_rules::workflow::{
    conclude::Judgement,
    evaluate::{self, Evaluation},
    question::{Question, truncate},
    select::{self, AgentCard},
    snapshot::Attempt,
    threading::{self, PriorResult},
    triage::{self, Failure, Triage},
};
use tokio::time::Duration;
use tracing::warn;

use super::{AnswerResult, AnswerState, JudgeAnswer, JudgeAnswers, JudgeFailure, QuestionKey};

/// How long a model may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a model is asked before its failure is recorded.
const MAX_QUERIES: usize = 2;
/// The most characters of an unusable answer or an error that are recorded.
const MAX_FAILURE_CHARS: usize = 300;

const NO_JUDGE: &str = "this server has no judge model (`EMERGENT_JUDGE_MODEL`)";

/// A choice is a name or a few numbers.
const MAX_CHOICE_TOKENS: u32 = 500;
/// A judgement also has reasons.
const MAX_JUDGEMENT_TOKENS: u32 = 1_000;

/// The model that is asked for one workflow.
pub(crate) struct Judge {
    executor: Executor,
    model: ModelConfig,
    project: ProjectId,
    workflow: WorkflowId,
}

impl Judge {
    pub fn new(executor: Executor, model: ModelConfig, project: ProjectId, workflow: WorkflowId) -> Self {
        Self { executor, model, project, workflow }
    }

    /// Asks a question unless it was asked before, and returns its state. `role` is the name of the asker in
    /// spend reports; `parse` reads the answer.
    fn ask(
        &self,
        answers: &mut JudgeAnswers,
        about: QuestionKey,
        role: &'static str,
        question: Question,
        parse: impl Fn(&str) -> Option<JudgeAnswer> + Send + Sync + 'static,
    ) -> AnswerState {
        match answers.get(about, &question) {
            AnswerState::NotAsked => {}
            state => return state,
        }
        let (QuestionKey::Agent(task)
        | QuestionKey::Similarities(task)
        | QuestionKey::PriorResults(task)
        | QuestionKey::Attempt(task, _)) = about;
        let Question { system, prompt, schema } = question.clone();
        let max_tokens =
            if matches!(about, QuestionKey::Attempt(..)) { MAX_JUDGEMENT_TOKENS } else { MAX_CHOICE_TOKENS };
        let query = ModelQuery {
            project: self.project,
            workflow: Some(self.workflow),
            task: Some(task),
            agent: role.to_owned(),
            model: self.model.clone(),
            system,
            prompt,
            output_schema: Some(schema),
            max_tokens,
            timeout: ANSWER_TIMEOUT,
        };
        let executor = self.executor.clone();
        answers.ask(about, question, async move { query_until_usable(&executor, &query, role, parse).await });
        AnswerState::Pending
    }
}

/// Asks a model, and once more if it gives no answer that `parse` can read.
async fn query_until_usable(
    executor: &Executor,
    query: &ModelQuery,
    role: &'static str,
    parse: impl Fn(&str) -> Option<JudgeAnswer>,
) -> AnswerResult {
    let mut reason = String::new();
    for _ in 0..MAX_QUERIES {
        reason = match executor.query_model(query.clone()).await {
            Ok(answer) => match parse(&answer) {
                Some(answer) => return Ok(answer),
                None => format!("its answer cannot be used: {}", truncate(&answer, MAX_FAILURE_CHARS)),
            },
            Err(error) => truncate(&error_chain(&error), MAX_FAILURE_CHARS),
        };
    }
    warn!(task.id = ?query.task, error = reason, "the {role} did not answer, rules decide");
    Err(JudgeFailure { role, reason })
}

/// Asks which agent should do a task.
pub(crate) fn ask_for_agent(
    judge: &Judge,
    answers: &mut JudgeAnswers,
    task: &Task,
    cards: Vec<AgentCard>,
) -> AnswerState {
    let question = select::selection_question(task, &cards);
    judge.ask(answers, QuestionKey::Agent(task.id), "selector", question, move |answer| {
        select::parse_selection(answer, &cards).map(JudgeAnswer::Agent)
    })
}

/// Asks which of these prior results the prompt of a task needs.
pub(crate) fn ask_for_results(
    judge: &Judge,
    answers: &mut JudgeAnswers,
    task: &Task,
    sources: &[PriorResult],
) -> AnswerState {
    let question = threading::narrowing_question(task, sources);
    let offered: Vec<ObjectId> = sources.iter().map(|source| source.id).collect();
    judge.ask(answers, QuestionKey::PriorResults(task.id), "threader", question, move |answer| {
        threading::parse_narrowing(answer, &offered).map(JudgeAnswer::Results)
    })
}

/// The judgement of an attempt that has ended.
pub(crate) enum AttemptJudgement {
    /// A model is being asked.
    Pending,
    /// Nothing objects to the attempt, or there was nothing to judge.
    Accepted,
    Judged(Judgement),
}

impl From<Option<Judgement>> for AttemptJudgement {
    fn from(judgement: Option<Judgement>) -> Self {
        judgement.map_or(AttemptJudgement::Accepted, AttemptJudgement::Judged)
    }
}

/// Judges an attempt that has ended. A model judges it if one is configured and the rules do not decide.
/// `evaluates`: whether the settings of the workflow say that each result is evaluated.
pub(crate) fn judge_attempt(
    judge: Option<&Judge>,
    answers: &mut JudgeAnswers,
    evaluates: bool,
    cards: &[AgentCard],
    task: &Task,
    attempt: &Attempt,
) -> AttemptJudgement {
    let about = QuestionKey::Attempt(task.id, attempt.run);
    let evaluates = evaluates && attempt.status == RunStatus::Completed && task.verdict == VerdictKind::None;
    let (answer_state, by_rules) = if evaluates {
        let by_rules = from_evaluation(evaluate::evaluate_by_rules(&attempt.summary));
        let question = evaluate::evaluation_question(task, &attempt.summary);
        let parse = |answer: &str| {
            evaluate::parse_evaluation(answer)
                .map(|evaluation| JudgeAnswer::Judgement(from_evaluation(evaluation)))
        };
        (judge.map(|judge| judge.ask(answers, about, "evaluator", question, parse)), by_rules)
    } else if attempt.status == RunStatus::Failed && task.has_retries_left() {
        let failure = Failure {
            agent: attempt.agent.clone(),
            reason: attempt.reason,
            error: attempt.error.clone().unwrap_or_default(),
            text: attempt.summary.clone(),
        };
        // No question is needed if trying again cannot help.
        if let Triage::GiveUp { reason } = triage::triage_by_rules(task, &failure) {
            return AttemptJudgement::Judged(Judgement::GiveUp { why: reason });
        }
        let question = triage::triage_question(task, &failure, cards);
        let (failed_task, cards) = (task.clone(), cards.to_vec());
        let parse = move |answer: &str| {
            triage::parse_triage(answer, &failed_task, &failure, &cards)
                .map(|triage| JudgeAnswer::Judgement(from_triage(triage)))
        };
        let by_rules = Some(Judgement::Retry { note: String::new() });
        (judge.map(|judge| judge.ask(answers, about, "triage", question, parse)), by_rules)
    } else {
        return AttemptJudgement::Accepted;
    };
    match answer_state {
        None if evaluates && by_rules.is_none() => {
            AttemptJudgement::Judged(Judgement::NotEvaluated { why: no_judge("evaluator").describe() })
        }
        Some(AnswerState::Pending) => AttemptJudgement::Pending,
        Some(AnswerState::Answered(Ok(JudgeAnswer::Judgement(judgement)))) => judgement.into(),
        Some(AnswerState::Answered(Err(failure))) if evaluates && by_rules.is_none() => {
            AttemptJudgement::Judged(Judgement::NotEvaluated { why: failure.describe() })
        }
        _ => by_rules.into(),
    }
}

/// The failure of a server that drives a workflow which asks for a judge, and has no model for it. The workflow was
/// dispatched when there was one.
pub(crate) fn no_judge(role: &'static str) -> JudgeFailure {
    JudgeFailure { role, reason: NO_JUDGE.to_owned() }
}

fn from_evaluation(evaluation: Evaluation) -> Option<Judgement> {
    match evaluation {
        Evaluation::Accept => None,
        Evaluation::Redo { why } => Some(Judgement::Redo { why }),
    }
}

fn from_triage(triage: Triage) -> Option<Judgement> {
    Some(match triage {
        Triage::Retry { note } => Judgement::Retry { note },
        Triage::Reassign { agent, note } => Judgement::Reassign { agent, why: note },
        Triage::Escalate { reason } => Judgement::Escalate { why: reason },
        Triage::GiveUp { reason } => Judgement::GiveUp { why: reason },
    })
}
