//! Limits per day: no transaction that others wait for reads the messages of the day.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use emergent_domain::{ids::ProjectId, time::Timestamp, workflow::Limit};
use emergent_store::{
    Tx,
    budget::{self, OpenedDay},
    params,
};
use emergent_testkit::TestDb;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn setting_a_limit_reads_the_messages_outside_of_its_transactions() {
    let test = TestDb::postgres().await;
    let (db, other) = (test.db.clone(), test.second_connection().await);
    let (project, now) = (ProjectId::new(), Timestamp::now());
    let start = OpenedDay::open(&db, ProjectId::new(), None, now).await.unwrap().sum(&db).await.unwrap();

    // Nobody can read messages or runs now.
    let (locked, is_locked) = mpsc::channel();
    let (unlock, is_unlocked) = mpsc::channel::<()>();
    let is_unlocked = Arc::new(Mutex::new(is_unlocked));
    let holding = tokio::spawn(async move {
        let hold = move |tx: &mut Tx<'_>| {
            tx.execute("LOCK TABLE agent_run_messages, agent_runs IN ACCESS EXCLUSIVE MODE", params![])?;
            locked.send(()).unwrap();
            // Ends when the sender is dropped.
            let _ = is_unlocked.lock().unwrap().recv();
            Ok::<_, emergent_store::Error>(())
        };
        other.write(hold).await
    });
    tokio::task::spawn_blocking(move || is_locked.recv().unwrap()).await.unwrap();
    let work = async {
        let opened = OpenedDay::open(&db, project, None, now).await.unwrap();
        let limit = Limit { microusd: None, tokens: Some(5) };
        db.write(move |tx| budget::set_day_limit(tx, &start, limit, now)).await.unwrap();
        opened
    };
    let opened = tokio::time::timeout(Duration::from_secs(5), work).await.expect("neither reads them");
    let mut summing = tokio::spawn(async move { opened.sum(&db).await });
    assert!(
        tokio::time::timeout(Duration::from_millis(300), &mut summing).await.is_err(),
        "the sum needs them"
    );
    drop(unlock);
    holding.await.unwrap().unwrap();
    summing.await.unwrap().unwrap();
}
