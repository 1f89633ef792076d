//! The envelope of every response: `{ success, data }` or `{ success, error }`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What every answer that worked looks like.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Envelope<T> {
    /// Always true.
    pub success: bool,
    pub data: T,
}

/// What every answer that did not work looks like.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// Always false.
    pub success: bool,
    pub error: FailureBody,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct FailureBody {
    /// A stable word for programs, such as `version_conflict`.
    #[schema(value_type = String, example = "invalid")]
    pub code: Cow<'static, str>,
    /// What is wrong and what to do about it, for people.
    pub message: String,
    /// For `invalid`, a list of `{ field, reason }`; for `version_conflict`, `{ expected, current }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}
