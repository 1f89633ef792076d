//! The options of an escalated workflow: each is a request of the API, which `inbox answer` sends if it needs nothing
//! more, and a command that a person types otherwise.

use console::measure_text_width;
use emergent_wire::{
    approval::{EscalatedItemView, InboxKind},
    workflow::{EscalationAction, WorkflowView},
};
use serde_json::json;

use super::option_by_number;
use crate::{
    client::{Client, Received},
    commands::watch_workflow,
    error::{Error, Result},
    hints,
    output::{self, dim},
    printable::printable_line,
    text::{short_id, shorten_ids},
};

/// The option that gives the task to another agent.
const REASSIGN: &str = "reassign";
/// The ends of commands that may be left out, and that servers of earlier versions send.
const OPTIONAL: [&str; 2] = [" --note TEXT", " --reason TEXT"];

/// The workflow of an escalation; `None` for a discussion, and if this caller may not read workflows.
pub async fn load_workflow(client: &Client, item: &EscalatedItemView) -> Option<Received<WorkflowView>> {
    match item.kind {
        InboxKind::Escalation => watch_workflow::get(client, &item.id.to_string()).await.ok(),
        _ => None,
    }
}

/// Prints the options with their numbers, those of an escalation with the command that carries each out.
pub fn print_options(item: &EscalatedItemView, workflow: Option<&WorkflowView>) -> Result<()> {
    let width = item.options.iter().map(|option| option.chars().count()).max().unwrap_or_default();
    for (index, option) in item.options.iter().enumerate() {
        let label = format!("  {}. ", index + 1);
        match workflow {
            None => output::print_item(&label, &printable_line(option))?,
            Some(workflow) => {
                let commands = commands(item, workflow, option).join("; ");
                print_option(&label, &printable_line(&format!("{option:<width$}")), &commands)?;
            }
        }
    }
    Ok(())
}

/// Prints an option and its command, which is never broken: beside the option if there is space, and below it otherwise.
fn print_option(label: &str, option: &str, command: &str) -> Result<()> {
    let Some(width) = output::terminal_width() else {
        return output::print_line(&format!("{label}{option}  {command}"));
    };
    let command = shorten_ids(command);
    if measure_text_width(&format!("{label}{option}  {command}")) <= width {
        return output::print_line(&format!("{label}{option}  {}", dim(&command)));
    }
    output::print_line(&format!("{label}{}", option.trim_end()))?;
    output::print_line(&dim(&format!("    {command}")))
}

/// What a person types to carry out an option.
fn commands(item: &EscalatedItemView, workflow: &WorkflowView, option: &str) -> Vec<String> {
    match sendable(workflow, option) {
        Some(_) => {
            let id = item.id.to_string();
            vec![hints::command(&format!("inbox answer {} {option}", short_id(&id)))]
        }
        None => actions(workflow, option).iter().map(|action| typed_command(action)).collect(),
    }
}

fn actions<'a>(workflow: &'a WorkflowView, option: &str) -> Vec<&'a EscalationAction> {
    let escalation = workflow.facts.escalation.as_ref();
    escalation
        .map(|escalation| &escalation.actions)
        .into_iter()
        .flatten()
        .filter(|action| action.option == option)
        .collect()
}

fn typed_command(action: &EscalationAction) -> String {
    hints::command(action.subcommand())
}

/// The only action of an option, if it needs nothing that a person has to add, such as another agent.
fn sendable<'a>(workflow: &'a WorkflowView, option: &str) -> Option<&'a EscalationAction> {
    let [action] = actions(workflow, option)[..] else { return None };
    let command = OPTIONAL
        .iter()
        .fold(action.subcommand(), |command, end| command.strip_suffix(end).unwrap_or(command));
    let is_placeholder = |word: &str| word.chars().all(|character| character.is_ascii_uppercase());
    (!command.split_whitespace().any(is_placeholder)).then_some(action)
}

/// The option that a person names by its word or its number.
pub fn chosen(item: &EscalatedItemView, answer: &str) -> Result<String> {
    let option = option_by_number(&item.options, answer).unwrap_or_else(|| answer.trim().to_owned());
    if item.options.contains(&option) {
        return Ok(option);
    }
    Err(Error::Usage(format!(
        "`{option}` is not an option of this workflow; its options are {}",
        item.options.join(", ")
    )))
}

/// What becomes of the workflow with this option, for the announcement.
pub fn describe(option: &str) -> String {
    match option {
        "cancel" | "resume" => format!("{option} the workflow"),
        other => format!("choose \"{other}\" for the workflow"),
    }
}

/// Refuses what is no option of the workflow, and an option that needs more than its name.
pub async fn check(client: &Client, item: &EscalatedItemView, answer: &str) -> Result<()> {
    let option = chosen(item, answer)?;
    let workflow = watch_workflow::get(client, &item.id.to_string()).await?;
    complete_action(item, &workflow, &option).map(drop)
}

/// The action of an option that needs nothing more than its name.
fn complete_action<'a>(
    item: &EscalatedItemView,
    workflow: &'a WorkflowView,
    option: &str,
) -> Result<&'a EscalationAction> {
    sendable(workflow, option).ok_or_else(|| {
        let commands = commands(item, workflow, option).join("`, then `");
        Error::Usage(format!("`{option}` needs more than its name: `{commands}`"))
    })
}

/// Whether an option asks for the agent that is to do the task.
pub fn needs_agent(option: &str) -> bool {
    option == REASSIGN
}

/// Gives the task of an escalation to another agent.
pub async fn reassign(client: &Client, item: &EscalatedItemView, agent: &str) -> Result<()> {
    let id = item.id.to_string();
    let workflow = watch_workflow::get(client, &id).await?;
    let path = match actions(&workflow, REASSIGN)[..] {
        [action] => action.request.strip_prefix("POST "),
        _ => None,
    };
    let Some(path) = path else {
        return Err(Error::Unexpected(format!("the workflow {id} has no task to reassign")));
    };
    client.post(path, &json!({ "agent": agent })).await?;
    print_carried_out(client, &id, &format!("{REASSIGN} to {agent}")).await
}

/// Prints what was carried out, and what the workflow does now.
async fn print_carried_out(client: &Client, id: &str, option: &str) -> Result<()> {
    let workflow = watch_workflow::get(client, id).await?;
    output::print_line(&format!("{option}: workflow {} is {}", short_id(id), workflow.facts.status))?;
    if option != "cancel" {
        watch_workflow::warn_if_not_driven(client, id);
    }
    Ok(())
}

/// Carries out the option that a person names by its word or its number.
pub async fn carry_out(client: &Client, item: &EscalatedItemView, answer: &str, as_json: bool) -> Result<()> {
    let id = item.id.to_string();
    let option = chosen(item, answer)?;
    let workflow = watch_workflow::get(client, &id).await?;
    let action = complete_action(item, &workflow, &option)?;
    let Some(path) = action.request.strip_prefix("POST ") else {
        return Err(Error::Unexpected(format!("the option `{option}` is the request `{}`", action.request)));
    };
    client.post(path, &json!({})).await?;
    if as_json {
        let item: Received<EscalatedItemView> =
            client.get(&format!("/api/approvals/{id}")).await?.data().await?;
        return output::print_json(&item);
    }
    print_carried_out(client, &id, &option).await
}
