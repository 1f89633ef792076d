//! Converts the errors of all services to those of the API.

use axum::http::StatusCode;
use emergent_coordination as coordination;
use emergent_domain::{invalid::Invalid, token::Scope};
use emergent_executor as executor;
use emergent_graph as graph;
use emergent_products as products;
use emergent_secrets as secrets;
use emergent_store as store;
use emergent_tools::remote;
use serde_json::json;
use tracing::{error, warn};

use super::ApiError;
use crate::views::{
    approval::{ApprovalView, EscalatedItemView},
    product,
};

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        let details = json!(invalid.shown());
        Self::new(StatusCode::BAD_REQUEST, "invalid", invalid.to_string()).with_details(details)
    }
}

impl From<store::Error> for ApiError {
    fn from(failure: store::Error) -> Self {
        match failure {
            store::Error::Pool(_) | store::Error::Closed | store::Error::Unresponsive => {
                error!(cause = %failure, "the database cannot be reached");
                Self::database_unavailable()
            }
            store::Error::Busy { waited } => Self::database_busy(waited),
            store::Error::TooManyWrites { limit } => Self::too_many_writes(limit),
            store::Error::TooManyRows { limit, waited } => Self::too_many_rows(limit, waited),
            store::Error::TooSlow { limit } => {
                warn!(cause = %failure, "a request was stopped");
                Self::query_timeout(limit)
            }
            store::Error::TooLarge { limit } => Self::answer_too_large(limit),
            // The request is answered like the one that was accepted.
            store::Error::KeyUsed => Self::key_in_progress(),
            // Nobody receives this.
            store::Error::Abandoned => Self::unavailable("the request was given up"),
            store::Error::StorageFull(_) | store::Error::StorageCorrupt(_) => {
                error!(
                    cause = emergent_net::errors::error_chain(&failure),
                    "the storage of the database failed"
                );
                Self::storage(failure.storage_fault().unwrap_or(store::StorageFault::Full))
            }
            _ => Self::internal(&failure),
        }
    }
}

impl From<graph::Error> for ApiError {
    fn from(failure: graph::Error) -> Self {
        let message = failure.to_string();
        let conflict = |code, details| Self::new(StatusCode::CONFLICT, code, &message).with_details(details);
        match failure {
            graph::Error::NotFound { what, id } => Self::not_found(what, id),
            graph::Error::NotLiveAt(problem) => {
                Self::new(StatusCode::NOT_FOUND, "not_found", message).with_details(json!([problem]))
            }
            graph::Error::Invalid(invalid) => invalid.into(),
            graph::Error::VersionConflict { expected, current, .. } => {
                conflict("version_conflict", json!({ "expected": expected, "current": current }))
            }
            graph::Error::KeyTaken { type_, key, id } => {
                conflict("key_taken", json!({ "type": type_, "key": key, "id": id }))
            }
            graph::Error::KeyReused { type_, key, live, deleted } => {
                conflict("key_taken", json!({ "type": type_, "key": key, "id": live, "deletedId": deleted }))
            }
            graph::Error::Conflict { .. } => Self::new(StatusCode::CONFLICT, "conflict", message),
            graph::Error::MissingScope { scope, .. }
            | graph::Error::NeedsScope { scope, .. }
            | graph::Error::WaitsForDecision { scope, .. } => {
                Self::new(StatusCode::FORBIDDEN, "missing_scope", message)
                    .with_details(json!({ "scope": scope }))
            }
            graph::Error::Overloaded { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message)
            }
            graph::Error::NotValidated(_) => Self::invalid("", message),
            graph::Error::TokenEnded => Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message),
            graph::Error::Embedding(cause) => {
                error!(%cause, "the embedder did not answer");
                Self::unavailable("the embedder did not answer; search by text, or try again")
            }
            graph::Error::Store(failure) => failure.into(),
        }
    }
}

impl From<executor::Error> for ApiError {
    fn from(failure: executor::Error) -> Self {
        let message = failure.to_string();
        let conflict = |code| Self::new(StatusCode::CONFLICT, code, &message);
        match failure {
            executor::Error::NotFound { what, id, similar } => match similar {
                Some(similar) => Self::misspelt(what, id, &similar),
                None => Self::not_found(what, id),
            },
            executor::Error::Invalid(invalid) => invalid.into(),
            executor::Error::VersionConflict { expected, current, .. } => {
                conflict("version_conflict").with_details(json!({ "expected": expected, "current": current }))
            }
            executor::Error::Conflict(_)
            | executor::Error::BudgetUsedUp(_)
            | executor::Error::Lost(_)
            | executor::Error::Waiting(_) => conflict("conflict"),
            executor::Error::Decided(approval) => {
                conflict("already_decided").with_details(json!(ApprovalView::from(*approval)))
            }
            executor::Error::NoModel(_) => conflict("no_model"),
            executor::Error::Forbidden(_) => Self::forbidden(message),
            executor::Error::BeyondMaker { scope, .. } => {
                Self::new(StatusCode::FORBIDDEN, "missing_scope", message)
                    .with_details(json!({ "scope": scope }))
            }
            executor::Error::MayNotStart { .. } => Self::new(StatusCode::FORBIDDEN, "missing_scope", message)
                .with_details(json!({ "scope": Scope::AgentsInvoke })),
            executor::Error::Overloaded { limit, waiting } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", message)
                    .with_details(json!({ "limit": limit, "waiting": waiting }))
            }
            executor::Error::Graph(failure) => failure.into(),
            executor::Error::Store(failure) => failure.into(),
        }
    }
}

impl From<coordination::Error> for ApiError {
    fn from(failure: coordination::Error) -> Self {
        let message = failure.to_string();
        match failure {
            coordination::Error::NotFound { what, id } => Self::not_found(what, id),
            coordination::Error::Invalid(invalid) => invalid.into(),
            coordination::Error::Conflict(_)
            | coordination::Error::Lost(_)
            | coordination::Error::Stale(_)
            | coordination::Error::NotStarted { .. } => Self::new(StatusCode::CONFLICT, "conflict", message),
            coordination::Error::MayNotDecide { .. }
            | coordination::Error::MayNotRaiseBudget { .. }
            | coordination::Error::MayNotTakeOver { .. } => {
                Self::new(StatusCode::FORBIDDEN, "missing_scope", message)
                    .with_details(json!({ "scope": Scope::ApprovalsDecide }))
            }
            coordination::Error::Decided(item) => {
                let details = json!(EscalatedItemView::new(*item, Vec::new()));
                Self::new(StatusCode::CONFLICT, "already_decided", message).with_details(details)
            }
            coordination::Error::Executor(failure) => failure.into(),
            coordination::Error::Graph(failure) => failure.into(),
            coordination::Error::Store(failure) => failure.into(),
        }
    }
}

impl From<products::Error> for ApiError {
    fn from(failure: products::Error) -> Self {
        let message = failure.to_string();
        let new = |status, code| Self::new(status, code, &message);
        match failure {
            products::Error::NotInstalled(name) => Self::not_found("product", name),
            products::Error::NoProject(id) => Self::not_found("project", id),
            products::Error::Manifest(problems) => new(StatusCode::BAD_REQUEST, "invalid_manifest")
                .with_details(product::problems_json(&problems)),
            products::Error::Incompatible(problems) => {
                new(StatusCode::CONFLICT, "conflict").with_details(product::problems_json(&problems))
            }
            products::Error::AlreadyInstalled { .. } => new(StatusCode::CONFLICT, "already_installed"),
            products::Error::NameMismatch { .. } => new(StatusCode::CONFLICT, "name_mismatch"),
            products::Error::ProgramNotAllowed { .. } => new(StatusCode::FORBIDDEN, "program_not_allowed"),
            products::Error::ConsentRequired { uses, added, .. } => {
                new(StatusCode::CONFLICT, "consent_required")
                    .with_details(product::consent_json(*uses, *added))
            }
            products::Error::Conflict(_) => new(StatusCode::CONFLICT, "conflict"),
            products::Error::Source(reason) => Self::invalid("source", reason),
            // The caller chose the source, so this is an error of the request.
            products::Error::Unreachable(_) => new(StatusCode::BAD_REQUEST, "source_unreachable"),
            products::Error::Executor(failure) => failure.into(),
            products::Error::Graph(failure) => failure.into(),
            products::Error::Store(failure) => failure.into(),
        }
    }
}

impl From<secrets::Error> for ApiError {
    fn from(failure: secrets::Error) -> Self {
        let message = failure.to_string();
        match failure {
            secrets::Error::NotFound { name } => Self::not_found("secret", name),
            secrets::Error::NoProject(id) => Self::not_found("project", id),
            secrets::Error::NoServer(name) => Self::not_found("MCP server", name),
            secrets::Error::GivenByOthers { .. } => {
                Self::new(StatusCode::FORBIDDEN, "secret_given_by_others", message)
            }
            secrets::Error::Invalid(invalid) => invalid.into(),
            secrets::Error::Conflict(_) => Self::new(StatusCode::CONFLICT, "conflict", message),
            // Another server rotated the key. The operator has to configure the new key for this server.
            secrets::Error::WrongKey { .. } => {
                error!(cause = message, "the configured key does not decrypt the secrets");
                Self::new(StatusCode::CONFLICT, "wrong_key", message)
            }
            secrets::Error::Store(failure) => failure.into(),
            other => Self::internal(&other),
        }
    }
}

impl From<remote::Error> for ApiError {
    fn from(failure: remote::Error) -> Self {
        let message = failure.to_string();
        match failure {
            remote::Error::NotFound { what, id } => Self::not_found(what, id),
            remote::Error::Invalid(invalid) => invalid.into(),
            remote::Error::ProgramNotAllowed { .. } => {
                Self::new(StatusCode::FORBIDDEN, "program_not_allowed", message)
            }
            remote::Error::StdioDisabled => Self::new(StatusCode::FORBIDDEN, "stdio_disabled", message),
            remote::Error::Conflict(_) => Self::new(StatusCode::CONFLICT, "conflict", message),
            remote::Error::Store(failure) => failure.into(),
        }
    }
}
