//! Turns the spec of an MCP server into a connection target. This is the only place where references to
//! secrets are replaced by their values.

use std::collections::BTreeMap;

use emergent_domain::mcp_server::{McpServer, ServerSpec};
use emergent_mcp::client::{Endpoint, Program, Sandbox, Target};
use emergent_net::{address, http};
use emergent_secrets::{Secrets, Template};
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::RemoteSettings;

/// The target of a server, with its secrets. The error names the field that cannot be resolved.
pub async fn resolve_target(
    server: &McpServer,
    secrets: &Secrets,
    settings: &RemoteSettings,
) -> Result<Target, String> {
    match &server.spec {
        ServerSpec::Stdio { command, args, env, .. } => {
            if !settings.allow_stdio {
                return Err(STDIO_DISABLED_MESSAGE.into());
            }
            let mut resolved = BTreeMap::new();
            for (name, value) in env {
                resolved.insert(name.clone(), resolve(server, secrets, &format!("env.{name}"), value).await?);
            }
            Ok(Target::Stdio(Program {
                command: command.clone(),
                args: args.clone(),
                env: resolved,
                grace: settings.grace,
                sandbox: Sandbox {
                    hidden: settings.hidden_folder.clone(),
                    supervisor: settings.supervisor.clone(),
                },
            }))
        }
        ServerSpec::Http { url, headers, env, .. } => {
            Ok(Target::Http(endpoint(server, secrets, settings, url, headers, env).await?))
        }
        ServerSpec::Sse { url, headers, env, .. } => {
            Ok(Target::Sse(endpoint(server, secrets, settings, url, headers, env).await?))
        }
    }
}

/// The error for a server that is a program, where programs are not run.
pub const STDIO_DISABLED_MESSAGE: &str =
    "programs are not run as MCP servers here (EMERGENT_ALLOW_STDIO is false)";

async fn endpoint(
    server: &McpServer,
    secrets: &Secrets,
    settings: &RemoteSettings,
    url: &str,
    headers: &BTreeMap<String, String>,
    env: &BTreeMap<String, String>,
) -> Result<Endpoint, String> {
    let url = Url::parse(url).map_err(|error| format!("has an address that cannot be parsed: {error}"))?;
    address::check(&url, settings.allow_private_hosts)?;
    let mut resolved = HeaderMap::new();
    for (name, value) in headers {
        // `${NAME}` is replaced by the value of `NAME` in `env`, like a variable of an environment.
        let value = env.iter().fold(value.clone(), |value, (name, env_value)| {
            value.replace(&format!("${{{name}}}"), env_value)
        });
        let field = format!("headers.{name}");
        let text = resolve(server, secrets, &field, &value).await?;
        let invalid = |_| format!("`{field}` has characters that no header can have");
        let mut value = HeaderValue::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        value.set_sensitive(true);
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| invalid(error.to_string()))?;
        resolved.insert(name, value);
    }
    // Each connection has a client of its own, so that closing it also closes its pooled sockets.
    let http = http::public_client(settings.allow_private_hosts)?;
    Ok(Endpoint { http, url, headers: resolved })
}

/// The text of a field, with its references to secrets replaced by their values.
async fn resolve(server: &McpServer, secrets: &Secrets, field: &str, text: &str) -> Result<String, String> {
    let template: Template = text.parse().map_err(|error| format!("`{field}`: {error}"))?;
    let value = secrets.resolve(server.project, &template).await;
    value.map(|secret| secret.expose().to_owned()).map_err(|error| format!("`{field}`: {error}"))
}
