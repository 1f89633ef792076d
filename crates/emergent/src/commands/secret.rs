//! `emergent secret`: sets, lists, deletes and rotates the secrets of external servers. Values are never
//! shown.

use std::io::{IsTerminal, Read};

use emergent_secrets::{Secret as SecretValue, SecretName};
use emergent_wire::{
    mcp_server::McpServerView,
    secret::{BindSecret, PutSecret, RotatedView, SecretDestinationView, SecretView},
};
use serde_json::json;

use crate::{
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    hints, keys, output,
};

/// Longer targets are shortened to this many characters.
const MAX_TARGET_CHARS: usize = 100;

#[derive(Debug, clap::Subcommand)]
pub enum Secret {
    /// Set or replace a secret
    ///
    /// The value is read from standard input, or asked for without showing it. It is never an argument: those are
    /// seen by everybody on the machine and kept by shells.
    Set {
        /// Such as GITHUB_TOKEN
        name: String,
        /// Accepted only to refuse it with a message that says where the value belongs.
        #[arg(hide = true, allow_hyphen_values = true)]
        misplaced: Vec<String>,
        /// The value, once it was read.
        #[arg(skip)]
        value: Option<SecretValue>,
    },
    /// List the names, and which external servers mention each
    List,
    /// Allow a server to get a secret, at its current address or program
    ///
    /// Only the token that gave the value may do this, or one that spans projects.
    Allow {
        /// The name of the secret
        name: String,
        /// The name of an external server that mentions the secret
        #[arg(long, value_name = "NAME")]
        mcp_server: String,
    },
    /// Delete a secret
    Delete {
        /// The name of the secret
        name: String,
    },
    /// Seal the secrets of all projects with another key
    ///
    /// A key in the data folder is replaced by a new one. Where EMERGENT_SECRET_KEY is set, start
    /// every server with EMERGENT_SECRET_KEY=NEW,OLD first; after this, NEW alone is enough.
    Rotate,
}

impl Secret {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            Secret::Set { .. } => DataAccess::Create,
            _ => DataAccess::Existing,
        }
    }

    /// Reads the value of a secret, before a data folder is made for it.
    pub fn read_value(mut self) -> Result<Self> {
        match &mut self {
            Secret::Set { misplaced, .. } if !misplaced.is_empty() => Err(Error::Usage(
                "a value is not given as an argument: write it to standard input, or leave it out and be asked"
                    .to_owned(),
            )),
            Secret::Set { name, value, .. } => {
                // Nobody is asked for the value of a name that would be refused.
                if let Err(invalid) = name.parse::<SecretName>() {
                    let reasons: Vec<_> = invalid.problems.into_iter().map(|problem| problem.reason).collect();
                    return Err(Error::Usage(reasons.join("; ")));
                }
                let read = read_secret(name)?;
                if read.expose().is_empty() {
                    let delete = hints::command(&format!("secret delete {}", hints::quoted(name)));
                    return Err(Error::Usage(format!(
                        "the value of `{name}` is empty, and nothing was set; `{delete}` deletes a secret"
                    )));
                }
                *value = Some(read);
                Ok(self)
            }
            _ => Ok(self),
        }
    }

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Secret::Set { name, value, .. } => {
                let value = value.ok_or_else(|| Error::Unexpected(format!("`{name}` has no value")))?;
                let body = PutSecret { value: value.expose().to_owned() };
                let stored: Received<SecretView> = client.put(&path(&name), &body).await?.data().await?;
                let message = match stored.version {
                    1 => format!("{name} is set"),
                    _ if stored.unchanged => format!("{name} is set to the value that it had before"),
                    _ => format!("{name} is set anew"),
                };
                if as_json {
                    return output::print_json(&stored);
                }
                output::print_line(&message)?;
                refused_lines(&stored).iter().try_for_each(|line| output::print_line(line))
            }
            Secret::Allow { name, mcp_server } => {
                let body = BindSecret { server: mcp_server };
                let path = format!("{}/bindings", path(&name));
                let response = match client.post(&path, &body).await {
                    Err(error) if error.to_string().contains(&format!("secret `{name}`")) => {
                        return Err(with_nearest(client, &name, error).await);
                    }
                    Err(error) => {
                        let servers: Vec<Received<McpServerView>> =
                            client.get_all_pages("/api/admin/mcp-servers").await.unwrap_or_default();
                        let names = servers.iter().map(|server| server.name.as_str());
                        return Err(error.with_nearest(&body.server, names, "mcp-server list"));
                    }
                    Ok(response) => response,
                };
                let bound: Received<SecretView> = response.data().await?;
                if as_json {
                    return output::print_json(&bound);
                }
                output::print_line(&format!("{name} is sent to {}", body.server))
            }
            Secret::List => {
                let secrets: Vec<Received<SecretView>> =
                    client.get("/api/admin/secrets").await?.data().await?;
                if as_json {
                    return output::print_json(&secrets);
                }
                let rows: Vec<_> = secrets.iter().map(|secret| row(secret)).collect();
                output::print_list(
                    &["NAME", "VERSION", "CHANGED", "USED BY"],
                    &rows,
                    ("secret set NAME", "sets one"),
                )
            }
            Secret::Delete { name } => {
                let deleted: Received<SecretView> = match client.delete(&path(&name)).await {
                    Err(error) => return Err(with_nearest(client, &name, error).await),
                    Ok(response) => response.data().await?,
                };
                if as_json {
                    output::print_json(&deleted)
                } else {
                    output::print_line(&format!("{name} is deleted"))
                }
            }
            Secret::Rotate => {
                let rotated: Received<RotatedView> =
                    client.post("/api/admin/secrets/rotate", &json!({})).await?.data().await?;
                if as_json {
                    return output::print_json(&rotated);
                }
                output::print_line(&format!(
                    "the id of the key is now {}; secrets sealed anew: {}",
                    rotated.key, rotated.resealed
                ))
            }
        }
    }
}

/// Adds the secret that was probably meant to the error for a name that no secret has.
async fn with_nearest(client: &Client, name: &str, error: Error) -> Error {
    let secrets: Result<Vec<Received<SecretView>>> = match client.get("/api/admin/secrets").await {
        Ok(response) => response.data().await,
        Err(error) => Err(error),
    };
    let secrets = secrets.unwrap_or_default();
    error.with_nearest(name, secrets.iter().map(|secret| secret.name.as_str()), "secret list")
}

/// A line for each server that does not get the secret, with the command that allows it.
fn refused_lines(secret: &SecretView) -> Vec<String> {
    let refused = secret.destinations.iter().filter(|destination| !destination.allowed);
    let line = |destination: &SecretDestinationView| {
        let (name, server) = (&secret.name, &destination.server);
        format!(
            "it is not sent to {server} ({}) yet: `{}`",
            output::first_line(&destination.target, MAX_TARGET_CHARS),
            hints::command(&format!("secret allow {name} --mcp-server {server}"))
        )
    };
    refused.map(line).collect()
}

/// The API path of a secret.
fn path(name: &str) -> String {
    format!("/api/admin/secrets/{}", super::encode(name))
}

/// Reads a value: at a terminal by a prompt without echo, else from standard input without its last line
/// break.
fn read_secret(name: &str) -> Result<SecretValue> {
    if std::io::stdin().is_terminal() {
        let value = keys::read_hidden_line(&format!("Value of {name} (not shown): "))?;
        let Some(value) = value else {
            output::print_notice("Nothing was set.");
            return Err(Error::Interrupted);
        };
        return Ok(SecretValue::new(value));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let length = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).map_or(text.len(), str::len);
    text.truncate(length);
    Ok(SecretValue::new(text))
}

fn row(secret: &SecretView) -> Vec<String> {
    vec![
        secret.name.clone(),
        secret.version.to_string(),
        secret.updated_at.to_string(),
        secret.used_by.join(" "),
    ]
}
