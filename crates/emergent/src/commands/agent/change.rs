//! `agent apply` and `agent edit`: change agents to what a file or an editor says.

use std::path::{Path, PathBuf};

use emergent_wire::{
    agent::{AgentView, AgentWarningView},
    diagnostics::DiagnosticsView,
};
use serde_json::{Map, Value, json};

use super::{definition, resolve_agent};
use crate::{
    client::{Client, Received},
    commands::{
        doctor::{MODEL_FIELD, UsableModels, fix_of_model_warning},
        editor::{open_editor, write_private_file},
        paused_schedule::warn_if_paused,
    },
    error::{Error, Result},
    hints, messages, output,
};

/// Creates or changes the agent of each file, in the order of the files, and prints what became of it. A dry run only
/// says what would become of it, and goes on after a file that is wrong.
pub async fn apply(client: &Client, files: &[PathBuf], dry_run: bool, as_json: bool) -> Result<()> {
    // Every file is read before the first agent is changed.
    let mut definitions = Vec::new();
    for file in files {
        match read_named(file) {
            Err(error) if !dry_run => return Err(error),
            read => definitions.push((file, read)),
        }
    }
    let models = if as_json { None } else { usable_models(client).await };
    let (mut applied, mut failed) = (Vec::new(), 0);
    for (file, read) in definitions {
        // The file that was read last is another one.
        messages::remember_file(file);
        let one = match read {
            Ok((name, definition)) => apply_one(client, &name, &definition, dry_run)
                .await
                .map_err(|error| if dry_run { in_file(file, &error) } else { error }),
            Err(error) => Err(error),
        };
        match one {
            Ok((agent, outcome)) => {
                if !as_json {
                    print_applied(client, &agent, outcome, dry_run, models.as_ref()).await?;
                }
                applied.push(agent);
            }
            Err(error) if dry_run && files.len() > 1 => {
                failed += 1;
                output::print_error(&format!("error: {}", error.describe()));
            }
            Err(error) => return Err(error),
        }
    }
    if as_json {
        output::print_json(&applied)?;
    }
    match failed {
        0 => Ok(()),
        count => Err(Error::Usage(format!("{count} of {} files cannot be applied", files.len()))),
    }
}

/// Refuses a file that cannot be read or that is no definition. Standard input is read only once, by the command itself.
pub fn check_files(files: &[PathBuf]) -> Result<()> {
    files.iter().filter(|file| file.as_os_str() != "-").try_for_each(|file| definition::read(file).map(drop))
}

/// Reads a definition, and the name that it gives the agent.
fn read_named(file: &Path) -> Result<(String, Map<String, Value>)> {
    let definition = definition::read(file)?;
    Ok((definition::name(&definition, file)?.to_owned(), definition))
}

/// An error of the server about the definition of a file. Some name the file already.
fn in_file(file: &Path, error: &Error) -> Error {
    let (named, text) = (format!("`{}`: ", file.display()), error.describe());
    Error::Usage(if text.starts_with(&named) { text } else { format!("{named}{text}") })
}

async fn print_applied(
    client: &Client,
    agent: &AgentView,
    outcome: &str,
    dry_run: bool,
    models: Option<&UsableModels>,
) -> Result<()> {
    let name = &agent.name;
    let verb = if dry_run { "would be" } else { "is" };
    output::print_line(&format!("{name} {verb} {outcome} (version {})", agent.version))?;
    print_warnings(agent);
    if !dry_run {
        warn_if_trigger_paused(client, agent).await;
    }
    if let Some(problem) = models.and_then(|models| models.problem(agent)) {
        output::print_notice(&cannot_start(name, &problem.reason, Some(&problem.fix)));
    }
    Ok(())
}

/// The models that can be called; `None` if this token may not know.
pub async fn usable_models(client: &Client) -> Option<UsableModels> {
    let state: DiagnosticsView =
        client.get("/api/admin/diagnostics?probe=false").await.ok()?.data().await.ok()?;
    Some(match client.server_url() {
        Some(_) => UsableModels::from_server(&state),
        None => UsableModels::without_server(state.model, &state.models),
    })
}

/// Says what is probably a mistake in a definition that was saved.
pub fn print_warnings(agent: &AgentView) {
    for warning in &agent.warnings {
        output::print_notice(&warning_text(&agent.name, warning));
    }
}

/// A warning of the server. Without its model, an agent cannot start.
fn warning_text(agent: &str, warning: &AgentWarningView) -> String {
    let reason = messages::translate(&warning.reason);
    match warning.field.as_str() {
        MODEL_FIELD => {
            let fix = fix_of_model_warning(&reason, &hints::command(&format!("agent edit {agent}")));
            cannot_start(agent, &reason, fix.as_deref())
        }
        field => format!("warning: {field}: {reason}"),
    }
}

/// The notice that an agent was saved and cannot start.
fn cannot_start(agent: &str, reason: &str, fix: Option<&str>) -> String {
    let fix = fix.map(|fix| format!("; {fix}")).unwrap_or_default();
    format!("! {agent} cannot start: {reason}{fix}")
}

/// Says that the schedule of an agent that was saved is paused.
async fn warn_if_trigger_paused(client: &Client, agent: &AgentView) {
    if agent.trigger.is_some() {
        warn_if_paused(client, &format!("agent:{}", agent.name)).await;
    }
}

/// Creates or changes one agent. Also returns the word for what was done.
async fn apply_one(
    client: &Client,
    name: &str,
    definition: &Map<String, Value>,
    dry_run: bool,
) -> Result<(Received<AgentView>, &'static str)> {
    let query = if dry_run { "?dryRun=true" } else { "" };
    let agents: Vec<Received<AgentView>> =
        client.get_all_pages("/api/admin/agents?include_internal=true").await?;
    let Some(before) = agents.iter().find(|agent| agent.name == name) else {
        let path = format!("/api/admin/agents{query}");
        let created = client.post(&path, definition).await?.data().await?;
        return Ok((created, "created"));
    };
    let path = format!("/api/admin/agents/{}{query}", before.id);
    let after: Received<AgentView> =
        client.patch(&path, &definition::replacement(definition)).await?.data().await?;
    let outcome = if after.version == before.version { "unchanged" } else { "changed" };
    Ok((after, outcome))
}

/// Lets a person change an agent in an editor. A text that the server refuses is not lost.
pub async fn edit(client: &Client, reference: &str, as_json: bool) -> Result<()> {
    let agent = resolve_agent(client, reference).await?;
    let before = definition::to_yaml(&definition::from_view(&agent));
    let file = write_private_file(&std::env::temp_dir(), &format!("{}.yaml", agent.name), &before)?;
    if let Err(error) = open_editor(&file) {
        let _ = std::fs::remove_file(&file);
        return Err(error);
    }
    let after =
        std::fs::read_to_string(&file).map_err(|source| Error::File { path: file.clone(), source })?;
    if after == before {
        let _ = std::fs::remove_file(&file);
        return if as_json { output::print_json(&agent) } else { output::print_line("nothing was changed") };
    }
    let changed = save(client, &agent, &file).await.map_err(|error| {
        let apply = hints::command(&format!("agent apply {}", hints::quoted(&file.to_string_lossy())));
        Error::Usage(format!(
            "{}\nyour text is in {}: correct it, then `{apply}`",
            error.describe(),
            file.display()
        ))
    })?;
    let _ = std::fs::remove_file(&file);
    if as_json {
        return output::print_json(&changed);
    }
    output::print_line(&format!("{} is at version {}", changed.name, changed.version))?;
    print_warnings(&changed);
    warn_if_trigger_paused(client, &changed).await;
    Ok(())
}

/// Sends the definition of the file, unless somebody else changed the agent meanwhile.
async fn save(client: &Client, agent: &AgentView, file: &Path) -> Result<Received<AgentView>> {
    let mut body = definition::replacement(&definition::read(file)?);
    body.insert("expectedVersion".to_owned(), json!(agent.version));
    client.patch(&format!("/api/admin/agents/{}", agent.id), &body).await?.data().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_why_a_saved_agent_cannot_start_is_told_in_the_same_way() {
        let told = |field: &str, reason: &str| {
            warning_text("player", &AgentWarningView { field: field.to_owned(), reason: reason.to_owned() })
        };
        assert_eq!(
            told("model", "there is no rehearsal script `lost`; use `rehearsal/echo`"),
            "! player cannot start: there is no rehearsal script `lost`; use `rehearsal/echo`"
        );
        assert_eq!(
            told("model", "`slow.yaml` cannot be used: line 1: unclosed bracket"),
            "! player cannot start: `slow.yaml` cannot be used: line 1: unclosed bracket; correct that file, or give the \
             agent another model with `emergent agent edit player`"
        );
        assert_eq!(told("tools[0]", "it matches no tool"), "warning: tools[0]: it matches no tool");
        let without_key = cannot_start("player", "its model google/x needs GEMINI_API_KEY", Some("set it"));
        assert_eq!(without_key, "! player cannot start: its model google/x needs GEMINI_API_KEY; set it");
    }
}
