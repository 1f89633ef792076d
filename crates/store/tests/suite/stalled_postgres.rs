//! A PostgreSQL server that stops answering: everything ends within its limit, and works again when it answers.

use std::time::{Duration, Instant};

use emergent_domain::ids::ProjectId;
use emergent_store::{
    Db, DbConfig, Error, TimeLimits,
    requester::{Requester, on_behalf_of},
};
use emergent_testkit::{StallingProxy, TestDb};
use futures_util::future::join_all;

use crate::{number, run};

const ROWS: &str = "SELECT count(*) FROM leases";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_ends_within_its_limit_and_works_again_later() {
    let db = TestDb::postgres().await;
    let DbConfig::Postgres { url, .. } = db.config().clone() else { panic!("PostgreSQL") };
    let proxy = StallingProxy::start(&url).await;
    let config = DbConfig::Postgres { url: proxy.url(), connections: 8, statement_cache: true };
    let limits = TimeLimits { read: Duration::from_millis(500), write: Duration::from_millis(500) };
    let behind = Db::open_with(config, limits).await.unwrap();
    assert_eq!(number(&behind, ROWS).await, 0);

    proxy.stall(true);
    let started = Instant::now();
    let project = Requester::Project(ProjectId::new());
    let read = || on_behalf_of(project, behind.read(|tx| tx.query(ROWS, &[], |row| row.get::<i64>(0))));
    let reads = join_all((0..20).map(|_| read()));
    let writes = join_all((0..20).map(|_| behind.write(|tx| tx.execute("DELETE FROM leases", &[]))));
    let (reads, writes) = tokio::join!(reads, writes);
    let unreachable =
        |error: &Error| matches!(error, Error::Unresponsive | Error::Pool(_) | Error::Busy { .. });
    assert!(reads.iter().all(|read| read.as_ref().is_err_and(unreachable)), "{reads:?}");
    assert!(writes.iter().all(|write| write.as_ref().is_err_and(unreachable)), "{writes:?}");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());

    proxy.stall(false);
    for _ in 0..20 {
        assert_eq!(run(&behind, "DELETE FROM leases").await.unwrap(), 0);
    }
    assert_eq!(number(&behind, ROWS).await, 0);
}
