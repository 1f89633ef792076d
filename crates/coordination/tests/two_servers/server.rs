//! A server: a runner and a dispatcher in a runtime of their own, so that it can die as a process
//! does, with everything it had under way.

use emergent_coordination::{Dispatcher, Settings, tools};
use emergent_domain::time::Clock;
use emergent_executor::Executor;
use emergent_graph::Graph;
use emergent_store::{Db, DbConfig};
use emergent_testkit::{TestDb, scripted::ScriptedModel};
use emergent_tools::ToolPool;
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};

pub struct Server {
    runtime: Option<Runtime>,
    /// Nobody ever says stop; dropping this would.
    _stop: watch::Sender<bool>,
}

impl Server {
    pub async fn open(db: &TestDb, model: &ScriptedModel, max_workflows: usize) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let db = match db.config() {
            // Of one process: both have the same handle.
            DbConfig::Sqlite { .. } => db.db.clone(),
            // A connection lives in the runtime that opened it, and dies with it.
            DbConfig::Postgres { url, statement_cache, .. } => {
                let (url, statement_cache) = (url.clone(), *statement_cache);
                let config = DbConfig::Postgres { url, connections: 8, statement_cache };
                runtime.spawn(Db::open(config)).await.unwrap().unwrap()
            }
        };
        let dispatcher = dispatcher(db, model, Settings { max_workflows, ..Settings::default() });
        let (stop, stopping) = watch::channel(false);
        let (runs, stop_runs) = (dispatcher.executor().clone(), stopping.clone());
        runtime.spawn(async move { runs.run(stop_runs).await });
        runtime.spawn(async move { dispatcher.run(stopping).await });
        Self { runtime: Some(runtime), _stop: stop }
    }

    /// Nothing is given back: what it had is another's when its leases lapse.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn dispatcher(db: Db, model: &ScriptedModel, settings: Settings) -> Dispatcher {
    let graph = Graph::new(db, Clock::system(), None);
    let pool = tools::tools()
        .into_iter()
        .fold(ToolPool::new(emergent_tools::builtin::tools()), |pool, tool| pool.with_tool(tool));
    let executor = Executor::new(graph, model.models(), pool, emergent_executor::Settings::default());
    Dispatcher::new(executor, settings)
}
