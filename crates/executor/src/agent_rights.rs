//! Checks that the author of a change may save, change or delete an agent (`emergent_domain::agent::AgentChange`).

use std::collections::BTreeSet;

use emergent_domain::{
    agent::{Agent, AgentChange, AgentDefinition, MissingScope, ToolScopes},
    author::Author,
    token::Scope,
};
use emergent_graph::WriteContext;
use emergent_store::{Tx, agents as rows, tokens};

use crate::{Error, Result, internal_agents};

/// The agents that a change may affect, as they were before it. Loaded before the change is written, with the
/// agents of the project locked.
pub(crate) struct AgentsBefore {
    changed: Option<Agent>,
    /// The default agents, which stop being that if the changed agent becomes the default one.
    defaults: Vec<Agent>,
    /// The scopes of the author; `None` for the server, which may do everything.
    scopes: Option<BTreeSet<Scope>>,
}

impl AgentsBefore {
    /// `changed` is the agent that will be changed or deleted, if it exists.
    pub fn load(tx: &mut Tx<'_>, ctx: &WriteContext, changed: Option<Agent>) -> Result<Self> {
        let scopes = match ctx.author {
            Author::System => None,
            Author::Token { id } => Some(tokens::get(tx, id)?.map(|token| token.scopes).unwrap_or_default()),
            // No tool saves agents. One that did would need a rule of its own.
            Author::Run { .. } => Some(BTreeSet::new()),
        };
        Ok(Self { changed, defaults: rows::list_defaults(tx, ctx.project.id)?, scopes })
    }

    /// Whether the author may learn what the agents of the project are.
    pub fn may_read(&self) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contains(&Scope::AgentsRead))
    }

    /// Refuses an author who may not read agents, and could not save the agent as it is, before anything that the request
    /// has is compared with it. The refusal is the same for every request, so none confirms a guess.
    pub fn check_unread(&self, tx: &mut Tx<'_>, ctx: &WriteContext, tools: &ToolScopes) -> Result<()> {
        if self.may_read() {
            return Ok(());
        }
        let before = self.changed.as_ref().map(|agent| &agent.definition);
        self.check(tx, ctx, AgentChange { before, after: None }, tools)
    }

    pub fn version(&self) -> Option<i64> {
        self.changed.as_ref().map(|agent| agent.version)
    }

    /// Refuses a change that needs more than the token has that makes it. The check follows the write, in the
    /// same transaction, so that it sees the definition as it would be stored; an error rolls it back. Products
    /// are not checked here: only `admin:write`, which may change everything, can install one.
    pub fn check_change(
        &self,
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        written: &Agent,
        tools: &ToolScopes,
    ) -> Result<()> {
        let before = self.changed.as_ref().map(|agent| &agent.definition);
        let after = written.deleted_at.is_none().then_some(&written.definition);
        let replaces_default = after.is_some_and(|after| after.is_default);
        let replaced = self.defaults.iter().filter(|other| replaces_default && other.id != written.id);
        self.check(tx, ctx, AgentChange { before, after }, tools)?;
        for other in replaced {
            let change = AgentChange { before: Some(&other.definition), after: None };
            self.check(tx, ctx, change, tools).map_err(|error| match error {
                // The request does not name the default agent, so its author would not know what is meant.
                Error::BeyondMaker { scope, .. } if !self.may_read() => {
                    let what =
                        "taking the place of a default agent that may do more than this token".to_owned();
                    Error::BeyondMaker { what, scope }
                }
                error => error,
            })?;
        }
        Ok(())
    }

    fn check(
        &self,
        tx: &mut Tx<'_>,
        ctx: &WriteContext,
        change: AgentChange<'_>,
        tools: &ToolScopes,
    ) -> Result<()> {
        let Some(scopes) = &self.scopes else { return Ok(()) };
        let definitions: Vec<&AgentDefinition> =
            [change.before, change.after].into_iter().flatten().collect();
        let internal = internal_agents::find_named_internal(tx, ctx.project.id, &definitions)?;
        change
            .check(scopes, tools, &internal)
            .map_err(|MissingScope { what, scope }| Error::BeyondMaker { what, scope })
    }
}
