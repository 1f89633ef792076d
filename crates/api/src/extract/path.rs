//! Extracts path parameters.

use axum::{
    extract::{FromRequestParts, path::ErrorKind, rejection::PathRejection},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use super::truncate;
use crate::ApiError;

/// Ids and names from the path.
pub(crate) struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(value)) => Ok(Self(value)),
            Err(PathRejection::FailedToDeserializePathParams(failure)) => Err(match failure.into_kind() {
                ErrorKind::DeserializeError { key, value, message } => ApiError::invalid(
                    key,
                    format!("`{}` does not fit: {}", truncate(&value), truncate(&message)),
                ),
                ErrorKind::ParseErrorAtKey { key, value, expected_type } => {
                    ApiError::invalid(key, format!("`{}` is not a {expected_type}", truncate(&value)))
                }
                ErrorKind::InvalidUtf8InPathParam { key } => ApiError::invalid(key, "is not UTF-8"),
                // Axum does not report the name of a single parameter.
                other => ApiError::invalid("id", truncate(&other.to_string())),
            }),
            Err(other) => Err(ApiError::internal(&other)),
        }
    }
}
