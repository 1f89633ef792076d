//! Turns the spec of an MCP server into a connection target. This is the only place where references to
//! secrets are replaced by their values, and where it is checked that the program may still be started.

use std::collections::{BTreeMap, BTreeSet};

use emergent_domain::mcp_server::{McpServer, ServerSpec};
use emergent_mcp::client::{Endpoint, Program, Sandbox, Target};
use emergent_net::{address, http};
use emergent_secrets::{
    Destination, Secrets, Template,
    destination::{headers_with_env, secret_uses},
};
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
    let destination = Destination::for_server(server);
    match &server.spec {
        ServerSpec::Stdio { command, args, env, .. } => {
            if !settings.allow_stdio {
                return Err(STDIO_DISABLED_MESSAGE.into());
            }
            if !settings.programs.allow_spec(&server.spec, server.configured_by) {
                return Err(program_withdrawn_message(&server.spec));
            }
            let mut resolved = BTreeMap::new();
            for (name, value) in env {
                let field = format!("env.{name}");
                resolved.insert(name.clone(), resolve(&destination, secrets, &field, value).await?);
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
        ServerSpec::Http { url, headers, env, .. } => Ok(Target::Http(
            endpoint(&destination, secrets, settings, url, &headers_with_env(headers, env)).await?,
        )),
        ServerSpec::Sse { url, headers, env, .. } => Ok(Target::Sse(
            endpoint(&destination, secrets, settings, url, &headers_with_env(headers, env)).await?,
        )),
    }
}

/// The error for a server that is a program, where programs are not run.
pub const STDIO_DISABLED_MESSAGE: &str =
    "programs are not run as MCP servers here (EMERGENT_ALLOW_STDIO is false)";

/// The error for a program that a token of one project configured, when the operator's patterns no longer
/// admit it.
fn program_withdrawn_message(spec: &ServerSpec) -> String {
    format!(
        "is a program (`{}`) that a token of one project configured and that EMERGENT_STDIO_PROGRAMS does not \
         admit: the operator admits it there, or disables and enables the server with a token that spans projects",
        spec.command_line().unwrap_or_default()
    )
}

/// The endpoint with these headers, which may refer to secrets.
async fn endpoint(
    destination: &Destination,
    secrets: &Secrets,
    settings: &RemoteSettings,
    url: &str,
    headers: &[(String, String)],
) -> Result<Endpoint, String> {
    let url = Url::parse(url).map_err(|error| format!("has an address that cannot be parsed: {error}"))?;
    address::check(&url, settings.allow_private_hosts)?;
    let mut resolved = HeaderMap::new();
    for (name, value) in headers {
        let field = format!("headers.{name}");
        let text = resolve(destination, secrets, &field, value).await?;
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

/// The names of the secrets that a server refers to.
pub fn required_secrets(spec: &ServerSpec) -> BTreeSet<String> {
    secret_uses(spec).into_iter().map(|secret_use| secret_use.name).collect()
}

/// The text of a field, with its references to secrets replaced by their values.
async fn resolve(
    destination: &Destination,
    secrets: &Secrets,
    field: &str,
    text: &str,
) -> Result<String, String> {
    let template: Template = text.parse().map_err(|error| format!("`{field}`: {error}"))?;
    let value = secrets.resolve(destination, &template).await;
    value
        .map(|secret| secret.expose().to_owned())
        .map_err(|error| format!("cannot be connected, because of `{field}`: {error}"))
}
