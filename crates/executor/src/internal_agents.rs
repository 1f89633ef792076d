//! Who may make an internal agent work. Its visibility keeps tokens from starting it, so it must not be
//! reachable through an agent that such a token saved, or through one of its paused runs.

use std::collections::BTreeSet;

use emergent_domain::{
    agent::{AgentDefinition, Visibility},
    author::Author,
    ids::ProjectId,
    run::Run,
    token::Scope,
};
use emergent_graph::Actor;
use emergent_store::{Tx, agents, tokens};

use crate::{Error, Result};

/// Whether a run may start internal agents. It may if a token with `admin:write` or the server saved the
/// definition of its agent, or started the run. That its own agent is internal is not enough: a token without
/// `admin:write` may have saved it before that needed the scope.
pub(crate) fn may_start_internal(tx: &mut Tx<'_>, caller: &Run) -> emergent_store::Result<bool> {
    let saved_by = agents::definition_author(tx, caller.agent, caller.agent_version)?;
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

/// Returns the internal agents among those that these definitions name.
pub(crate) fn find_named_internal(
    tx: &mut Tx<'_>,
    project: ProjectId,
    definitions: &[&AgentDefinition],
) -> emergent_store::Result<BTreeSet<String>> {
    let names: BTreeSet<&str> = definitions.iter().flat_map(|definition| definition.named_agents()).collect();
    let mut internal = BTreeSet::new();
    for name in names {
        let agent = agents::get_by_name(tx, project, name)?;
        if agent.is_some_and(|agent| agent.definition.visibility == Visibility::Internal) {
            internal.insert(name.to_owned());
        }
    }
    Ok(internal)
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
