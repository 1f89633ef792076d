//! `emergent secret`: what external servers are reached with. Values go in, never out.

use std::io::{IsTerminal, Read};

use emergent_secrets::Secret as Value;
use serde_json::{Value as Json, json};

use crate::{
    client::Client,
    error::{Error, Result},
    output,
};

#[derive(Debug, clap::Subcommand)]
pub enum Secret {
    /// Keep a value under a name, in the place of the one before
    ///
    /// The value is read from standard input, or asked for without showing it. It is never an
    /// argument: those are seen by everybody on the machine and kept by shells.
    ///
    ///     emergent secret set GITHUB_TOKEN < token.txt
    #[command(verbatim_doc_comment)]
    Set {
        /// Such as GITHUB_TOKEN
        name: String,
        /// Taken only to say where the value belongs instead.
        #[arg(hide = true, allow_hyphen_values = true)]
        misplaced: Vec<String>,
    },
    /// The names, and which external servers mention each
    List,
    /// Forget a secret
    Delete { name: String },
    /// Seal the secrets of all projects with another key
    ///
    /// A key in the data folder is replaced by a new one. Where EMERGENT_SECRET_KEY is set, start
    /// every server with EMERGENT_SECRET_KEY=NEW,OLD first; after this, NEW alone is enough.
    Rotate,
}

impl Secret {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Secret::Set { misplaced, .. } if !misplaced.is_empty() => Err(Error::Usage(
                "a value is not given as an argument: write it to standard input, or leave it out and be asked"
                    .to_owned(),
            )),
            Secret::Set { name, .. } => {
                let value = read_secret(&name)?;
                let body = json!({ "value": value.expose() });
                let kept: Json = client.put(&path(&name), &body).await?.data().await?;
                let said = match kept["version"].as_i64() {
                    Some(1) => format!("{name} is set"),
                    _ => format!("{name} has another value"),
                };
                if as_json { output::print_json(&kept) } else { output::print_line(&said) }
            }
            Secret::List => {
                let secrets: Vec<Json> = client.get("/api/admin/secrets").await?.data().await?;
                if as_json {
                    return output::print_json(&secrets);
                }
                let rows: Vec<_> = secrets.iter().map(row).collect();
                output::print_table(&["NAME", "VERSION", "CHANGED", "USED BY"], &rows)
            }
            Secret::Delete { name } => {
                let gone: Json = client.delete(&path(&name)).await?.data().await?;
                if as_json { output::print_json(&gone) } else { output::print_line(&format!("{name} is deleted")) }
            }
            Secret::Rotate => {
                let done: Json = client.post("/api/admin/secrets/rotate", &json!({})).await?.data().await?;
                if as_json {
                    return output::print_json(&done);
                }
                let key = done["key"].as_str().unwrap_or_default();
                output::print_line(&format!("the key is now {key}; secrets sealed anew: {}", done["resealed"]))
            }
        }
    }
}

fn path(name: &str) -> String {
    format!("/api/admin/secrets/{}", super::encode(name))
}

/// What is piped in, without the line's end that `echo` adds; at a terminal, what is typed unseen.
fn read_secret(name: &str) -> Result<Value> {
    if std::io::stdin().is_terminal() {
        let terminal = console::Term::stderr();
        terminal.write_str(&format!("Value of {name} (not shown): "))?;
        return Ok(Value::new(terminal.read_secure_line()?));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let end = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).map_or(text.len(), str::len);
    text.truncate(end);
    Ok(Value::new(text))
}

fn row(secret: &Json) -> Vec<String> {
    let servers: Vec<_> =
        secret["usedBy"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    vec![
        secret["name"].as_str().unwrap_or_default().to_owned(),
        secret["version"].to_string(),
        secret["updatedAt"].as_str().unwrap_or_default().to_owned(),
        servers.join(" "),
    ]
}
