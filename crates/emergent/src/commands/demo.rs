//! `emergent demo`: runs a demo workflow from plan to review in this process, with a scripted model.

use std::{io::IsTerminal, net::TcpListener, path::PathBuf};

use serde_json::json;

use super::watch_workflow;
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
        if let Some(url) = &store.database_url {
            let advice = database_error::removal_advice(url);
            return Err(Error::Usage(format!("the demo plays on a data folder: {advice}")));
        }
        let mut settings = Settings::load(store, None)?;
        settings.database_url = None;
        if store.data_dir.is_none() {
            settings.data_dir = PathBuf::from(demo::DEFAULT_FOLDER);
        }
        settings.model = Some(self.model.unwrap_or_else(|| demo::MODEL.to_owned()));
        let folder = settings.data_dir.clone();
        let client = Client::in_process(services::open_services(&settings).await?).await?;
        let (mut client, mut played) = demo::find_newest(client).await?;
        if let Some(last) = &played
            && (self.fresh || (!last.is_active && !as_json && wants_fresh_start()?))
        {
            let project = demo::create_project(&client, last.number + 1).await?;
            client = client.in_project(&project);
            played = None;
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
        hints::set_location(&folder, client.project().filter(|project| *project != demo::FIRST_PROJECT));
        if !as_json {
            output::print_line(&format!("{}\n", bold(demo::REQUEST)))?;
        }
        watch_workflow::follow(&client, &id, as_json).await?;
        let graph = demo::load_graph(&client, &id).await?;
        if as_json {
            return output::print_json(&json!({ "workflowId": id, "graph": graph }));
        }
        output::print_line(&format!("\n{}", bold("What is in the graph now")))?;
        let width = output::terminal_width();
        for line in demo::tree_lines(&graph) {
            output::print_line(&width.map_or_else(|| line.clone(), |width| fit_line(&line, width)))?;
        }
        let listen = free_listen_flag(&settings.listen);
        output::print_line(&dim(&format!("\nLook around: {}{listen}", hints::local_command("serve"))))?;
        let show = hints::command(&format!("workflow show {}", short_id(&id)));
        output::print_line(&dim(&format!("             {show}")))
    }
}

/// Asks a person whether to play afresh; false where nobody can be asked.
fn wants_fresh_start() -> Result<bool> {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    if !input.is_terminal() || !output.is_terminal() {
        return Ok(false);
    }
    output::print_part("The demo was played here before. Play it afresh, in a new project? [y/N] ")?;
    let mut answer = String::new();
    input.read_line(&mut answer).map_err(Error::Io)?;
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
    fn the_hint_names_a_free_address_when_another_server_has_the_usual_one() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let flag = free_listen_flag(&address);
        assert!(flag.starts_with(" --listen 127.0.0.1:") && !flag.ends_with(&address), "{flag}");
        drop(taken);
        assert_eq!(free_listen_flag(&address), "");
    }
}
