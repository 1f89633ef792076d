//! `emergent demo`: runs a demo workflow from plan to review in this process, with a scripted model.

use std::path::PathBuf;

use serde_json::json;

use super::watch_workflow;
use crate::{
    client::Client,
    config::{Settings, StoreFlags},
    demo,
    error::{Error, Result},
    output::{self, bold, dim},
    services,
};

/// Plays a whole workflow: a planner, five tasks, a discussion, a test that fails, a retry, a review
///
/// Needs no key: a script stands for the models. What is left behind is an ordinary data folder that
/// `emergent serve` opens. Started again after an interruption, it goes on where it was.
#[derive(Debug, clap::Args)]
pub struct Demo {
    /// Play it with a real model, as `provider/name`, instead of the script
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
}

impl Demo {
    pub async fn run(self, store: &StoreFlags, as_json: bool) -> Result<()> {
        if store.database_url.is_some() {
            return Err(Error::Usage("the demo plays on a data folder: leave --database-url out".to_owned()));
        }
        let mut settings = Settings::load(store, None)?;
        settings.database_url = None;
        if store.data_dir.is_none() {
            settings.data_dir = PathBuf::from(demo::DEFAULT_FOLDER);
        }
        settings.model = Some(self.model.unwrap_or_else(|| demo::MODEL.to_owned()));
        let folder = settings.data_dir.clone();
        let client = Client::in_process(services::open_services(&settings).await?).await?;
        let id = match demo::find_workflow(&client).await? {
            Some(workflow) => workflow,
            None => demo::start(&client).await?,
        };
        if !as_json {
            output::print_line(&format!("{}\n", bold(demo::REQUEST)))?;
        }
        watch_workflow::follow(&client, &id, as_json).await?;
        let graph = demo::load_graph(&client, &id).await?;
        if as_json {
            return output::print_json(&json!({ "workflowId": id, "graph": graph }));
        }
        output::print_line(&format!("\n{}", bold("What is in the graph now")))?;
        for line in demo::tree_lines(&graph) {
            output::print_line(&line)?;
        }
        let folder = folder.display();
        output::print_line(&dim(&format!("\nLook around: emergent serve --data-dir {folder}")))?;
        output::print_line(&dim(&format!("             emergent workflow show {id} --data-dir {folder}")))
    }
}
