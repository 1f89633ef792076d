//! Extracts a request body that contains a secret. Errors about other bodies quote the request; errors about
//! this one quote nothing, since any misplaced text may be the secret.

use axum::extract::{FromRequest, Request};
use emergent_domain::{
    foreign_json,
    reserved_keys::{REASON, has_reserved_key},
};
use emergent_secrets::{MAX_VALUE_BYTES, Secret};

use crate::{
    ApiError,
    extract::{fields::JsonMap, has_content_type, read_limited},
    views::secret::PutSecret,
};

/// Sufficient for a value of the maximum size in which JSON escapes every character (`\u0000`).
const MAX_BODY_BYTES: usize = 6 * MAX_VALUE_BYTES + 1_024;
/// Longer names of unknown fields are not quoted in errors.
const MAX_QUOTED_FIELD_BYTES: usize = 32;

/// The value of the secret in the body.
pub(super) struct SecretBody(pub Secret);

impl<S: Send + Sync> FromRequest<S> for SecretBody {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        if !has_content_type(&parts.headers, "application/json") {
            return Err(ApiError::wrong_content_type("application/json"));
        }
        let bytes = read_limited(&parts, body, MAX_BODY_BYTES, "the body").await?;
        parse_body(&bytes)
    }
}

fn parse_body(bytes: &[u8]) -> Result<SecretBody, ApiError> {
    if has_reserved_key(bytes) {
        return Err(ApiError::invalid("", REASON));
    }
    let failure = match foreign_json::parse_slice(bytes) {
        Ok(JsonMap(PutSecret { value })) => return Ok(SecretBody(Secret::new(value))),
        Err(failure) => failure,
    };
    if !failure.is_data() {
        return Err(ApiError::malformed("the body is not JSON; send {\"value\": \"…\"}"));
    }
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(ApiError::invalid("", "the body must be an object; send {\"value\": \"…\"}"));
    }
    let text = failure.to_string();
    if let Some(rest) = text.strip_prefix("unknown field `") {
        let field = rest.split('`').next().unwrap_or_default();
        let is_word =
            field.len() <= MAX_QUOTED_FIELD_BYTES && field.bytes().all(|byte| byte.is_ascii_alphabetic());
        // A plain word is probably a misspelt field; anything else may be the secret itself.
        let field = if is_word { field } else { "" };
        return Err(ApiError::invalid(field, "is not a known field; expected only `value`"));
    }
    Err(match text {
        missing if missing.starts_with("missing field") => ApiError::invalid("value", "is required"),
        twice if twice.starts_with("duplicate field") => ApiError::invalid("value", "is given twice"),
        _ => ApiError::invalid("value", "must be a string"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_parsed() {
        let Ok(SecretBody(secret)) = parse_body(br#" {"value":"a\nb\u00fc"} "#) else {
            panic!("the body is valid, but was refused")
        };
        assert_eq!(secret.expose(), "a\nbü");
    }

    #[test]
    fn a_reserved_key_is_refused_as_such() {
        for body in [
            r#"{"value":"x","$serde_json::private::a":1}"#,
            r#"{"$serde_json::private::RawValue":"{\"value\":\"x\"}"}"#,
        ] {
            let Err(error) = parse_body(body.as_bytes()) else { panic!("{body} was accepted") };
            let answer = serde_json::to_value(error.into_body()).unwrap();
            assert!(answer.to_string().contains("is reserved"), "{answer}");
        }
    }

    #[test]
    fn an_error_names_the_field_and_quotes_nothing() {
        let secret = "S3cr3t-17";
        for (body, field) in [
            (r#"{"value":S3cr3t-17}"#, ""),
            (r#"{"value":"S3cr3t-17""#, ""),
            (r#"{"value":"S3cr3t-17"} S3cr3t-17"#, ""),
            (r#""S3cr3t-17""#, ""),
            (r#"["S3cr3t-17"]"#, ""),
            ("S3cr3t-17", ""),
            ("", ""),
            (r#"{"value":["S3cr3t-17"]}"#, "value"),
            (r#"{"value":{"S3cr3t-17":1}}"#, "value"),
            (r#"{"value":317}"#, "value"),
            (r#"{"value":null}"#, "value"),
            (r#"{"value":"S3cr3t-17","value":"S3cr3t-17"}"#, "value"),
            (r#"{}"#, "value"),
            (r#"{"S3cr3t-17":"x"}"#, ""),
            (r#"{"value":"S3cr3t-17","comment":"x"}"#, "comment"),
        ] {
            let Err(error) = parse_body(body.as_bytes()) else { panic!("{body} was accepted") };
            let body_json = serde_json::to_value(error.into_body()).unwrap();
            assert_eq!(body_json["details"][0]["field"], field, "{body}: {body_json}");
            assert!(
                !body_json.to_string().contains(secret) && !body_json.to_string().contains("317"),
                "{body}: {body_json}"
            );
        }
    }
}
