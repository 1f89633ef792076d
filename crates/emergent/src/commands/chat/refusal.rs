//! Says in the words of the command line why a message was refused.

use emergent_wire::agent::AgentView;

use super::{Target, busy};
use crate::{
    client::{Client, Received},
    error::Error,
    hints,
};

/// How the API begins the message about a run that neither an agent nor the server has a model for.
const NO_MODEL: &str = "no model is configured";
/// So many agents are named; the command that lists them names the others.
const MAX_NAMED: usize = 5;

/// The error of a refused message, with the commands that help.
pub async fn explain(client: &Client, target: &Target, error: Error) -> Error {
    let is_without_agent = target.agent.is_none() && target.conversation.is_none();
    let is_without_model = matches!(&error, Error::Refused { message, .. } if message.starts_with(NO_MODEL));
    if !is_without_agent || !is_without_model {
        return busy::explain(client, target.conversation, error).await;
    }
    // Whoever may not list agents is told the rest.
    let path = "/api/admin/agents?include_internal=false";
    let agents: Vec<Received<AgentView>> = client.get_all_pages(path).await.unwrap_or_default();
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let has_default = agents.iter().any(|agent| agent.is_default);
    Error::Usage(without_agent(&names, has_default))
}

fn without_agent(names: &[&str], has_default: bool) -> String {
    let server = "start the server with `EMERGENT_MODEL=provider/name` to be answered without an agent";
    if has_default {
        return format!("no agent was named: name one with `--agent NAME`, or {server}");
    }
    let mut examples: Vec<String> = names.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    if names.len() > MAX_NAMED {
        examples.push(format!("and those of `{}`", hints::command("agent list")));
    }
    let named = match examples.is_empty() {
        true => String::new(),
        false => format!("name one with `--agent NAME` (there are {}), ", examples.join(", ")),
    };
    let install = hints::command("product install emergent.memory");
    format!(
        "no agent was named, and the project has no default agent: {named}install one with `{install}`, or {server}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_an_answer_are_named() {
        let told = without_agent(&["a", "b"], false);
        assert!(
            told.contains("no default agent: name one with `--agent NAME` (there are `a`, `b`), "),
            "{told}"
        );
        assert!(told.contains("`emergent product install emergent.memory`"), "{told}");
        assert!(told.contains("EMERGENT_MODEL=provider/name"), "{told}");
        let told = without_agent(&[], false);
        assert!(told.contains("no default agent: install one with"), "{told}");
        let told = without_agent(&["a", "b", "c", "d", "e", "f"], false);
        assert!(told.contains("`e`, and those of `emergent agent list`"), "{told}");
        assert!(!without_agent(&["a"], true).contains("no default agent"));
    }
}
