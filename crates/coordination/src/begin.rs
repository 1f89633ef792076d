//! How an attempt at a task begins: who makes it, and what it is told.

use emergent_domain::{
    agent::Agent,
    ids::{ObjectId, RunId},
    task::{Task, VerdictKind},
    workflow::{Hands, SelectorKind},
};
use serde_json::Value;

use crate::{
    apply::Begin,
    known::Known,
    select, think,
    threading::{self, Source},
    walk::Walk,
};

/// How many tasks further back are told at most: in a wide graph nearly everything lies behind a task,
/// and little of it says more than what is near.
const MOST_INDIRECT: usize = 8;

pub(crate) enum Begun {
    Now(Box<Begin>),
    /// A model is asked who should do it.
    Thinking,
    Nobody(String),
}

/// A new attempt.
pub(crate) fn attempt(walk: &mut Walk, known: &Known, task: &Task) -> Begun {
    let (name, why) = match choose(walk, known, task) {
        Choice::Agent { name, why } => (name, why),
        Choice::Thinking => return Begun::Thinking,
        Choice::Nobody(why) => return Begun::Nobody(why),
    };
    let Some(agent) = known.agents.iter().find(|agent| agent.definition.name == name) else {
        return Begun::Nobody(no_such_agent(&name, &known.agents));
    };
    let threaded = told(known, task);
    let informed_by = threaded.used.iter().filter_map(|task| known.sessions.get(task).copied()).collect();
    Begun::Now(Box::new(Begin {
        task: task.clone(),
        agent: agent.id,
        agent_name: name,
        why,
        prompt: threaded.prompt,
        run: RunId::new(),
        session: ObjectId::new(),
        before: known.sessions.get(&task.id).copied(),
        informed_by,
        hands: hands(task),
        resumes: None,
    }))
}

/// The run that ended at a limit goes on; without one, it is a new attempt.
pub(crate) fn resume(walk: &mut Walk, known: &Known, task: &Task) -> Begun {
    if task.run.is_none() {
        return attempt(walk, known, task);
    }
    let name = task.assigned_agent.clone().unwrap_or_default();
    let Some(agent) = known.agents.iter().find(|agent| agent.definition.name == name) else {
        return Begun::Nobody(no_such_agent(&name, &known.agents));
    };
    Begun::Now(Box::new(Begin {
        task: task.clone(),
        agent: agent.id,
        agent_name: name,
        why: "its run goes on where a limit stopped it".to_owned(),
        prompt: String::new(),
        run: RunId::new(),
        session: ObjectId::new(),
        before: known.sessions.get(&task.id).copied(),
        informed_by: Vec::new(),
        hands: hands(task),
        resumes: task.run,
    }))
}

fn hands(task: &Task) -> Option<Hands> {
    match task.verdict {
        VerdictKind::None => None,
        VerdictKind::Test => Some(Hands::TestVerdict),
        VerdictKind::Review => Some(Hands::ReviewVerdict),
    }
}

enum Choice {
    Agent { name: String, why: String },
    Thinking,
    Nobody(String),
}

/// The task's own word, then rules, then a model where rules leave it open and one is set up.
fn choose(walk: &mut Walk, known: &Known, task: &Task) -> Choice {
    if let Some((name, why)) = walk.thoughts.chosen(task.id) {
        return Choice::Agent { name, why };
    }
    let cards = known.cards();
    let ruled = select::rules(task, &cards);
    let selector = known.workflow().settings.selector;
    let ask = match selector {
        SelectorKind::Rules => false,
        SelectorKind::Llm => task.assigned_agent.is_none(),
        SelectorKind::Hybrid => !ruled.clear,
    };
    if ask && !walk.thoughts.tried(task.id) && think::choice(walk, task, &cards) {
        return Choice::Thinking;
    }
    match ruled.agent {
        Some(name) => Choice::Agent { name, why: ruled.reason },
        None => Choice::Nobody(ruled.reason),
    }
}

fn no_such_agent(name: &str, agents: &[Agent]) -> String {
    match agents.is_empty() {
        true => {
            format!("there is no agent `{name}`, and the project has none: install a product or make one")
        }
        false => format!("there is no agent `{name}`; there are {}", names(agents)),
    }
}

/// The agents there are, for a message.
pub(crate) fn names(agents: &[Agent]) -> String {
    let names: Vec<&str> = agents.iter().map(|agent| agent.definition.name.as_str()).collect();
    names.join(", ")
}

/// What went before, within the workflow's measure.
fn told(known: &Known, task: &Task) -> threading::Threaded {
    let snapshot = &known.snapshot;
    let verified: Vec<ObjectId> = match task.verdict {
        VerdictKind::None => Vec::new(),
        _ => snapshot.verified_by(task).into_iter().map(|one| one.id).collect(),
    };
    let source = |other: &Task| Source {
        id: other.id,
        title: named(other),
        kind: other.kind.clone(),
        agent: other.assigned_agent.clone(),
        text: text_of(other.output.as_ref()).or_else(|| other.summary.clone()).unwrap_or_default(),
        verified: verified.contains(&other.id),
    };
    let direct: Vec<Source> = snapshot.blockers(task.id).map(source).collect();
    let discussions: Vec<Source> = snapshot
        .blockers(task.id)
        .filter_map(|blocker| known.talking.get(&blocker.id))
        .map(|talking| Source {
            id: talking.id,
            title: talking.topic().to_owned(),
            kind: talking.kind().to_owned(),
            agent: None,
            text: talking.told(),
            verified: false,
        })
        .collect();
    let indirect: Vec<Source> =
        snapshot.indirect_blockers(task.id, MOST_INDIRECT).into_iter().map(source).collect();
    let budget = snapshot.workflow.settings.context_tokens;
    threading::thread(budget, task, &direct, &discussions, &task.failure_context, &indirect)
}

fn named(task: &Task) -> String {
    if task.title.is_empty() { task.key.clone() } else { task.title.clone() }
}

fn text_of(output: Option<&Value>) -> Option<String> {
    match output? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
