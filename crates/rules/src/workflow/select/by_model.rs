//! Asks a model who should do a task, and reads whom it names.

use emergent_domain::task::Task;
use serde_json::json;

use super::{AgentCard, handles};
use crate::workflow::question::{Question, find_json_object, truncate};

/// The question for a task that the rules are not clear about.
pub fn selection_question(task: &Task, agents: &[AgentCard]) -> Question {
    let mut prompt = format!("TASK: {}\n", task.title);
    if !task.kind.is_empty() {
        prompt += &format!("KIND: {}\n", task.kind);
    }
    if !task.tags.is_empty() {
        prompt += &format!("TAGS: {}\n", task.tags.join(", "));
    }
    if !task.description.is_empty() {
        prompt += &format!("{}\n", truncate(&task.description, 4_000));
    }
    if !task.failure_context.is_empty() {
        prompt += &format!("\nATTEMPTS BEFORE:\n{}\n", truncate(&task.failure_context, 2_000));
    }
    prompt += "\nAGENTS:\n";
    for agent in agents.iter().filter(|agent| agent.is_selectable) {
        let tools = agent.tools.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
        prompt += &format!("- {}: {} (tools: {tools})\n", agent.name, truncate(&agent.description, 500));
        let work = handles::work(&agent.config).join("; ");
        if !work.is_empty() {
            prompt += &format!("  handles: {}\n", truncate(&work, 1_000));
        }
    }
    prompt += "\nWhich agent is best suited? Answer with its exact name and the reason in one sentence.";
    let selectable = agents.iter().filter(|agent| agent.is_selectable);
    let names: Vec<&str> = selectable.map(|agent| agent.name.as_str()).collect();
    Question {
        system:
            "You choose the agent that does a task. You name one of the agents you are given and no other."
                .to_owned(),
        prompt,
        schema: json!({
            "type": "object",
            "properties": {
                "agent": { "type": "string", "enum": names },
                "reason": { "type": "string" },
            },
            "required": ["agent", "reason"],
            "additionalProperties": false,
        }),
    }
}

/// The agent an answer names. An answer that names none, or several, is not used.
pub fn parse_selection(text: &str, agents: &[AgentCard]) -> Option<String> {
    let agents: Vec<&AgentCard> = agents.iter().filter(|agent| agent.is_selectable).collect();
    let exact = |said: &str| {
        let said = said.trim().trim_matches(['`', '"', '\'', '*', '.']);
        agents.iter().find(|agent| agent.name.eq_ignore_ascii_case(said)).map(|agent| agent.name.clone())
    };
    if let Some(value) = find_json_object(text, "agent") {
        return value.get("agent").and_then(serde_json::Value::as_str).and_then(exact);
    }
    if let Some(name) = exact(text) {
        return Some(name);
    }
    let lower = text.to_lowercase();
    let mut named = agents.iter().filter(|agent| is_whole_word(&lower, &agent.name.to_lowercase()));
    let one = named.next()?;
    named.next().is_none().then(|| one.name.clone())
}

/// Whether a name stands in a text as a word of its own: `planner` does not in `task-planner`.
fn is_whole_word(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}
