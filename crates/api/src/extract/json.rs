//! Extracts JSON bodies.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::request::Parts,
};
use emergent_domain::{
    foreign_json,
    json_cost::JsonCost,
    reserved_keys::{REASON, has_reserved_key},
};
use serde::de::DeserializeOwned;

use super::{
    body::{BodyLimits, BodyMemory},
    field_problem,
    fields::JsonMap,
    has_content_type, read_limited,
    unknown_fields::field_problems,
};
use crate::{ApiError, App, auth::Caller, limits};

/// Larger bodies are parsed on a blocking thread: requests of others must not wait for it.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// A JSON body of at most 8 MiB, or what the [`BodyLimits`] of the route say.
pub(crate) struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        if !has_content_type(&parts.headers, "application/json") {
            return Err(ApiError::wrong_content_type("application/json"));
        }
        let bytes = read_limited(&parts, body, limits::BODY, "the body").await?;
        parse_body(&parts, bytes).await.map(Self)
    }
}

/// Like [`Json`], for routes where a missing body equals an empty one.
pub(crate) struct OptionalJson<T>(pub T);

impl<T: DeserializeOwned + Default + Send + 'static, S: Send + Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = read_limited(&parts, body, limits::BODY, "the body").await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        if !has_content_type(&parts.headers, "application/json") {
            return Err(ApiError::wrong_content_type("application/json"));
        }
        parse_body(&parts, bytes).await.map(Self)
    }
}

/// Parses the body of a request, after a check of what its values would cost. A large body waits for the turn of
/// its project, and is parsed on a blocking thread.
pub(crate) async fn parse_body<T: DeserializeOwned + Send + 'static>(
    parts: &Parts,
    bytes: Bytes,
) -> Result<T, ApiError> {
    parse_body_with(parts, bytes, parse_json).await
}

/// Like [`parse_body`], for JSON that has a parser of its own.
pub(crate) async fn parse_body_with<T: Send + 'static>(
    parts: &Parts,
    bytes: Bytes,
    parse: impl FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let (check, is_large) = (ValueCheck::new(parts), bytes.len() > MAX_INLINE_BYTES);
    let parse = move || {
        check.check(&bytes)?;
        parse(&bytes)
    };
    match parts.extensions.get::<App>().filter(|_| is_large) {
        None => parse(),
        Some(app) => {
            let project = parts.extensions.get::<Caller>().and_then(Caller::named_project);
            app.graph.run_on_large_input(project, parse).await?
        }
    }
}

/// Refuses a body with a reserved key, or with more values than the route takes, and counts what they cost, before it is
/// parsed.
struct ValueCheck {
    max_values: usize,
    memory: BodyMemory,
}

impl ValueCheck {
    fn new(parts: &Parts) -> Self {
        let of_route = parts.extensions.get::<BodyLimits>();
        let max_values = of_route.map_or(limits::JSON_VALUES, |limits| limits.json_values);
        Self { max_values, memory: BodyMemory::new(parts) }
    }

    fn check(&self, bytes: &[u8]) -> Result<(), ApiError> {
        if has_reserved_key(bytes) {
            return Err(ApiError::invalid("", REASON));
        }
        let cost = JsonCost::estimate(bytes);
        if cost.values > self.max_values {
            return Err(ApiError::too_many_values(self.max_values));
        }
        self.memory.hold(bytes.len() + cost.bytes)
    }
}

/// Parses a body. The error names the invalid field, or all fields that are unknown.
fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // Tracking the path costs time, so the body is parsed again with the path only after a failure.
    if let Ok(JsonMap(value)) = foreign_json::parse_slice(bytes) {
        return Ok(value);
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(ApiError::malformed("the body is empty; send JSON"));
    }
    #[expect(clippy::disallowed_methods, reason = "the body was checked")]
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let JsonMap(value) = serde_path_to_error::deserialize(&mut reader).map_err(|failure| {
        let path = failure.path().clone();
        let failure = failure.into_inner();
        if failure.is_data() {
            return field_problems::<T>(bytes, &path, &without_position(&failure)).into();
        }
        ApiError::malformed_at(field_problem(&path, &format!("the body is not JSON: {failure}")))
    })?;
    match reader.end() {
        Ok(()) => Ok(value),
        Err(failure) => Err(ApiError::malformed(format!("the body is not JSON: {failure}"))),
    }
}

/// Removes line and column: the field name is sufficient, and nobody reads positions in a generated
/// body.
fn without_position(failure: &serde_json::Error) -> String {
    let text = failure.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Outer {
        name: String,
        #[serde(default)]
        items: Vec<Inner>,
        #[serde(default)]
        any: serde_json::Value,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Inner {
        size: u32,
    }

    fn check(json: &str, field: &str, reason: &str) {
        let body = parse_json::<Outer>(json.as_bytes()).unwrap_err().into_body();
        let details = body.details.expect("details");
        assert!(details[0]["field"].as_str().unwrap().starts_with(field), "{details}");
        assert_eq!(field.is_empty(), details[0]["field"] == "", "{details}");
        assert!(details[0]["reason"].as_str().unwrap().contains(reason), "{json}: {details}");
    }

    #[test]
    fn errors_name_the_invalid_field() {
        check(r#"{"name":1}"#, "name", "invalid type: integer `1`, expected a string");
        check(r#"{"name":"a","items":{}}"#, "items", "invalid type: object, expected a list");
        check(r#"{"name":"a","items":[{"size":"1"}]}"#, "items[0].size", "expected a whole number");
        check(r#"{}"#, "name", "is required");
        check(r#"{"name":"a","nmae":1}"#, "nmae", "is not a known field; did you mean `name`?");
        check(r#"{"name":"a","colour":1}"#, "colour", "is not a known field; expected one of `name`");
        check(r#"{"name":"a","items":[{"size":1},{"size":-1}]}"#, "items[1].size", "invalid value");
        check(r#"{"name":"a","items":[{"sze":1}]}"#, "items[0].sze", "is not a known field");
        check(r#"{"name":"a","items":[{}]}"#, "items[0].size", "is required");
        check(r#"{"name":"#, "name", "not JSON: EOF");
        check("[", "", "expected an object");
        check("@", "", "not JSON");
        check(r#"{"name":"a"} x"#, "", "not JSON");
        check("", "", "empty");
        let deep = format!(r#"{{"name":"a","any":{}}}"#, "[".repeat(10_000));
        check(&deep, "any", "recursion limit");
    }

    #[test]
    fn an_error_names_unknown_fields_and_wrong_types_together() {
        let fields = |json: &str| {
            let details = parse_json::<Outer>(json.as_bytes()).unwrap_err().into_body().details;
            let details = details.expect("details").as_array().unwrap().clone();
            let mut fields: Vec<_> =
                details.iter().map(|problem| problem["field"].as_str().unwrap().to_owned()).collect();
            fields.sort_unstable();
            fields
        };
        assert_eq!(fields(r#"{"name":1,"nmae":1,"items":{}}"#), ["items", "name", "nmae"]);
        // What stands after a field that is missing, because it was wrong, is found once that is corrected.
        let json = r#"{"name":1,"nmae":1,"items":[{"size":"1"},{"size":-1,"sze":2}]}"#;
        assert_eq!(fields(json), ["items[0].size", "name"]);
    }

    #[test]
    fn an_error_names_all_unknown_fields() {
        let json = r#"{"name":"a","nmae":1,"items":[{"size":1},{"size":1,"sze":2}],"colour":{}}"#;
        let details = parse_json::<Outer>(json.as_bytes()).unwrap_err().into_body().details.expect("details");
        let mut fields: Vec<_> =
            details.as_array().unwrap().iter().filter_map(|problem| problem["field"].as_str()).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["colour", "items[1].sze", "nmae"], "{details}");
        let many: Vec<String> = (0..100).map(|number| format!(r#""unknown{number}":1"#)).collect();
        let json = format!(r#"{{"name":"a",{}}}"#, many.join(","));
        let details = parse_json::<Outer>(json.as_bytes()).unwrap_err().into_body().details.expect("details");
        assert_eq!(details.as_array().unwrap().len(), 20);
    }
}
