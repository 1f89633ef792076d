//! Where a server sends its secrets, and which ones it sends.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::{
    ids::ProjectId,
    mcp_server::{McpServer, SecretUse, ServerSpec},
};
use emergent_net::address;
use emergent_store::secret_bindings;
use serde_json::Value;

use crate::Template;

/// The recipient of secrets: one version of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub project: ProjectId,
    /// The name of the server.
    pub server: String,
    /// Whose bindings count: those of the server's product, or of the server itself.
    pub(crate) owner: String,
    pub(crate) target: String,
    /// How earlier bindings name the target, as far as they still count.
    pub(crate) earlier_targets: EarlierTargets,
    /// The server is older than the bindings, so it needs none.
    pub(crate) predates_bindings: bool,
}

impl Destination {
    pub fn for_server(server: &McpServer) -> Self {
        Self {
            project: server.project,
            server: server.name().to_owned(),
            owner: secret_bindings::owner_of(server),
            target: secret_target(&server.spec),
            earlier_targets: EarlierTargets::of_server(server),
            predates_bindings: server.predates_bindings(),
        }
    }
}

/// How earlier bindings name where a server sends its secrets, as far as they count for this version of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EarlierTargets {
    /// The address without headers.
    address: Option<String>,
    /// The origin of the address.
    origin: Option<String>,
}

impl EarlierTargets {
    pub fn of_server(server: &McpServer) -> Self {
        let address = target_of(&server.spec);
        Self {
            origin: server.predates_paths().then(|| origin_of(&address)).flatten(),
            address: (server.predates_headers() && origin_of(&address).is_some()).then_some(address),
        }
    }

    pub fn as_params(&self) -> [Option<&str>; 2] {
        [self.address.as_deref(), self.origin.as_deref()]
    }

    pub fn contains(&self, target: &str) -> bool {
        self.as_params().contains(&Some(target))
    }
}

/// Returns the address of a target, without the headers, and `None` for a program.
pub(crate) fn address_of(target: &str) -> Option<&str> {
    let is_address = ["https://", "http://"].iter().any(|scheme| target.starts_with(scheme));
    // An address in the form in which it is requested has no spaces.
    is_address.then(|| target.split(' ').next().unwrap_or_default())
}

/// Returns the origin of a target that is an address, and `None` for a program.
pub(crate) fn origin_of(target: &str) -> Option<String> {
    address::origin(address_of(target)?)
}

/// Returns where a server sends its secrets and how: [`target_of`] it, with all headers of its requests in order.
/// A header with another name or another text around the secret may be shown to others by the recipient, and any
/// other header of the request may say what the recipient does with the secret.
pub fn secret_target(spec: &ServerSpec) -> String {
    let Some((_, headers)) = spec.endpoint() else { return target_of(spec) };
    let sent = headers_with_env(headers, spec.env()).into_iter();
    let mut lines: Vec<String> =
        sent.map(|(name, text)| format!("{}: {}", name.to_ascii_lowercase(), Value::String(text))).collect();
    lines.sort();
    lines.insert(0, target_of(spec));
    lines.join(" ")
}

/// Returns where a server sends its secrets: its address with path and query, or its program with variables
/// and arguments. An origin would not be enough, because a host may serve many customers by their paths.
pub fn target_of(spec: &ServerSpec) -> String {
    match spec.endpoint() {
        None => spec.program_line().unwrap_or_default(),
        // No connection can be made to a URL that cannot be parsed.
        Some((url, _)) => address::requested(url).unwrap_or_else(|| url.to_owned()),
    }
}

/// Returns the headers of a server in which `${NAME}` is replaced by the value of `NAME` in its `env`, like a
/// variable of an environment. The result may refer to secrets.
pub fn headers_with_env(
    headers: &BTreeMap<String, String>,
    env: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let insert = |text: &String| {
        env.iter().fold(text.clone(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    };
    headers.iter().map(|(name, text)| (name.clone(), insert(text))).collect()
}

/// Returns the secrets that a server refers to, each with the place it is sent to.
pub fn secret_uses(spec: &ServerSpec) -> BTreeSet<SecretUse> {
    let headers = spec.endpoint().map(|(_, headers)| headers_with_env(headers, spec.env()));
    let headers = headers.unwrap_or_default();
    let texts = spec.env().values().chain(headers.iter().map(|(_, text)| text));
    // A text that cannot be parsed is refused when the server is configured.
    let templates = texts.filter_map(|text| text.parse::<Template>().ok());
    let names: BTreeSet<String> = templates
        .flat_map(|template| template.names().map(ToString::to_string).collect::<Vec<_>>())
        .collect();
    if names.is_empty() {
        return BTreeSet::new();
    }
    let target = secret_target(spec);
    names.into_iter().map(|name| SecretUse { name, target: target.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(spec: serde_json::Value, expected: &[(&str, &str)]) {
        let spec: ServerSpec = serde_json::from_value(spec).unwrap();
        let uses = secret_uses(&spec);
        let found: Vec<_> = uses.iter().map(|one| (one.name.as_str(), one.target.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_secret_is_sent_to_an_address_or_to_a_program() {
        let http = |more: serde_json::Value| {
            let mut spec =
                json!({ "name": "x", "transport": "http", "url": "https://Example.com:443/mcp?a#b" });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        let at = "https://example.com/mcp?a";
        check(http(json!({})), &[]);
        let with = |headers: &str| format!("{at} {headers}");
        check(
            http(json!({ "headers": { "B": "$${NO}", "A": "Bearer ${TOKEN}" } })),
            &[("TOKEN", &with(r#"a: "Bearer ${TOKEN}" b: "$${NO}""#))],
        );
        check(
            http(json!({ "headers": { "A": "${KEY}" }, "env": { "KEY": "{{secrets.OTHER}}" } })),
            &[("OTHER", &with(r#"a: "{{secrets.OTHER}}""#))],
        );
        check(http(json!({ "headers": { "A": "${KEY}" }, "env": { "KEY": "plain" } })), &[]);
        check(
            http(json!({ "headers": { "A": "${D}{TOKEN}" }, "env": { "D": "$" } })),
            &[("TOKEN", &with(r#"a: "${TOKEN}""#))],
        );
        check(
            json!({ "name": "x", "transport": "stdio", "command": "run", "args": ["a"], "env": { "K": "${A}:${B}" } }),
            &[("A", "K=${A}:${B} run a"), ("B", "K=${A}:${B} run a")],
        );
    }
}
