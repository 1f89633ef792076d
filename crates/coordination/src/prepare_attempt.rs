//! How an attempt at a task begins: who makes it, and what it is told.

use emergent_domain::{
    agent::Agent,
    ids::{ObjectId, RunId},
    run::RunStatus,
    task::{Task, VerdictKind},
    workflow::{Deliverable, SelectorKind},
};
use emergent_rules::workflow::{select, threading};

use crate::{
    apply::NewAttempt,
    judge::{self, AnswerState, JudgeAnswer},
    loaded_workflow::LoadedWorkflow,
    telling,
    telling::PromptState,
    workflow_driver::WorkflowDriver,
};

pub(crate) enum PreparedAttempt {
    Ready(Box<NewAttempt>),
    /// A model is asked who should do it, or what it is told.
    WaitingForJudge,
    NoAgent(String),
}

/// A new attempt.
pub(crate) fn prepare_attempt(
    walk: &mut WorkflowDriver,
    known: &LoadedWorkflow,
    task: &Task,
) -> PreparedAttempt {
    let choice = choose_agent(walk, known, task);
    if let AgentChoice::NoAgent(why) = choice {
        return PreparedAttempt::NoAgent(why);
    }
    // Both may have to be asked: side by side.
    let told = telling::prepare_prompt(walk, known, task);
    let (AgentChoice::Agent { name, mut why }, PromptState::Ready { threaded, chosen }) = (choice, told)
    else {
        return PreparedAttempt::WaitingForJudge;
    };
    let Some(agent) = known.agents.iter().find(|agent| agent.definition.name == name) else {
        return PreparedAttempt::NoAgent(unknown_agent_message(&name, &known.agents));
    };
    if let Some(chosen) = chosen {
        why = format!("{why}; {chosen}");
    }
    let informed_by = threaded.used.iter().filter_map(|task| known.sessions.get(task).copied()).collect();
    PreparedAttempt::Ready(Box::new(NewAttempt {
        task: task.clone(),
        agent: agent.id,
        agent_name: name,
        reason: why,
        prompt: threaded.prompt,
        run: RunId::new(),
        session: ObjectId::new(),
        previous_session: known.sessions.get(&task.id).copied(),
        informed_by,
        deliverable: deliverable_of(task),
        resumed_run: None,
        has_foreign_blocker: known.snapshot.has_foreign_blocker(task.id),
    }))
}

/// The run that ended at a limit, or without the verdict it owes, goes on; without one, it is a new
/// attempt.
pub(crate) fn prepare_resumed_attempt(
    walk: &mut WorkflowDriver,
    known: &LoadedWorkflow,
    task: &Task,
) -> PreparedAttempt {
    if task.run.is_none() {
        return prepare_attempt(walk, known, task);
    }
    let name = task.assigned_agent.clone().unwrap_or_default();
    let Some(agent) = known.agents.iter().find(|agent| agent.definition.name == name) else {
        return PreparedAttempt::NoAgent(unknown_agent_message(&name, &known.agents));
    };
    let ended_well =
        known.snapshot.attempts.get(&task.id).is_some_and(|attempt| attempt.status == RunStatus::Completed);
    let (why, prompt) = match ended_well {
        true => ("it is asked for its verdict once more", threading::verdict_reminder(task.verdict)),
        false => ("its run goes on where a limit stopped it", String::new()),
    };
    PreparedAttempt::Ready(Box::new(NewAttempt {
        task: task.clone(),
        agent: agent.id,
        agent_name: name,
        reason: why.to_owned(),
        prompt,
        run: RunId::new(),
        session: ObjectId::new(),
        previous_session: known.sessions.get(&task.id).copied(),
        informed_by: Vec::new(),
        deliverable: deliverable_of(task),
        resumed_run: task.run,
        has_foreign_blocker: false,
    }))
}

fn deliverable_of(task: &Task) -> Option<Deliverable> {
    match task.verdict {
        VerdictKind::None => None,
        VerdictKind::Test => Some(Deliverable::TestVerdict),
        VerdictKind::Review => Some(Deliverable::ReviewVerdict),
    }
}

enum AgentChoice {
    Agent { name: String, why: String },
    WaitingForJudge,
    NoAgent(String),
}

/// The task's own word, then rules, then a model where rules leave it open and one is set up.
fn choose_agent(walk: &mut WorkflowDriver, known: &LoadedWorkflow, task: &Task) -> AgentChoice {
    let cards = known.agent_cards();
    let ruled = select::select_by_rules(task, &cards);
    let open = match known.workflow().settings.selector {
        SelectorKind::Rules => false,
        SelectorKind::Llm => task.assigned_agent.is_none(),
        SelectorKind::Hybrid => !ruled.clear,
    };
    if let Some(judge) = walk.judge().filter(|_| open) {
        match judge::ask_for_agent(&judge, &mut walk.judge_answers, task, cards) {
            AnswerState::Pending => return AgentChoice::WaitingForJudge,
            AnswerState::Answered(Some(JudgeAnswer::Agent(name))) => {
                let why = "chosen by a model among the project's agents".to_owned();
                return AgentChoice::Agent { name, why };
            }
            // No answer that can be used: rules decide.
            AnswerState::NotAsked | AnswerState::Answered(_) => {}
        }
    }
    match ruled.agent {
        Some(name) => AgentChoice::Agent { name, why: ruled.reason },
        None => AgentChoice::NoAgent(ruled.reason),
    }
}

fn unknown_agent_message(name: &str, agents: &[Agent]) -> String {
    match agents.is_empty() {
        true => {
            format!("there is no agent `{name}`, and the project has none: install a product or make one")
        }
        false => format!("there is no agent `{name}`; there are {}", agent_names(agents)),
    }
}

/// The agents there are, for a message.
pub(crate) fn agent_names(agents: &[Agent]) -> String {
    let names: Vec<&str> = agents.iter().map(|agent| agent.definition.name.as_str()).collect();
    names.join(", ")
}
