//! Plans an install, upgrade, downgrade or uninstall. The plan is a value: a dry run displays it,
//! and `apply` executes its steps in one transaction.

mod agents;
mod jobs;
mod missing;
mod packs;
mod prompts;
mod servers;

use std::{cmp::Ordering, collections::BTreeSet, fmt};

use emergent_domain::{
    agent::AgentDefinition,
    ids::{AgentId, PackId},
    mcp_server::ServerSpec,
    pack::TemplatePack,
    prompt::Prompt,
};
use semver::Version;
use serde_json::Value;

use crate::{
    diff::{FieldDiff, diff},
    manifest::{Manifest, ManifestJob, ManifestMcp},
    problem::ManifestProblem,
    state::{Product, ProjectState},
    uses::Uses,
};

pub use agents::{OwnChange, own_changes};
pub use missing::plan_missing;

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub name: String,
    pub from: Option<Version>,
    pub to: Option<Version>,
    pub direction: Direction,
    /// The steps in the order of their execution.
    pub steps: Vec<Step>,
    pub warnings: Vec<Warning>,
    /// What the product will use.
    pub uses: Uses,
    /// What of it has to be accepted.
    pub added: Uses,
}

impl Plan {
    /// The first program that whoever asked for the plan may not have the server run, and what is said of its variables.
    pub fn refused_program(&self) -> Option<(&str, &str)> {
        self.warnings.iter().find_map(|warning| match warning {
            Warning::ProgramNotAllowed { command, variables, .. } => {
                Some((command.as_str(), variables.as_str()))
            }
            _ => None,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Install,
    Upgrade,
    Downgrade,
    /// The same version again: an upgrade to it reverts manual changes, and an installation adds what is missing.
    Same,
    Uninstall,
}

impl Direction {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Downgrade => "downgrade",
            Self::Same => "same",
            Self::Uninstall => "uninstall",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    TemplatePack,
    Agent,
    Server,
    Prompt,
    Job,
}

impl ItemKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TemplatePack => "template_pack",
            Self::Agent => "agent",
            Self::Server => "server",
            Self::Prompt => "prompt",
            Self::Job => "job",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub kind: ItemKind,
    pub name: String,
    pub change: StepChange,
    pub(crate) action: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StepChange {
    Add,
    Update(Vec<FieldDiff>),
    Remove,
    Keep,
}

impl StepChange {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Update(_) => "update",
            Self::Remove => "remove",
            Self::Keep => "keep",
        }
    }
}

/// The action of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    None,
    AddPack(Box<TemplatePack>),
    AssignPack(PackId),
    DeletePack {
        id: PackId,
        assigned: bool,
    },
    /// The pack is assigned by the product, but was created by someone else.
    UnassignPack(PackId),
    /// Another product has the same pack, or the project assigned it itself. The ownership
    /// (`brought`) and the assignment (`assigned`) are transferred to the product `to`, or to the
    /// project if `to` is absent.
    TransferPack {
        id: PackId,
        to: Option<String>,
        brought: bool,
        assigned: bool,
    },
    AddAgent(Box<AgentDefinition>),
    UpdateAgent {
        id: AgentId,
        to: Box<AgentDefinition>,
    },
    DeleteAgent(AgentId),
    /// Sets or clears the flag of the default agent.
    SetDefault {
        id: AgentId,
        is_default: bool,
    },
    UpsertServer(Box<ServerSpec>),
    DeleteServer,
    UpsertPrompt(Box<Prompt>),
    DeletePrompt,
    UpsertJob(Box<ManifestJob>),
    DeleteJob,
}

/// Notices before a change is applied. They do not prevent it.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// An agent of the product was changed manually, and the change will be lost.
    OwnChange {
        agent: String,
        fields: Vec<String>,
        removed: bool,
    },
    /// An agent of the product was deleted manually, and will be created again.
    OwnDeletion {
        agent: String,
    },
    DefaultNotTaken {
        agent: String,
        holder: String,
    },
    DefaultTaken {
        agent: String,
        from: String,
    },
    StillUsed {
        agent: String,
        by: Vec<String>,
    },
    ServerBlocked {
        server: String,
    },
    /// Only the operator may install this product as it is: it runs a program.
    ProgramNotAllowed {
        server: String,
        command: String,
        /// Names the variables that are to blame, if only they are.
        variables: String,
    },
    NotReachedYet {
        server: String,
    },
    /// An agent of the product lists a tool that nothing known has.
    ToolUnknown {
        agent: String,
        reason: String,
    },
    SecretMissing {
        server: String,
        secret: String,
    },
}

impl Warning {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::OwnChange { .. } => "own_change",
            Self::OwnDeletion { .. } => "own_deletion",
            Self::DefaultNotTaken { .. } => "default_not_taken",
            Self::DefaultTaken { .. } => "default_taken",
            Self::StillUsed { .. } => "still_used",
            Self::ServerBlocked { .. } => "server_blocked",
            Self::ProgramNotAllowed { .. } => "program_not_allowed",
            Self::NotReachedYet { .. } => "not_reached_yet",
            Self::ToolUnknown { .. } => "tool_unknown",
            Self::SecretMissing { .. } => "secret_missing",
        }
    }

    /// Returns the name of the agent or server that the warning concerns.
    pub fn subject(&self) -> &str {
        match self {
            Self::OwnChange { agent, .. }
            | Self::OwnDeletion { agent }
            | Self::DefaultNotTaken { agent, .. }
            | Self::DefaultTaken { agent, .. }
            | Self::StillUsed { agent, .. }
            | Self::ToolUnknown { agent, .. } => agent,
            Self::ServerBlocked { server }
            | Self::ProgramNotAllowed { server, .. }
            | Self::NotReachedYet { server }
            | Self::SecretMissing { server, .. } => server,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnChange { agent, fields, removed } => {
                let changed_fields = fields.join(", ");
                let consequence = if *removed { "is removed with it" } else { "is overwritten" };
                write!(
                    f,
                    "your own change of the agent `{agent}` ({changed_fields}) {consequence}; the version remains in the agent's \
                     history. To keep the change, copy the agent under another name"
                )
            }
            Self::OwnDeletion { agent } => {
                write!(f, "the agent `{agent}` was deleted manually and is created again")
            }
            Self::DefaultNotTaken { agent, holder } => {
                write!(f, "`{agent}` does not become the default agent, because `{holder}` already is")
            }
            Self::DefaultTaken { agent, from } => {
                write!(f, "`{agent}` becomes the default agent instead of `{from}`, because it is external")
            }
            Self::StillUsed { agent, by } => {
                write!(f, "the agent `{agent}` is removed, but still used by {}", by.join(", "))
            }
            Self::ProgramNotAllowed { server, command, variables } => write!(
                f,
                "the server `{server}` runs the program `{command}`: only a token that spans projects may \
                 install it, or the operator admits it with EMERGENT_STDIO_PROGRAMS{variables}"
            ),
            Self::ServerBlocked { server } => write!(
                f,
                "the server `{server}` is a program, and this installation starts none (EMERGENT_ALLOW_STDIO=false): \
                 its tools will not work"
            ),
            Self::NotReachedYet { server } => write!(
                f,
                "the server `{server}` is contacted when it is first needed; its tools are unknown until then"
            ),
            Self::ToolUnknown { agent, reason } => write!(f, "agent `{agent}`: {reason}"),
            Self::SecretMissing { server, secret } => write!(
                f,
                "the server `{server}` needs the secret `{secret}`, which the project does not have yet \
                 (`emergent secret set {secret}`)"
            ),
        }
    }
}

/// Plans the steps that replace the installed version of the product `name` by `after`, or that
/// remove it if `after` is absent. Returns the problems that prevent the change as `Err`.
pub fn plan(
    name: &str,
    before: &ProjectState,
    after: Option<&Manifest>,
) -> Result<Plan, Vec<ManifestProblem>> {
    let installed = before.product(name);
    let from = installed.map(|installed| installed.version.clone());
    let to = after.map(|manifest| manifest.version.clone());
    let direction = match (&from, &to) {
        (_, None) => Direction::Uninstall,
        (None, Some(_)) => Direction::Install,
        (Some(from), Some(to)) => match to.cmp_precedence(from) {
            Ordering::Greater => Direction::Upgrade,
            Ordering::Less => Direction::Downgrade,
            Ordering::Equal => Direction::Same,
        },
    };
    let mut draft =
        PlanBuilder { name, before, after, steps: Vec::new(), warnings: Vec::new(), problems: Vec::new() };
    // Jobs are removed before the agents they start, and added after them.
    draft.plan_job_removals();
    draft.plan_packs();
    draft.plan_agents();
    draft.plan_servers();
    draft.plan_prompts();
    draft.plan_jobs();
    if !draft.problems.is_empty() {
        return Err(draft.problems);
    }
    let (steps, warnings) = (draft.steps, draft.warnings);
    let uses = after.map(Uses::of_manifest).unwrap_or_default();
    let added = added_uses(before, installed, &uses);
    Ok(Plan { name: name.to_owned(), from, to, direction, steps, warnings, uses, added })
}

/// Returns what has to be accepted: what was not accepted before. The schedules and events of a product
/// that comes with the server are accepted with the server.
fn added_uses(before: &ProjectState, installed: Option<&Product>, uses: &Uses) -> Uses {
    let added = installed.map_or_else(|| uses.clone(), |installed| uses.without(&installed.accepted));
    match before.is_builtin {
        true => Uses { schedules: BTreeSet::new(), events: BTreeSet::new(), ..added },
        false => added,
    }
}

impl Plan {
    /// Returns whether the plan changes nothing except the installation record.
    pub fn is_empty(&self) -> bool {
        self.steps.iter().all(|step| step.change == StepChange::Keep && step.action == Action::None)
    }
}

struct PlanBuilder<'a> {
    name: &'a str,
    before: &'a ProjectState,
    after: Option<&'a Manifest>,
    steps: Vec<Step>,
    warnings: Vec<Warning>,
    problems: Vec<ManifestProblem>,
}

impl<'a> PlanBuilder<'a> {
    fn mcp(&self) -> Option<&'a ManifestMcp> {
        self.after.map(|manifest| &manifest.mcp)
    }

    fn push_step(&mut self, kind: ItemKind, name: impl Into<String>, change: StepChange, action: Action) {
        self.steps.push(Step { kind, name: name.into(), change, action });
    }

    fn push_conflict(&mut self, pointer: String, kind: &str, name: &str, holder: Option<&str>) {
        let owner = match holder {
            Some(product) => format!("belongs to the product `{product}`"),
            None => "belongs to the project itself".to_owned(),
        };
        let problem = ManifestProblem::new(pointer, format!("the {kind} `{name}` {owner}"));
        self.problems.push(problem.with_fix("choose another name, or remove the existing one first"));
    }

    /// Returns the pointer to a list of the manifest, or the empty pointer if the manifest has no
    /// such list, because a pointer must refer to an existing value.
    fn list_pointer(&self, pointer: &str) -> String {
        let list = self.after.and_then(|manifest| manifest.raw.pointer(pointer));
        list.map_or_else(String::new, |_| pointer.to_owned())
    }
}

fn update_change(before: &Value, after: &Value) -> StepChange {
    let fields = diff(before, after);
    if fields.is_empty() { StepChange::Keep } else { StepChange::Update(fields) }
}
