//! The baseline: SQLite from Rust without any layer, with the same tables, indexes and pragmas.
//!
//! It keeps no history, has no change feed, validates nothing and queues no embeddings: it does only
//! what any program would have to do to store and find the same data.

use std::{collections::HashMap, fs, time::Instant};

use emergent_domain::indexed_text::indexed_text;
use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::data::{self, Data};

pub struct Baseline {
    pub conn: Connection,
    pub import_seconds: f64,
    _dir: tempfile::TempDir,
}

const SCHEMA: &str = "
CREATE TABLE objects (no INTEGER PRIMARY KEY, id blob NOT NULL UNIQUE, project_id blob NOT NULL, type text NOT NULL,
    key text, status text, labels text NOT NULL, properties text NOT NULL, version integer NOT NULL,
    created_at integer NOT NULL, updated_at integer NOT NULL, deleted_at integer);
CREATE UNIQUE INDEX objects_key ON objects (project_id, type, key) WHERE key IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX objects_page ON objects (project_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX objects_type_page ON objects (project_id, type, created_at, id) WHERE deleted_at IS NULL;
CREATE TABLE edges (no INTEGER PRIMARY KEY, id blob NOT NULL UNIQUE, project_id blob NOT NULL, type text NOT NULL,
    from_id blob NOT NULL, to_id blob NOT NULL, properties text NOT NULL, weight real, version integer NOT NULL,
    created_at integer NOT NULL, updated_at integer NOT NULL, deleted_at integer);
CREATE UNIQUE INDEX edges_edge ON edges (from_id, type, to_id) WHERE deleted_at IS NULL;
CREATE INDEX edges_to ON edges (to_id, type, from_id) WHERE deleted_at IS NULL;
CREATE INDEX edges_page ON edges (project_id, created_at, id) WHERE deleted_at IS NULL;
CREATE VIRTUAL TABLE fts USING fts5(name, body, content='', contentless_delete=1,
    tokenize=\"porter unicode61 remove_diacritics 2\");";

const BATCH: usize = 1_000;

pub fn open(dir: &std::path::Path) -> Connection {
    let conn = Connection::open(dir.join("raw.db")).expect("a database");
    for (pragma, value) in
        [("journal_mode", "wal"), ("synchronous", "full"), ("temp_store", "memory"), ("cache_size", "-16000")]
    {
        conn.pragma_update(None, pragma, value).expect("a pragma");
    }
    conn.pragma_update(None, "wal_autocheckpoint", 4_000).expect("a pragma");
    conn.set_prepared_statement_cache_capacity(64);
    conn.execute_batch(SCHEMA).expect("the schema");
    conn
}

pub fn insert_object(conn: &Connection, project: Uuid, object: &data::Object, key: &str) -> Uuid {
    let id = Uuid::now_v7();
    let labels: Vec<String> = serde_json::from_value(object.labels.clone()).unwrap_or_default();
    let text = indexed_text(&object.type_, Some(key), &labels, &object.properties);
    let properties = serde_json::to_string(&object.properties).expect("JSON");
    let now = emergent_domain::time::Timestamp::now().as_micros();
    conn.prepare_cached(
        "INSERT INTO objects (id, project_id, type, key, labels, properties, version, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?7)",
    )
    .and_then(|mut statement| {
        statement.execute(params![
            id.as_bytes(),
            project.as_bytes(),
            object.type_,
            key,
            object.labels.to_string(),
            properties,
            now
        ])
    })
    .expect("an object");
    conn.prepare_cached("INSERT INTO fts (rowid, name, body) VALUES (?1, ?2, ?3)")
        .and_then(|mut statement| statement.execute(params![conn.last_insert_rowid(), text.name, text.body]))
        .expect("its text");
    id
}

impl Baseline {
    /// Reads the same file and writes the same rows, a thousand per transaction.
    pub fn import(data: &Data) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let conn = open(dir.path());
        let project = Uuid::now_v7();
        let start = Instant::now();
        let text = fs::read_to_string(&data.path).expect("the dataset");
        let mut parsed = Data { path: data.path.clone(), objects: Vec::new(), edges: Vec::new() };
        text.lines().for_each(|line| data::parse(line, &mut parsed));
        let mut ids = HashMap::with_capacity(parsed.objects.len());
        for batch in parsed.objects.chunks(BATCH) {
            conn.execute_batch("BEGIN IMMEDIATE").expect("begin");
            for object in batch {
                ids.insert(object.key.as_str(), insert_object(&conn, project, object, &object.key));
            }
            conn.execute_batch("COMMIT").expect("commit");
        }
        for batch in parsed.edges.chunks(BATCH) {
            conn.execute_batch("BEGIN IMMEDIATE").expect("begin");
            for edge in batch {
                let now = emergent_domain::time::Timestamp::now().as_micros();
                conn.prepare_cached(
                    "INSERT INTO edges (id, project_id, type, from_id, to_id, properties, version, created_at, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?7)",
                )
                .and_then(|mut statement| {
                    statement.execute(params![
                        Uuid::now_v7().as_bytes(), project.as_bytes(), edge.type_, ids[edge.from.as_str()].as_bytes(),
                        ids[edge.to.as_str()].as_bytes(), edge.properties.to_string(), now
                    ])
                })
                .expect("an edge");
            }
            conn.execute_batch("COMMIT").expect("commit");
        }
        let import_seconds = start.elapsed().as_secs_f64();
        Self { conn, import_seconds, _dir: dir }
    }

    pub fn id_of(&self, key: &str) -> Vec<u8> {
        self.conn
            .query_row("SELECT id FROM objects WHERE key = ?1", [key], |row| row.get(0))
            .expect("the object")
    }

    /// Traverses breadth first in both directions, with one statement per level and direction, and reads
    /// whole rows.
    pub fn traverse(&self, start: &[u8], depth: usize, max_nodes: usize) -> (usize, usize) {
        let mut nodes: HashMap<Vec<u8>, usize> = HashMap::from([(start.to_vec(), 0)]);
        let mut frontier = vec![start.to_vec()];
        let mut rows = Vec::new();
        self.load(&frontier, &mut rows);
        for level in 1..=depth {
            let mut next: Vec<Vec<u8>> = Vec::new();
            for (here, there) in [("from_id", "to_id"), ("to_id", "from_id")] {
                for part in frontier.chunks(500) {
                    let sql = format!(
                        "SELECT {there} FROM edges WHERE deleted_at IS NULL AND {here} IN ({})",
                        placeholders(part.len())
                    );
                    let mut statement = self.conn.prepare_cached(&sql).expect("a statement");
                    let mut query_rows = statement.query(rusqlite::params_from_iter(part)).expect("edges");
                    while let Some(row) = query_rows.next().expect("an edge") {
                        next.push(row.get(0).expect("an id"));
                    }
                }
            }
            next.sort_unstable();
            next.dedup();
            next.retain(|id| !nodes.contains_key(id));
            next.truncate(max_nodes - nodes.len());
            next.iter().for_each(|id| {
                nodes.insert(id.clone(), level);
            });
            self.load(&next, &mut rows);
            frontier = next;
        }
        let mut edges = 0;
        let mut edge_rows: Vec<(Vec<u8>, String, String)> = Vec::new();
        let all: Vec<Vec<u8>> = nodes.keys().cloned().collect();
        for part in all.chunks(500) {
            let sql = format!(
                "SELECT id, type, to_id, properties, weight, version, created_at, updated_at FROM edges WHERE deleted_at IS NULL AND from_id IN ({})",
                placeholders(part.len())
            );
            let mut statement = self.conn.prepare_cached(&sql).expect("a statement");
            let mut query_rows = statement.query(rusqlite::params_from_iter(part)).expect("edges");
            while let Some(row) = query_rows.next().expect("an edge") {
                let to: Vec<u8> = row.get(2).expect("an id");
                if nodes.contains_key(&to) {
                    edge_rows.push((
                        row.get(0).expect("an id"),
                        row.get(1).expect("a type"),
                        row.get(3).expect("properties"),
                    ));
                    edges += 1;
                }
            }
        }
        (rows.len(), edges)
    }

    fn load(&self, ids: &[Vec<u8>], rows: &mut Vec<(Vec<u8>, String, String, String)>) {
        for part in ids.chunks(500) {
            let sql = format!(
                "SELECT id, type, key, labels, properties, version, created_at, updated_at FROM objects WHERE deleted_at IS NULL AND id IN ({})",
                placeholders(part.len())
            );
            let mut statement = self.conn.prepare_cached(&sql).expect("a statement");
            let mut query_rows = statement.query(rusqlite::params_from_iter(part)).expect("objects");
            while let Some(row) = query_rows.next().expect("an object") {
                rows.push((
                    row.get(0).expect("id"),
                    row.get(1).expect("type"),
                    row.get(3).expect("labels"),
                    row.get(4).expect("properties"),
                ));
            }
        }
    }

    /// Returns the ten best hits by BM25, with their objects.
    pub fn full_text(&self, words: &str) -> usize {
        let query: Vec<String> = words.split_whitespace().map(|word| format!("\"{word}\"")).collect();
        let mut statement = self
            .conn
            .prepare_cached(
                "SELECT o.id, o.type, o.key, o.labels, o.properties, f.score FROM
                 (SELECT rowid, bm25(fts, 4.0, 1.0) AS score FROM fts WHERE fts MATCH ?1 ORDER BY score LIMIT 10) f
                 JOIN objects o ON o.no = f.rowid ORDER BY f.score",
            )
            .expect("a statement");
        let mut query_rows = statement.query([query.join(" AND ")]).expect("a search");
        let mut count = 0;
        while let Some(row) = query_rows.next().expect("a hit") {
            let _: (Vec<u8>, String) = (row.get(0).expect("id"), row.get(4).expect("properties"));
            count += 1;
        }
        count
    }
}

fn placeholders(count: usize) -> String {
    vec!["?"; count].join(",")
}
