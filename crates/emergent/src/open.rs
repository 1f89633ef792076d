//! Puts the parts together: store, embedder, graph, models, tools, executor, API.

use emergent_api::App;
use emergent_domain::time::Clock;
use emergent_executor::Executor;
use emergent_graph::Graph;
use emergent_llm::Models;
use emergent_store::{Db, leases};
use emergent_tools::ToolPool;

use crate::{
    config::Settings,
    datadir::DataDir,
    error::{Error, Result},
    telemetry,
};

/// Everything a server or a command on a data folder works with.
pub struct Opened {
    pub app: App,
    pub graph: Graph,
    pub executor: Executor,
    pub data: DataDir,
    pub admin_token: String,
    /// The token was made just now and has not been shown.
    pub token_is_new: bool,
}

pub async fn open(settings: &Settings) -> Result<Opened> {
    let data = match &settings.database_url {
        Some(_) => DataDir::share(&settings.data_dir)?,
        None => DataDir::take(&settings.data_dir)?,
    };
    let embedder = emergent_llm::embedder(&settings.embedder()?, &Settings::credentials())?;
    let models = Models::from_settings(&settings.models()).map_err(Error::Models)?;
    let db = Db::open(settings.database()).await?;
    let clock = Clock::system();
    if data.is_ours_alone() {
        let now = clock.now();
        // A server that was killed left its jobs leased; nobody else can be at them here.
        db.write(move |tx| leases::end_all(tx, now)).await?;
    }
    // Not before the rest is known to work: a start that fails must not make what is shown once.
    let (admin_token, token_is_new) = data.admin_token()?;
    let graph = Graph::new(db, clock, embedder);
    graph.ensure_builtin_packs().await?;
    graph.ensure_default_project().await?;
    graph.ensure_admin_token(&admin_token).await?;
    let limits = emergent_executor::Settings {
        max_runs: settings.max_runs,
        capture_content: telemetry::captures_content(),
        ..Default::default()
    };
    let tools = ToolPool::new(emergent_tools::builtin::all());
    let executor = Executor::new(graph.clone(), models, tools, limits);
    telemetry::attach(&executor);
    let app = App::new(executor.clone());
    Ok(Opened { app, graph, executor, data, admin_token, token_is_new })
}
