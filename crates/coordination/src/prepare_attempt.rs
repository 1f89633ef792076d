//! Prepares an attempt at a task: which agent makes it, and with which prompt.

use emergent_domain::{
    agent::Agent,
    ids::{ObjectId, RunId},
    pack::nearest_name,
    run::RunStatus,
    task::{Task, VerdictKind},
    workflow::{Deliverable, SelectorKind},
};
use emergent_rules::workflow::{
    planning::agent_names,
    select::{self, AgentSelection},
    threading,
};

use crate::{
    agent_similarity::{SentenceModel, ask_for_similarities},
    apply::NewAttempt,
    judge::{self, AnswerState, Judge, JudgeAnswer, JudgeAnswers},
    loaded_workflow::LoadedWorkflow,
    open_choices::Selections,
    task_prompt::{PromptState, prepare_prompt},
};

/// The models that help to prepare an attempt; `None` for one that is not configured.
pub(crate) struct Models {
    pub judge: Option<Judge>,
    pub sentences: Option<SentenceModel>,
}

/// The result of preparing an attempt.
pub(crate) enum PreparedAttempt {
    Ready(Box<NewAttempt>),
    /// A model is asked for the agent, or for the prior results of the prompt.
    WaitingForJudge,
    /// No agent can make the attempt, for this reason.
    NoAgent(String),
}

/// Prepares an attempt in a new conversation. `selections` has what the rules chose for tasks of this pass.
pub(crate) fn prepare_attempt(
    models: &Models,
    answers: &mut JudgeAnswers,
    loaded: &LoadedWorkflow,
    task: &Task,
    selections: &mut Selections,
) -> PreparedAttempt {
    let choice = choose_agent(models, answers, loaded, task, selections.remove(&task.id));
    if let AgentChoice::NoAgent(why) = choice {
        return PreparedAttempt::NoAgent(why);
    }
    // The agent and the prompt may both need an answer of a model; the questions are asked concurrently.
    let prompt = prepare_prompt(models.judge.as_ref(), answers, loaded, task);
    let (AgentChoice::Agent { name, mut why }, PromptState::Ready { prompt, selection }) = (choice, prompt)
    else {
        return PreparedAttempt::WaitingForJudge;
    };
    let Some(agent) = loaded.agents.iter().find(|agent| agent.definition.name == name) else {
        return PreparedAttempt::NoAgent(unknown_agent_message(&name, &loaded.agents));
    };
    if let Some(selection) = selection {
        why = format!("{why}; {selection}");
    }
    let sessions_of = |tasks: &[ObjectId]| {
        tasks.iter().filter_map(|task| loaded.sessions.get(task).copied()).collect::<Vec<_>>()
    };
    let (informed_by, earlier_sessions) = (sessions_of(&prompt.used), sessions_of(&prompt.used_indirect));
    PreparedAttempt::Ready(Box::new(NewAttempt {
        task: task.clone(),
        number: loaded.snapshot.next_attempt_number(task),
        agent: agent.id,
        agent_name: name,
        reason: why,
        prompt: prompt.prompt,
        run: RunId::new(),
        session: ObjectId::new(),
        previous_session: loaded.sessions.get(&task.id).copied(),
        informed_by,
        earlier_sessions,
        deliverable: deliverable_of(task),
        resumed_run: None,
        has_foreign_blocker: loaded.snapshot.has_foreign_blocker(task.id),
    }))
}

/// Resumes the run that ended at a limit, or without the verdict it owes. A task without a run gets a
/// new attempt.
pub(crate) fn prepare_resumed_attempt(
    models: &Models,
    answers: &mut JudgeAnswers,
    loaded: &LoadedWorkflow,
    task: &Task,
    selections: &mut Selections,
) -> PreparedAttempt {
    if task.run.is_none() {
        return prepare_attempt(models, answers, loaded, task, selections);
    }
    let name = task.assigned_agent.clone().unwrap_or_default();
    let Some(agent) = loaded.agents.iter().find(|agent| agent.definition.name == name) else {
        return PreparedAttempt::NoAgent(unknown_agent_message(&name, &loaded.agents));
    };
    let has_completed =
        loaded.snapshot.attempts.get(&task.id).is_some_and(|attempt| attempt.status == RunStatus::Completed);
    let (why, prompt) = match has_completed {
        true => ("the agent is asked for its verdict once more", threading::verdict_reminder(task.verdict)),
        false => ("its run goes on where a limit stopped it", String::new()),
    };
    PreparedAttempt::Ready(Box::new(NewAttempt {
        task: task.clone(),
        number: loaded.snapshot.attempt_number(task),
        agent: agent.id,
        agent_name: name,
        reason: why.to_owned(),
        prompt,
        run: RunId::new(),
        session: ObjectId::new(),
        previous_session: loaded.sessions.get(&task.id).copied(),
        informed_by: Vec::new(),
        earlier_sessions: Vec::new(),
        deliverable: deliverable_of(task),
        resumed_run: task.run,
        has_foreign_blocker: false,
    }))
}

/// What the run of a task has to submit besides its text.
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

/// Takes the agent that the task names, else the one that a rule of the project names, else the choice of the rules
/// of selection, which may be known. If their choice is not clear, a sentence model is asked first, and then the
/// judge, if they are configured.
fn choose_agent(
    models: &Models,
    answers: &mut JudgeAnswers,
    loaded: &LoadedWorkflow,
    task: &Task,
    known_selection: Option<AgentSelection>,
) -> AgentChoice {
    let selector = loaded.workflow().settings.selector;
    // These cards do not say how the tasks of this workflow ended. Only a choice among agents depends on that, and most
    // tasks need none, so the cards are not copied for each task.
    let cards = loaded.agent_cards();
    let rules = &loaded.coordination.selection_rules;
    if let Some(AgentSelection { agent: Some(name), reason, .. }) =
        select::select_by_project_rules(task, cards, rules)
    {
        return AgentChoice::Agent { name, why: reason };
    }
    let mut by_rules = match known_selection {
        Some(selection) => selection,
        None if task.assigned_agent.is_some() => select::select_by_rules(task, cards),
        None => select::select_by_rules(task, &loaded.agent_cards_for(task)),
    };
    let is_unclear = !by_rules.clear && task.assigned_agent.is_none() && cards.len() > 1;
    if let Some(model) = models.sentences.as_ref().filter(|_| is_unclear && selector != SelectorKind::Llm) {
        match ask_for_similarities(model, answers, task, cards) {
            AnswerState::Pending => return AgentChoice::WaitingForJudge,
            AnswerState::Answered(Ok(JudgeAnswer::Similarities(similarities))) => {
                by_rules = select::select_with_similarity(task, &loaded.agent_cards_for(task), &similarities);
            }
            AnswerState::NotAsked | AnswerState::Answered(_) => {}
        }
    }
    let is_open = match selector {
        SelectorKind::Rules => false,
        SelectorKind::Llm => task.assigned_agent.is_none(),
        SelectorKind::Hybrid => !by_rules.clear,
    };
    if let Some(judge) = models.judge.as_ref().filter(|_| is_open) {
        match judge::ask_for_agent(judge, answers, task, loaded.agent_cards_for(task)) {
            AnswerState::Pending => return AgentChoice::WaitingForJudge,
            AnswerState::Answered(Ok(JudgeAnswer::Agent(name))) => {
                let why = "chosen by a model among the project's agents".to_owned();
                return AgentChoice::Agent { name, why };
            }
            // Without a usable answer the rules decide.
            AnswerState::NotAsked | AnswerState::Answered(_) => {}
        }
    }
    match by_rules.agent {
        Some(name) => AgentChoice::Agent { name, why: by_rules.reason },
        None => AgentChoice::NoAgent(by_rules.reason),
    }
}

fn unknown_agent_message(name: &str, agents: &[Agent]) -> String {
    match agents.is_empty() {
        true => {
            format!(
                "there is no agent `{name}`, and the project has none: install a product or create an agent"
            )
        }
        false => match nearest_name(name, agents.iter().map(|agent| agent.definition.name.as_str())) {
            Some(similar) => format!("there is no agent `{name}`; did you mean `{similar}`?"),
            None => format!("there is no agent `{name}`; there are {}", agent_names(agents)),
        },
    }
}
