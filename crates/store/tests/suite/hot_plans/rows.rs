//! The rows on which the operations are tried: at first a few of each table, and then about 200,000 in all. Each 64
//! consecutive numbers are one workflow with 16 tasks, and each third workflow belongs to the same project. The
//! operations use rows of the first workflow.

use emergent_domain::{
    ids::{AgentId, JobId, MessageId, ObjectId, ProjectId, RelationshipId, RunId, ToolCallId, WorkflowId},
    run::{MessageRole, Run, RunStatus, ToolCallStatus},
    run_event::{MessageContent, RecordedMessage, RecordedToolCall},
    time::Timestamp,
    workflow::{Workflow, WorkflowLink},
};
use emergent_store::{
    Db, Error, Tx, params,
    runs::{self, claim, record},
    workflows,
};
use emergent_testkit::fixtures;
use serde_json::json;
use uuid::Uuid;

use crate::unreadable_runs;

const FIRST: i64 = 64;
const OBJECTS: i64 = 40_000;
const RELATIONSHIPS: i64 = 40_000;
const VERSIONS: i64 = 20_000;
const CHANGES: i64 = 20_000;
const RUNS: i64 = 10_000;
const JOBS: i64 = 10_000;
const FIRINGS: i64 = 20_000;
const HUB_EDGES: i64 = 10_000;
const HUB_FIRINGS: i64 = 10_000;
const WORKFLOW_EVENTS: i64 = 10_000;
const WORKFLOWS: i64 = OBJECTS / FIRST;

/// The tables that grow.
const TABLES: [&str; 13] = [
    "graph_objects",
    "graph_object_versions",
    "graph_relationships",
    "graph_events",
    "agent_runs",
    "agent_run_messages",
    "agent_run_tool_calls",
    "agent_run_events",
    "project_events",
    "workflows",
    "workflow_events",
    "jobs",
    "trigger_firings",
];

/// What an id is for. Ids of different kinds differ in their fourth group.
#[derive(Clone, Copy)]
enum Kind {
    Object,
    Project,
    Run,
    Workflow,
    Job,
    Relationship,
    Agent,
    Firing,
}

const fn id(kind: Kind, number: u128) -> Uuid {
    Uuid::from_u128(((0x7000_8000 + kind as u128) << 48) + number)
}

/// The same id in SQL, for an expression that gives the number.
fn id_sql(kind: Kind, number: &str) -> String {
    let group = 0x8000 + kind as u32;
    format!("CAST('00000000-0000-7000-{group:x}-' || lpad(to_hex({number}), 12, '0') AS uuid)")
}

pub const PROJECT: ProjectId = ProjectId(id(Kind::Project, 0));
pub const WORKFLOW: WorkflowId = WorkflowId(id(Kind::Workflow, 0));
/// A task that the task before it blocks.
pub const TASK: ObjectId = ObjectId(id(Kind::Object, 4));
pub const SESSION: ObjectId = ObjectId(id(Kind::Object, 5));
/// The edge from [`SESSION`] to its message.
pub const EDGE: RelationshipId = RelationshipId(id(Kind::Relationship, 5));
pub const MESSAGE: ObjectId = ObjectId(id(Kind::Object, 6));
/// An object from which many edges lead to others.
pub const HUB: ObjectId = ObjectId(id(Kind::Object, 7));
/// The agent of a trigger with many due events.
pub const HELD_BACK: AgentId = AgentId(id(Kind::Agent, 0));
/// The agent of a trigger with one event, which is due later than those of [`HELD_BACK`].
pub const QUIET: AgentId = AgentId(id(Kind::Agent, 1));
/// The agent of a trigger that has fired for each of many changes of [`HUB`]. The last ones are not due yet.
pub const WATCHER: AgentId = AgentId(id(Kind::Agent, 60));
/// A run that [`OWNER`] drives.
pub const RUN: RunId = RunId(id(Kind::Run, 0));
pub const RUN_SEQ: i64 = 4;
/// A running job of [`OWNER`].
pub const JOB: JobId = JobId(id(Kind::Job, 0));
pub const QUEUE: &str = "q";
pub const OWNER: &str = "a runner";

/// A time after that of all rows.
pub fn now() -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000)
}

/// When the first firing of [`HELD_BACK`] is due.
pub fn first_due() -> Timestamp {
    Timestamp::from_micros(1_767_225_600_000_000)
}

/// When the firings of [`WATCHER`] are due.
pub fn due_later() -> Timestamp {
    Timestamp::from_micros(1_811_808_000_000_000)
}

pub fn message(seq: i64, role: MessageRole) -> RecordedMessage {
    RecordedMessage {
        id: MessageId::new(),
        seq,
        role,
        step: 1,
        content: MessageContent::Text { text: "What is known about it?".to_owned(), injected: None },
        usage: None,
        cost: None,
        at: now(),
    }
}

pub fn tool_call(seq: i64) -> RecordedToolCall {
    RecordedToolCall {
        id: ToolCallId::new(),
        seq,
        message: MessageId::new(),
        tool: "search".to_owned(),
        step: 1,
        input: json!({ "query": "it" }),
        status: ToolCallStatus::Pending,
        output: None,
        result_seq: None,
        duration_ms: None,
        at: now(),
        effect: None,
    }
}

async fn run_sql(db: &Db, sql: String) {
    db.write(move |tx| tx.execute(&sql, params![])).await.unwrap();
}

/// Only the test decides when there are statistics.
pub async fn disable_autovacuum(db: &Db) {
    for table in TABLES {
        run_sql(db, format!("ALTER TABLE {table} SET (autovacuum_enabled = false)")).await;
    }
}

/// Inserts the rows that the operations use. They fit into a few pages.
pub async fn insert_first(db: &Db) {
    let last = FIRST - 1;
    insert_objects(db, 0, last).await;
    insert_edges(db, 0, last).await;
    insert_versions(db, 0, last).await;
    insert_changes(db, 0, last).await;
    insert_jobs(db, 0, last).await;
    insert_firings(db, 0, last).await;
    insert_pending_firings_of_hub(db).await;
    insert_project(db).await;
    let insert = |tx: &mut Tx<'_>| {
        let running = fixtures::workflow(PROJECT, Default::default(), now());
        workflows::insert(tx, &Workflow { id: WORKFLOW, owner: Some(OWNER.to_owned()), ..running })?;
        let link = WorkflowLink {
            workflow: Some(WORKFLOW),
            task: Some(TASK),
            session: Some(SESSION),
            ..WorkflowLink::default()
        };
        let queued = Run { parent: None, workflow_link: link, ..unreadable_runs::run(PROJECT) };
        runs::insert(tx, &queued)?;
        let status = RunStatus::Running;
        let owner = Some(OWNER.to_owned());
        runs::insert(tx, &Run { id: RUN, status, owner, seq: RUN_SEQ, ..queued })?;
        record::insert_messages(tx, RUN, &[message(1, MessageRole::System), message(2, MessageRole::User)])?;
        record::insert_calls(tx, RUN, &[tool_call(3)])?;
        record::insert_event(tx, RUN, RUN_SEQ, "run_started", &json!({}), now())?;
        claim::register(tx, OWNER, now(), now())?;
        Ok::<_, Error>(())
    };
    db.write(insert).await.unwrap();
}

/// Adds all other rows.
pub async fn grow(db: &Db) {
    insert_objects(db, FIRST, OBJECTS).await;
    insert_edges(db, FIRST, RELATIONSHIPS).await;
    insert_versions(db, FIRST, VERSIONS).await;
    insert_changes(db, FIRST, CHANGES).await;
    insert_jobs(db, FIRST, JOBS).await;
    insert_firings(db, FIRST, FIRINGS).await;
    insert_edges_of_hub(db).await;
    insert_settled_firings_of_hub(db).await;
    insert_workflow_events(db).await;
    copy_workflows(db).await;
    copy_runs(db).await;
}

/// The project of the row with the number `n`, its workflow, its object and its time, as SQL.
fn common_sql() -> [String; 4] {
    [
        id_sql(Kind::Project, "n / 64 % 3"),
        id_sql(Kind::Workflow, "n / 64"),
        id_sql(Kind::Object, "n"),
        "(TIMESTAMPTZ '2026-01-01 00:00Z' + n * INTERVAL '1 second')".to_owned(),
    ]
}

async fn insert_objects(db: &Db, first: i64, last: i64) {
    let [project, workflow, object, time] = common_sql();
    let sql = format!(
        "INSERT INTO graph_objects (no, id, project_id, type, key, labels, properties, version, created_at, updated_at)
         SELECT 1000000000 + n, {object}, {project},
             CASE n % 4 WHEN 0 THEN 'SpecTask' WHEN 1 THEN 'Session' WHEN 2 THEN 'SessionMessage' ELSE 'Note' END,
             'k' || n, '[]',
             CASE n % 4 WHEN 0 THEN jsonb_build_object('key', 'k' || n, 'workflow_id', CAST({workflow} AS text),
                 'status', CASE n % 8 WHEN 0 THEN 'pending' ELSE 'completed' END)
             ELSE jsonb_build_object('text', 'the text of ' || n) END,
             1, {time}, {time}
         FROM generate_series({first}, {last}) AS n"
    );
    run_sql(db, sql).await;
}

/// Each task blocks the next one, and each other object has an edge to the next one.
async fn insert_edges(db: &Db, first: i64, last: i64) {
    let [project, _, object, time] = common_sql();
    let (edge, to) =
        (id_sql(Kind::Relationship, "n"), id_sql(Kind::Object, "n + CASE n % 4 WHEN 0 THEN 4 ELSE 1 END"));
    let sql = format!(
        "INSERT INTO graph_relationships
             (no, id, project_id, type, from_id, to_id, properties, version, created_at, updated_at)
         SELECT 1000000000 + n, {edge}, {project}, CASE n % 4 WHEN 0 THEN 'blocks' ELSE 'has_message' END,
             {object}, {to}, '{{}}', 1, {time}, {time}
         FROM generate_series({first}, {last}) AS n"
    );
    run_sql(db, sql).await;
}

async fn insert_edges_of_hub(db: &Db) {
    let [_, _, object, time] = common_sql();
    let (edge, project) = (id_sql(Kind::Relationship, "1000000 + n"), id_sql(Kind::Project, "0"));
    let sql = format!(
        "INSERT INTO graph_relationships
             (no, id, project_id, type, from_id, to_id, properties, version, created_at, updated_at)
         SELECT 1100000000 + n, {edge}, {project}, 'about', '{HUB}', {object}, '{{}}', 1, {time}, {time}
         FROM generate_series({FIRST}, {HUB_EDGES}) AS n"
    );
    run_sql(db, sql).await;
}

/// Half of the firings wait, and nearly all of these are of one trigger. The others have started runs.
async fn insert_firings(db: &Db, first: i64, last: i64) {
    let [project, _, object, time] = common_sql();
    let (firing, own_project) = (id_sql(Kind::Firing, "n"), id_sql(Kind::Project, "0"));
    let agent = |number: &str| id_sql(Kind::Agent, number);
    let (held_back, quiet, other) = (agent("0"), agent("1"), agent("2 + n % 50"));
    let sql = format!(
        "INSERT INTO trigger_firings (id, project_id, agent_id, event, entity_id, entity_type, entity_version,
             cause_depth, status, due_at, created_at, settled_at, event_txid, event_seq)
         SELECT {firing}, CASE WHEN n = 1 OR n % 2 = 0 THEN {own_project} ELSE {project} END,
             CASE WHEN n = 1 THEN {quiet} WHEN n % 2 = 0 THEN {held_back} ELSE {other} END,
             'on_entity_created', {object}, 'Note', 1, 0,
             CASE WHEN n = 1 OR n % 2 = 0 THEN 'pending' ELSE 'admitted' END,
             CASE WHEN n = 1 THEN TIMESTAMPTZ '2026-06-01' ELSE {time} END, {time},
             CASE WHEN n > 1 AND n % 2 = 1 THEN {time} END, 0, n
         FROM generate_series({first}, {last}) AS n"
    );
    run_sql(db, sql).await;
}

/// Two changes of [`HUB`] will share a run.
async fn insert_pending_firings_of_hub(db: &Db) {
    insert_firings_of_hub(db, 1, 2, "'pending', TIMESTAMPTZ '2027-06-01 00:00Z'", "NULL").await;
}

/// The changes of [`HUB`] for which runs were started.
async fn insert_settled_firings_of_hub(db: &Db) {
    let [_, _, _, time] = common_sql();
    insert_firings_of_hub(db, FIRST, HUB_FIRINGS, &format!("'admitted', {time}"), &time).await;
}

async fn insert_firings_of_hub(db: &Db, first: i64, last: i64, status_and_due: &str, settled: &str) {
    let [_, _, _, time] = common_sql();
    let (firing, project) = (id_sql(Kind::Firing, "1000000 + n"), id_sql(Kind::Project, "0"));
    let sql = format!(
        "INSERT INTO trigger_firings (id, project_id, agent_id, event, entity_id, entity_type, entity_version,
             cause_depth, status, due_at, created_at, settled_at, event_txid, event_seq)
         SELECT {firing}, {project}, '{WATCHER}', 'on_entity_updated', '{HUB}', 'Note', n, 0, {status_and_due}, {time},
             {settled}, 0, 1000000 + n
         FROM generate_series({first}, {last}) AS n"
    );
    run_sql(db, sql).await;
}

/// The other projects have no row, as if they had been removed.
async fn insert_project(db: &Db) {
    let sql = format!(
        "INSERT INTO projects (no, id, name, strict, packs_revision, created_at, updated_at)
         VALUES (nextval('projects_no_seq'), '{PROJECT}', 'hot', false, 0, TIMESTAMPTZ '2026-01-01',
             TIMESTAMPTZ '2026-01-01')"
    );
    run_sql(db, sql).await;
}

async fn insert_versions(db: &Db, first: i64, last: i64) {
    let [project, _, object, time] = common_sql();
    let sql = format!(
        "INSERT INTO graph_object_versions
             (object_id, version, project_id, type, key, labels, properties, created_at, updated_at, valid_to)
         SELECT {object}, 0, {project}, 'Note', 'old' || n, '[]', '{{}}', {time}, {time}, {time}
         FROM generate_series({first}, {last}) AS n"
    );
    run_sql(db, sql).await;
}

async fn insert_changes(db: &Db, first: i64, last: i64) {
    let [project, _, object, time] = common_sql();
    let sql = format!(
        "INSERT INTO graph_events (project_id, kind, entity_id, entity_type, version, at)
         SELECT {project}, 'object_created', {object}, 'Note', 1, {time} FROM generate_series({first}, {last}) AS n"
    );
    run_sql(db, sql).await;
}

/// The first workflow has no events.
async fn insert_workflow_events(db: &Db) {
    let [_, workflow, object, time] = common_sql();
    let sql = format!(
        "INSERT INTO workflow_events (workflow_id, seq, type, task_id, data, at)
         SELECT {workflow}, 1 + n % 64, 'task_started', {object}, '{{}}', {time}
         FROM generate_series({FIRST}, {WORKFLOW_EVENTS}) AS n"
    );
    run_sql(db, sql).await;
}

/// Of 16 jobs one runs, one is queued, and all others are done.
async fn insert_jobs(db: &Db, first: i64, last: i64) {
    let [project, _, _, time] = common_sql();
    let job = id_sql(Kind::Job, "n");
    let sql = format!(
        "INSERT INTO jobs (id, queue, project_id, payload, status, attempts, max_attempts, run_at, lease_owner,
             lease_until, created_at, finished_at)
         SELECT {job}, '{QUEUE}', {project}, '{{}}',
             CASE n % 16 WHEN 0 THEN 'running' WHEN 1 THEN 'queued' ELSE 'done' END, 0, 10, {time},
             CASE n % 16 WHEN 0 THEN '{OWNER}' END,
             CASE n % 16 WHEN 0 THEN TIMESTAMPTZ '2100-01-01' + n * INTERVAL '1 second' END,
             {time}, CASE WHEN n % 16 > 1 THEN {time} END
         FROM generate_series({first}, {last}) AS n"
    );
    run_sql(db, sql).await;
}

/// Copies the first workflow.
async fn copy_workflows(db: &Db) {
    let (project, workflow) = (id_sql(Kind::Project, "n % 3"), id_sql(Kind::Workflow, "n"));
    let sql = format!(
        "INSERT INTO workflows SELECT copy.* FROM workflows AS w CROSS JOIN generate_series(1, {WORKFLOWS}) AS n
         CROSS JOIN LATERAL jsonb_populate_record(w, jsonb_build_object('id', {workflow}, 'project_id', {project},
             'lease_until', TIMESTAMPTZ '2026-01-01' + n * INTERVAL '1 minute')) AS copy
         WHERE w.id = '{WORKFLOW}'"
    );
    run_sql(db, sql).await;
}

/// Copies the first running run and its record. Of 20 runs one is running, one is queued, and all others have ended. A
/// trigger of the database adds an event for each run.
async fn copy_runs(db: &Db) {
    let [project, workflow, object, time] = common_sql();
    let (run, series) = (id_sql(Kind::Run, "n"), format!("generate_series({FIRST}, {RUNS}) AS n"));
    let runs = format!(
        "INSERT INTO agent_runs SELECT copy.* FROM agent_runs AS r CROSS JOIN {series}
         CROSS JOIN LATERAL jsonb_populate_record(r, jsonb_build_object('id', {run}, 'project_id', {project},
             'workflow_id', {workflow}, 'task_id', {object}, 'session_id', {object}, 'created_at', {time},
             'status', CASE n % 20 WHEN 0 THEN 'running' WHEN 1 THEN 'queued' ELSE 'completed' END)) AS copy
         WHERE r.id = '{RUN}'"
    );
    let messages = format!(
        "INSERT INTO agent_run_messages (run_id, seq, id, role, step_number, content, created_at)
         SELECT {run}, m.seq, gen_random_uuid(), m.role, m.step_number, m.content, {time}
         FROM agent_run_messages AS m CROSS JOIN {series} WHERE m.run_id = '{RUN}'"
    );
    let calls = format!(
        "INSERT INTO agent_run_tool_calls
             (run_id, seq, id, message_id, tool_name, step_number, input, status, created_at)
         SELECT {run}, c.seq, gen_random_uuid(), c.message_id, c.tool_name, c.step_number, c.input, c.status, {time}
         FROM agent_run_tool_calls AS c CROSS JOIN {series} WHERE c.run_id = '{RUN}'"
    );
    let events = format!(
        "INSERT INTO agent_run_events (run_id, seq, type, data, at)
         SELECT {run}, e.seq, e.type, e.data, {time}
         FROM agent_run_events AS e CROSS JOIN {series} WHERE e.run_id = '{RUN}'"
    );
    for sql in [runs, messages, calls, events] {
        run_sql(db, sql).await;
    }
}
