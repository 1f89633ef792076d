//! A server that can be killed like a process: it has its own threads and its own database handle, and
//! nothing of it continues after the kill.

use std::time::Duration;

use emergent_domain::time::Timestamp;
use emergent_store::{Db, Engine, Error, Tx};
use emergent_testkit::TestDb;
use tokio::runtime::{Builder, Runtime};

use super::{Harness, HarnessOptions};

pub struct Server {
    pub harness: Harness,
    threads: Option<Runtime>,
}

impl Server {
    pub async fn open(db: &TestDb, plan: HarnessOptions) -> Self {
        let threads = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        // All connections belong to the threads of this server, and close with them.
        let config = db.config().clone();
        let harness = threads.spawn(async move {
            let db = Db::open(config).await.unwrap();
            Harness::build(&db, plan).await.staffed()
        });
        Self { harness: harness.await.unwrap(), threads: Some(threads) }
    }

    /// Kills the server without a shutdown, and expires its lease so that its runs can be claimed.
    pub async fn kill(mut self, db: &TestDb, ago: Duration) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
        let until = Timestamp::now() - ago;
        let lapse = move |tx: &mut Tx<'_>| tx.execute("UPDATE leases SET until = $1", &[until.into()]);
        let lapsed: Result<u64, Error> = db.write(lapse).await;
        assert!(lapsed.unwrap() > 0, "a runner has a lease");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

/// Returns the rows of all tables of runs and the graph, one line each.
pub async fn content(db: &Db) -> Vec<String> {
    let read = |tx: &mut Tx<'_>| {
        let mut rows = Vec::new();
        for table in TABLES {
            let sql = match tx.engine() {
                Engine::Postgres => format!("SELECT to_jsonb(t)::text FROM {table} AS t ORDER BY 1"),
                Engine::Sqlite => {
                    let columns = format!("SELECT 'quote(' || name || ')' FROM pragma_table_info('{table}')");
                    let columns = tx.query(&columns, &[], |row| row.get::<String>(0))?;
                    format!("SELECT {} FROM {table} ORDER BY 1", columns.join(" || ' ' || "))
                }
            };
            let found = tx.query(&sql, &[], |row| row.get::<String>(0))?;
            rows.extend(found.into_iter().map(|row| format!("{table} {row}")));
        }
        Ok::<_, Error>(rows)
    };
    db.snapshot(read).await.unwrap()
}

const TABLES: [&str; 11] = [
    "agent_runs",
    "agent_run_messages",
    "agent_run_tool_calls",
    "agent_run_events",
    "graph_objects",
    "graph_object_versions",
    "graph_relationships",
    "graph_relationship_versions",
    "graph_events",
    "documents",
    "document_chunks",
];
