//! Who may save, change and delete which agent.
//!
//! An agent acts with its own whitelist, whoever starts it. So whoever saves a definition needs the scopes
//! of everything that the definition grants: an agent does not widen its maker. Whoever replaces or deletes a
//! definition needs the scopes of what it granted, because others rely on what that agent does.

use std::collections::{BTreeMap, BTreeSet};

use super::{AgentDefinition, Visibility};
use crate::{
    token::Scope,
    tool_name::{canonical, glob_matches, is_glob},
};

/// The scope that a client needs to call each built-in tool.
pub type ToolScopes = BTreeMap<String, Scope>;

/// The scope for everything that is not a built-in tool of the graph: tools of external servers, starting
/// other agents, and being started without a request.
const INVOKE: Scope = Scope::AgentsInvoke;

/// Something in a definition that needs a scope which its maker lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingScope {
    /// What the definition grants, such as ``the tool `entities_create` ``.
    pub what: String,
    pub scope: Scope,
}

/// A change of an agent. A new agent has no definition before it, and a deleted one none after it.
#[derive(Debug, Clone, Copy)]
pub struct AgentChange<'a> {
    pub before: Option<&'a AgentDefinition>,
    pub after: Option<&'a AgentDefinition>,
}

impl AgentChange<'_> {
    /// Refuses the change if one of the definitions goes beyond the scopes of its author. `internal` has the
    /// names of internal agents among those that the definitions name.
    pub fn check(
        &self,
        scopes: &BTreeSet<Scope>,
        tools: &ToolScopes,
        internal: &BTreeSet<String>,
    ) -> Result<(), MissingScope> {
        let find = |definition: &AgentDefinition| definition.beyond_scopes(scopes, tools, internal);
        let granted = self.before.map(find).unwrap_or_default();
        // What the agent had before is for those who may read it. To others the refusal is the same whatever the request
        // adds: it would otherwise tell which of it the agent has already, and the scope would tell what it may do.
        if !granted.is_empty() && !scopes.contains(&Scope::AgentsRead) {
            let what = format!(
                "a change of an agent that may do more than this token, as the scope `{}` would show,",
                Scope::AgentsRead
            );
            return Err(MissingScope { what, scope: Scope::AdminWrite });
        }
        // Only what the agent did not have before was named by the request.
        let added = self.after.map(find).unwrap_or_default();
        if let Some(missing) = added.into_iter().find(|missing| !granted.contains(missing)) {
            return Err(missing);
        }
        match self.before.zip(granted.into_iter().next()) {
            None => Ok(()),
            Some((before, MissingScope { what, scope })) => Err(MissingScope {
                what: format!("a change of the agent `{}`, which has {what}", before.name),
                scope,
            }),
        }
    }
}

impl AgentDefinition {
    /// The other agents that the definition names in its flow and in `config.may_spawn`. Patterns name none:
    /// they are checked when a run starts an agent.
    pub fn named_agents(&self) -> BTreeSet<&str> {
        let flow = self.flow_config.iter().flat_map(|flow| flow.agents.iter().map(String::as_str));
        let spawned = self.spawn_patterns().filter(|pattern| !is_glob(pattern));
        flow.chain(spawned).filter(|name| *name != self.name).collect()
    }

    /// Returns what in the definition goes beyond these scopes. With `admin:write` nothing does.
    fn beyond_scopes(
        &self,
        scopes: &BTreeSet<Scope>,
        tools: &ToolScopes,
        internal: &BTreeSet<String>,
    ) -> Vec<MissingScope> {
        if scopes.contains(&Scope::AdminWrite) {
            return Vec::new();
        }
        let mut needed: Vec<(String, Scope)> =
            self.granted_tools().iter().flat_map(|entry| needed_scopes(entry, tools)).collect();
        if self.flow_config.as_ref().is_some_and(|flow| !flow.agents.is_empty()) {
            needed.push(("a flow over other agents".to_owned(), INVOKE));
        }
        if self.trigger.is_some() {
            needed.push(("a trigger, which starts the agent without a request,".to_owned(), INVOKE));
        }
        // No token starts an internal agent, and its runs may start others. Neither is for whoever may write agents and
        // nothing more.
        if self.visibility == Visibility::Internal {
            needed.push(("the visibility `internal`".to_owned(), Scope::AdminWrite));
        }
        for name in self.named_agents().into_iter().filter(|name| internal.contains(*name)) {
            let what = format!("the internal agent `{name}` in a flow or in `config.may_spawn`");
            needed.push((what, Scope::AdminWrite));
        }
        needed.retain(|(_, scope)| !scopes.contains(scope));
        needed.into_iter().map(|(what, scope)| MissingScope { what, scope }).collect()
    }
}

/// The scopes that an entry of a whitelist needs, each with the tool that needs it. A pattern may also match
/// tools of external servers that are added later.
fn needed_scopes(entry: &str, tools: &ToolScopes) -> Vec<(String, Scope)> {
    if !is_glob(entry) {
        let scope = tools.get(canonical(entry)).copied().unwrap_or(INVOKE);
        return vec![(format!("the tool `{entry}`"), scope)];
    }
    let matched = tools.iter().filter(|(name, _)| glob_matches(entry, name));
    let mut needed: Vec<(String, Scope)> =
        matched.map(|(name, scope)| (format!("the tool `{name}` (matched by `{entry}`)"), *scope)).collect();
    needed.push((format!("the pattern `{entry}`, which may match tools of external servers,"), INVOKE));
    needed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::FlowConfig;

    fn beyond(tools: &[&str], scopes: &[Scope]) -> Option<(String, Scope)> {
        let definition = AgentDefinition {
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            ..AgentDefinition::new("a")
        };
        find(&definition, scopes)
    }

    fn find(definition: &AgentDefinition, scopes: &[Scope]) -> Option<(String, Scope)> {
        refused(None, Some(definition), scopes)
    }

    /// What stands against a change. The agent `inside` is internal.
    fn refused(
        before: Option<&AgentDefinition>,
        after: Option<&AgentDefinition>,
        scopes: &[Scope],
    ) -> Option<(String, Scope)> {
        let known = ToolScopes::from([
            ("entities_get".to_owned(), Scope::GraphRead),
            ("entities_create".to_owned(), Scope::GraphWrite),
            ("runs_list".to_owned(), Scope::AgentsRead),
        ]);
        let (scopes, internal) = (scopes.iter().copied().collect(), BTreeSet::from(["inside".to_owned()]));
        let missing = AgentChange { before, after }.check(&scopes, &known, &internal).err()?;
        Some((missing.what, missing.scope))
    }

    #[test]
    fn a_tool_needs_its_scope_by_whichever_name() {
        let read = [Scope::AgentsWrite, Scope::GraphRead];
        assert_eq!(beyond(&["entities_get"], &read), None);
        for name in ["entities_create", "create_entity"] {
            assert_eq!(beyond(&[name], &read), Some((format!("the tool `{name}`"), Scope::GraphWrite)));
        }
        assert_eq!(beyond(&["entities_create"], &[Scope::AdminWrite]), None);
    }

    #[test]
    fn a_tool_that_is_not_of_the_graph_needs_to_invoke() {
        for name in ["github.create_issue", "web_search", "spawn_agents"] {
            let missing = beyond(&[name], &[Scope::GraphRead, Scope::GraphWrite]);
            assert_eq!(missing.map(|(_, scope)| scope), Some(Scope::AgentsInvoke), "{name}");
            assert_eq!(beyond(&[name], &[Scope::AgentsInvoke]), None);
        }
    }

    #[test]
    fn a_pattern_needs_the_scope_of_everything_it_matches() {
        let scope = |pattern: &str, scopes: &[Scope]| beyond(&[pattern], scopes).map(|(_, scope)| scope);
        let invoke = [Scope::GraphRead, Scope::AgentsInvoke];
        assert_eq!(scope("entities_g*", &invoke), None);
        assert_eq!(scope("entities_*", &invoke), Some(Scope::GraphWrite));
        assert_eq!(scope("*", &invoke), Some(Scope::GraphWrite));
        assert_eq!(scope("entities_g*", &[Scope::GraphRead]), Some(Scope::AgentsInvoke));
        let (what, _) = beyond(&["entities_*"], &invoke).unwrap();
        assert!(what.contains("entities_create") && what.contains("entities_*"), "{what}");
    }

    #[test]
    fn starting_others_or_being_started_needs_to_invoke() {
        let flow = FlowConfig { agents: vec!["b".into()], ..FlowConfig::default() };
        let flow = AgentDefinition { flow_config: Some(flow), ..AgentDefinition::new("a") };
        let scheduled = AgentDefinition { trigger: Some("0 3 * * *".into()), ..AgentDefinition::new("a") };
        for definition in [flow, scheduled] {
            let missing = find(&definition, &[Scope::AgentsWrite]).map(|(_, scope)| scope);
            assert_eq!(missing, Some(Scope::AgentsInvoke));
            assert_eq!(find(&definition, &[Scope::AgentsInvoke]), None);
        }
    }

    #[test]
    fn an_internal_agent_is_for_those_who_administer() {
        let internal = AgentDefinition { visibility: Visibility::Internal, ..AgentDefinition::new("a") };
        let public = AgentDefinition::new("a");
        let flow = FlowConfig { agents: vec!["inside".into()], ..FlowConfig::default() };
        let naming = AgentDefinition { flow_config: Some(flow), ..AgentDefinition::new("a") };
        let maker = [Scope::AgentsWrite, Scope::AgentsInvoke, Scope::GraphWrite];
        for (before, after) in [
            (None, Some(&internal)),
            (Some(&internal), Some(&public)),
            (Some(&public), Some(&internal)),
            (Some(&internal), None),
            (None, Some(&naming)),
            (Some(&naming), Some(&public)),
        ] {
            let missing = refused(before, after, &maker).map(|(_, scope)| scope);
            assert_eq!(missing, Some(Scope::AdminWrite), "{before:?} {after:?}");
            assert_eq!(refused(before, after, &[Scope::AdminWrite]), None);
        }
        assert_eq!(refused(Some(&public), None, &maker), None);
    }

    #[test]
    fn what_an_agent_could_do_counts_when_it_is_changed_or_deleted() {
        let strong =
            AgentDefinition { tools: vec!["entities_create".into()], ..AgentDefinition::new("strong") };
        let harmless = AgentDefinition::new("strong");
        for after in [Some(&harmless), None] {
            let reader = [Scope::AgentsWrite, Scope::AgentsRead];
            let (what, scope) = refused(Some(&strong), after, &reader).unwrap();
            assert_eq!(scope, Scope::GraphWrite);
            assert!(what.contains("`strong`") && what.contains("entities_create"), "{what}");
            assert_eq!(refused(Some(&strong), after, &[Scope::GraphWrite]), None);
        }
        assert!(
            refused(Some(&strong), Some(&strong), &[Scope::AgentsRead]).is_some(),
            "also if nothing changes"
        );
    }

    #[test]
    fn what_an_agent_could_do_is_named_for_those_who_may_read_it() {
        let with = |tools: &[&str]| AgentDefinition {
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            ..AgentDefinition::new("strong")
        };
        let before = with(&["entities_create"]);
        let writer = [Scope::AgentsWrite];
        let told = refused(Some(&before), None, &writer).unwrap();
        assert!(!told.0.contains("entities_create") && told.0.contains("agents:read"), "{}", told.0);
        assert_eq!(told.1, Scope::AdminWrite, "the scope of the tool would tell what it is");
        // A right guess of what the agent has is refused as a wrong one is.
        for after in [with(&[]), before.clone(), with(&["runs_list"]), with(&["entities_get", "runs_list"])] {
            assert_eq!(refused(Some(&before), Some(&after), &writer), Some(told.clone()));
        }
        let (what, _) = refused(Some(&with(&[])), Some(&with(&["runs_list"])), &writer).unwrap();
        assert_eq!(what, "the tool `runs_list`", "the request names it");
        let reader = [Scope::AgentsWrite, Scope::AgentsRead];
        let (what, _) = refused(Some(&before), Some(&with(&["entities_get"])), &reader).unwrap();
        assert_eq!(what, "the tool `entities_get`");
    }

    #[test]
    fn a_change_names_nothing_that_was_there_before() {
        let flow = |tools: &[&str], visibility| AgentDefinition {
            flow_config: Some(FlowConfig { agents: vec!["inside".into()], ..FlowConfig::default() }),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            visibility,
            ..AgentDefinition::new("strong")
        };
        let before = flow(&["entities_create"], Visibility::Internal);
        // The request removes what is missing first, so that the next thing is another one.
        for after in [
            flow(&[], Visibility::Internal),
            flow(&["entities_get"], Visibility::Project),
            flow(&["entities_create"], Visibility::Project),
        ] {
            let scopes = [Scope::AgentsWrite, Scope::AgentsInvoke, Scope::GraphRead];
            let (what, _) = refused(Some(&before), Some(&after), &scopes).unwrap();
            assert!(what.contains("agents:read") && !what.contains("inside"), "{what}");
        }
    }
}
