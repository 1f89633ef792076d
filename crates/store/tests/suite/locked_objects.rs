//! Objects that are locked together before they are changed one after the other.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use emergent_domain::{
    author::Author,
    ids::{ObjectId, ProjectId},
    indexed_text::indexed_text,
    json::JsonObject,
    object::Object,
    time::Timestamp,
};
use emergent_store::{Error, Result, Tx, objects, params};
use emergent_testkit::{TestDb, both_engines};

fn object(project: ProjectId) -> Object {
    Object {
        id: ObjectId::new(),
        project,
        type_: "Note".to_owned(),
        key: None,
        status: None,
        labels: Vec::new(),
        properties: JsonObject::empty(),
        version: 1,
        created_at: Timestamp::from_micros(1),
        updated_at: Timestamp::from_micros(1),
        deleted_at: None,
        author: Author::System,
        reason: None,
    }
}

both_engines! {
    async fn an_object_that_was_locked_with_others_is_returned_as_it_is_now(db: TestDb) {
        let (project, other) = (ProjectId::new(), ProjectId::new());
        db.write(move |tx| {
            let all = [object(project), object(project), object(other)];
            let text = indexed_text("Note", None, &[], &serde_json::Map::new());
            let rows: Vec<_> = all.iter().map(|object| objects::NewRow { object, text: &text }).collect();
            objects::insert_many(tx, 1, &rows)?;
            let ids = all.each_ref().map(|object| object.id);
            objects::lock_many(tx, project, &[&ids[..], &[ObjectId::new(), ids[0]]].concat())?;
            assert_eq!(objects::lock(tx, project, ids[2])?, None, "it is of another project");
            assert_eq!(objects::lock(tx, other, ids[0])?, None);
            for (version, id) in [(1, ids[0]), (1, ids[1]), (2, ids[0])] {
                let locked = objects::lock(tx, project, id)?.expect("the object");
                assert_eq!(locked.object.version, version);
                let next = Object { version: version + 1, ..locked.object };
                objects::update(tx, locked.no, &next)?;
            }
            // A change of an object that nobody has asked for since it was locked.
            objects::lock_many(tx, project, &ids)?;
            let locked = objects::lock(tx, project, ids[1])?.expect("the object");
            objects::lock_many(tx, project, &ids)?;
            objects::update(tx, locked.no, &Object { version: 3, ..locked.object })?;
            assert_eq!(objects::lock(tx, project, ids[1])?.map(|locked| locked.object.version), Some(3));
            Ok::<_, Error>(())
        })
        .await
        .unwrap();
    }
}

/// More than one statement locks.
const MANY: usize = 600;
/// How long a transaction looks for another one to wait for it.
const MAX_LOOKS: usize = 500;

/// Inserts objects, and returns their ids in ascending order.
async fn insert(db: &TestDb, project: ProjectId, count: usize) -> Vec<ObjectId> {
    let all: Vec<Object> = (0..count).map(|_| object(project)).collect();
    let mut ids: Vec<ObjectId> = all.iter().map(|object| object.id).collect();
    ids.sort_unstable();
    db.write(move |tx| {
        let text = indexed_text("Note", None, &[], &serde_json::Map::new());
        let rows: Vec<_> = all.iter().map(|object| objects::NewRow { object, text: &text }).collect();
        objects::insert_many(tx, 1, &rows)
    })
    .await
    .unwrap();
    ids
}

/// Waits until another transaction waits for a row that this one has locked.
fn wait_until_another_waits(tx: &mut Tx<'_>) -> Result<()> {
    let sql = "SELECT count(*) FROM pg_locks
               WHERE NOT granted AND transactionid::text = pg_current_xact_id_if_assigned()::text";
    for _ in 0..MAX_LOOKS {
        if tx.query_opt(sql, params![], |row| row.get::<i64>(0))? > Some(0) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("no transaction waits for this one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_waits_for_its_first_object_has_locked_none_of_the_others() {
    let (db, project) = (TestDb::postgres().await, ProjectId::new());
    let ids = insert(&db, project, MANY).await;
    let (first, last) = (ids[0], ids[MANY - 1]);
    let attempts = Arc::new(AtomicUsize::new(0));
    let (locked, is_locked) = mpsc::channel();
    let counted = Arc::clone(&attempts);
    let one = db.write(move |tx| {
        counted.fetch_add(1, Ordering::Relaxed);
        let row = objects::lock(tx, project, first)?.expect("the object");
        // The other transaction may have gone already if this is another attempt.
        let _ = locked.send(());
        wait_until_another_waits(tx)?;
        objects::update(tx, row.no, &Object { version: 2, ..row.object })?;
        // The other transaction would end in a deadlock with this one if it had locked the object already.
        Ok::<_, Error>(objects::lock(tx, project, last)?.is_some())
    });
    let second = db.second_connection().await;
    let counted = Arc::clone(&attempts);
    let another = async {
        tokio::task::spawn_blocking(move || is_locked.recv()).await.unwrap().unwrap();
        let write = move |tx: &mut Tx<'_>| {
            counted.fetch_add(1, Ordering::Relaxed);
            // The first object is in the second statement, unless they are put in order before.
            let backwards: Vec<ObjectId> = ids.iter().rev().copied().collect();
            objects::lock_many(tx, project, &backwards)?;
            Ok::<_, Error>(objects::lock(tx, project, first)?.map(|locked| locked.object.version))
        };
        second.write(write).await
    };
    let (one, another) = tokio::join!(one, another);
    assert!(one.unwrap(), "the last object is there");
    assert_eq!(another.unwrap(), Some(2), "it waited for the change");
    assert_eq!(attempts.load(Ordering::Relaxed), 2, "neither had to begin again");
}
