//! How an attempt at a task begins: who makes it, and what it is told.

use emergent_domain::{
    agent::Agent,
    ids::{ObjectId, RunId},
    run::RunStatus,
    task::{Task, VerdictKind},
    workflow::{Hands, SelectorKind},
};

use crate::{
    apply::Begin,
    known::Known,
    select, telling,
    telling::Told,
    think::{self, Asked, Thought},
    threading,
    walk::Walk,
};

pub(crate) enum Begun {
    Now(Box<Begin>),
    /// A model is asked who should do it, or what it is told.
    Thinking,
    Nobody(String),
}

/// A new attempt.
pub(crate) fn attempt(walk: &mut Walk, known: &Known, task: &Task) -> Begun {
    let choice = choose(walk, known, task);
    if let Choice::Nobody(why) = choice {
        return Begun::Nobody(why);
    }
    // Both may have to be asked: side by side.
    let told = telling::told(walk, known, task);
    let (Choice::Agent { name, mut why }, Told::Now { threaded, chosen }) = (choice, told) else {
        return Begun::Thinking;
    };
    let Some(agent) = known.agents.iter().find(|agent| agent.definition.name == name) else {
        return Begun::Nobody(no_such_agent(&name, &known.agents));
    };
    if let Some(chosen) = chosen {
        why = format!("{why}; {chosen}");
    }
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
        has_outside: known.snapshot.has_outside(task.id),
    }))
}

/// The run that ended at a limit, or without the verdict it owes, goes on; without one, it is a new
/// attempt.
pub(crate) fn resume(walk: &mut Walk, known: &Known, task: &Task) -> Begun {
    if task.run.is_none() {
        return attempt(walk, known, task);
    }
    let name = task.assigned_agent.clone().unwrap_or_default();
    let Some(agent) = known.agents.iter().find(|agent| agent.definition.name == name) else {
        return Begun::Nobody(no_such_agent(&name, &known.agents));
    };
    let ended_well =
        known.snapshot.attempts.get(&task.id).is_some_and(|attempt| attempt.status == RunStatus::Completed);
    let (why, prompt) = match ended_well {
        true => ("it is asked for its verdict once more", threading::verdict_again(task.verdict)),
        false => ("its run goes on where a limit stopped it", String::new()),
    };
    Begun::Now(Box::new(Begin {
        task: task.clone(),
        agent: agent.id,
        agent_name: name,
        why: why.to_owned(),
        prompt,
        run: RunId::new(),
        session: ObjectId::new(),
        before: known.sessions.get(&task.id).copied(),
        informed_by: Vec::new(),
        hands: hands(task),
        resumes: task.run,
        has_outside: false,
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
    let cards = known.cards();
    let ruled = select::rules(task, &cards);
    let open = match known.workflow().settings.selector {
        SelectorKind::Rules => false,
        SelectorKind::Llm => task.assigned_agent.is_none(),
        SelectorKind::Hybrid => !ruled.clear,
    };
    if let Some(judge) = walk.judge().filter(|_| open) {
        match think::agent(&judge, &mut walk.thoughts, task, cards) {
            Asked::Thinking => return Choice::Thinking,
            Asked::Said(Some(Thought::Agent(name))) => {
                let why = "chosen by a model among the project's agents".to_owned();
                return Choice::Agent { name, why };
            }
            // No answer that can be used: rules decide.
            Asked::No | Asked::Said(_) => {}
        }
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
