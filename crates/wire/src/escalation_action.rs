//! What a person can do about a workflow that waits, as commands and requests.

use emergent_domain::workflow::{Escalation, Limit};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// How a person carries out one of the options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EscalationAction {
    /// The option. One that takes two steps has an action for each, in their order.
    pub option: String,
    /// The command in a terminal, with the project; words in capitals are to be replaced.
    pub command: String,
    /// The request, such as `POST /api/coordination/tasks/…/retry`.
    pub request: String,
    /// The body of the request; fields with a question mark may be left out.
    pub body: String,
}

/// How every command starts.
const PROGRAM: &str = "emergent ";
/// The flag at the end of every command: without it, the command would look for the task in another project.
const PROJECT_FLAG: &str = " --project ";

impl EscalationAction {
    /// The command without the program and the project, for a caller that adds flags of its own.
    pub fn subcommand(&self) -> &str {
        let command = self.command.strip_prefix(PROGRAM).unwrap_or(&self.command);
        command.rsplit_once(PROJECT_FLAG).map_or(command, |(command, _)| command)
    }
}

/// Part of the messages about daily budgets of projects and agents.
const DAILY: &str = "for the day";
/// Part of the message about the budget of a workflow.
const OF_WORKFLOW: &str = "the workflow's budget";

/// The option that tries everything again, which every workflow has that waits for no decision of a discussion.
const RESUME: &str = "resume";
const DECIDE: &str = "decide";
/// The option before which it stands: to give up comes last.
const CANCEL: &str = "cancel";

/// The actions for each option of an escalation, and the one that tries everything again. `budget` is that of the
/// workflow.
pub(crate) fn actions(
    project: Uuid,
    workflow: Uuid,
    escalation: &Escalation,
    budget: Limit,
) -> Vec<EscalationAction> {
    let task = escalation.task.map(|task| task.0);
    let discussion = escalation.discussion.map(|discussion| discussion.0);
    let of_option = |option: &str| match option {
        RESUME => resume_actions(workflow, escalation, budget),
        option => simple_action(option, workflow, task, discussion).into_iter().collect(),
    };
    let with_project = |action: EscalationAction| EscalationAction {
        command: format!("{PROGRAM}{}{PROJECT_FLAG}{project}", action.command),
        ..action
    };
    let mut all: Vec<EscalationAction> =
        escalation.options.iter().flat_map(|option| of_option(option)).collect();
    // Nothing goes on while a discussion waits for a decision.
    if !escalation.options.iter().any(|option| [RESUME, DECIDE].contains(&option.as_str())) {
        let place = all.iter().position(|action| action.option == CANCEL).unwrap_or(all.len());
        all.insert(place, resume_action(workflow, "", "{ note? }"));
    }
    all.into_iter().map(with_project).collect()
}

/// An action whose command has neither the program nor the project yet.
fn new_action(option: &str, command: &str, request: &str, body: &str) -> EscalationAction {
    EscalationAction {
        option: option.to_owned(),
        command: command.to_owned(),
        request: request.to_owned(),
        body: body.to_owned(),
    }
}

/// Resumes the workflow with these flags and the body that has the same.
fn resume_action(workflow: Uuid, flags: &str, body: &str) -> EscalationAction {
    let request = format!("POST /api/coordination/workflows/{workflow}/resume");
    new_action(RESUME, &format!("workflow resume {workflow}{flags}"), &request, body)
}

/// To resume takes more budget only if a budget is in the way: the one of the workflow, or one for a day.
fn resume_actions(workflow: Uuid, escalation: &Escalation, budget: Limit) -> Vec<EscalationAction> {
    let resume = |flags: &str, body: &str| resume_action(workflow, flags, body);
    // An escalation without a task is about the server, and not about a budget.
    if escalation.task.is_none() {
        return vec![resume("", "{ note? }")];
    }
    if escalation.reason.contains(DAILY) {
        let agent = agent_in(&escalation.reason).map(|agent| format!(" --agent {agent}")).unwrap_or_default();
        let set = new_action(
            RESUME,
            &format!("budget set --usd N{agent}"),
            "PUT /api/coordination/budgets",
            "{ agent?, usd?, tokens? }",
        );
        return vec![set, resume("", "{ note? }")];
    }
    let is_own_budget = escalation.reason.contains(OF_WORKFLOW) || !budget.is_unlimited();
    let flags = match (budget.microusd.is_some(), budget.tokens.is_some()) {
        _ if !is_own_budget => "",
        (true, true) => " --budget-usd N --budget-tokens N",
        (false, true) => " --budget-tokens N",
        (_, false) => " --budget-usd N",
    };
    let body = if flags.is_empty() { "{ note? }" } else { "{ note?, budgetUsd?, budgetTokens? }" };
    vec![resume(flags, body)]
}

/// The agent that a message about its daily budget names.
fn agent_in(reason: &str) -> Option<&str> {
    let (_, rest) = reason.split_once("the budget of agent `")?;
    Some(rest.split_once('`')?.0)
}

/// The action of an option that is one request. The command has no flag that may be left out: whoever pastes it would send
/// the placeholder.
fn simple_action(
    option: &str,
    workflow: Uuid,
    task: Option<Uuid>,
    discussion: Option<Uuid>,
) -> Option<EscalationAction> {
    let (command, path, body) = match option {
        "retry" => {
            let task = task?;
            (format!("task retry {task}"), format!("tasks/{task}/retry"), "{ note? }")
        }
        "reassign" => {
            let task = task?;
            (format!("task reassign {task} AGENT"), format!("tasks/{task}/reassign"), "{ agent, note? }")
        }
        "skip" => {
            let task = task?;
            (format!("task skip {task}"), format!("tasks/{task}/skip"), "{ reason? }")
        }
        DECIDE => {
            let discussion = discussion?;
            let command = format!("discussion decide {discussion} DECISION");
            (command, format!("discussions/{discussion}/decide"), "{ decision, reason? }")
        }
        CANCEL => (format!("workflow cancel {workflow}"), format!("workflows/{workflow}/cancel"), ""),
        _ => return None,
    };
    Some(new_action(option, &command, &format!("POST /api/coordination/{path}"), body))
}

#[cfg(test)]
mod tests {
    use emergent_domain::{ids::ObjectId, time::Timestamp};

    use super::*;

    fn escalation(reason: &str, has_task: bool, options: &[&str]) -> Escalation {
        Escalation {
            reason: reason.to_owned(),
            task: has_task.then(ObjectId::new),
            discussion: None,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            at: Timestamp::from_micros(0),
        }
    }

    #[test]
    fn a_failed_task_offers_everything_again_and_commands_that_can_be_pasted() {
        let nil = Uuid::nil();
        let options = ["retry", "reassign", "skip", "cancel"];
        let failed = escalation("task `a` failed", true, &options);
        let task = failed.task.unwrap().0.to_string();
        let dollars = Limit { microusd: Some(1), tokens: None };
        let all = actions(nil, nil, &failed, dollars);
        let commands: Vec<String> =
            all.iter().map(|action| action.subcommand().replace(&task, "T")).collect();
        let expected = [
            "task retry T".to_owned(),
            "task reassign T AGENT".to_owned(),
            "task skip T".to_owned(),
            format!("workflow resume {nil}"),
            format!("workflow cancel {nil}"),
        ];
        assert_eq!(commands, expected);
        assert_eq!(all[3].request, format!("POST /api/coordination/workflows/{nil}/resume"));
        let undecided = Escalation {
            discussion: Some(ObjectId::new()),
            ..escalation("it was not decided", true, &["decide", "cancel"])
        };
        let all = actions(nil, nil, &undecided, Limit::default());
        let options: Vec<&str> = all.iter().map(|action| action.option.as_str()).collect();
        assert_eq!(options, ["decide", "cancel"], "nothing goes on before the decision");
    }

    fn commands(reason: &str, has_task: bool, budget: Limit) -> Vec<String> {
        let escalation = escalation(reason, has_task, &["resume"]);
        let (project, workflow) = (Uuid::from_u128(1), Uuid::nil());
        let actions = actions(project, workflow, &escalation, budget);
        let of_project = format!("emergent {{}} --project {project}");
        for action in &actions {
            assert_eq!(action.command, of_project.replace("{}", action.subcommand()));
        }
        actions.iter().map(|action| action.subcommand().replace(&workflow.to_string(), "ID")).collect()
    }

    #[test]
    fn an_escalation_suggests_the_budget_that_is_in_the_way() {
        let dollars = Limit { microusd: Some(1), tokens: None };
        let tokens = Limit { microusd: None, tokens: Some(1) };
        let both = Limit { microusd: Some(1), tokens: Some(1) };
        let used_up = "task `a` failed: the budget is used up";
        assert_eq!(commands(used_up, true, dollars), ["workflow resume ID --budget-usd N"]);
        assert_eq!(commands(used_up, true, tokens), ["workflow resume ID --budget-tokens N"]);
        assert_eq!(commands(used_up, true, both), ["workflow resume ID --budget-usd N --budget-tokens N"]);
        let of_project =
            format!("{used_up}: the project's budget for the day ($1) does not allow another model call");
        assert_eq!(commands(&of_project, true, dollars), ["budget set --usd N", "workflow resume ID"]);
        let of_agent = format!(
            "{used_up}: the budget of agent `writer` for the day ($1) does not allow another model call"
        );
        assert_eq!(commands(&of_agent, true, Limit::default())[0], "budget set --usd N --agent writer");
        assert_eq!(commands("it could not go on: no disk", false, dollars), ["workflow resume ID"]);
        assert_eq!(commands(used_up, true, Limit::default()), ["workflow resume ID"]);
    }
}
