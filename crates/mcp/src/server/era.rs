//! Determines the era of a request, and checks that the headers of a modern one agree with its body.
//! The era is determined for each request, so one endpoint serves both.

use base64::{Engine, prelude::BASE64_STANDARD};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::{params::Params, tool_list::MirroredParameter};
use crate::message::{LEGACY, MODERN, RpcError, code};

/// The generation of the protocol that a request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28: nothing is stored between requests.
    Modern,
    /// 2025-11-25 and earlier: `initialize` and a session.
    Legacy,
}

pub(super) const VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// Returns the era of a request. A legacy request has neither a version in its `_meta` nor a header with a
/// modern version. Discovery without `_meta` counts as an invalid modern request rather than an unknown
/// legacy one.
pub(super) fn detect(headers: &HeaderMap, method: Option<&str>, params: &Params) -> Era {
    let by_header = header(headers, VERSION).is_some_and(|version| !LEGACY.contains(&version));
    if params.version().is_some() || method == Some("server/discover") || by_header {
        Era::Modern
    } else {
        Era::Legacy
    }
}

/// Checks the headers of a modern request before its content is read; an error is always a 400.
pub(super) fn check_headers(headers: &HeaderMap, method: &str, params: &Params) -> Result<(), RpcError> {
    let Some(by_header) = header(headers, VERSION) else {
        return Err(mismatch("the header MCP-Protocol-Version is missing"));
    };
    let missing = |key: &str| RpcError::new(code::INVALID_PARAMS, format!("`_meta` lacks `{key}`"));
    let version = params.version().ok_or_else(|| missing(crate::message::meta::PROTOCOL_VERSION))?;
    if params.capabilities().is_none() {
        return Err(missing(crate::message::meta::CLIENT_CAPABILITIES));
    }
    if version != by_header {
        return Err(mismatch("the header `MCP-Protocol-Version` differs from `_meta`"));
    }
    if version != MODERN {
        let error = RpcError::new(code::UNSUPPORTED_VERSION, format!("version `{version}` is not supported"));
        return Err(error.with_data(json!({ "supported": [MODERN], "requested": version })));
    }
    if header(headers, METHOD) != Some(method) {
        return Err(mismatch("the header `Mcp-Method` differs from the method in the body"));
    }
    let name = match method {
        "tools/call" | "prompts/get" => params.name.as_deref(),
        "resources/read" => params.uri.as_deref(),
        _ => None,
    };
    if let Some(name) = name
        && header(headers, NAME).and_then(decode_header).as_deref() != Some(name)
    {
        return Err(mismatch("the header `Mcp-Name` differs from the name in the body"));
    }
    Ok(())
}

/// Checks that parameters which a tool requires in headers are present and equal.
pub(super) fn check_mirrored(
    headers: &HeaderMap,
    mirrored: &[MirroredParameter],
    arguments: &Value,
) -> Result<(), RpcError> {
    for MirroredParameter { parameter, header: name } in mirrored {
        let expected = match &arguments[parameter] {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let provided = header(headers, &format!("mcp-param-{}", name.to_ascii_lowercase()));
        if provided.and_then(decode_header) != Some(expected) {
            return Err(mismatch(&format!("the header `Mcp-Param-{name}` differs from the body")));
        }
    }
    Ok(())
}

fn mismatch(message: &str) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, message)
}

/// Returns the trimmed value of a header; `None` if it is missing or not ASCII.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Decodes a header value; values other than plain ASCII have the form `=?base64?…?=`. Returns `None` if the
/// base64 is invalid or is not UTF-8.
fn decode_header(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(text: &str) -> HeaderMap {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs.map(|(name, value)| (name.trim().parse().unwrap(), value.trim().parse().unwrap())).collect()
    }

    const META: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{}},"name":"grüße"}"#;

    #[test]
    fn the_era_follows_from_version_header_and_method() {
        let era = |provided: &str, method, params| {
            detect(&headers(provided), Some(method), &Params::parse(Some(params)).unwrap())
        };
        assert_eq!(era("", "initialize", r#"{"protocolVersion":"2025-11-25"}"#), Era::Legacy);
        assert_eq!(era("mcp-protocol-version: 2025-06-18", "tools/list", "{}"), Era::Legacy);
        assert_eq!(era("", "tools/list", "{}"), Era::Legacy);
        assert_eq!(era("", "server/discover", "{}"), Era::Modern);
        assert_eq!(era("", "initialize", META), Era::Modern);
        assert_eq!(era("mcp-protocol-version: v999", "tools/list", "{}"), Era::Modern);
    }

    #[test]
    fn the_headers_of_a_modern_request_must_agree_with_its_body() {
        let check = |provided: &str, params: &str| {
            let params = Params::parse(Some(params)).unwrap();
            super::check_headers(&headers(provided), "tools/call", &params).err().map(|error| error.code)
        };
        let valid =
            "mcp-protocol-version: 2026-07-28\nmcp-method: tools/call\nmcp-name: =?base64?Z3LDvMOfZQ==?=";
        assert_eq!(check(valid, META), None);
        assert_eq!(check(&valid.replace("Z3L", "Z3M"), META), Some(code::HEADER_MISMATCH));
        assert_eq!(check(&valid.replace("tools/call", "Tools/call"), META), Some(code::HEADER_MISMATCH));
        assert_eq!(check("", META), Some(code::HEADER_MISMATCH));
        assert_eq!(check(valid, "{}"), Some(code::INVALID_PARAMS));
        assert_eq!(check(valid, &META.replace("{}", "[]")), Some(code::INVALID_PARAMS));
        let unknown_version = META.replace("2026-07-28", "v999");
        assert_eq!(check(valid, &unknown_version), Some(code::HEADER_MISMATCH));
        assert_eq!(
            check(&valid.replace("2026-07-28", "v999"), &unknown_version),
            Some(code::UNSUPPORTED_VERSION)
        );
    }
}
