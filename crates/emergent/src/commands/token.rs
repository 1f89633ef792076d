//! `emergent token`: who may do what.

use serde_json::{Value, json};

use crate::{client::Client, error::Result, output};

#[derive(Debug, clap::Subcommand)]
pub enum Token {
    /// Make a token and print it, once
    Create {
        /// What it is for
        name: String,
        /// Scopes, such as graph:read,graph:write
        #[arg(long, value_delimiter = ',', required = true, value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Let it span all projects
        #[arg(long)]
        all_projects: bool,
        /// When it ends, such as 2030-01-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
    },
    /// The tokens, newest first
    List,
    /// End a token at once
    Revoke { id: String },
}

impl Token {
    pub async fn run(self, client: Client, project: Option<&str>, as_json: bool) -> Result<()> {
        match self {
            Token::Create { name, scopes, all_projects, expires_at } => {
                let mut body = json!({ "name": name, "scopes": scopes });
                // A project that is named anywhere is the token's.
                let client = if all_projects { client.without_project() } else { client };
                if !all_projects {
                    body["project"] = json!(project.unwrap_or("default"));
                }
                if let Some(end) = expires_at {
                    body["expiresAt"] = json!(end);
                }
                let made: Value = client.post("/api/tokens", &body).await?.data().await?;
                if as_json {
                    return output::print_json(&made);
                }
                output::print_line(made["token"].as_str().unwrap_or_default())?;
                eprintln!("Keep it: it is not shown again.");
                Ok(())
            }
            Token::List => {
                let tokens = client.get_all_pages("/api/tokens").await?;
                if as_json {
                    return output::print_json(&tokens);
                }
                let text = |value: &Value| value.as_str().unwrap_or("–").to_owned();
                let rows: Vec<_> = tokens
                    .iter()
                    .map(|token| {
                        let scopes: Vec<_> = token["scopes"]
                            .as_array()
                            .into_iter()
                            .flatten()
                            .filter_map(Value::as_str)
                            .collect();
                        vec![
                            text(&token["id"]),
                            text(&token["name"]),
                            text(&token["createdAt"]),
                            text(&token["expiresAt"]),
                            scopes.join(" "),
                        ]
                    })
                    .collect();
                output::print_table(&["ID", "NAME", "MADE", "ENDS", "SCOPES"], &rows)
            }
            Token::Revoke { id } => {
                let gone: Value =
                    client.delete(&format!("/api/tokens/{}", super::encode(&id))).await?.data().await?;
                if as_json {
                    output::print_json(&gone)
                } else {
                    output::print_line(&format!("token {id} is revoked"))
                }
            }
        }
    }
}
