//! What happens in a project: changes of its graph, new statuses of its runs, workflows, requests to people and
//! conversations, and changes of its settings, such as its agents, in one order.

use std::{cmp::Ordering, fmt, str::FromStr};

use uuid::Uuid;

use crate::{
    change::{Change, FeedPosition},
    ids::{ProjectId, WorkflowId},
    invalid::Invalid,
    time::Timestamp,
};

macro_rules! subjects {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// What an event is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EventSubject {
            $($name),*
        }

        impl EventSubject {
            pub const ALL: &[EventSubject] = &[$(EventSubject::$name),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(EventSubject::$name => $text),*
                }
            }
        }
    };
}

subjects! {
    Run = "run",
    Workflow = "workflow",
    Approval = "approval",
    Conversation = "conversation",
    Agent = "agent",
    McpServer = "mcp_server",
    Product = "product",
    Token = "token",
    Secret = "secret",
    Budget = "budget",
    Trigger = "trigger",
}

/// A new status of a run, a workflow, a request to a person, or a conversation; or a change of a setting of the
/// project, whose status is what was done as in the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusEvent {
    pub position: FeedPosition,
    /// On SQLite, the newest sequence number of the change feed when the event was written.
    pub graph_seq: i64,
    pub project: ProjectId,
    pub subject: EventSubject,
    /// Nil for what has no id, such as a secret.
    pub subject_id: Uuid,
    /// The agent of a run or a request, empty for other items of the inbox; the start of a workflow's description or of a conversation's title; the name of a setting.
    pub name: String,
    pub status: String,
    /// The reason of a run, or the kind of an item of the inbox.
    pub reason: Option<String>,
    /// The parent of a run, or the run that made a request.
    pub parent: Option<Uuid>,
    /// The workflow of a run.
    pub workflow: Option<WorkflowId>,
    /// What a webhook is told of an item of the inbox, as its title.
    pub title: Option<String>,
    /// The tool of a held call or a question.
    pub tool: Option<String>,
    /// When the time of a request is up.
    pub expires_at: Option<Timestamp>,
    /// True if nobody has decided a request in its time, and it goes on waiting.
    pub is_overdue: Option<bool>,
    pub at: Timestamp,
}

/// One entry of the stream of a project.
#[derive(Debug, Clone, PartialEq)]
pub enum ProjectEvent {
    Graph(Change),
    Status(StatusEvent),
}

impl ProjectEvent {
    /// Compares by the order of the stream. PostgreSQL orders by the transaction. SQLite has one writer, and its
    /// events know the change that came before them; their `txid` is always 0.
    pub fn order(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }

    fn key(&self) -> (i64, i64, bool, i64) {
        match self {
            Self::Graph(change) if change.position.txid == 0 => (0, change.position.seq, false, 0),
            Self::Graph(change) => (change.position.txid, 0, false, change.position.seq),
            Self::Status(event) => (event.position.txid, event.graph_seq, true, event.position.seq),
        }
    }
}

/// A position in the stream of a project: how far its reader is in the change feed and in the events of statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct StreamPosition {
    pub graph: FeedPosition,
    pub status: FeedPosition,
}

impl StreamPosition {
    /// The position after an entry.
    #[must_use]
    pub fn after(self, event: &ProjectEvent) -> Self {
        match event {
            ProjectEvent::Graph(change) => Self { graph: change.position, ..self },
            ProjectEvent::Status(event) => Self { status: event.position, ..self },
        }
    }

    /// Whether an entry comes at or before this position.
    pub fn includes(self, event: &ProjectEvent) -> bool {
        match event {
            ProjectEvent::Graph(change) => change.position <= self.graph,
            ProjectEvent::Status(event) => event.position <= self.status,
        }
    }
}

impl fmt::Display for StreamPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.graph, self.status)
    }
}

impl FromStr for StreamPosition {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = || Invalid::new("after", "is not a position in the events of a project");
        let (graph, status) = text.split_once('.').ok_or_else(invalid)?;
        let read = |text: &str| text.parse::<FeedPosition>().map_err(|_| invalid());
        Ok(Self { graph: read(graph)?, status: read(status)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_from_its_text_and_nothing_else_is() {
        let position = StreamPosition {
            graph: FeedPosition { txid: 7, seq: 12 },
            status: FeedPosition { txid: 9, seq: 3 },
        };
        assert_eq!(position.to_string(), "7-12.9-3");
        assert_eq!("7-12.9-3".parse(), Ok(position));
        for text in ["", ".", "7-12", "7-12.", "7-12.9", "7-12.9-3.1", "-1-2.3-4", "a-b.c-d"] {
            assert!(text.parse::<StreamPosition>().is_err(), "{text}");
        }
    }
}
