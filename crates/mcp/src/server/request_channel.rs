//! The channel to a client while its request is handled: for progress, log messages and questions.

use std::sync::Arc;

use bytes::Bytes;
use emergent_domain::foreign_json;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;

use super::{Fault, response, session::Session};
use crate::message::{OutgoingMessage, RpcError, code};

/// How many frames may wait for a slow client before optional ones are dropped.
pub(super) const CHANNEL_CAPACITY: usize = 64;

/// The severity of a log message (RFC 5424), ordered from the least to the most urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    const ALL: [(Level, &'static str); 8] = [
        (Level::Debug, "debug"),
        (Level::Info, "info"),
        (Level::Notice, "notice"),
        (Level::Warning, "warning"),
        (Level::Error, "error"),
        (Level::Critical, "critical"),
        (Level::Alert, "alert"),
        (Level::Emergency, "emergency"),
    ];

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(level, _)| *level)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(level, _)| *level == self).map_or("info", |(_, name)| name)
    }
}

/// What a host can send to its caller before the result. The first message turns the response into an
/// event stream.
pub struct RequestChannel {
    pub(super) out: mpsc::Sender<Bytes>,
    /// The token of the client's progress notifications; `None` if it requested none.
    pub(super) progress: Option<Box<RawValue>>,
    /// `None` means that the client requested no logs.
    pub(super) level: Option<Level>,
    pub(super) capabilities: Option<Box<RawValue>>,
    /// The session of a legacy client.
    pub(super) session: Option<Arc<Session>>,
}

impl RequestChannel {
    /// Reports progress to a client that asked for it. `done` must not decrease.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Progress<'a> {
            progress_token: &'a RawValue,
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
        }
        let Some(token) = &self.progress else { return };
        let params = Progress { progress_token: token, progress: done, total, message };
        self.notify("notifications/progress", &params);
    }

    /// Sends a log message to a client that asked for that level.
    pub fn log(&self, level: Level, logger: &str, data: &Value) {
        if self.level.is_some_and(|min_level| level >= min_level) {
            let params = json!({ "level": level.name(), "logger": logger, "data": data });
            self.notify("notifications/message", &params);
        }
    }

    fn notify(&self, method: &str, params: &impl Serialize) {
        if let Ok(text) = response::notification_text(method, params) {
            // A slow client misses this message; the next one supersedes it anyway.
            let _ = self.out.try_send(response::sse_frame(&text));
        }
    }

    /// Whether the client declared a capability.
    pub fn has_capability(&self, capability: &str) -> bool {
        let capabilities = self.capabilities.as_deref();
        capabilities.is_some_and(|text| {
            foreign_json::from_str::<Value>(text.get()).is_ok_and(|declared| declared[capability].is_object())
        })
    }

    /// Returns the fault if the client did not declare a capability.
    pub fn require_capability(&self, capability: &'static str) -> Result<(), Fault> {
        if self.has_capability(capability) { Ok(()) } else { Err(Fault::MissingCapability(capability)) }
    }

    /// Sends a request to a legacy client and waits for its response.
    pub async fn ask(&self, method: &str, params: &Value) -> Result<Value, Fault> {
        let Some(session) = &self.session else {
            return Err(Fault::internal("a modern client must be asked with a result, not with a request"));
        };
        let (id, response) = session.new_question();
        let id = RawValue::from_string(id).map_err(Fault::internal)?;
        let text = OutgoingMessage::request(&id, method, Some(params)).to_bytes().map_err(Fault::internal)?;
        let disconnected = || Fault::Error(RpcError::new(code::INTERNAL, "the client disconnected"));
        self.out.send(response::sse_frame(&text)).await.map_err(|_| disconnected())?;
        response.await.map_err(|_| disconnected())?.map_err(Fault::Error)
    }
}
