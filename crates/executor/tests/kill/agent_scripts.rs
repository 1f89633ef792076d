//! What each agent does, as a pure function of its task. The server's model follows these scripts, and
//! the checks compare with them.

use emergent_domain::agent::{AgentDefinition, FlowConfig, FlowType};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub const PROVIDER: &str = "planned";
/// The step limit of the agent that never ends by itself.
pub const CAP: u32 = 3;
const CHILDREN: [&str; 3] = ["a", "b", "c"];

/// The task of an agent. The agent also repeats it in its answer, so that the next part of a flow can
/// continue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Unique among the tasks of one agent.
    pub key: String,
    pub steps: usize,
    /// The number of the request that this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<u64>,
}

impl Task {
    pub fn new(key: impl Into<String>, steps: usize) -> Self {
        Self { key: key.into(), steps, request: None }
    }

    pub fn read(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| panic!("a task, not {text}"))
    }

    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("a task is JSON")
    }
}

/// A tool call that a script plans.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCall {
    pub tool: &'static str,
    pub input: Value,
}

fn call(tool: &'static str, input: Value) -> PlannedCall {
    PlannedCall { tool, input }
}

fn thing(key: &str) -> PlannedCall {
    call("entities_create", json!({ "type": "Thing", "key": key, "properties": { "n": 0 } }))
}

/// A call without a natural key: only the executor prevents it from happening twice.
fn note(mark: String) -> PlannedCall {
    call("entities_create", json!({ "type": "Note", "properties": { "mark": mark } }))
}

fn increment(key: &str, step: usize) -> PlannedCall {
    call("increment", json!({ "key": key, "step": step }))
}

/// Returns the calls of an agent's answer number `answer`, counted from 0. With none, the answer is the
/// last one.
pub fn calls(agent: &str, task: &Task, answer: usize) -> Vec<PlannedCall> {
    let Task { key, steps, .. } = task;
    match agent {
        "endless" => vec![note(format!("{key}-{answer}"))],
        _ if answer >= *steps => Vec::new(),
        "writer" => writes(key, answer),
        "caller" => rings(key, answer),
        "boss" => match answer {
            0 => vec![spawn(key)],
            _ => vec![note(format!("{key}-{answer}"))],
        },
        other => panic!("`{other}` asks no model"),
    }
}

fn writes(key: &str, answer: usize) -> Vec<PlannedCall> {
    let (id, other) = (format!("Thing/{key}"), format!("{key}-{answer}"));
    match answer {
        0 => vec![thing(key)],
        _ if answer % 4 == 1 => vec![increment(key, answer)],
        _ if answer % 4 == 2 => vec![
            note(other),
            call("entities_get", json!({ "id": id, "fields": ["key", "version"] })),
            call("entities_history", json!({ "id": id })),
            increment(key, answer),
        ],
        _ if answer % 4 == 3 => {
            let edge = json!({ "type": "next", "fromId": id, "toId": format!("Thing/{other}") });
            vec![thing(&other), call("relationships_create", edge), increment(key, answer)]
        }
        _ => vec![call("entities_update", json!({ "id": id, "properties": { "seen": answer } }))],
    }
}

fn rings(key: &str, answer: usize) -> Vec<PlannedCall> {
    let outside = |tool, n: usize| call(tool, json!({ "key": format!("{key}-{answer}-{n}") }));
    match answer % 3 {
        0 => vec![outside("ring", 0)],
        1 => vec![outside("poke", 0), note(format!("{key}-called-{answer}"))],
        _ => vec![outside("ring", 0), outside("poke", 1), outside("ring", 2)],
    }
}

fn spawn(key: &str) -> PlannedCall {
    let tasks = children("boss", &Task::new(key, 0)).into_iter();
    let tasks = tasks.map(|(agent, task)| json!({ "agent_name": agent, "task": task.text() }));
    call("spawn_agents", json!({ "tasks": tasks.collect::<Vec<_>>() }))
}

/// Returns the planned children of a run, in order. A part of a flow gets the output of the previous
/// part as its input, so only its key and steps are known.
pub fn children(agent: &str, task: &Task) -> Vec<(&'static str, Task)> {
    match agent {
        "boss" => {
            CHILDREN.iter().map(|child| ("writer", Task::new(format!("{}-{child}", task.key), 4))).collect()
        }
        "relay" => vec![("writer", task.clone()), ("caller", task.clone())],
        _ => Vec::new(),
    }
}

/// Returns how many answers an agent gives before it ends.
pub fn answers(agent: &str, task: &Task) -> usize {
    match agent {
        "endless" => CAP as usize + 1,
        "relay" => 0,
        _ => task.steps + 1,
    }
}

pub fn is_write(tool: &str) -> bool {
    ["entities_create", "entities_update", "relationships_create", "increment"].contains(&tool)
}

/// All agents, in an order in which those that others need come first.
pub fn agents() -> Vec<AgentDefinition> {
    let agent = |name: &str, tools: &[&str]| AgentDefinition {
        system_prompt: format!("You are the {name}."),
        model: Some(format!("{PROVIDER}/plan").parse().expect("a model")),
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        // Time plays no role in this test: the timeout suffices for a run that is interrupted often.
        default_timeout: Some(3_600),
        ..AgentDefinition::new(name)
    };
    let parts = vec!["writer".to_owned(), "caller".to_owned()];
    vec![
        agent("writer", &["entities_*", "relationships_*", "increment"]),
        agent("caller", &["ring", "poke", "entities_create"]),
        agent("boss", &["spawn_agents", "entities_create"]),
        AgentDefinition { max_steps: Some(CAP), ..agent("endless", &["entities_create"]) },
        AgentDefinition {
            flow_type: FlowType::Sequential,
            flow_config: Some(FlowConfig { agents: parts, ..FlowConfig::default() }),
            ..agent("relay", &[])
        },
    ]
}
