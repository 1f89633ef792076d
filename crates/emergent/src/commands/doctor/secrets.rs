//! Checks that the secrets which the MCP servers of a project refer to are set.

use std::collections::{BTreeMap, BTreeSet};

use emergent_secrets::Template;
use emergent_wire::{mcp_server::McpServerView, secret::SecretView};

use super::{Finding, contents::ProjectLabel, problem_finding};
use crate::{client::Client, error::Result};

/// The secrets that servers refer to and that are not set, by the name of the server.
pub type MissingSecrets = BTreeMap<String, BTreeSet<String>>;

/// The number of secrets of the project, the missing ones, and a finding for each of these.
pub async fn check_secrets(
    client: &Client,
    label: &ProjectLabel,
    servers: &[McpServerView],
) -> Result<(usize, MissingSecrets, Vec<Finding>)> {
    let secrets: Vec<SecretView> = client.get("/api/admin/secrets").await?.data().await?;
    let names: BTreeSet<&str> = secrets.iter().map(|secret| secret.name.as_str()).collect();
    let (mut findings, mut of_servers) = (Vec::new(), MissingSecrets::new());
    for server in servers.iter().filter(|server| server.enabled) {
        let referenced = referenced_secrets(server.url.is_some(), &server.env, server.headers.as_ref());
        for missing in referenced.iter().filter(|name| !names.contains(name.as_str())) {
            of_servers.entry(server.name.clone()).or_default().insert(missing.clone());
            let found = format!(
                "the MCP server `{}` mentions {missing}, which is not set{}",
                server.name,
                label.suffix()
            );
            findings.push(problem_finding(
                "secrets",
                found,
                format!("emergent secret set {missing}{}", label.project_flag()),
            ));
        }
    }
    Ok((secrets.len(), of_servers, findings))
}

/// The names of secrets in a sentence.
pub fn listed(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(" and ")
}

/// The names of the secrets that a server's `env` and headers refer to. The headers of a server with a URL
/// may also refer to a name in its `env`; those are not secrets.
fn referenced_secrets(
    has_url: bool,
    env: &BTreeMap<String, String>,
    headers: Option<&BTreeMap<String, String>>,
) -> BTreeSet<String> {
    let env_names: BTreeSet<&str> = env.keys().filter(|_| has_url).map(String::as_str).collect();
    let texts = env.values().chain(headers.into_iter().flat_map(BTreeMap::values));
    let templates: Vec<Template> = texts.filter_map(|text| text.parse().ok()).collect();
    let names = templates.iter().flat_map(Template::names).map(|name| name.as_str());
    names.filter(|name| !env_names.contains(name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_header_that_refers_to_an_env_name_refers_to_no_secret() {
        let headers = map(&[("Authorization", "${WHO}:${KEY}"), ("X", "{{secrets.OTHER}} $${PLAIN}")]);
        let found = referenced_secrets(true, &map(&[("WHO", "me ${USER}")]), Some(&headers));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["KEY", "OTHER", "USER"]);
        let found = referenced_secrets(false, &map(&[("KEY", "${KEY}"), ("PLAIN", "x")]), None);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["KEY"]);
    }
}
