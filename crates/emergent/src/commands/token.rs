//! `emergent token`: creates, lists and revokes API tokens.

use emergent_domain::{time::Timestamp, token::Scope};
use emergent_wire::token::{CreateToken, TokenView};

use super::{encode, parse_flag};
use crate::{
    client::{Client, Received},
    error::Result,
    output,
};

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
    /// `project` is the `--project` flag.
    pub async fn run(self, client: Client, project: Option<&str>, as_json: bool) -> Result<()> {
        match self {
            Token::Create { name, scopes, all_projects, expires_at } => {
                // The server binds a new token to the project that the request names, so it must name none.
                let client = if all_projects { client.without_project() } else { client };
                let scopes = scopes.iter().map(|scope| parse_flag("--scopes", Some(scope)));
                let body = CreateToken {
                    name,
                    scopes: scopes.collect::<Result<Vec<Option<Scope>>>>()?.into_iter().flatten().collect(),
                    project: (!all_projects).then(|| project.unwrap_or("default").to_owned()),
                    expires_at: parse_flag::<Timestamp>("--expires-at", expires_at.as_deref())?,
                };
                let created: Received<TokenView> = client.post("/api/tokens", &body).await?.data().await?;
                if as_json {
                    return output::print_json(&created);
                }
                output::print_line(created.token.as_deref().unwrap_or_default())?;
                eprintln!("Keep it: it is not shown again.");
                Ok(())
            }
            Token::List => {
                let tokens: Vec<Received<TokenView>> = client.get_all_pages("/api/tokens").await?;
                if as_json {
                    return output::print_json(&tokens);
                }
                let rows: Vec<_> = tokens
                    .iter()
                    .map(|token| {
                        let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
                        vec![
                            token.id.to_string(),
                            token.name.clone(),
                            token.created_at.to_string(),
                            token.expires_at.map_or("–".to_owned(), |time| time.to_string()),
                            scopes.join(" "),
                        ]
                    })
                    .collect();
                output::print_table(&["ID", "NAME", "MADE", "ENDS", "SCOPES"], &rows)
            }
            Token::Revoke { id } => {
                let revoked: Received<TokenView> =
                    client.delete(&format!("/api/tokens/{}", encode(&id))).await?.data().await?;
                if as_json {
                    output::print_json(&revoked)
                } else {
                    output::print_line(&format!("token {id} is revoked"))
                }
            }
        }
    }
}
