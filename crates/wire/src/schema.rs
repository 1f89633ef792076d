//! OpenAPI schemas of enums of `domain`, which has no dependency on OpenAPI. A field has the enum of `domain`
//! as its type, and names its schema with `#[schema(value_type = schema::RunStatus)]`; the values come from
//! the enum itself.

use std::borrow::Cow;

use emergent_domain::{
    agent, approval, conversation, filter, mcp_server, query, run, run_write, task, token,
    trigger::{self},
    workflow,
};
use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Ref, RefOr, Schema,
        schema::{ObjectBuilder, OneOfBuilder, Type},
    },
};

use crate::agent_parts::ModelView;

/// Returns the schema of a string with these values.
fn string_enum(values: impl Iterator<Item = String>, description: &str) -> RefOr<Schema> {
    let description = Some(description.trim().to_owned()).filter(|text| !text.is_empty());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values)).description(description).into()
}

/// Returns the JSON name of a variant.
fn json_name(variant: impl Serialize) -> String {
    let value = serde_json::to_value(variant).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// An object, by its id or as `Type/key`.
pub struct ObjectRef;

impl PartialSchema for ObjectRef {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(
                "^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[A-Za-z][A-Za-z0-9_.:-]*/[^\\x00]+)$",
            ))
            .description(Some("The id of an object, or `Type/key`."))
            .into()
    }
}

impl ToSchema for ObjectRef {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("ObjectRef")
    }
}

/// The model of a request: `provider/name`, or an object.
pub struct ModelChoice;

impl PartialSchema for ModelChoice {
    fn schema() -> RefOr<Schema> {
        let name = ObjectBuilder::new()
            .schema_type(Type::String)
            .max_length(Some(401))
            .pattern(Some("^([^/]+/.+|gemini-.*|gpt-.*|o[0-9].*|claude-.*)$"))
            .examples(["google/gemini-2.5-flash"])
            .description(Some("`provider/name`. The provider may be omitted as in the object."));
        OneOfBuilder::new()
            .item(Ref::from_schema_name(ModelView::name()))
            .item(name)
            .description(Some("The model of a request: `provider/name`, or an object."))
            .into()
    }
}

impl ToSchema for ModelChoice {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("ModelChoice")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((ModelView::name().into_owned(), ModelView::schema()));
    }
}

/// Declares schemas as `Component => values`. The name of the component and its doc comment are part of the
/// API.
macro_rules! enum_schemas {
    ($($(#[doc = $about:literal])* $name:ident => $values:expr;)*) => {$(
        $(#[doc = $about])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                string_enum($values.iter().map(json_name), concat!($($about),*))
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    )*};
}

enum_schemas! {
    /// How an agent works: by itself, or through others.
    FlowType => agent::FlowType::ALL;
    /// Where an agent is seen and from where it can be started.
    Visibility => agent::Visibility::ALL;
    /// What a rule does with a call: it is made, a person is asked first, or it is refused.
    ApprovalAction => approval::Action::ALL;
    AnswerAs => agent::AnswerAs::ALL;
    /// What happens to a call that nobody decided in time: it is denied, or goes on waiting and is marked as
    /// overdue.
    OnExpiry => approval::OnExpiry::ALL;
    /// What a person is asked for.
    ApprovalKind => approval::ApprovalKind::ALL;
    /// `expired`: nobody decided in time. `withdrawn`: the run ended before anybody decided.
    ApprovalStatus => approval::ApprovalStatus::ALL;
    ApprovalDecision => approval::Choice::ALL;
    ConversationStatus => conversation::ConversationStatus::ALL;
    ChatRole => conversation::ChatRole::ALL;
    /// A message of a person is `queued`, `answering` or `answered`; an answer has one of the other statuses.
    ChatMessageStatus => conversation::ChatMessageStatus::ALL;
    /// `waiting`: the message is being answered. `queued`: a job stores it as a document. `stored`: the document starts
    /// the extraction. `skipped`: the message is not extracted, for a reason.
    ChatMemoryStatus => conversation::ChatMemoryStatus::ALL;
    CitationKind => conversation::CitationKind::ALL;
    WorkflowStatus => workflow::WorkflowStatus::ALL;
    /// Who chooses an agent for a task that names none.
    Selector => workflow::SelectorKind::ALL;
    /// Who chooses what a task is told of the work before it: what is nearest and fits, or a model
    /// where there is much to tell.
    Threading => workflow::ThreadingKind::ALL;
    /// What a task that failed for good means for the rest: what waits for it is skipped, or a
    /// person is asked.
    OnFailure => workflow::OnFailure::ALL;
    TaskStatus => task::TaskStatus::ALL;
    TaskPriority => task::Priority::ALL;
    /// What a task judges in the end: nothing, a test, or a review.
    VerdictKind => task::VerdictKind::ALL;
    McpTransport => mcp_server::TransportKind::ALL;
    PinPolicy => mcp_server::PinPolicy::ALL;
    McpServerToolStatus => mcp_server::ToolStatus::ALL;
    RunStatus => run::RunStatus::ALL;
    /// Why a run is paused or failed.
    Reason => run::Reason::ALL;
    /// What started a run.
    Origin => run::Origin::ALL;
    MessageRole => run::MessageRole::ALL;
    WrittenKind => run_write::WrittenKind::ALL;
    /// What a write did.
    WriteChange => run_write::WriteChange::ALL;
    SearchMode => query::SearchMode::ALL;
    FilterOp => [
        filter::Op::Eq,
        filter::Op::Ne,
        filter::Op::Lt,
        filter::Op::Lte,
        filter::Op::Gt,
        filter::Op::Gte,
        filter::Op::In,
        filter::Op::Contains,
        filter::Op::Exists,
    ];
    /// Whether vectors took part. `unavailable`: there is no embedder, or it could not answer.
    EmbeddingUse => [query::EmbeddingUse::Used, query::EmbeddingUse::Unavailable];
    /// What a token may do.
    Scope => token::Scope::ALL;
    Direction => [query::Direction::Out, query::Direction::In, query::Direction::Both];
    Missed => trigger::MissedPolicy::ALL;
    EventKind => trigger::EventKind::ALL;
    CoalesceBy => trigger::CoalesceBy::ALL;
    FiringStatus => trigger::FiringStatus::ALL;
}
