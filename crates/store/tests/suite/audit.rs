//! The audit log: entries are listed as filtered, and nobody changes one.

use emergent_domain::{
    audit::{AuditAction, AuditEntry, AuditFilter, AuditOrigin, NewAuditEntry},
    cursor::Page,
    ids::{ProjectId, TokenId},
    time::Timestamp,
};
use emergent_store::{Db, Result, audit};
use emergent_testkit::both_engines;

use crate::{number, run};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros((1_700_000_000 + seconds) * 1_000_000)
}

async fn record(db: &Db, entry: NewAuditEntry, time: Timestamp) {
    db.write(move |tx| audit::record(tx, &entry, time)).await.unwrap();
}

async fn list(db: &Db, filter: AuditFilter, page: Page) -> (Vec<AuditEntry>, Page) {
    let listed = db.read(move |tx| audit::list(tx, &filter, &page)).await.unwrap();
    (listed.items, Page { after: listed.next, ..page })
}

fn names(entries: &[AuditEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.target_name.as_str()).collect()
}

both_engines! {
    async fn no_statement_changes_or_deletes_an_entry(db: TestDb) {
        record(&db, NewAuditEntry::new(AuditAction::TokenCreate, None, "kept"), at(0)).await;
        for sql in [
            "UPDATE audit_log SET token_name = 'somebody else'",
            "DELETE FROM audit_log",
            "UPDATE audit_log SET created_at = created_at",
        ] {
            let refused = run(&db, sql).await.unwrap_err();
            let message = format!("{refused:?}");
            assert!(message.contains("append-only"), "{message}");
        }
        assert_eq!(number(&db, "SELECT count(*) FROM audit_log WHERE token_name IS NULL").await, 1);
    }

    async fn an_entry_says_who_and_is_gone_with_a_change_that_failed(db: TestDb) {
        let (project, token) = (ProjectId::new(), TokenId::new());
        let origin = AuditOrigin { token: Some((token, "ci".into())), address: Some([192, 0, 2, 7].into()), ..AuditOrigin::default() };
        let entry = NewAuditEntry::new(AuditAction::SecretPut, Some(project), "API_KEY").detail("version", 2);
        let failed = {
            let entry = entry.clone();
            let work = db.write(move |tx| -> Result<()> {
                audit::record(tx, &entry, at(0))?;
                tx.execute("SELECT no_such_column FROM audit_log", &[])?;
                Ok(())
            });
            audit::with_origin(origin.clone(), work).await
        };
        assert!(failed.is_err());
        audit::with_origin(origin, record(&db, entry, at(1))).await;
        record(&db, NewAuditEntry::new(AuditAction::SecretDelete, Some(project), "API_KEY"), at(2)).await;
        let (entries, _) = list(&db, AuditFilter::default(), Page::first(10)).await;
        let [by_server, by_token] = entries.try_into().unwrap();
        assert_eq!((by_server.token, by_server.token_name, by_server.address), (None, None, None));
        assert_eq!((by_token.token, by_token.token_name.as_deref()), (Some(token), Some("ci")));
        assert_eq!(by_token.address.as_deref(), Some("192.0.2.7"));
        assert_eq!((by_token.action.as_str(), by_token.target_kind.as_str()), ("secret.put", "secret"));
        assert_eq!((by_token.at, by_token.outcome.as_str()), (at(1), "done"));
        assert_eq!(by_token.details.to_map()["version"], 2);
    }

    async fn entries_are_filtered_and_come_in_pages_newest_first(db: TestDb) {
        let (ours, theirs) = (ProjectId::new(), ProjectId::new());
        for (second, action, project, name) in [
            (1, AuditAction::AgentCreate, Some(ours), "a"),
            (2, AuditAction::AgentUpdate, Some(theirs), "b"),
            (3, AuditAction::TokenCreate, None, "c"),
            (4, AuditAction::AgentDelete, Some(ours), "d"),
        ] {
            record(&db, NewAuditEntry::new(action, project, name), at(second)).await;
        }
        let all = Page::first(10);
        let found = async |filter: AuditFilter| list(&db, filter, all).await.0;
        let filter = AuditFilter::default();
        assert_eq!(names(&found(filter.clone()).await), ["d", "c", "b", "a"]);
        assert_eq!(names(&found(AuditFilter { project: Some(ours), ..filter.clone() }).await), ["d", "a"]);
        assert_eq!(names(&found(AuditFilter { action: Some("agent".into()), ..filter.clone() }).await), ["d", "b", "a"]);
        assert_eq!(names(&found(AuditFilter { action: Some("agent.delete".into()), ..filter.clone() }).await), ["d"]);
        let between = AuditFilter { since: Some(at(2)), until: Some(at(4)), ..filter.clone() };
        assert_eq!(names(&found(between).await), ["c", "b"]);
        assert_eq!(names(&found(AuditFilter { token: Some(TokenId::new()), ..filter.clone() }).await), [""; 0]);

        let (first, next) = list(&db, filter.clone(), Page::first(3)).await;
        let (second, last) = list(&db, filter, next).await;
        assert_eq!((names(&first), names(&second)), (vec!["d", "c", "b"], vec!["a"]));
        assert_eq!(last.after, None);
    }
}
