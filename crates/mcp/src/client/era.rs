//! Determines the protocol era of a server from its response to `server/discover` (the probe). The function
//! is pure, so the decision depends on the response alone.

use emergent_domain::foreign_json;
use serde::Deserialize;

use super::{Error, transport::Reply};
use crate::message::{LEGACY, MODERN, code};

/// The generation of the protocol that a server implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28: every request is independent of the others.
    Modern,
    /// A session that starts with `initialize`.
    Legacy,
}

/// What the response to the probe means.
#[derive(Debug)]
pub enum ProbeResult {
    Modern(DiscoverResult),
    /// The server refused the version of the probe, but lists it as supported: the probe has to be repeated.
    Retry,
    Legacy,
    /// The era is unknown: the server cannot be reached, or refuses us.
    Failed(Error),
}

/// The result of `server/discover`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverResult {
    #[serde(default)]
    supported_versions: Vec<String>,
    #[serde(default)]
    pub capabilities: serde_json::Value,
}

/// Interprets the response to the probe. With `silence_is_legacy` (on a pipe), a timeout means the legacy era
/// instead of an outage.
pub fn classify_probe(response: Result<Reply, Error>, silence_is_legacy: bool) -> ProbeResult {
    let reply = match response {
        Ok(reply) => reply,
        Err(Error::Timeout(_)) if silence_is_legacy => return ProbeResult::Legacy,
        // A body that is not JSON-RPC means that the server does not know the method.
        Err(Error::Http { status: 400..=499, .. } | Error::InvalidMessage(_)) => return ProbeResult::Legacy,
        Err(other) => return ProbeResult::Failed(other),
    };
    let error = match reply.outcome {
        Ok(result) => {
            let discovered: DiscoverResult = foreign_json::from_str(result.get()).unwrap_or_default();
            let modern = discovered.supported_versions.iter().any(|version| version == MODERN);
            return if modern { ProbeResult::Modern(discovered) } else { ProbeResult::Legacy };
        }
        Err(error) => error,
    };
    match error.code {
        code::UNSUPPORTED_VERSION => {
            let supported = error.data.as_ref().and_then(|data| data.get("supported")?.as_array());
            let supported: Vec<&str> =
                supported.into_iter().flatten().filter_map(|version| version.as_str()).collect();
            if supported.contains(&MODERN) {
                ProbeResult::Retry
            } else if supported.iter().any(|version| LEGACY.contains(version)) {
                ProbeResult::Legacy
            } else {
                ProbeResult::Failed(Error::NoCommonVersion(supported.join(", ")))
            }
        }
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY => ProbeResult::Failed(Error::Rpc(error)),
        // No single error code decides this, because legacy servers refuse in many ways.
        _ => ProbeResult::Legacy,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;
    use crate::message::RpcError;

    fn result(value: serde_json::Value) -> Result<Reply, Error> {
        Ok(Reply { status: None, outcome: Ok(to_raw_value(&value).unwrap()), held: None })
    }

    fn error(code: i64, data: serde_json::Value) -> Result<Reply, Error> {
        Ok(Reply { status: Some(400), outcome: Err(RpcError::new(code, "no").with_data(data)), held: None })
    }

    fn check(response: Result<Reply, Error>, expected: &str) {
        let result = match classify_probe(response, true) {
            ProbeResult::Modern(_) => "modern",
            ProbeResult::Retry => "again",
            ProbeResult::Legacy => "legacy",
            ProbeResult::Failed(_) => "fault",
        };
        assert_eq!(result, expected);
    }

    #[test]
    fn the_era_follows_from_the_response_to_the_probe() {
        check(
            result(json!({ "supportedVersions": ["2025-11-25", "2026-07-28"], "capabilities": {} })),
            "modern",
        );
        check(result(json!({})), "legacy");
        check(result(json!({ "supportedVersions": ["2025-11-25"] })), "legacy");
        check(result(json!("nonsense")), "legacy");
        check(error(-32022, json!({ "supported": ["2026-07-28"] })), "again");
        check(error(-32022, json!({ "supported": ["2025-11-25"] })), "legacy");
        check(error(-32022, json!({ "supported": ["2031-01-01"] })), "fault");
        check(error(-32020, json!(null)), "fault");
        check(error(-32601, json!(null)), "legacy");
        check(error(-32000, json!(null)), "legacy");
        check(Err(Error::Http { status: 404, body: String::new() }), "legacy");
        check(Err(Error::Http { status: 502, body: String::new() }), "fault");
        check(Err(Error::Unauthorised(401)), "fault");
        check(Err(Error::Unreachable("refused".into())), "fault");
        check(Err(Error::Timeout(std::time::Duration::from_secs(3))), "legacy");
        assert!(matches!(
            classify_probe(Err(Error::Timeout(std::time::Duration::ZERO)), false),
            ProbeResult::Failed(_)
        ));
    }
}
