//! How domain types are stored in one column: enums as text, structures as JSON. Reading an enum value or a
//! structure that this version does not know is an error; it is never replaced by a default.

use std::borrow::Cow;

use emergent_domain::{
    agent::{AgentDefinition, ModelConfig},
    approval::{ApprovalKind, ApprovalStatus, Decision, OnExpiry, Question},
    change::ChangeKind,
    conversation::{
        ChatMemoryStatus, ChatMessageStatus, ChatRole, Citation, ConversationStatus, RetrievalContext,
    },
    coordination::CoordinationSettings,
    ids,
    inbox::InboxItemKind,
    json::JsonObject,
    loops::CallEffect,
    mcp_server::{PinPolicy, ToolStatus, TransportKind},
    pack::TemplatePack,
    project_event::EventSubject,
    prompt::Prompt,
    run::{MessageRole, Origin, Reason, RunStatus, RunTerms, ToolCallStatus},
    run_write::WrittenKind,
    stored_json,
    task::TaskStatus,
    time::Timestamp,
    trigger::{EventConfig, EventKind, FiringStatus, ScheduleConfig},
    workflow::{Deliverable, Escalation, WorkflowOrigin, WorkflowSettings, WorkflowStatus},
    workflow_template::WorkflowTemplate,
};
use rusqlite::types::ValueRef;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    budget::CallStatus,
    embedding_queue::RowKind,
    jobs::JobStatus,
    row::ToParam,
    value::{Column, Param, RawColumn},
};

impl<T: ToParam> ToParam for Option<T> {
    fn to_param(&self) -> Result<Param<'_>, serde_json::Error> {
        self.as_ref().map_or(Ok(Param::Null), ToParam::to_param)
    }
}

/// Implements [`ToParam`] for types that are `Copy`.
macro_rules! copied {
    ($($Type:ty),* $(,)?) => {$(
        impl ToParam for $Type {
            fn to_param(&self) -> Result<Param<'_>, serde_json::Error> {
                Ok(Param::from(*self))
            }
        }
    )*};
}

copied!(bool, i64, f64, Uuid, Timestamp);

macro_rules! copied_ids {
    ($($id:ident),*) => { copied!($(ids::$id),*); };
}

emergent_domain::for_each_id!(copied_ids);

/// Implements [`ToParam`] for types whose parameter borrows the value.
macro_rules! borrowed {
    ($($Type:ty),* $(,)?) => {$(
        impl ToParam for $Type {
            fn to_param(&self) -> Result<Param<'_>, serde_json::Error> {
                Ok(Param::from(self))
            }
        }
    )*};
}

borrowed!(String, JsonObject);

impl ToParam for Vec<String> {
    fn to_param(&self) -> Result<Param<'_>, serde_json::Error> {
        Ok(Param::Json(match self.is_empty() {
            true => Cow::Borrowed("[]"),
            false => Cow::Owned(serde_json::to_string(self)?),
        }))
    }
}

/// The variant whose text is `text`.
fn parse<T: Copy>(variants: &[T], as_str: impl Fn(T) -> &'static str, text: &str) -> Option<T> {
    variants.iter().copied().find(|variant| as_str(*variant) == text)
}

/// Implements the traits of a column for enums with `ALL` and `as_str`, which are stored as that text.
macro_rules! enums {
    ($($Type:ty),* $(,)?) => {$(
        impl Column for $Type {
            const NAME: &'static str = "a known value";
            fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
                parse(&Self::ALL[..], Self::as_str, value.as_str().ok()?)
            }
            fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
                parse(&Self::ALL[..], Self::as_str, raw.as_str()?)
            }
        }

        impl From<$Type> for Param<'_> {
            fn from(variant: $Type) -> Self {
                Param::Text(Cow::Borrowed(variant.as_str()))
            }
        }

        copied!($Type);
    )*};
}

enums!(
    ApprovalKind,
    ApprovalStatus,
    ChangeKind,
    ChatMemoryStatus,
    ChatMessageStatus,
    ChatRole,
    ConversationStatus,
    Deliverable,
    EventKind,
    EventSubject,
    CallEffect,
    CallStatus,
    FiringStatus,
    InboxItemKind,
    JobStatus,
    MessageRole,
    OnExpiry,
    Origin,
    PinPolicy,
    Reason,
    RowKind,
    RunStatus,
    TaskStatus,
    WrittenKind,
    ToolCallStatus,
    ToolStatus,
    TransportKind,
    WorkflowStatus,
);

/// Implements the traits of a column for types that are stored as JSON.
macro_rules! structures {
    ($($Type:ty),* $(,)?) => {$(
        impl Column for $Type {
            const NAME: &'static str = "a known structure";
            fn from_sqlite(value: ValueRef<'_>) -> Option<Self> {
                stored_json::from_str(value.as_str().ok()?).ok()
            }
            fn from_postgres(raw: &RawColumn<'_>) -> Option<Self> {
                stored_json::from_str(raw.as_str()?).ok()
            }
        }

        impl ToParam for $Type {
            fn to_param(&self) -> Result<Param<'_>, serde_json::Error> {
                Ok(Param::Json(Cow::Owned(serde_json::to_string(self)?)))
            }
        }
    )*};
}

structures!(
    AgentDefinition,
    CoordinationSettings,
    Decision,
    Escalation,
    EventConfig,
    ModelConfig,
    Prompt,
    Question,
    RetrievalContext,
    RunTerms,
    ScheduleConfig,
    TemplatePack,
    Value,
    Vec<Citation>,
    Vec<i64>,
    WorkflowOrigin,
    WorkflowSettings,
    WorkflowTemplate,
);
