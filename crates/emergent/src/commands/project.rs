//! `emergent project`: lists, creates, changes and deletes the projects of a server, which are its tenants.

use emergent_wire::project::{CreateProject, ProjectView, SelectionRuleView, UpdateProject, UpdateRetention};

use super::resolve::{PROJECTS, resolve_id};
use crate::{
    client::{Client, DataAccess, Received},
    config::parse_duration,
    error::{Error, Result},
    output,
};

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;

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
    /// Rename a project, or change its settings
    ///
    /// Times are days, such as 90d, or `forever`, which is the default. What is older is deleted within an
    /// hour or two.
    Update {
        /// Its name, its id, or the end of its id
        #[arg(value_name = "PROJECT")]
        target: String,
        /// Another name
        #[arg(long)]
        name: Option<String>,
        /// Whether types that no assigned template pack describes are refused
        #[arg(long, value_name = "BOOL")]
        strict: Option<bool>,
        /// How long to keep ended runs, with their messages, tool calls and events
        #[arg(long, value_name = "TIME")]
        keep_runs: Option<String>,
        /// How long to keep the changes of the graph in the change feed
        #[arg(long, value_name = "TIME")]
        keep_events: Option<String>,
        /// How long to keep settled firings of triggers
        #[arg(long, value_name = "TIME")]
        keep_firings: Option<String>,
        /// Whether new tasks outside a workflow are executed by themselves
        #[arg(long, value_name = "BOOL")]
        auto_dispatch: Option<bool>,
        /// Which agent gets which tasks, such as `kind:research=research-assistant`; repeated, and in the place of
        /// all rules. `none` removes them
        #[arg(long, value_name = "PATTERN=AGENT")]
        selection_rule: Vec<String>,
        /// Whether internal agents of products are chosen for tasks
        #[arg(long, value_name = "BOOL")]
        select_internal_agents: Option<bool>,
    },
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
            Project::Update {
                target,
                name,
                strict,
                keep_runs,
                keep_events,
                keep_firings,
                auto_dispatch,
                selection_rule,
                select_internal_agents,
            } => {
                let retention = UpdateRetention {
                    runs_days: parse_days("--keep-runs", keep_runs.as_deref())?,
                    events_days: parse_days("--keep-events", keep_events.as_deref())?,
                    firings_days: parse_days("--keep-firings", keep_firings.as_deref())?,
                };
                let selection_rules = parse_rules(&selection_rule)?;
                let body = UpdateProject {
                    name,
                    strict,
                    retention: Some(retention),
                    auto_dispatch,
                    selection_rules,
                    select_internal_agents,
                    discussions: None,
                };
                let path = path(client, &target).await?;
                let updated: Received<ProjectView> = client.patch(&path, &body).await?.data().await?;
                if as_json {
                    return output::print_json(&updated);
                }
                let rows = [details(&updated)];
                output::print_table(&["NAME", "STRICT", "RUNS", "EVENTS", "FIRINGS", "DELETED"], &rows)
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

/// Parses a time in whole days; `forever` is the inner `None`.
fn parse_days(flag: &str, text: Option<&str>) -> Result<Option<Option<i64>>> {
    match text {
        None => Ok(None),
        Some("forever") => Ok(Some(None)),
        Some(text) => {
            let seconds = parse_duration(text).map(|time| time.as_secs()).filter(|time| time % DAY == 0);
            let days = seconds.and_then(|seconds| i64::try_from(seconds / DAY).ok());
            let invalid = || {
                Error::Usage(format!(
                    "{flag}: `{text}` is neither a number of days such as `90d` nor `forever`"
                ))
            };
            Ok(Some(Some(days.ok_or_else(invalid)?)))
        }
    }
}

/// Parses `PATTERN=AGENT`; `None` if no rule is given.
fn parse_rules(rules: &[String]) -> Result<Option<Vec<SelectionRuleView>>> {
    match rules {
        [] => return Ok(None),
        [only] if only == "none" => return Ok(Some(Vec::new())),
        _ => {}
    }
    let parse = |text: &String| match text.rsplit_once('=') {
        Some((pattern, agent)) => {
            Ok(SelectionRuleView { pattern: pattern.trim().to_owned(), agent: agent.trim().to_owned() })
        }
        None => Err(Error::Usage(format!("--selection-rule: `{text}` is not of the form PATTERN=AGENT"))),
    };
    rules.iter().map(parse).collect::<Result<_>>().map(Some)
}

fn row(project: &ProjectView) -> Vec<String> {
    vec![project.id.to_string(), project.name.clone(), strict_text(project), project.created_at.to_string()]
}

fn strict_text(project: &ProjectView) -> String {
    if project.strict { "yes" } else { "no" }.to_owned()
}

/// The settings of a project, and how much was deleted because of them.
fn details(project: &ProjectView) -> Vec<String> {
    let days = |days: Option<i64>| days.map_or("forever".to_owned(), |days| format!("{days}d"));
    let (retention, deleted) = (&project.retention, &project.deleted);
    let counts = format!("{} runs, {} events, {} firings", deleted.runs, deleted.events, deleted.firings);
    vec![
        project.name.clone(),
        strict_text(project),
        days(retention.runs_days),
        days(retention.events_days),
        days(retention.firings_days),
        counts,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_days_or_forever() {
        let parse = |text| parse_days("--keep-runs", Some(text));
        assert_eq!(parse("90d").unwrap(), Some(Some(90)));
        assert_eq!(parse("48h").unwrap(), Some(Some(2)));
        assert_eq!(parse("forever").unwrap(), Some(None));
        assert_eq!(parse_days("--keep-runs", None).unwrap(), None);
        for text in ["90", "12h", "soon"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
