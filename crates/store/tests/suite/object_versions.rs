//! New versions of objects: each one follows the stored one, which moves to the history.

use emergent_domain::{
    author::Author,
    ids::{ObjectId, ProjectId},
    indexed_text::indexed_text,
    json::JsonObject,
    object::Object,
    time::Timestamp,
};
use emergent_store::{Db, DbConfig, Error, Tx, objects};
use emergent_testkit::{TestDb, both_engines};

use crate::number;

const VERSIONS: &str = "SELECT count(*) FROM graph_object_versions";

/// A version of the object, written at this second.
fn version(object: &Object, version: i64) -> Object {
    Object { version, updated_at: Timestamp::from_micros(version * 1_000_000), ..object.clone() }
}

/// Stores the first version of an object.
pub async fn insert(db: &Db) -> Object {
    let at = Timestamp::from_micros(1_000_000);
    let object = Object {
        id: ObjectId::new(),
        project: ProjectId::new(),
        type_: "Note".into(),
        key: Some("k".into()),
        status: None,
        labels: Vec::new(),
        properties: JsonObject::empty(),
        version: 1,
        created_at: at,
        updated_at: at,
        deleted_at: None,
        author: Author::System,
        reason: None,
    };
    let new = object.clone();
    db.write(move |tx| {
        let text = indexed_text("Note", None, &[], &serde_json::Map::new());
        objects::insert_many(tx, 1, &[objects::NewRow { object: &new, text: &text }])
    })
    .await
    .unwrap();
    object
}

fn update(tx: &mut Tx<'_>, next: &Object) -> Result<(), Error> {
    let locked = objects::lock(tx, next.project, next.id)?.expect("it was stored");
    objects::update(tx, locked.no, next)
}

both_engines! {
    async fn the_versions_of_one_transaction_follow_each_other(db: TestDb) {
        let object = insert(&db).await;
        let stored = object.clone();
        db.write(move |tx| {
            update(tx, &version(&object, 2))?;
            let read = objects::get(tx, object.project, object.id)?;
            assert_eq!(read.map(|object| object.version), Some(2));
            update(tx, &version(&object, 3))
        })
        .await
        .unwrap();
        let read = db.read(move |tx| objects::get(tx, stored.project, stored.id)).await.unwrap();
        assert_eq!(read.map(|object| object.version), Some(3));
        let in_order = "SELECT count(*) FROM graph_object_versions AS v JOIN graph_object_versions AS n
                        ON n.version = v.version + 1 AND n.updated_at = v.valid_to WHERE v.version = 1";
        assert_eq!((number(&db, VERSIONS).await, number(&db, in_order).await), (2, 1));
    }

    async fn a_version_that_does_not_follow_the_stored_one_is_not_written(db: TestDb) {
        let object = insert(&db).await;
        let stored = object.clone();
        let written = db.write(move |tx| update(tx, &version(&object, 3))).await;
        assert!(matches!(written, Err(Error::Conflict(_))), "{written:?}");
        let read = db.read(move |tx| objects::get(tx, stored.project, stored.id)).await.unwrap();
        assert_eq!(read.map(|object| object.version), Some(1));
        assert_eq!(number(&db, VERSIONS).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_prepared_statements_a_version_that_does_not_follow_is_a_conflict_as_well() {
    let test = TestDb::postgres().await;
    let DbConfig::Postgres { url, connections, .. } = test.config().clone() else { panic!("PostgreSQL") };
    let db = Db::open(DbConfig::Postgres { url, connections, statement_cache: false }).await.unwrap();
    let object = insert(&db).await;
    let written = db.write(move |tx| update(tx, &version(&object, 3))).await;
    assert!(matches!(written, Err(Error::Conflict(_))), "{written:?}");
}
