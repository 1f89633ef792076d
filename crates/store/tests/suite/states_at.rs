//! What an object was at a time, found by its id or by a key.

use emergent_domain::{
    ids::{ObjectId, ProjectId},
    object::Object,
    time::Timestamp,
};
use emergent_store::{
    Db, Error, Param,
    objects::{self, StateAt},
};
use emergent_testkit::{TestDb, both_engines};

use crate::object_versions::insert;

fn second(number: i64) -> Timestamp {
    Timestamp::from_micros(number * 1_000_000)
}

async fn update(db: &Db, next: Object) {
    let work = move |tx: &mut emergent_store::Tx<'_>| {
        let locked = objects::lock(tx, next.project, next.id)?.expect("it was stored");
        objects::update(tx, locked.no, &next)
    };
    db.write(work).await.unwrap_or_else(|error: Error| panic!("{error}"));
}

async fn by_key(db: &Db, project: ProjectId, key: &'static str, at: Timestamp) -> Option<StateAt> {
    let found = db.snapshot(move |tx| objects::state_by_key_at(tx, project, "Note", key, at)).await;
    found.unwrap_or_else(|error: Error| panic!("{error}"))
}

async fn by_id(db: &Db, project: ProjectId, id: ObjectId, at: Timestamp) -> Option<StateAt> {
    let found = db.snapshot(move |tx| objects::state_at(tx, project, id, at)).await;
    found.unwrap_or_else(|error: Error| panic!("{error}"))
}

both_engines! {
    async fn an_object_has_the_state_of_its_version_at_the_time(db: TestDb) {
        // Created with the key `k` at second 1, renamed at second 2, and deleted at second 3.
        let object = insert(&db).await;
        let key = Some("other".to_owned());
        let renamed = Object { key, version: 2, updated_at: second(2), ..object.clone() };
        update(&db, renamed.clone()).await;
        let deleted_at = Some(second(3));
        update(&db, Object { version: 3, updated_at: second(3), deleted_at, ..renamed }).await;

        let (project, id) = (object.project, object.id);
        let state = |key: &str, deleted_at: Option<Timestamp>| {
            Some(StateAt { id, type_: "Note".to_owned(), key: Some(key.to_owned()), deleted_at })
        };
        let states =
            [(0, None), (1, state("k", None)), (2, state("other", None)), (3, state("other", deleted_at)), (4, state("other", deleted_at))];
        for (at, expected) in states {
            assert_eq!(by_id(&db, project, id, second(at)).await, expected, "at {at}");
            // The object that had the key last is found, whatever became of it.
            assert_eq!(by_key(&db, project, "k", second(at)).await, expected, "at {at}");
            let had_other = expected.filter(|state| state.key.as_deref() == Some("other"));
            assert_eq!(by_key(&db, project, "other", second(at)).await, had_other, "at {at}");
        }
        assert_eq!(by_key(&db, project, "unused", second(4)).await, None);
        let elsewhere = ProjectId::new();
        assert_eq!(by_key(&db, elsewhere, "k", second(1)).await, None);
        assert_eq!(by_id(&db, elsewhere, id, second(1)).await, None);
    }

    async fn a_key_that_is_in_use_is_found_before_and_after_a_change_of_its_object(db: TestDb) {
        let object = insert(&db).await;
        update(&db, Object { version: 2, updated_at: second(5), ..object.clone() }).await;
        assert_eq!(by_key(&db, object.project, "k", second(0)).await, None);
        for at in [1, 4, 5, 6] {
            let found = by_key(&db, object.project, "k", second(at)).await.unwrap();
            assert_eq!((found.id, found.deleted_at), (object.id, None), "at {at}");
        }
    }
}

#[tokio::test]
async fn the_names_of_earlier_versions_are_read_one_after_the_other_in_an_index() {
    let db = TestDb::sqlite().await;
    let params: Vec<Param<'static>> =
        vec![ProjectId::new().into(), 50_i64.into(), ObjectId::new().into(), ObjectId::new().into()];
    let sql = format!("EXPLAIN QUERY PLAN {}", objects::earlier_names_sql(2));
    let plan: Vec<String> = db
        .read(move |tx| tx.query(&sql, &params, |row| row.get::<String>(3)))
        .await
        .unwrap_or_else(|error: Error| panic!("{error}"));
    for index in
        ["graph_object_versions_name (object_id=?)", "graph_object_versions_name (object_id=? AND <expr>>?)"]
    {
        assert!(plan.iter().any(|line| line.contains(index)), "{plan:#?}");
    }
    assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "{plan:#?}");
}

#[tokio::test]
async fn a_key_of_an_earlier_time_is_looked_up_in_an_index() {
    let db = TestDb::sqlite().await;
    let params: Vec<Param<'static>> =
        vec![ProjectId::new().into(), "Note".to_owned().into(), "k".to_owned().into(), second(1).into()];
    let sql = format!("EXPLAIN QUERY PLAN {}", objects::LAST_WITH_KEY_SQL);
    let plan: Vec<String> = db
        .read(move |tx| tx.query(&sql, &params, |row| row.get::<String>(3)))
        .await
        .unwrap_or_else(|error: Error| panic!("{error}"));
    let index = "INDEX graph_object_versions_key (project_id=? AND type=? AND key=? AND updated_at<?)";
    assert!(plan.len() == 1 && plan[0].contains(index), "{plan:#?}");
}
