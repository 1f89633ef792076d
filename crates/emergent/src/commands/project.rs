//! `emergent project`: lists, shows, creates, changes and deletes the projects of a server, which are its tenants.

mod show;
mod update;

use emergent_domain::project::check_name;
use emergent_wire::project::{CreateProject, ProjectView};

use super::resolve::{PROJECTS, resolve_id};
use crate::{
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    messages, output,
};

/// The project that every data folder has.
const DEFAULT_PROJECT: &str = "default";

#[derive(Debug, clap::Subcommand)]
pub enum Project {
    /// List the projects, newest first
    List,
    /// Create a project
    Create {
        /// Its name: letters, digits, `_`, `.` and `-`
        name: String,
        /// Refuse types that no assigned template pack describes
        #[arg(long)]
        strict: bool,
    },
    /// Show a project: what it keeps, how it chooses agents, how its agents discuss
    Show {
        /// Its name, its id, or the end of its id [default: the project of the command]
        #[arg(value_name = "PROJECT")]
        target: Option<String>,
    },
    /// Rename a project, or change its settings
    ///
    /// Times are days, such as 90d, or `forever`, which is the default. What is older is deleted within an
    /// hour or two.
    #[command(visible_alias = "set")]
    Update(Box<update::Update>),
    /// Delete a project: its runs, programs and streams end, and its secrets are removed, at once
    ///
    /// Everything else is removed after EMERGENT_DELETED_PROJECT_RETENTION, which is 30 days.
    Delete {
        /// Its name, its id, or the end of its id
        #[arg(value_name = "PROJECT")]
        target: String,
        /// Confirm, because it cannot be undone
        #[arg(long)]
        yes: bool,
    },
}

impl Project {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            Project::Create { .. } => DataAccess::Create,
            _ => DataAccess::Existing,
        }
    }

    /// Refuses input that cannot be sent, before a data folder is made for it.
    pub fn check_input(&self) -> Result<()> {
        match self {
            Project::Create { name, .. } => {
                check_name(name).map_err(|invalid| Error::Usage(messages::translate(&invalid.to_string())))
            }
            _ => Ok(()),
        }
    }

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Project::List => {
                let projects: Vec<Received<ProjectView>> = client.get_all_pages("/api/projects").await?;
                if as_json {
                    return output::print_json(&projects);
                }
                let rows: Vec<_> = projects.iter().map(|project| row(project)).collect();
                output::print_table(&["ID", "NAME", "STRICT", "CREATED"], &rows)
            }
            Project::Create { name, strict } => {
                let body = CreateProject { name, strict };
                let created: Received<ProjectView> =
                    client.post("/api/projects", &body).await?.data().await?;
                if as_json {
                    output::print_json(&created)
                } else {
                    output::print_table(&["ID", "NAME", "STRICT", "CREATED"], &[row(&created)])
                }
            }
            Project::Show { target } => {
                let target = target.or_else(|| client.project().map(str::to_owned));
                let path = path(client, target.as_deref().unwrap_or(DEFAULT_PROJECT)).await?;
                let project: Received<ProjectView> = client.get(&path).await?.data().await?;
                if as_json { output::print_json(&project) } else { show::print(&project) }
            }
            Project::Update(update) => {
                let path = path(client, &update.target).await?;
                let body = update.body(client, &path).await?;
                let updated: Received<ProjectView> = client.patch(&path, &body).await?.data().await?;
                if as_json { output::print_json(&updated) } else { show::print(&updated) }
            }
            Project::Delete { yes: false, target } => Err(Error::Usage(format!(
                "deleting the project `{target}` cannot be undone; confirm it with --yes"
            ))),
            Project::Delete { target, yes: true } => {
                let path = path(client, &target).await?;
                let deleted: Received<ProjectView> = client.delete(&path).await?.data().await?;
                if as_json {
                    return output::print_json(&deleted);
                }
                output::print_line(&format!("project {} is deleted", deleted.name))
            }
        }
    }
}

/// The API path of the project that a person names.
async fn path(client: &Client, reference: &str) -> Result<String> {
    Ok(format!("/api/projects/{}", resolve_id(client, &PROJECTS, reference).await?))
}

fn row(project: &ProjectView) -> Vec<String> {
    vec![project.id.to_string(), project.name.clone(), strict_text(project), project.created_at.to_string()]
}

fn strict_text(project: &ProjectView) -> String {
    if project.strict { "yes" } else { "no" }.to_owned()
}
