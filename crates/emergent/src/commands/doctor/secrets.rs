//! Which secrets are there, and which are wanted and are not.

use std::collections::BTreeSet;

use emergent_secrets::Template;
use serde_json::Value;

use super::{
    Finding,
    contents::{ProjectLabel, text},
    problem_finding,
};
use crate::{client::Client, error::Result};

/// How many the project has, and what its servers mention in vain.
pub async fn check_secrets(
    client: &Client,
    at: &ProjectLabel,
    servers: &[Value],
) -> Result<(usize, Vec<Finding>)> {
    let known: Vec<Value> = client.get("/api/admin/secrets").await?.data().await?;
    let names: BTreeSet<&str> = known.iter().map(|one| text(&one["name"])).collect();
    let mut findings = Vec::new();
    for server in servers.iter().filter(|server| server["enabled"] == true) {
        for missing in referenced_secrets(server).iter().filter(|name| !names.contains(name.as_str())) {
            let found = format!(
                "the MCP server `{}` mentions {missing}, which is not set{}",
                text(&server["name"]),
                at.suffix()
            );
            findings.push(problem_finding(
                "secrets",
                found,
                format!("emergent secret set {missing}{}", at.project_flag()),
            ));
        }
    }
    Ok((known.len(), findings))
}

/// The secrets a server is reached with. A header may also use a name of `env`, which is none.
fn referenced_secrets(server: &Value) -> BTreeSet<String> {
    let fields = |name: &str| server[name].as_object().into_iter().flatten();
    let own: BTreeSet<&str> = match server["url"].is_string() {
        true => fields("env").map(|(name, _)| name.as_str()).collect(),
        false => BTreeSet::new(),
    };
    let texts = fields("env").chain(fields("headers")).filter_map(|(_, value)| value.as_str());
    let templates: Vec<Template> = texts.filter_map(|text| text.parse().ok()).collect();
    let names = templates.iter().flat_map(Template::names).map(|name| name.as_str());
    names.filter(|name| !own.contains(name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_of_a_headers_own_env_is_no_secret() {
        let check = |server: Value, expected: &[&str]| {
            assert_eq!(referenced_secrets(&server).into_iter().collect::<Vec<_>>(), expected);
        };
        let headers = json!({ "Authorization": "${WHO}:${KEY}", "X": "{{secrets.OTHER}} $${PLAIN}" });
        check(
            json!({ "url": "https://x", "headers": headers, "env": { "WHO": "me ${USER}" } }),
            &["KEY", "OTHER", "USER"],
        );
        check(json!({ "command": "x", "env": { "KEY": "${KEY}", "PLAIN": "x" } }), &["KEY"]);
    }
}
