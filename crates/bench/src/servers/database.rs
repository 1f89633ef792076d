//! What the database says about the servers and their runs. It is asked directly, because a question over HTTP would be
//! work for the servers that are measured.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Row, types::ToSql};

use super::cluster::Agent;

/// The longest time that all runs of a part may take.
const PATIENCE: Duration = Duration::from_secs(900);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) struct Database {
    runtime: Runtime,
    client: Client,
}

impl Database {
    pub fn connect(url: &str) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the database");
            tokio::spawn(connection);
            client
        });
        Self { runtime, client }
    }

    fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        let rows = self.runtime.block_on(self.client.query(sql, params));
        rows.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
    }

    fn number(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> i64 {
        self.query(sql, params).first().map_or(0, |row| row.get(0))
    }

    /// Returns the owner names of the runners that have a lease: one for each server.
    pub fn runners(&self) -> BTreeSet<String> {
        // The first server creates the schema.
        let exists = "SELECT count(*) FROM pg_tables WHERE schemaname = 'kb' AND tablename = 'leases'";
        if self.number(exists, &[]) == 0 {
            return BTreeSet::new();
        }
        let sql = "SELECT owner FROM kb.leases WHERE name LIKE 'runner:%' AND until > now()";
        self.query(sql, &[]).iter().map(|row| row.get(0)).collect()
    }

    /// Counts the runs of an agent by the runner that drove them to their end. A run that ended keeps its owner.
    pub fn runs_by_owner(&self, agent: &Agent) -> BTreeMap<String, i64> {
        let sql = "SELECT coalesce(owner, ''), count(*) FROM kb.agent_runs
                   WHERE agent_id = $1::text::uuid AND completed_at IS NOT NULL GROUP BY 1";
        self.query(sql, &[&agent.id]).iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Like [`Database::runs_by_owner`], for runs that started in a time, given in seconds of the machine's clock.
    pub fn runs_started_between(&self, agent: &Agent, from: f64, to: f64) -> BTreeMap<String, i64> {
        let sql = "SELECT coalesce(owner, ''), count(*) FROM kb.agent_runs
                   WHERE agent_id = $1::text::uuid AND started_at >= to_timestamp($2) AND started_at < to_timestamp($3)
                   GROUP BY 1";
        self.query(sql, &[&agent.id, &from, &to]).iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Counts the runs that a runner drives at this moment.
    pub fn running(&self, owner: &str) -> i64 {
        let sql = "SELECT count(*) FROM kb.agent_runs WHERE owner = $1 AND status = 'running'";
        self.number(sql, &[&owner])
    }

    /// Counts the runs of an agent that a runner has started or taken over.
    pub fn owned(&self, agent: &Agent, owner: &str) -> i64 {
        let sql = "SELECT count(*) FROM kb.agent_runs WHERE agent_id = $1::text::uuid AND owner = $2";
        self.number(sql, &[&agent.id, &owner])
    }

    /// Waits until so many runs of an agent have ended.
    pub fn wait_until_ended(&self, agent: &Agent, count: usize) {
        let sql =
            "SELECT count(*) FROM kb.agent_runs WHERE agent_id = $1::text::uuid AND completed_at IS NOT NULL";
        let start = Instant::now();
        loop {
            let ended = self.number(sql, &[&agent.id]);
            if usize::try_from(ended).is_ok_and(|ended| ended >= count) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{ended} of {count} runs have ended after {PATIENCE:?}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Counts the runs of an agent, and those of them that completed with one recorded end and one recorded answer.
    pub fn outcome(&self, agent: &Agent) -> Outcome {
        let sql = "SELECT count(*), count(*) FILTER (WHERE is_completed AND ends = 1 AND answers = 1)
                   FROM (SELECT r.status = 'completed' AS is_completed,
                             (SELECT count(*) FROM kb.agent_run_events AS e
                              WHERE e.run_id = r.id AND e.type = 'run_ended') AS ends,
                             (SELECT count(*) FROM kb.agent_run_messages AS m
                              WHERE m.run_id = r.id AND m.role = 'assistant') AS answers
                         FROM kb.agent_runs AS r WHERE r.agent_id = $1::text::uuid) AS runs";
        let rows = self.query(sql, &[&agent.id]);
        let row = rows.first().expect("a row");
        Outcome { runs: row.get(0), ended_once: row.get(1) }
    }

    /// Counts the workflows of each dispatcher, the largest count first.
    pub fn workflows_by_dispatcher(&self, workflows: &[String]) -> Vec<i64> {
        let sql = "SELECT count(*) FROM kb.workflows WHERE id::text = ANY($1) GROUP BY owner ORDER BY 1 DESC";
        self.query(sql, &[&workflows]).iter().map(|row| row.get(0)).collect()
    }

    /// Counts the firings of an agent that were admitted, the objects that they are about, and the runs they started.
    pub fn firings(&self, agent: &Agent) -> [i64; 3] {
        let sql = "SELECT count(*), count(DISTINCT entity_id), count(DISTINCT run_id) FROM kb.trigger_firings
                   WHERE agent_id = $1::text::uuid AND status = 'admitted'";
        let rows = self.query(sql, &[&agent.id]);
        let row = rows.first().expect("a row");
        [row.get(0), row.get(1), row.get(2)]
    }
}

/// How the runs of an agent ended.
pub(super) struct Outcome {
    runs: i64,
    ended_once: i64,
}

impl Outcome {
    /// Returns how many of the expected runs were lost, did not complete or ended twice, and how many there are besides.
    pub fn wrong(&self, expected: usize) -> f64 {
        let expected = expected as f64;
        (expected - self.ended_once as f64).abs() + (self.runs as f64 - expected).max(0.0)
    }
}
