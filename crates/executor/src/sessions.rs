//! The session of an attempt at a task, as objects of the graph: what was said, written with the
//! run's own record. Each holds the beginning of what was said and the place of the rest, so that
//! nothing large is kept twice.

use emergent_domain::{
    author::Author,
    chat::{Part, text_of},
    ids::{ObjectId, ProjectId, RunId},
    object::NewObject,
    relationship::NewRelationship,
    run::MessageRole,
    run_event::{MessageContent, RecordedCall, RecordedMessage},
    time::Timestamp,
};
use emergent_graph::{Actor, Error, Graph, Writer, objects, relationships};
use emergent_store::{Tx, objects as rows};
use serde_json::{Map, Value, json};
use tracing::warn;

use crate::Result;

/// Of what was said, in characters.
const LONGEST: usize = 1_000;

/// What is added to a session in one moment, prepared outside the transaction.
#[derive(Debug)]
pub(crate) struct Lines {
    session: ObjectId,
    run: RunId,
    messages: Vec<objects::Draft>,
    edges: Vec<relationships::Draft>,
}

impl Lines {
    pub fn new(session: ObjectId, run: RunId) -> Self {
        Self { session, run, messages: Vec::new(), edges: Vec::new() }
    }

    pub fn message(&mut self, message: &RecordedMessage) {
        let role = match message.role {
            MessageRole::System => "system",
            MessageRole::User => "user",
            MessageRole::Assistant => "assistant",
            MessageRole::ToolResult => "tool",
        };
        match &message.content {
            MessageContent::Text { text, .. } => self.add(role, text, message.seq, message.at, Map::new()),
            MessageContent::Parts(parts) => {
                let mut more = Map::new();
                let called = calls(parts);
                if !called.is_empty() {
                    more.insert("tool_calls".into(), Value::Array(called));
                }
                self.add(role, &text_of(parts), message.seq, message.at, more);
            }
            // Stands in for what was said, and was not said by anybody.
            MessageContent::Summary { .. } => {}
        }
    }

    /// The result of a call, once it has one.
    pub fn result(&mut self, call: &RecordedCall, now: Timestamp) {
        let Some(seq) = call.result_seq else { return };
        let more = Map::from_iter([("tool_name".to_owned(), json!(call.tool))]);
        match &call.output {
            Some(Value::String(text)) => self.add("tool", text, seq, now, more),
            Some(value) => self.add("tool", &value.to_string(), seq, now, more),
            None => self.add("tool", "", seq, now, more),
        }
    }

    fn add(&mut self, role: &str, text: &str, seq: i64, at: Timestamp, more: Map<String, Value>) {
        let end = text.char_indices().nth(LONGEST).map(|(at, _)| at);
        let mut properties = more;
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
        match (objects::Draft::new(new), relationships::Draft::new(edge)) {
            (Ok(message), Ok(edge)) => {
                self.messages.push(message.with_id(id));
                self.edges.push(edge);
            }
            (Err(invalid), _) | (_, Err(invalid)) => self.left_out(&invalid),
        }
    }

    /// Writes the lines. The record of the run is whole without them: a session that somebody
    /// deleted, or packs that do not allow its messages, do not stand in its way.
    pub fn write(&self, tx: &mut Tx<'_>, graph: &Graph, project: ProjectId) -> Result<()> {
        if self.messages.is_empty() || rows::find_living(tx, project, &[self.session])?.is_empty() {
            return Ok(());
        }
        let author = Author::Run { run_id: self.run, tool_call_id: None };
        let writer = match graph.writer(tx, Actor { project, author }) {
            Ok(writer) => Writer { dispatcher: true, embeds: false, ..writer },
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match objects::create_all(tx, &writer, &self.messages) {
            Ok(_) => {}
            Err(Error::Invalid(invalid)) => {
                self.left_out(&invalid);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        for joined in relationships::create_each(tx, &writer, &self.edges)? {
            match joined {
                Ok(_) => {}
                Err(Error::Invalid(invalid)) => self.left_out(&invalid),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn left_out(&self, why: &dyn std::fmt::Display) {
        warn!(run.id = %self.run, error = %why, "a message could not be added to session `{}`", self.session);
    }
}

fn calls(parts: &[Part]) -> Vec<Value> {
    let call = |part: &Part| match part {
        Part::Call(call) => Some(json!({ "id": call.id, "name": call.name })),
        _ => None,
    };
    parts.iter().filter_map(call).collect()
}
