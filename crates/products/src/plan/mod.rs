//! What an install, upgrade, downgrade or uninstall will do: decided in values, shown by a dry
//! run, done by `apply` step by step in one transaction.

mod agents;
mod packs;
mod rest;

use std::{cmp::Ordering, fmt};

use emergent_domain::{
    agent::AgentDefinition,
    ids::{AgentId, PackId},
    mcp_server::ServerSpec,
    pack::TemplatePack,
    prompt::Prompt,
};
use semver::Version;

use crate::{
    diff::FieldDiff,
    manifest::{Manifest, ManifestJob},
    problem::ManifestProblem,
    state::ProjectState,
};

pub use agents::{OwnChange, own_changes};

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub name: String,
    pub from: Option<Version>,
    pub to: Option<Version>,
    pub direction: Direction,
    /// In the order they are done.
    pub steps: Vec<Step>,
    pub warnings: Vec<Warning>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Install,
    Upgrade,
    Downgrade,
    /// The same version again: what was changed by hand is put back.
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

/// What is done for a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    None,
    AddPack(Box<TemplatePack>),
    AssignPack(PackId),
    DeletePack {
        id: PackId,
        assigned: bool,
    },
    /// Assigned for the product, and brought by somebody else.
    UnassignPack(PackId),
    /// Another product has the same pack, or the project itself assigned it: from now on what the
    /// product `brought`, and what is `assigned` for it, is that one's. Without `to`, the project's.
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
    /// Gives or takes the flag of the default agent.
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

/// What people should know before they go on; nothing of it stops anything.
#[derive(Debug, Clone, PartialEq)]
pub enum Warning {
    /// Somebody changed an agent of the product by hand, and that is in the way.
    OwnChange {
        agent: String,
        fields: Vec<String>,
        removed: bool,
    },
    /// Somebody deleted an agent of the product, and it comes back.
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
    NotReachedYet {
        server: String,
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
            Self::NotReachedYet { .. } => "not_reached_yet",
            Self::SecretMissing { .. } => "secret_missing",
        }
    }

    /// The agent or server it is about.
    pub fn subject(&self) -> &str {
        match self {
            Self::OwnChange { agent, .. }
            | Self::OwnDeletion { agent }
            | Self::DefaultNotTaken { agent, .. }
            | Self::DefaultTaken { agent, .. }
            | Self::StillUsed { agent, .. } => agent,
            Self::ServerBlocked { server }
            | Self::NotReachedYet { server }
            | Self::SecretMissing { server, .. } => server,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnChange { agent, fields, removed } => {
                let what = fields.join(", ");
                let fate = if *removed { "goes with it" } else { "is overwritten" };
                write!(
                    f,
                    "your own change of the agent `{agent}` ({what}) {fate}; its version stays in the agent's \
                     history. A copy under another name would be yours to keep"
                )
            }
            Self::OwnDeletion { agent } => {
                write!(f, "the agent `{agent}` was deleted by hand and is made again")
            }
            Self::DefaultNotTaken { agent, holder } => {
                write!(f, "`{agent}` does not become the default agent: `{holder}` is, and stays it")
            }
            Self::DefaultTaken { agent, from } => {
                write!(f, "`{agent}` becomes the default agent in place of `{from}`, since it is external")
            }
            Self::StillUsed { agent, by } => {
                write!(f, "the agent `{agent}` goes, and is still named by {}", by.join(", "))
            }
            Self::ServerBlocked { server } => write!(
                f,
                "the server `{server}` is a program, and this installation starts none (EMERGENT_ALLOW_STDIO=false): \
                 its tools will not work"
            ),
            Self::NotReachedYet { server } => write!(
                f,
                "the server `{server}` is connected to when it is first needed; until then its tools are not known"
            ),
            Self::SecretMissing { server, secret } => write!(
                f,
                "the server `{server}` needs the secret `{secret}`, which the project does not have yet \
                 (`emergent secret set {secret}`)"
            ),
        }
    }
}

/// What is to be done so that a project has `after` in place of what it has of the product
/// `name`; without `after`, so that it has nothing of it. `Err`: what stands against it.
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
    // Jobs go before the agents they start, and come after them.
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
    Ok(Plan { name: name.to_owned(), from, to, direction, steps, warnings })
}

impl Plan {
    /// Whether nothing but the record would change.
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

impl PlanBuilder<'_> {
    fn push_step(&mut self, what: ItemKind, name: impl Into<String>, change: StepChange, action: Action) {
        self.steps.push(Step { kind: what, name: name.into(), change, action });
    }

    fn push_conflict(&mut self, pointer: String, what: &str, name: &str, holder: Option<&str>) {
        let whose = match holder {
            Some(product) => format!("belongs to the product `{product}`"),
            None => "belongs to the project itself".to_owned(),
        };
        let problem = ManifestProblem::new(pointer, format!("the {what} `{name}` {whose}"));
        self.problems.push(problem.with_fix("choose another name, or take that one away first"));
    }

    /// A list of the manifest, or the whole of it where that has none: a pointer leads to what is
    /// there.
    fn list_pointer(&self, pointer: &str) -> String {
        let found = self.after.and_then(|manifest| manifest.raw.pointer(pointer));
        found.map_or_else(String::new, |_| pointer.to_owned())
    }
}
