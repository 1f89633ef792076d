//! `emergent demo`: runs a demo workflow from plan to review in this process, with a scripted model.

use std::{io::IsTerminal, net::TcpListener, path::PathBuf};

use emergent_domain::agent::ModelConfig;
use serde_json::json;

use super::{watch_run, watch_workflow};
use crate::{
    client::Client,
    config::{Settings, StoreFlags},
    database_error, demo,
    error::{Error, Result},
    hints,
    output::{self, bold, dim},
    services,
    text::{fit_line, short_id},
};

/// How many ports after the usual one are tried for the hint.
const MAX_TRIED_PORTS: u16 = 20;

/// Run a demo workflow with five agents; needs no API key
///
/// A planner makes five tasks, agents discuss a design, a test fails, its task is done again, and a review ends
/// it. A script stands for the models. What is left behind is an ordinary data folder, ./emergent-demo, that
/// `emergent serve` opens. Started again after an interruption, it goes on where it was. Started again after its
/// end, it asks whether to play afresh.
#[derive(Debug, clap::Args)]
pub struct Demo {
    /// Play it afresh, in a new project of the same folder, also when it was played before
    #[arg(long)]
    fresh: bool,
    /// Play it with a real model, as `provider/name`, instead of the script
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
}

impl Demo {
    pub async fn run(self, store: &StoreFlags, as_json: bool) -> Result<()> {
        let again = command_again(self.model.as_deref());
        let interrupt = watch_run::listen_for_interrupt().await;
        let prepared = tokio::select! {
            biased;
            prepared = self.prepare(store, as_json) => prepared?,
            () = interrupt => {
                output::print_notice(&format!("Interrupted before the demo began: `{again}` goes on with it."));
                return Err(Error::Interrupted);
            }
        };
        prepared.play(&again, as_json).await
    }

    /// Opens the folder, and finds the workflow of the demo or starts it.
    async fn prepare(self, store: &StoreFlags, as_json: bool) -> Result<Prepared> {
        if let Some(url) = &store.database_url {
            let advice = database_error::removal_advice(url);
            return Err(Error::Usage(format!("the demo plays on a data folder: {advice}")));
        }
        let mut settings = Settings::load(store, None)?;
        settings.database_url = None;
        if store.data_dir.is_none() {
            settings.data_dir = PathBuf::from(demo::DEFAULT_FOLDER);
            // The folder of the file is another one, which an error about this one must not name.
            settings.origins.file.remove("data-dir");
        }
        let has_own_folder = store.data_dir.is_none();
        check_model(&settings, self.model.as_deref())?;
        settings.model = Some(self.model.unwrap_or_else(|| demo::MODEL.to_owned()));
        let folder = settings.data_dir.clone();
        let client = Client::in_process(services::open_services(&settings).await?).await?;
        let (mut client, mut played) = demo::find_newest(client).await?;
        if let Some(last) = &played
            && (self.fresh || (!last.is_active && !as_json && wants_fresh_start().await?))
        {
            client = demo::create_project(client, last.number + 1).await?;
            played = None;
        } else if played.is_none() {
            client = demo::choose_first(client, has_own_folder).await?;
        }
        let project = client.project().unwrap_or(demo::FIRST_PROJECT).to_owned();
        if !as_json {
            let place = format!("in the project `{project}` of {}", folder.display());
            output::print_painted_item("", demo::REQUEST, bold)?;
            output::print_dim(&place)?;
            output::print_line("")?;
        }
        let id = match played {
            Some(last) => {
                if !last.is_active && !as_json {
                    output::print_line(&dim(
                        "The demo was played here before; this is how it went. `--fresh` plays it again.\n",
                    ))?;
                }
                last.workflow
            }
            None => demo::start(&client).await?,
        };
        Ok(Prepared { client, settings, project, workflow: id })
    }
}

/// A demo whose workflow is there.
struct Prepared {
    client: Client,
    settings: Settings,
    project: String,
    workflow: String,
}

impl Prepared {
    /// Follows the workflow, and shows what it left in the graph. `again` is the command that goes on after Ctrl-C.
    async fn play(self, again: &str, as_json: bool) -> Result<()> {
        let Self { client, settings, project, workflow: id } = self;
        let elsewhere = client.project().filter(|project| *project != demo::FIRST_PROJECT);
        hints::set_location(&settings.data_dir, elsewhere);
        watch_workflow::follow_with(&client, &id, again, as_json).await?;
        let graph = demo::load_graph(&client, &id).await?;
        if as_json {
            return output::print_json(&json!({ "workflowId": id, "project": project, "graph": graph }));
        }
        output::print_line(&format!("\n{}", bold("What is in the graph now")))?;
        let width = output::terminal_width();
        for line in demo::tree_lines(&graph) {
            output::print_line(&width.map_or_else(|| line.clone(), |width| fit_line(&line, width)))?;
        }
        let listen = free_listen_flag(&settings.listen);
        output::print_line("")?;
        output::print_command("Look around: ", &format!("{}{listen}", hints::local_command("serve")))?;
        let show = hints::command(&format!("workflow show {}", short_id(&id)));
        output::print_command("The workflow:", &show)
    }
}

/// The command that goes on with an interrupted demo: the same one, which does not begin afresh.
fn command_again(model: Option<&str>) -> String {
    let model = model.map(|model| format!(" --model {}", hints::quoted(model))).unwrap_or_default();
    hints::local_command(&format!("demo{model}"))
}

/// Refuses a model of `--model` that cannot be called, before anything is made.
fn check_model(settings: &Settings, model: Option<&str>) -> Result<()> {
    let Some(text) = model else { return Ok(()) };
    let model: ModelConfig = text.parse().map_err(|error| Error::Usage(format!("--model: {error}")))?;
    let models = services::models(&Settings { model: None, ..settings.clone() })?;
    let Err(error) = models.choose(Some(&model)) else { return Ok(()) };
    let status = models.status().into_iter().find(|status| status.name == model.provider);
    let reason = match status.filter(|status| !status.configured).and_then(|status| status.setting) {
        Some(setting) => format!("it needs {setting}"),
        None => error.to_string(),
    };
    Err(Error::Usage(format!(
        "the demo cannot play with --model {text}: {reason} (without --model, a script plays the model and needs no key)"
    )))
}

/// Asks a person whether to play afresh; false where nobody can be asked. The answer is read on a thread of its own, so
/// that Ctrl-C ends the command meanwhile.
async fn wants_fresh_start() -> Result<bool> {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    if !input.is_terminal() || !output.is_terminal() {
        return Ok(false);
    }
    output::print_part("The demo was played here before. Play it afresh, in a new project? [y/N] ")?;
    #[expect(clippy::disallowed_methods, reason = "awaited here, or the process ends")]
    let read = tokio::task::spawn_blocking(move || {
        let mut answer = String::new();
        input.read_line(&mut answer).map(|_| answer)
    });
    let answer = read.await.map_err(std::io::Error::other).and_then(|answer| answer).map_err(Error::Io)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// ` --listen ADDRESS` with a free port, when another server has the address that `emergent serve` would use;
/// empty otherwise.
fn free_listen_flag(listen: &str) -> String {
    let is_free = |address: &str| TcpListener::bind(address).is_ok();
    let Some((host, port)) = listen.rsplit_once(':').filter(|_| !is_free(listen)) else {
        return String::new();
    };
    let first: u16 = port.parse().unwrap_or_default();
    let ports = (1..=MAX_TRIED_PORTS).filter_map(|offset| first.checked_add(offset));
    let free = ports.map(|port| format!("{host}:{port}")).find(|address| is_free(address));
    free.map(|address| format!(" --listen {address}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_demo_is_gone_on_with_by_the_same_command() {
        assert_eq!(command_again(None), "emergent demo");
        assert_eq!(command_again(Some("google/x y")), "emergent demo --model 'google/x y'");
    }

    #[test]
    fn the_hint_names_a_free_address_when_another_server_has_the_usual_one() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let flag = free_listen_flag(&address);
        assert!(flag.starts_with(" --listen 127.0.0.1:") && !flag.ends_with(&address), "{flag}");
        drop(taken);
        assert_eq!(free_listen_flag(&address), "");
    }
}
