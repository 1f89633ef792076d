//! Which era a server is of, from how it answers `server/discover`. Pure: what to do next follows
//! from the answer alone.

use serde::Deserialize;

use super::{Error, transport::Reply};
use crate::message::{LEGACY, MODERN, code};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28: every request stands for itself.
    Modern,
    /// A session that `initialize` begins.
    Legacy,
}

#[derive(Debug)]
pub enum ProbeResult {
    Modern(DiscoverResult),
    /// The server wants to be asked again at the version that was offered.
    Retry,
    Legacy,
    /// No verdict: the server is out of reach, or refuses us.
    Failed(Error),
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverResult {
    #[serde(default)]
    supported_versions: Vec<String>,
    #[serde(default)]
    pub capabilities: serde_json::Value,
}

/// What the answer to the probe means. `patient`: silence means the old era (a pipe), not an outage.
pub fn classify_probe(answer: Result<Reply, Error>, patient: bool) -> ProbeResult {
    let reply = match answer {
        Ok(reply) => reply,
        Err(Error::Timeout(_)) if patient => return ProbeResult::Legacy,
        // A body that is no JSON-RPC says "never heard of it", whatever the words.
        Err(Error::Http { status: 400..=499, .. } | Error::InvalidMessage(_)) => return ProbeResult::Legacy,
        Err(other) => return ProbeResult::Failed(other),
    };
    let error = match reply.outcome {
        Ok(result) => {
            let found: DiscoverResult = serde_json::from_str(result.get()).unwrap_or_default();
            let modern = found.supported_versions.iter().any(|version| version == MODERN);
            return if modern { ProbeResult::Modern(found) } else { ProbeResult::Legacy };
        }
        Err(error) => error,
    };
    match error.code {
        code::UNSUPPORTED_VERSION => {
            let supported = error.data.as_ref().and_then(|data| data.get("supported")?.as_array());
            let supported: Vec<&str> =
                supported.into_iter().flatten().filter_map(|one| one.as_str()).collect();
            if supported.contains(&MODERN) {
                ProbeResult::Retry
            } else if supported.iter().any(|version| LEGACY.contains(version)) {
                ProbeResult::Legacy
            } else {
                ProbeResult::Failed(Error::NoCommonVersion(supported.join(", ")))
            }
        }
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY => ProbeResult::Failed(Error::Rpc(error)),
        // Never by one number: servers of the old era say this in many ways.
        _ => ProbeResult::Legacy,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;
    use crate::message::RpcError;

    fn result(value: serde_json::Value) -> Result<Reply, Error> {
        Ok(Reply { status: None, outcome: Ok(to_raw_value(&value).unwrap()) })
    }

    fn error(code: i64, data: serde_json::Value) -> Result<Reply, Error> {
        Ok(Reply { status: Some(400), outcome: Err(RpcError::new(code, "no").with_data(data)) })
    }

    fn check(answer: Result<Reply, Error>, expected: &str) {
        let verdict = match classify_probe(answer, true) {
            ProbeResult::Modern(_) => "modern",
            ProbeResult::Retry => "again",
            ProbeResult::Legacy => "legacy",
            ProbeResult::Failed(_) => "fault",
        };
        assert_eq!(verdict, expected);
    }

    #[test]
    fn a_server_is_known_by_its_answer_to_the_probe() {
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
