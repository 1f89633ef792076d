//! What a model is asked on the way, beside the rules: who should do a task, what it is told of the
//! work before it, whether what it brought will do, what to do after a failure. It is asked outside
//! any transaction and beside everything else; without a model, or without an answer that can be
//! used, rules decide.
//!
//! An answer was paid for: it is kept until what follows from it is written, however often that
//! write comes too late, and it counts for the question it was given to and for no other.

mod questions;

use std::collections::HashMap;

use emergent_domain::ids::{ObjectId, RunId};
use emergent_rules::workflow::{conclude::Judgement, question::Question};
use tokio::task::{Id, JoinError, JoinSet};
use tracing::warn;

use crate::apply::WorkflowWrite;

pub(crate) use questions::{Judge, ask_for_agent, ask_for_results, judge_attempt};

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum QuestionKey {
    /// Who makes the next attempt at a task.
    Agent(ObjectId),
    /// What that attempt is told.
    Telling(ObjectId),
    /// What an attempt came to. Another attempt at the same task is another question.
    Attempt(ObjectId, RunId),
}

/// What a model said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JudgeAnswer {
    Agent(String),
    /// What is told, the most important first.
    Results(Vec<ObjectId>),
    /// `None`: it will do.
    Judgement(Option<Judgement>),
}

/// How far a question has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerState {
    /// Nobody was asked.
    NotAsked,
    Pending,
    /// `None`: there was no answer that could be used.
    Answered(Option<JudgeAnswer>),
}

#[derive(Default)]
pub(crate) struct JudgeAnswers {
    running: JoinSet<Option<JudgeAnswer>>,
    pending: HashMap<Id, (QuestionKey, Question)>,
    answered: HashMap<QuestionKey, (Question, Option<JudgeAnswer>)>,
}

impl JudgeAnswers {
    /// What was said to a question.
    pub fn get(&self, about: QuestionKey, question: &Question) -> AnswerState {
        if self.pending.values().any(|(one, _)| *one == about) {
            return AnswerState::Pending;
        }
        match self.answered.get(&about) {
            Some((asked, said)) if asked == question => AnswerState::Answered(said.clone()),
            // Something changed in between, and so did the question.
            _ => AnswerState::NotAsked,
        }
    }

    /// Asks, beside everything else.
    pub fn ask(
        &mut self,
        about: QuestionKey,
        question: Question,
        answer: impl Future<Output = Option<JudgeAnswer>> + Send + 'static,
    ) {
        let id = self.running.spawn(answer).id();
        self.pending.insert(id, (about, question));
    }

    /// Waits for the next answer; false when nobody thinks.
    pub async fn next_answer(&mut self) -> bool {
        match self.running.join_next_with_id().await {
            Some(came) => {
                self.store(came);
                true
            }
            None => false,
        }
    }

    fn store(&mut self, came: Result<(Id, Option<JudgeAnswer>), JoinError>) {
        let (id, thought) = came.unwrap_or_else(|error| {
            warn!(error = %error, "a question to a model came to nothing, rules decide");
            (error.id(), None)
        });
        if let Some((about, question)) = self.pending.remove(&id) {
            self.answered.insert(about, (question, thought));
        }
    }

    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether the next attempt at a task waits for an answer.
    pub fn blocks_attempt(&self, task: ObjectId) -> bool {
        let before = [QuestionKey::Agent(task), QuestionKey::Telling(task)];
        self.pending.values().any(|(about, _)| before.contains(about))
    }

    /// These were written: the answers behind them have done their work.
    pub fn discard_used(&mut self, of: &[QuestionKey]) {
        for about in of {
            self.answered.remove(about);
        }
    }
}

/// The questions that what is to be written may stand on.
pub(crate) fn questions_behind(items: &[WorkflowWrite]) -> Vec<QuestionKey> {
    let mut found = Vec::new();
    for item in items {
        match item {
            WorkflowWrite::StartAttempt(begun) => {
                found.extend([QuestionKey::Agent(begun.task.id), QuestionKey::Telling(begun.task.id)]);
            }
            WorkflowWrite::ConcludeAttempt(settled) => {
                found.push(QuestionKey::Attempt(settled.task, settled.run))
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
