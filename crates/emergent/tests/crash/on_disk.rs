//! What can only be seen in the database itself.

use std::time::Duration;

use crate::common::{Home, eventually};

/// PostgreSQL may still be busy with what the dead server sent last. Until it has noticed that
/// nobody listens, what is in doubt stays in doubt.
pub async fn settle(home: &Home) {
    let Some(url) = &home.postgres else { return };
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the database");
    let connection = tokio::spawn(connection);
    eventually("the dead server's connections end", Duration::from_secs(10), async || {
        let others = "SELECT count(*) FROM pg_stat_activity
                      WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
        client.query_one(others, &[]).await.expect("an answer").get::<_, i64>(0) == 0
    })
    .await;
    drop(client);
    let _ = connection.await;
}

/// The file is sound, and its full-text index has exactly the living objects.
pub fn check(home: &Home) {
    let db = rusqlite::Connection::open(home.data().join("emergent.db")).expect("the database file");
    let word = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).expect("an answer");
    assert_eq!(word("PRAGMA integrity_check"), "ok");
    db.execute("INSERT INTO graph_objects_fts (graph_objects_fts) VALUES ('integrity-check')", [])
        .expect("a sound full-text index");
    let differ = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("an answer");
    let missing = "SELECT count(*) FROM graph_objects WHERE deleted_at IS NULL
                   AND no NOT IN (SELECT rowid FROM graph_objects_fts)";
    let left_over = "SELECT count(*) FROM graph_objects_fts
                     WHERE rowid NOT IN (SELECT no FROM graph_objects WHERE deleted_at IS NULL)";
    let hanging = "SELECT count(*) FROM graph_relationships edge WHERE deleted_at IS NULL AND 2 <>
                   (SELECT count(*) FROM graph_objects WHERE id IN (edge.from_id, edge.to_id) AND deleted_at IS NULL)";
    let unheard = "SELECT count(*) FROM graph_objects object WHERE version <>
                   (SELECT count(*) FROM graph_events WHERE entity_id = object.id)";
    let unqueued = "SELECT count(*) FROM graph_objects object WHERE deleted_at IS NULL
                    AND no NOT IN (SELECT no FROM graph_embeddings)
                    AND no NOT IN (SELECT no FROM embedding_queue WHERE kind = 'object')";
    for sql in [missing, left_over, hanging, unheard, unqueued] {
        assert_eq!(differ(sql), 0, "{sql}");
    }
}
