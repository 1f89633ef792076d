//! Who may make an internal agent work. Its visibility keeps tokens from starting it, so it must not be
//! reachable through an agent that such a token saved, or through one of its paused runs.

use std::collections::BTreeSet;

use emergent_domain::{
    agent::{AgentDefinition, Visibility},
    author::Author,
    ids::{AgentId, ProjectId},
    run::Run,
    token::Scope,
    tool_name::is_glob,
};
use emergent_graph::Actor;
use emergent_store::{Tx, agents, tokens};

use crate::{Error, Result};

/// The most versions that are compared to find who saved a definition.
const MAX_COMPARED_VERSIONS: usize = 100;

/// Whether a run may start internal agents. It may if its own agent is internal, or if a token with
/// `admin:write` or the server saved the definition of its agent, or started the run.
pub(crate) fn may_start_internal(tx: &mut Tx<'_>, caller: &Run) -> emergent_store::Result<bool> {
    let Some(definition) = agents::get_version(tx, caller.agent, caller.agent_version)? else {
        return Ok(false);
    };
    if definition.visibility == Visibility::Internal {
        return Ok(true);
    }
    let saved_by = definition_author(tx, caller.agent, caller.agent_version, definition)?;
    let started_by = caller.started_by.map(|id| Author::Token { id });
    for author in [saved_by, started_by].into_iter().flatten() {
        if is_admin(tx, author)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses to resume a run of an internal agent with an input, as starting the agent with that input would be
/// refused. Without an input the agent goes on with what another agent told it, which is allowed.
pub(crate) fn check_resume(tx: &mut Tx<'_>, actor: Actor, paused: &Run, input: &str) -> Result<()> {
    let agent = agents::get(tx, paused.project, paused.agent)?;
    let is_internal = agent.is_some_and(|agent| agent.definition.visibility == Visibility::Internal);
    if !is_internal || input.trim().is_empty() || is_admin(tx, actor.author)? {
        return Ok(());
    }
    Err(Error::Forbidden(format!(
        "agent `{}` is internal: only other agents tell it what to do; resume the run without `input`, or with a \
         token that has `admin:write`",
        paused.agent_name
    )))
}

/// Returns the first internal agent that a definition names in its flow or in `config.may_spawn`. Patterns name
/// none: they are checked when a run starts an agent.
pub(crate) fn find_named_internal(
    tx: &mut Tx<'_>,
    project: ProjectId,
    definition: &AgentDefinition,
) -> emergent_store::Result<Option<String>> {
    let flow = definition.flow_config.iter().flat_map(|flow| flow.agents.iter().map(String::as_str));
    let spawned = definition.spawn_patterns().filter(|pattern| !is_glob(pattern));
    let names: BTreeSet<&str> = flow.chain(spawned).filter(|name| *name != definition.name).collect();
    for name in names {
        let agent = agents::get_by_name(tx, project, name)?;
        if agent.is_some_and(|agent| agent.definition.visibility == Visibility::Internal) {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

/// Who saved a definition. An agent also gets a new version when another one becomes the default agent; whoever
/// caused that did not save the definition.
fn definition_author(
    tx: &mut Tx<'_>,
    agent: AgentId,
    mut version: i64,
    definition: AgentDefinition,
) -> emergent_store::Result<Option<Author>> {
    let without_default = |definition| AgentDefinition { is_default: false, ..definition };
    let definition = without_default(definition);
    for _ in 0..MAX_COMPARED_VERSIONS {
        let before = agents::get_version(tx, agent, version - 1)?;
        if before.map(without_default).as_ref() != Some(&definition) {
            return agents::version_author(tx, agent, version);
        }
        version -= 1;
    }
    Ok(None)
}

fn is_admin(tx: &mut Tx<'_>, author: Author) -> emergent_store::Result<bool> {
    Ok(match author {
        Author::System => true,
        Author::Token { id } => {
            tokens::get(tx, id)?.is_some_and(|token| token.scopes.contains(&Scope::AdminWrite))
        }
        Author::Run { .. } => false,
    })
}
