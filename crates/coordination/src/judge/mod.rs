//! Asks a model where the rules do not decide: which agent does a task, which prior results it
//! reads, whether a result is good enough, and what to do after a failure. Questions run concurrently
//! with everything else, outside any transaction. Without a model, or without a usable answer, the
//! rules decide. A model without a usable answer is asked once more; then its failure is recorded with the decision.
//!
//! An answer costs money, so it is stored until the decision based on it is committed, even if commits fail
//! as stale before. It counts only for the exact question that it answers.

mod questions;

use std::collections::HashMap;

use emergent_domain::ids::{ObjectId, RunId};
use emergent_rules::workflow::{conclude::Judgement, question::Question, select::AgentSimilarities};
use tokio::task::{Id, JoinError, JoinSet};
use tracing::warn;

use crate::apply::WorkflowWrite;

pub(crate) use questions::{
    AttemptJudgement, Judge, ask_for_agent, ask_for_results, judge_attempt, no_judge,
};

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum QuestionKey {
    /// Which agent makes the next attempt at a task.
    Agent(ObjectId),
    /// How similar the task is to what each agent says it does.
    Similarities(ObjectId),
    /// Which prior results are in the prompt of that attempt.
    PriorResults(ObjectId),
    /// How good an attempt is. Another attempt at the same task is another question.
    Attempt(ObjectId, RunId),
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JudgeAnswer {
    Agent(String),
    Similarities(AgentSimilarities),
    /// The selected results, the most important first.
    Results(Vec<ObjectId>),
    /// `None` accepts the attempt.
    Judgement(Option<Judgement>),
}

/// The state of a question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerState {
    /// The question was not asked.
    NotAsked,
    Pending,
    Answered(AnswerResult),
}

/// The answer of a model, or why there is none that can be used.
pub(crate) type AnswerResult = Result<JudgeAnswer, JudgeFailure>;

/// A model that gave no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JudgeFailure {
    /// What the model was asked as, such as `evaluator`.
    pub role: &'static str,
    pub reason: String,
}

impl JudgeFailure {
    /// The failure as part of a reason.
    pub fn describe(&self) -> String {
        format!("the {} failed: {}", self.role, self.reason)
    }
}

/// The questions that a workflow has asked, and the answers that were not used yet.
#[derive(Default)]
pub(crate) struct JudgeAnswers {
    running: JoinSet<AnswerResult>,
    pending: HashMap<Id, (QuestionKey, Question)>,
    answered: HashMap<QuestionKey, (Question, AnswerResult)>,
}

impl JudgeAnswers {
    /// The state of a question.
    pub fn get(&self, about: QuestionKey, question: &Question) -> AnswerState {
        if self.pending.values().any(|(pending, _)| *pending == about) {
            return AnswerState::Pending;
        }
        match self.answered.get(&about) {
            Some((asked, answer)) if asked == question => AnswerState::Answered(answer.clone()),
            // An answer to another question is not used: the task has changed since.
            _ => AnswerState::NotAsked,
        }
    }

    /// Starts to ask a question. `answer` runs concurrently with everything else.
    pub fn ask(
        &mut self,
        about: QuestionKey,
        question: Question,
        answer: impl Future<Output = AnswerResult> + Send + 'static,
    ) {
        let id = self.running.spawn(answer).id();
        self.pending.insert(id, (about, question));
    }

    /// Waits for the next answer; false if no question is pending.
    pub async fn next_answer(&mut self) -> bool {
        match self.running.join_next_with_id().await {
            Some(finished) => {
                self.store(finished);
                true
            }
            None => false,
        }
    }

    fn store(&mut self, finished: Result<(Id, AnswerResult), JoinError>) {
        let (id, answer) = finished.unwrap_or_else(|error| {
            warn!(error = %error, "a question to a model failed, rules decide");
            let reason = "the question ended unexpectedly".to_owned();
            (error.id(), Err(JudgeFailure { role: "judge", reason }))
        });
        if let Some((about, question)) = self.pending.remove(&id) {
            self.answered.insert(about, (question, answer));
        }
    }

    /// Why a question has no answer that can be used; `None` if it has one, or was not answered yet.
    pub fn failure(&self, about: QuestionKey) -> Option<&JudgeFailure> {
        self.answered.get(&about)?.1.as_ref().err()
    }

    /// Why the questions before the next attempt at a task have no answers that can be used.
    pub fn failures_before_attempt(&self, task: ObjectId) -> Vec<JudgeFailure> {
        questions_before_attempt(task).iter().filter_map(|about| self.failure(*about)).cloned().collect()
    }

    /// Whether no question is pending.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether the next attempt at a task waits for an answer.
    pub fn blocks_attempt(&self, task: ObjectId) -> bool {
        let questions = questions_before_attempt(task);
        self.pending.values().any(|(about, _)| questions.contains(about))
    }

    /// Removes answers whose consequences are written.
    pub fn discard_used(&mut self, used: &[QuestionKey]) {
        for about in used {
            self.answered.remove(about);
        }
    }
}

/// The questions that may be asked before an attempt at a task starts.
fn questions_before_attempt(task: ObjectId) -> [QuestionKey; 3] {
    [QuestionKey::Agent(task), QuestionKey::Similarities(task), QuestionKey::PriorResults(task)]
}

/// The questions whose answers may have led to these writes.
pub(crate) fn questions_behind(writes: &[WorkflowWrite]) -> Vec<QuestionKey> {
    let mut questions = Vec::new();
    for write in writes {
        match write {
            WorkflowWrite::StartAttempt(attempt) => {
                questions.extend(questions_before_attempt(attempt.task.id))
            }
            // The task could not be started. If a person retries it, the model is asked again.
            WorkflowWrite::ChangeTask { step, .. } => questions.extend(questions_before_attempt(step.task)),
            WorkflowWrite::ConcludeAttempt(end) => questions.push(QuestionKey::Attempt(end.task, end.run)),
            _ => {}
        }
    }
    questions
}

#[cfg(test)]
mod tests;
