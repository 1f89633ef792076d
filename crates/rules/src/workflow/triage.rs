//! What is done about a task whose attempt failed: again, by another agent, or by a person.

use emergent_domain::{run::Reason, task::Task, text::counted};
use serde_json::{Value, json};

use crate::workflow::{
    question::{Question, find_json_object, truncate},
    select::AgentCard,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Triage {
    /// Once more; `note` is added to what the next attempt is told.
    Retry {
        note: String,
    },
    Reassign {
        agent: String,
        note: String,
    },
    /// A model says that a person has to look at it.
    Escalate {
        reason: String,
    },
    /// Trying again cannot help.
    GiveUp {
        reason: String,
    },
}

/// How an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub agent: String,
    /// Why its run ended; `None` when the run completed and its result was not good enough.
    pub reason: Option<Reason>,
    pub error: String,
    /// What it said in the end.
    pub text: String,
}

impl Failure {
    /// Whether trying again cannot help before a person has done something.
    fn needs_person(&self) -> bool {
        matches!(self.reason, Some(Reason::Budget | Reason::Definition | Reason::UnknownOutcome))
    }
}

/// By code alone: again while there are retries and it could help.
pub fn triage_by_rules(task: &Task, failure: &Failure) -> Triage {
    if failure.needs_person() {
        let why = match failure.reason {
            Some(Reason::Budget) => "the budget is too low",
            Some(Reason::UnknownOutcome) => "whether another system has done it is not known",
            _ => "its agent cannot be used",
        };
        return Triage::GiveUp { reason: format!("{why}: {}", truncate(&failure.error, 500)) };
    }
    if task.has_retries_left() {
        return Triage::Retry { note: String::new() };
    }
    let attempts = counted(task.retry_count + 1, "attempt");
    let error = if failure.error.trim().is_empty() { &failure.text } else { &failure.error };
    Triage::GiveUp { reason: format!("failed after {attempts}; the last: {}", truncate(error, 500)) }
}

/// Asks a model, where one is used for this. Not worth asking when [`triage_by_rules`] gives up.
pub fn triage_question(task: &Task, failure: &Failure, agents: &[AgentCard]) -> Question {
    let reason = failure.reason.map_or("its result was not accepted", Reason::as_str);
    let mut prompt = format!(
        "TASK: {}\n{}\n\nAttempt {} by `{}` failed ({reason}): {}\nIt said: {}\n",
        task.title,
        truncate(&task.description, 4_000),
        task.retry_count + 1,
        failure.agent,
        truncate(&failure.error, 2_000),
        truncate(&failure.text, 2_000),
    );
    if !task.failure_context.trim().is_empty() {
        prompt += &format!("\nATTEMPTS BEFORE:\n{}\n", truncate(&task.failure_context, 4_000));
    }
    let left = (task.max_retries - task.retry_count).max(0);
    prompt += &format!("\nRetries left: {left}\n");
    let mut actions = vec!["retry", "escalate"];
    let is_other = |agent: &&AgentCard| agent.is_selectable && agent.name != failure.agent;
    let others: Vec<&AgentCard> = agents.iter().filter(is_other).collect();
    if !task.agent_is_named && !others.is_empty() {
        actions.insert(1, "reassign");
        prompt += "\nOTHER AGENTS:\n";
        for agent in &others {
            prompt += &format!("- {}: {}\n", agent.name, truncate(&agent.description, 300));
        }
    }
    prompt += &format!(
        "\nWhat should happen: {}? `note` tells the next attempt what to do differently. Escalate only \
         when no agent can do it without a person.",
        actions.join(", ")
    );
    Question {
        system: "You decide what is done about a task that failed. You decide by its cause, not by its tone."
            .to_owned(),
        prompt,
        schema: json!({
            "type": "object",
            "properties": {
                "action": { "type": "string", "enum": actions },
                "agent": { "type": "string", "description": "Only for reassign" },
                "note": { "type": "string" },
            },
            "required": ["action", "note"],
            "additionalProperties": false,
        }),
    }
}

/// What a model decided, held to the rules: no retry that there is not, no agent that is unknown,
/// none other than the one a task names. `None`: it cannot be read, and [`triage_by_rules`] decides.
pub fn parse_triage(answer: &str, task: &Task, failure: &Failure, agents: &[AgentCard]) -> Option<Triage> {
    let value = find_json_object(answer, "action")?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let note = truncate(&text("note"), 2_000);
    let decided = match text("action").to_lowercase().as_str() {
        "retry" => Triage::Retry { note },
        "reassign" => {
            let agent = text("agent");
            let is_known = agents.iter().any(|one| one.is_selectable && one.name == agent);
            let fits = agent != failure.agent && is_known;
            if fits && !task.agent_is_named {
                Triage::Reassign { agent, note }
            } else {
                Triage::Retry { note }
            }
        }
        "escalate" if note.is_empty() => Triage::Escalate { reason: truncate(&failure.error, 500) },
        "escalate" => Triage::Escalate { reason: note },
        _ => return None,
    };
    match triage_by_rules(task, failure) {
        stop @ Triage::GiveUp { .. } if !matches!(decided, Triage::Escalate { .. }) => Some(stop),
        _ => Some(decided),
    }
}

#[cfg(test)]
mod tests;
