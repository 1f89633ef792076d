//! What a model is asked on the way, beside the rules: who should do a task, what it is told of the
//! work before it, whether what it brought will do, what to do after a failure. It is asked outside
//! any transaction and beside everything else; without a model, or without an answer that can be
//! used, rules decide.
//!
//! An answer was paid for: it is kept until what follows from it is written, however often that
//! write comes too late, and it counts for the question it was given to and for no other.

mod ask;

use std::collections::HashMap;

use emergent_domain::ids::{ObjectId, RunId};
use tokio::task::{Id, JoinError, JoinSet};
use tracing::warn;

use crate::{apply::Item, question::Question, settle::Judged};

pub(crate) use ask::{Judge, agent, attempt, telling};

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum About {
    /// Who makes the next attempt at a task.
    Agent(ObjectId),
    /// What that attempt is told.
    Telling(ObjectId),
    /// What an attempt came to. Another attempt at the same task is another question.
    Attempt(ObjectId, RunId),
}

/// What a model said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Thought {
    Agent(String),
    /// What is told, the most important first.
    Keep(Vec<ObjectId>),
    /// `None`: it will do.
    Judged(Option<Judged>),
}

/// How far a question has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asked {
    /// Nobody was asked.
    No,
    Thinking,
    /// `None`: there was no answer that could be used.
    Said(Option<Thought>),
}

#[derive(Default)]
pub(crate) struct Thoughts {
    under_way: JoinSet<Option<Thought>>,
    open: HashMap<Id, (About, Question)>,
    said: HashMap<About, (Question, Option<Thought>)>,
}

impl Thoughts {
    /// What was said to a question.
    pub fn on(&self, about: About, question: &Question) -> Asked {
        if self.open.values().any(|(one, _)| *one == about) {
            return Asked::Thinking;
        }
        match self.said.get(&about) {
            Some((asked, said)) if asked == question => Asked::Said(said.clone()),
            // Something changed in between, and so did the question.
            _ => Asked::No,
        }
    }

    /// Asks, beside everything else.
    pub fn ask(
        &mut self,
        about: About,
        question: Question,
        answer: impl Future<Output = Option<Thought>> + Send + 'static,
    ) {
        let id = self.under_way.spawn(answer).id();
        self.open.insert(id, (about, question));
    }

    /// Waits for the next answer; false when nobody thinks.
    pub async fn hear(&mut self) -> bool {
        match self.under_way.join_next_with_id().await {
            Some(came) => {
                self.came(came);
                true
            }
            None => false,
        }
    }

    fn came(&mut self, came: Result<(Id, Option<Thought>), JoinError>) {
        let (id, thought) = came.unwrap_or_else(|error| {
            warn!(error = %error, "a question to a model came to nothing, rules decide");
            (error.id(), None)
        });
        if let Some((about, question)) = self.open.remove(&id) {
            self.said.insert(about, (question, thought));
        }
    }

    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether the next attempt at a task waits for an answer.
    pub fn hold_up(&self, task: ObjectId) -> bool {
        let before = [About::Agent(task), About::Telling(task)];
        self.open.values().any(|(about, _)| before.contains(about))
    }

    /// These were written: the answers behind them have done their work.
    pub fn written(&mut self, of: &[About]) {
        for about in of {
            self.said.remove(about);
        }
    }
}

/// The questions that what is to be written may stand on.
pub(crate) fn behind(items: &[Item]) -> Vec<About> {
    let mut found = Vec::new();
    for item in items {
        match item {
            Item::Begin(begun) => {
                found.extend([About::Agent(begun.task.id), About::Telling(begun.task.id)]);
            }
            Item::Settle(settled) => found.push(About::Attempt(settled.task, settled.run)),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
