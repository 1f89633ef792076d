//! The session of an attempt in the graph: the messages of the run as objects, written together with
//! its record. Each object holds the beginning of a message and the `seq` of the full text, so that
//! nothing large is stored twice.

use std::collections::HashMap;

use emergent_domain::{
    author::Author,
    chat::{Part, join_text},
    ids::{ObjectId, ProjectId, RunId},
    object::NewObject,
    relationship::NewRelationship,
    run::MessageRole,
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
    time::Timestamp,
};
use emergent_executor::AdmissionBatch;
use emergent_graph::{Actor, Error, Graph, Result, WriteContext, objects, relationships};
use emergent_store::{
    Tx,
    objects::{self as rows, EndObject},
};
use serde_json::{Map, Value, json};
use tracing::warn;

/// Only this many characters of a message are stored in the graph.
const MAX_CONTENT_CHARS: usize = 1_000;

/// Messages to be added to a session, prepared outside the transaction.
#[derive(Debug, Clone)]
pub(crate) struct SessionMessages {
    session: ObjectId,
    run: RunId,
    messages: Vec<objects::ObjectDraft>,
    edges: Vec<relationships::RelationshipDraft>,
}

impl SessionMessages {
    pub fn new(session: ObjectId, run: RunId) -> Self {
        Self { session, run, messages: Vec::new(), edges: Vec::new() }
    }

    /// Adds a message of the conversation. A summary is not added.
    pub fn push_message(&mut self, message: &RecordedMessage) {
        let role = match message.role {
            MessageRole::System => "system",
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
            MessageRole::ToolResult => "tool",
        };
        match &message.content {
            MessageContent::Text { text, .. } => self.push(role, text, message.seq, message.at, Map::new()),
            MessageContent::Parts(parts) => {
                let mut properties = Map::new();
                let tool_calls = tool_calls_json(parts);
                if !tool_calls.is_empty() {
                    properties.insert("tool_calls".into(), Value::Array(tool_calls));
                }
                self.push(role, &join_text(parts), message.seq, message.at, properties);
            }
            // A summary only replaces messages that the session already has.
            MessageContent::Summary { .. } => {}
        }
    }

    /// Adds the result of a tool call, if it has one.
    pub fn push_result(&mut self, call: &RecordedToolCall, now: Timestamp) {
        let Some(seq) = call.result_seq else { return };
        let properties = Map::from_iter([("tool_name".to_owned(), json!(call.tool))]);
        match &call.output {
            Some(Value::String(text)) => self.push("tool", text, seq, now, properties),
            Some(value) => self.push("tool", &value.to_string(), seq, now, properties),
            None => self.push("tool", "", seq, now, properties),
        }
    }

    fn push(&mut self, role: &str, text: &str, seq: i64, at: Timestamp, mut properties: Map<String, Value>) {
        let end = text.char_indices().nth(MAX_CONTENT_CHARS).map(|(offset, _)| offset);
        properties.insert("role".into(), json!(role));
        properties.insert("content".into(), json!(&text[..end.unwrap_or(text.len())]));
        properties.insert("run_id".into(), json!(self.run));
        properties.insert("seq".into(), json!(seq));
        properties.insert("timestamp".into(), json!(at));
        if end.is_some() {
            properties.insert("truncated".into(), json!(true));
        }
        let new = NewObject { type_: "SessionMessage".into(), properties, ..NewObject::default() };
        let id = ObjectId::new();
        let edge = NewRelationship {
            type_: "has_message".into(),
            from: self.session,
            to: id,
            properties: Map::from_iter([("sequence".to_owned(), json!(seq))]),
            weight: None,
        };
        match (objects::ObjectDraft::new(new), relationships::RelationshipDraft::new(edge)) {
            (Ok(message), Ok(edge)) => {
                let author = Author::Run { run_id: self.run, tool_call_id: None };
                // The messages are found by full-text search; embedding each of them would cost more than the
                // attempt.
                self.messages.push(message.with_id(id).with_author(author).without_vector());
                self.edges.push(edge.with_author(author));
            }
            (Err(error), _) | (_, Err(error)) => {
                warn!(run.id = %self.run, error = %error, "a message could not be added to its session");
            }
        }
    }

    /// Writes the messages, unless the session was deleted.
    pub fn write(&self, tx: &mut Tx<'_>, graph: &Graph, project: ProjectId) -> Result<()> {
        if self.messages.is_empty() {
            return Ok(());
        }
        // The session is one end of each edge, so it is locked here and not looked up again.
        let ends = rows::lock_live(tx, project, &[self.session])?;
        if ends.is_empty() {
            return Ok(());
        }
        let author = Author::Run { run_id: self.run, tool_call_id: None };
        match graph.write_context(tx, Actor { project, author }) {
            Ok(ctx) => write_with_messages(tx, &ctx, GraphDrafts::default(), [self.clone()], ends),
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Objects and edges that have to be created.
#[derive(Debug, Default)]
pub struct GraphDrafts {
    pub objects: Vec<objects::ObjectDraft>,
    pub edges: Vec<relationships::RelationshipDraft>,
}

/// Writes the drafts to the graph, together with the first messages of the runs that the transaction
/// admitted with a session.
pub fn write_drafts(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    drafts: GraphDrafts,
    admissions: &mut AdmissionBatch,
) -> Result<()> {
    let first_messages = admissions.take_first_messages().into_iter().filter_map(|first| {
        let mut session_messages = SessionMessages::new(first.link.session?, first.run);
        first.messages.iter().for_each(|message| session_messages.push_message(message));
        Some(session_messages)
    });
    write_with_messages(tx, ctx, drafts, first_messages, HashMap::new())
}

/// Writes the drafts to the graph, together with session messages. The record of a run is complete
/// without its session, so a message that a template pack rejects is logged and skipped. `ends` are objects that the
/// caller has locked.
fn write_with_messages(
    tx: &mut Tx<'_>,
    ctx: &WriteContext,
    GraphDrafts { mut objects, mut edges }: GraphDrafts,
    session_messages: impl IntoIterator<Item = SessionMessages>,
    mut ends: HashMap<ObjectId, EndObject>,
) -> Result<()> {
    // The drafts come first and must be written; the session messages after them are optional.
    let (required_objects, required_edges) = (objects.len(), edges.len());
    for messages in session_messages {
        objects.extend(messages.messages);
        edges.extend(messages.edges);
    }
    if !objects.is_empty() {
        let created = objects::create_each(tx, ctx, &objects)?;
        for (index, created) in created.into_iter().enumerate() {
            if let Some(object) = ignore_if_optional(created, index < required_objects)? {
                let end = EndObject { type_: object.type_, updated_at: object.updated_at };
                ends.insert(object.id, end);
            }
        }
    }
    if !edges.is_empty() {
        let created = relationships::create_each_between(tx, ctx, &edges, ends)?;
        for (index, created) in created.into_iter().enumerate() {
            ignore_if_optional(created, index < required_edges)?;
        }
    }
    Ok(())
}

/// Logs and ignores a validation error, unless the write is required. Returns `None` for an ignored one.
fn ignore_if_optional<T>(created: Result<T>, required: bool) -> Result<Option<T>> {
    match created {
        Ok(created) => Ok(Some(created)),
        Err(Error::Invalid(error)) if !required => {
            warn!(error = %error, "a message could not be added to its session");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn tool_calls_json(parts: &[Part]) -> Vec<Value> {
    let call_json = |part: &Part| match part {
        Part::Call(call) => Some(json!({ "id": call.id, "name": call.name })),
        _ => None,
    };
    parts.iter().filter_map(call_json).collect()
}
