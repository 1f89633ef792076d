//! From what a row says to a connection: references become secrets here, and nowhere before.

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

/// The error is for people: it names what is missing.
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
                sandbox: Sandbox { hidden: settings.hidden_folder.clone() },
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
    let url = Url::parse(url).map_err(|error| format!("its address cannot be read: {error}"))?;
    address::check(&url, settings.allow_private_hosts)?;
    let mut resolved = HeaderMap::new();
    for (name, value) in headers {
        // A name of `env` stands for what `env` says, as it would in a program's environment.
        let value =
            env.iter().fold(value.clone(), |value, (key, of)| value.replace(&format!("${{{key}}}"), of));
        let field = format!("headers.{name}");
        let text = resolve(server, secrets, &field, &value).await?;
        let wrong = |_| format!("`{field}` has characters that no header can have");
        let mut value = HeaderValue::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        value.set_sensitive(true);
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        resolved.insert(name, value);
    }
    // One for each connection: its pooled sockets go with it.
    let http = http::public_client(settings.allow_private_hosts)?;
    Ok(Endpoint { http, url, headers: resolved })
}

async fn resolve(server: &McpServer, secrets: &Secrets, field: &str, text: &str) -> Result<String, String> {
    let template: Template = text.parse().map_err(|error| format!("`{field}`: {error}"))?;
    let value = secrets.resolve(server.project, &template).await;
    value.map(|secret| secret.expose().to_owned()).map_err(|error| format!("`{field}`: {error}"))
}
