//! Turns the spec of an MCP server into a connection target. This is the only place where references to
//! secrets are replaced by their values, and where it is checked that the program may still be started.

use std::collections::{BTreeMap, BTreeSet};

use emergent_a2a::Endpoint as AgentEndpoint;
use emergent_domain::{
    mcp_server::{McpServer, ProgramPatterns, ServerSpec},
    redact::HeldSecret,
};
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

use super::{RemoteSettings, client::RemoteTarget};

/// A target with the secrets that are sent to it.
pub struct ResolvedTarget {
    pub target: RemoteTarget,
    pub sent: Vec<HeldSecret>,
}

/// The target of a server, with its secrets. The error completes a sentence that begins with the name of the
/// server, and names the field that cannot be resolved.
pub async fn resolve_target(
    server: &McpServer,
    secrets: &Secrets,
    settings: &RemoteSettings,
) -> Result<ResolvedTarget, String> {
    let mut resolver = Resolver { destination: Destination::for_server(server), secrets, sent: Vec::new() };
    let target = match &server.spec {
        ServerSpec::Stdio { command, args, env, .. } => {
            if !settings.allow_stdio {
                return Err(format!("is a program, and {STDIO_DISABLED_MESSAGE}"));
            }
            if !settings.programs.allow_spec(&server.spec, server.configured_by) {
                return Err(program_withdrawn_message(&server.spec, &settings.programs));
            }
            let mut resolved = BTreeMap::new();
            for (name, value) in env {
                let field = format!("env.{name}");
                resolved.insert(name.clone(), resolver.resolve(&field, value).await?);
            }
            RemoteTarget::Mcp(Target::Stdio(Program {
                command: command.clone(),
                args: args.clone(),
                env: resolved,
                grace: settings.grace,
                // The cache is prepared when the program is started.
                sandbox: Sandbox {
                    hidden: settings.hidden.clone(),
                    cache: None,
                    supervisor: settings.supervisor.clone(),
                },
                kept: None,
            }))
        }
        ServerSpec::Http { url, headers, env, .. } => {
            let headers = headers_with_env(headers, env);
            RemoteTarget::Mcp(Target::Http(endpoint(&mut resolver, settings, url, &headers).await?))
        }
        ServerSpec::Sse { url, headers, env, .. } => {
            let headers = headers_with_env(headers, env);
            RemoteTarget::Mcp(Target::Sse(endpoint(&mut resolver, settings, url, &headers).await?))
        }
        ServerSpec::A2a { url, headers, env, .. } => {
            let headers = headers_with_env(headers, env);
            let Endpoint { http, url, headers } = endpoint(&mut resolver, settings, url, &headers).await?;
            let allow_private = settings.allow_private_hosts;
            RemoteTarget::Agent(AgentEndpoint { http, url, headers, allow_private })
        }
    };
    Ok(ResolvedTarget { target, sent: resolver.sent })
}

/// The error for a server that is a program, where programs are not run.
pub const STDIO_DISABLED_MESSAGE: &str =
    "programs are not run as MCP servers here (EMERGENT_ALLOW_STDIO is false)";

/// The error for a program that a token of one project configured, when the operator's patterns no longer
/// admit it.
fn program_withdrawn_message(spec: &ServerSpec, programs: &ProgramPatterns) -> String {
    format!(
        "is a program (`{}`) that a token of one project configured and that EMERGENT_STDIO_PROGRAMS does not \
         admit{}: the operator admits it there, or disables and enables the server with a token that spans projects",
        spec.command_line().unwrap_or_default(),
        programs.explain_variables(spec)
    )
}

/// The endpoint with these headers, which may refer to secrets.
async fn endpoint(
    resolver: &mut Resolver<'_>,
    settings: &RemoteSettings,
    url: &str,
    headers: &[(String, String)],
) -> Result<Endpoint, String> {
    let url = Url::parse(url).map_err(|error| format!("has an address that cannot be parsed: {error}"))?;
    address::check(&url, settings.allow_private_hosts)
        .map_err(|reason| format!("has an address that cannot be used: {reason}"))?;
    let mut resolved = HeaderMap::new();
    for (name, value) in headers {
        let field = format!("headers.{name}");
        let text = resolver.resolve(&field, value).await?;
        let invalid = |_| format!("has characters in `{field}` that no header can have");
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

/// Replaces references to secrets by their values, and notes which ones.
struct Resolver<'a> {
    destination: Destination,
    secrets: &'a Secrets,
    sent: Vec<HeldSecret>,
}

impl Resolver<'_> {
    /// The text of a field, with its references to secrets replaced by their values.
    async fn resolve(&mut self, field: &str, text: &str) -> Result<String, String> {
        let template: Template =
            text.parse().map_err(|error| format!("cannot be connected, because of `{field}`: {error}"))?;
        let resolved = self.secrets.resolve(&self.destination, &template).await;
        let resolved =
            resolved.map_err(|error| format!("cannot be connected, because of `{field}`: {error}"))?;
        self.sent.extend(resolved.held.iter().cloned());
        Ok(resolved.expose().to_owned())
    }
}
