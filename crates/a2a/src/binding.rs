//! The two bindings of the protocol: JSON-RPC, and HTTP with JSON.

use std::time::Duration;

use emergent_domain::foreign_json;
use emergent_net::large_messages::{HeldMessage, LargeMessages};
use reqwest::{
    Method, RequestBuilder, Response, Url,
    header::{HeaderMap, RETRY_AFTER},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Error,
    body::{self, Body},
    card::{Binding, Interface},
};

/// What was parsed from a response, with the body's size. The place of a large one in memory is kept with it.
pub struct Parsed<T> {
    pub value: T,
    pub bytes: usize,
    pub held: Option<HeldMessage>,
}

/// A request of the protocol.
#[derive(Debug, Clone)]
pub enum Operation {
    Send(Value),
    Get { task: String },
    Cancel { task: String },
}

/// An operation as an HTTP request.
pub struct HttpCall {
    pub method: Method,
    pub url: Url,
    pub body: Option<Value>,
    pub content_type: &'static str,
}

impl Operation {
    /// The HTTP request for this interface. `id` is that of a JSON-RPC request.
    pub fn http_call(&self, interface: &Interface, id: u64) -> Result<HttpCall, Error> {
        match interface.binding {
            Binding::JsonRpc => Ok(self.json_rpc(interface, id)),
            Binding::HttpJson => self.http_json(interface),
        }
    }

    fn json_rpc(&self, interface: &Interface, id: u64) -> HttpCall {
        let (method, mut params) = match self {
            Self::Send(params) => ("SendMessage", params.clone()),
            Self::Get { task } => ("GetTask", json!({ "id": task, "historyLength": 1 })),
            Self::Cancel { task } => ("CancelTask", json!({ "id": task })),
        };
        if let Some(tenant) = &interface.tenant {
            params["tenant"] = json!(tenant);
        }
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let url = interface.url.clone();
        HttpCall { method: Method::POST, url, body: Some(body), content_type: "application/json" }
    }

    fn http_json(&self, interface: &Interface) -> Result<HttpCall, Error> {
        let task_path;
        let (method, path, body, query): (_, &[&str], _, _) = match self {
            Self::Send(params) => (Method::POST, &["message:send"], Some(params.clone()), None),
            Self::Get { task } => (Method::GET, &["tasks", task], None, Some("historyLength=1")),
            Self::Cancel { task } => {
                task_path = format!("{task}:cancel");
                (Method::POST, &["tasks", &task_path], Some(json!({})), None)
            }
        };
        let mut url = interface.url.clone();
        url.path_segments_mut()
            .map_err(|()| Error::NoInterface("its address cannot have a path".into()))?
            .pop_if_empty()
            .extend(&interface.tenant)
            .extend(path);
        if let Some(query) = query {
            url.set_query(Some(query));
        }
        Ok(HttpCall { method, url, body, content_type: "application/a2a+json" })
    }
}

impl HttpCall {
    pub fn add_body(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.body {
            Some(body) => {
                request.header(reqwest::header::CONTENT_TYPE, self.content_type).body(body.to_string())
            }
            None => request,
        }
    }
}

#[derive(Deserialize)]
struct RpcResponse {
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<ErrorBody>,
}

/// The error of either binding.
#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
}

impl From<ErrorBody> for Error {
    fn from(error: ErrorBody) -> Self {
        Self::Refused { code: error.code, message: body::quoted(error.message) }
    }
}

/// Reads the response to an operation, and parses its result.
pub async fn read_response<T: Send + 'static>(
    response: Response,
    binding: Binding,
    limit: usize,
    large: &LargeMessages,
    parse: fn(Value) -> Result<T, Error>,
) -> Result<Parsed<T>, Error> {
    let status = response.status().as_u16();
    match status {
        200..=299 => {}
        401 | 403 => return Err(Error::Unauthorised(status)),
        429 => return Err(Error::RateLimited { retry_after: retry_after(response.headers()) }),
        _ => {
            let text = body::read_error(response).await;
            return Err(
                refusal(&text, status).unwrap_or_else(|| Error::Http { status, body: body::excerpt(&text) })
            );
        }
    }
    let body = body::read_all(response, limit, large).await?;
    parse_body(body, binding, large, parse).await
}

/// Parses a body: on a blocking thread if it is large, because the thread of this task has other work as well.
async fn parse_body<T: Send + 'static>(
    body: Body,
    binding: Binding,
    large: &LargeMessages,
    parse: fn(Value) -> Result<T, Error>,
) -> Result<Parsed<T>, Error> {
    let Body { bytes: text, held } = body;
    let bytes = text.len();
    let parsed = large.process(bytes, move || result_of(&text, binding).and_then(parse)).await;
    Ok(Parsed { value: parsed??, bytes, held })
}

/// The result that a response has in this binding.
fn result_of(text: &[u8], binding: Binding) -> Result<Value, Error> {
    let invalid = |error: serde_json::Error| Error::InvalidMessage(body::quoted(error.to_string()));
    match binding {
        Binding::HttpJson => foreign_json::from_slice(text).map_err(invalid),
        Binding::JsonRpc => {
            let response: RpcResponse = foreign_json::from_slice(text).map_err(invalid)?;
            match (response.error, response.result) {
                (Some(error), _) => Err(error.into()),
                (None, Some(result)) => Ok(result),
                (None, None) => {
                    Err(Error::InvalidMessage("a response with neither a result nor an error".into()))
                }
            }
        }
    }
}

/// How long an agent wants to be left alone. A date is not read: the delay of the next attempt is then that of any
/// failure.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The error that the agent explains in the body of a refused request. Of one that blames the agent, the status
/// says more.
fn refusal(text: &[u8], status: u16) -> Option<Error> {
    #[derive(Deserialize)]
    struct Refusal {
        error: ErrorBody,
    }
    if !(400..500).contains(&status) || matches!(status, 408 | 425 | 429) {
        return None;
    }
    foreign_json::from_slice::<Refusal>(text).ok().map(|refusal| refusal.error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(url: &str, binding: Binding, tenant: Option<&str>) -> Interface {
        Interface { url: Url::parse(url).unwrap(), binding, tenant: tenant.map(str::to_owned) }
    }

    #[test]
    fn operations_have_their_paths_in_http_with_json() {
        let at = |operation: &Operation, interface: &Interface| {
            let call = operation.http_call(interface, 1).unwrap();
            format!("{} {}", call.method, call.url)
        };
        let plain = interface("https://a.test/v1/", Binding::HttpJson, None);
        assert_eq!(at(&Operation::Send(json!({})), &plain), "POST https://a.test/v1/message:send");
        let get = Operation::Get { task: "a/b".into() };
        assert_eq!(at(&get, &plain), "GET https://a.test/v1/tasks/a%2Fb?historyLength=1");
        let tenant = interface("https://a.test", Binding::HttpJson, Some("acme"));
        let cancel = Operation::Cancel { task: "t".into() };
        assert_eq!(at(&cancel, &tenant), "POST https://a.test/acme/tasks/t:cancel");
    }

    #[test]
    fn operations_are_methods_in_json_rpc() {
        let rpc = interface("https://a.test/rpc", Binding::JsonRpc, Some("acme"));
        let call = Operation::Cancel { task: "t".into() }.http_call(&rpc, 7).unwrap();
        assert_eq!(call.url.as_str(), "https://a.test/rpc");
        assert_eq!(
            call.body,
            Some(json!({ "jsonrpc": "2.0", "id": 7, "method": "CancelTask",
                         "params": { "id": "t", "tenant": "acme" } }))
        );
    }

    #[tokio::test]
    async fn a_large_answer_is_parsed_on_another_thread() {
        let large = LargeMessages::default();
        let thread = |_: Value| Ok(std::thread::current().id());
        for (binding, text_bytes, is_here) in [
            (Binding::JsonRpc, 1 << 10, true),
            (Binding::JsonRpc, 1 << 20, false),
            (Binding::HttpJson, 1 << 20, false),
        ] {
            let answer = json!({ "result": { "text": "x".repeat(text_bytes) } });
            let body =
                Body { bytes: answer.to_string().into_bytes(), held: Some(large.hold().await.unwrap()) };
            let parsed = parse_body(body, binding, &large, thread).await.unwrap();
            assert_eq!(parsed.value == std::thread::current().id(), is_here, "{binding:?}, {text_bytes}");
            assert!(parsed.bytes > text_bytes && parsed.held.is_some(), "the place is kept with the value");
        }
    }

    #[test]
    fn a_refused_request_is_explained_by_its_body() {
        let body = json!({ "error": { "code": 404, "status": "NOT_FOUND", "message": "no such task" } });
        let text = body.to_string();
        assert!(matches!(refusal(text.as_bytes(), 404), Some(Error::Refused { code: 404, .. })));
        assert!(refusal(text.as_bytes(), 500).is_none() && refusal(b"<html>", 404).is_none());
    }
}
