//! Conversations of people with agents. Every answer is a run of the executor: the agent of the conversation, or,
//! without one, a model that is shown what a search finds. This crate stores messages, admits their runs in the same
//! transaction, and turns the events of a run into the frames of a chat. The answer itself is written by `store`, in
//! the transaction that ends the run.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod answer;
pub mod conversations;
mod follow;
pub mod frame;
mod frame_state;
mod invoke;
mod memory;
mod position;
mod queue;
mod retrieval;
mod send;

use emergent_domain::{ids::ConversationId, time::Clock};
use emergent_executor::Executor;
use emergent_store::Db;

pub use conversations::{ConversationDetail, ListedConversation, ListedMessage};
pub use emergent_executor::{Error, Result};
pub use emergent_store::conversations::ChatUsage;
pub use follow::FollowTarget;
pub use invoke::{ContinuedConversation, ConversationRef};
pub use position::Position;
pub use send::{NewMessage, SentMessage};

/// Gives access to the conversations of all projects. Clones share the same state.
#[derive(Clone)]
pub struct Chat {
    executor: Executor,
}

impl Chat {
    pub fn new(executor: Executor) -> Self {
        Self { executor }
    }

    fn db(&self) -> &Db {
        self.executor.graph().db()
    }

    fn clock(&self) -> &Clock {
        self.executor.graph().clock()
    }
}

fn unknown_conversation(id: ConversationId) -> Error {
    Error::not_found("conversation", id)
}
