//! `emergent token`: creates, lists and revokes API tokens.

use std::collections::HashMap;

use emergent_domain::{
    time::{Clock, Timestamp},
    token::Scope,
};
use emergent_wire::{
    project::ProjectView,
    session::SessionView,
    token::{CreateToken, TokenView},
};
use uuid::Uuid;

use super::{
    confirm, encode, parse_flag,
    resolve::{LAST, TOKENS, resolve_id},
};
use crate::{
    client::{Client, DataAccess, Received, TokenSource},
    config::parse_duration,
    error::{Error, Result},
    hints, output,
    printable::printable_line,
};

#[derive(Debug, clap::Subcommand)]
pub enum Token {
    /// Create a token and print it, once
    Create {
        /// What it is for
        name: String,
        /// Scopes, such as graph:read,graph:write
        #[arg(long, value_delimiter = ',', required = true, value_name = "SCOPE")]
        scopes: Vec<String>,
        /// Let it span all projects
        #[arg(long)]
        all_projects: bool,
        /// When it ends, such as 2030-01-31T00:00:00Z, or for how long it is valid, such as 30d or 12h
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
    },
    /// List the tokens, newest first, with their projects and whether they are valid
    List,
    /// Revoke a token at once
    Revoke {
        /// A unique name, an id, or the end of an id
        #[arg(value_name = "TOKEN")]
        target: String,
        /// Also revoke the tokens that it created, those that they created, and so on
        #[arg(long)]
        with_children: bool,
        /// Revoke the token that this command itself uses without asking
        #[arg(long, short)]
        yes: bool,
    },
}

/// A time, or for how long from now.
fn parse_end(text: &str) -> Result<Timestamp> {
    if let Some(duration) = parse_duration(text) {
        return Ok(Clock::system().now() + duration);
    }
    text.parse().map_err(|_| {
        Error::Usage(format!(
            "--expires-at must be a time such as 2030-01-31T00:00:00Z, or for how long, such as 30d or 12h; `{text}` \
             is neither"
        ))
    })
}

fn parse_scopes(scopes: &[String]) -> Result<Vec<Scope>> {
    let scopes = scopes.iter().map(|scope| parse_flag("--scopes", Some(scope)));
    Ok(scopes.collect::<Result<Vec<Option<Scope>>>>()?.into_iter().flatten().collect())
}

impl Token {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            Token::Create { .. } => DataAccess::Create,
            _ => DataAccess::Existing,
        }
    }

    /// Refuses input that cannot be sent, before a data folder is made for it.
    pub fn check_input(&self) -> Result<()> {
        let Token::Create { scopes, expires_at, .. } = self else { return Ok(()) };
        parse_scopes(scopes)?;
        expires_at.as_deref().map(parse_end).transpose().map(drop)
    }

    /// `project` is the `--project` flag.
    pub async fn run(self, client: Client, project: Option<&str>, as_json: bool) -> Result<()> {
        match self {
            Token::Create { name, scopes, all_projects, expires_at } => {
                // The server binds a new token to the project that the request names, so it must name none.
                let client = if all_projects { client.without_project() } else { client };
                let body = CreateToken {
                    name,
                    scopes: parse_scopes(&scopes)?,
                    project: (!all_projects).then(|| project.unwrap_or("default").to_owned()),
                    expires_at: expires_at.as_deref().map(parse_end).transpose()?,
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
                // A token that may not list projects still sees their ids.
                let projects: Vec<ProjectView> =
                    client.get_all_pages("/api/projects").await.unwrap_or_default();
                let names = projects.into_iter().map(|project| (project.id, project.name)).collect();
                let now = Clock::system().now();
                let rows: Vec<_> = tokens.iter().map(|token| row(token, &names, now)).collect();
                output::print_list_with_optional(
                    &["ID", "NAME", "PROJECT", "STATUS", "CREATED", "ENDS", "SCOPES"],
                    &rows,
                    &["NAME", "SCOPES"],
                    &["CREATED"],
                    ("token create NAME --scopes graph:read", "creates one"),
                )
            }
            // Revoking cannot be undone, and the newest token is often the one in use.
            Token::Revoke { target, .. } if target == LAST => Err(Error::Usage(format!(
                "`last` names no token to revoke: name it by its name or its id (`{}` lists them)",
                hints::command("token list")
            ))),
            Token::Revoke { target, with_children, yes } => {
                let id = resolve_id(&client, &TOKENS, &target).await?;
                let renewal = renewal_of_own(&client, &id).await?;
                if let Some(renewal) = renewal.as_deref().filter(|_| !yes) {
                    confirm_own(&target, renewal)?;
                }
                let path = format!("/api/tokens/{}?children={with_children}", encode(&id));
                let revoked: Received<TokenView> = client.delete(&path).await?.data().await?;
                if as_json {
                    return output::print_json(&revoked);
                }
                output::print_line(&format!("token {id} is revoked"))?;
                print_created(&id, &revoked, renewal.is_some())?;
                renewal.into_iter().for_each(|renewal| output::print_notice(&renewal));
                Ok(())
            }
        }
    }
}

/// What an operator does after this token was revoked, if the command itself uses it; `None` for another token.
async fn renewal_of_own(client: &Client, id: &str) -> Result<Option<String>> {
    let source = client.token_source();
    if *source == TokenSource::Own {
        return Ok(None);
    }
    let session: Received<SessionView> = client.get("/api/session").await?.data().await?;
    Ok((session.token_id.to_string() == id).then(|| source.renewal()))
}

/// Asks at a terminal before the token is revoked that the command itself uses. Without a terminal, it needs `--yes`.
fn confirm_own(target: &str, renewal: &str) -> Result<()> {
    let what = format!("revoke `{}`, the token that this command itself uses", printable_line(target));
    match confirm::ask(&format!("{renewal}\nReally {what}?"))? {
        Some(true) => Ok(()),
        Some(false) => Err(Error::Declined),
        None => Err(Error::Usage(format!("this would {what}: add --yes if you want that. {renewal}"))),
    }
}

/// Says which tokens a revoked token created, and whether they are still valid. `is_own` says that the command itself used
/// the revoked token, so that only another one can revoke more.
fn print_created(id: &str, revoked: &TokenView, is_own: bool) -> Result<()> {
    let (ended, open): (Vec<_>, Vec<_>) =
        revoked.created_tokens.iter().flatten().partition(|token| token.revoked_at.is_some());
    for token in ended {
        output::print_text(&format!("token {} ({}), which it created, is revoked", token.id, token.name))?;
    }
    for token in &open {
        let name = printable_line(&token.name);
        eprintln!("token {} ({name}), which it created, is not revoked", token.id);
    }
    if !open.is_empty() {
        let another = if is_own { ", with a token that is valid" } else { "" };
        let command = hints::command(&format!("token revoke {id} --with-children"));
        output::print_notice(&format!("Revoke them with `{command}`{another}."));
    }
    Ok(())
}

/// The cells of a token. `names` has the names of the projects that the caller may see.
fn row(token: &TokenView, names: &HashMap<Uuid, String>, now: Timestamp) -> Vec<String> {
    let project = match token.project {
        None => "all".to_owned(),
        Some(id) => names.get(&id).cloned().unwrap_or_else(|| id.to_string()),
    };
    let status = match (token.revoked_at, token.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(end)) if end <= now => "expired",
        _ => "valid",
    };
    let end = token.revoked_at.or(token.expires_at);
    let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    vec![
        token.id.to_string(),
        token.name.clone(),
        project,
        status.to_owned(),
        token.created_at.to_string(),
        end.map_or("–".to_owned(), |time| time.to_string()),
        scopes.join(" "),
    ]
}
