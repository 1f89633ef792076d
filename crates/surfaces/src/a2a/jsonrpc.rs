//! The JSON-RPC binding: the envelope of requests and of responses.

use emergent_domain::foreign_json;
use serde_json::{Map, Value, json};

use super::error::{A2aError, ErrorKind, RpcFailureBody};

/// A request of JSON-RPC 2.0.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcRequest {
    pub id: Value,
    pub method: String,
    /// An empty object if the request has no parameters.
    pub params: Value,
}

/// A body that is not a request, with the id that the error is returned for.
pub type RpcFailure = Box<(Value, A2aError)>;

impl RpcRequest {
    /// Parses the body of a request.
    pub fn parse(body: &[u8]) -> Result<Self, RpcFailure> {
        let value: Value = foreign_json::from_slice(body).map_err(|error| {
            Box::new((Value::Null, A2aError::new(ErrorKind::Parse, format!("the body is not JSON: {error}"))))
        })?;
        let Value::Object(mut fields) = value else {
            let message = "the body must be one JSON-RPC request; batches are not supported";
            return Err(Box::new((Value::Null, A2aError::new(ErrorKind::InvalidRequest, message))));
        };
        let id = fields.remove("id");
        let is_id = matches!(id, Some(Value::String(_) | Value::Number(_)));
        let shown = id.filter(|_| is_id).unwrap_or(Value::Null);
        let invalid =
            |message: &str| Box::new((shown.clone(), A2aError::new(ErrorKind::InvalidRequest, message)));
        if fields.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        if !is_id {
            return Err(invalid("`id` is required: a string or a number"));
        }
        let Some(Value::String(method)) = fields.remove("method") else {
            return Err(invalid("`method` is required: the name of a method"));
        };
        let params = match fields.remove("params") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(params @ Value::Object(_)) => params,
            Some(_) => {
                let error = A2aError::new(ErrorKind::InvalidParams, "`params` must be an object");
                return Err(Box::new((shown, error)));
            }
        };
        Ok(Self { id: shown, method, params })
    }
}

/// The response with a result.
pub fn result(id: &Value, result: &impl serde::Serialize) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// The response with an error.
pub fn failure(id: &Value, error: &A2aError) -> RpcFailureBody {
    RpcFailureBody { jsonrpc: "2.0".to_owned(), id: id.clone(), error: error.jsonrpc_error() }
}

/// The error about a method that does not exist.
pub fn unknown_method(method: &str) -> A2aError {
    let shown: String = method.chars().take(100).collect();
    A2aError::new(ErrorKind::MethodNotFound, format!("there is no method `{shown}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_request_is_refused_with_its_id() {
        let check = |body: &str, code: i64, id: Value| {
            let (found_id, error) = *RpcRequest::parse(body.as_bytes()).unwrap_err();
            let found = json!(failure(&found_id, &error));
            assert_eq!((&found["error"]["code"], &found["id"]), (&json!(code), &id), "{body}");
        };
        check("{", -32700, Value::Null);
        check("[]", -32600, Value::Null);
        check(r#"{"id":1,"method":"GetTask"}"#, -32600, json!(1));
        check(r#"{"jsonrpc":"1.0","id":"a","method":"GetTask"}"#, -32600, json!("a"));
        check(r#"{"jsonrpc":"2.0","method":"GetTask"}"#, -32600, Value::Null);
        check(r#"{"jsonrpc":"2.0","id":{},"method":"GetTask"}"#, -32600, Value::Null);
        check(r#"{"jsonrpc":"2.0","id":1,"method":2}"#, -32600, json!(1));
        check(r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[1]}"#, -32602, json!(1));
    }

    #[test]
    fn a_request_may_have_no_parameters() {
        let found = RpcRequest::parse(br#"{"jsonrpc":"2.0","id":"x","method":"ListTasks"}"#).unwrap();
        let expected = RpcRequest { id: json!("x"), method: "ListTasks".to_owned(), params: json!({}) };
        assert_eq!(found, expected);
    }
}
