//! How long sessions of browsers and login codes are valid.

use crate::support;

use std::time::Duration;

use emergent_domain::{
    browser_session::{Login, MAX_OPEN_CODES, MAX_SESSIONS},
    token::Scope,
};
use emergent_graph::{Credential, Graph, cleanup::CleanupSettings};
use emergent_testkit::both_engines;
use support::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A session of a new token that ends after `lifetime`, if at all.
async fn start(graph: &Graph, lifetime: Option<Duration>) -> Credential {
    let end = lifetime.map(|lifetime| graph.clock().now() + lifetime);
    let (token, _) = graph.create_token("t", [Scope::GraphRead].into(), None, end).await.unwrap();
    let started = graph.start_session(token.id).await.unwrap().expect("a valid token");
    Credential::Session(started.secret.as_str().into())
}

/// Logs in and uses the session, as a request does.
async fn use_session(graph: &Graph, credential: &Credential) -> Option<Login> {
    let login = graph.log_in(credential).await.unwrap()?;
    graph.renew_session(login.session.expect("a session")).await.unwrap();
    Some(login)
}

both_engines! {
    async fn a_session_ends_a_week_after_its_last_use(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let session = start(graph, None).await;
        graph.clock().advance(DAY * 6);
        assert!(use_session(graph, &session).await.is_some());
        graph.clock().advance(DAY * 6);
        assert!(use_session(graph, &session).await.is_some(), "it was used six days ago");
        graph.clock().advance(DAY * 7);
        assert_eq!(use_session(graph, &session).await, None);
        assert_eq!(graph.log_in(&Credential::Session("ems_unknown".into())).await.unwrap(), None);
    }

    async fn a_session_ends_after_thirty_days_and_with_its_token(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let (session, short) = (start(graph, None).await, start(graph, Some(DAY)).await);
        for day in 0..30 {
            let login = use_session(graph, &session).await;
            assert!(login.is_some(), "on day {day}");
            assert_eq!(use_session(graph, &short).await.is_some(), day == 0, "its token ended");
            graph.clock().advance(DAY);
        }
        assert_eq!(use_session(graph, &session).await, None);
        graph.clock().advance(DAY);
        graph.delete_expired(CleanupSettings::default()).await.unwrap();
        let left: Vec<i64> = graph.db().read(|tx| tx.query("SELECT count(*) FROM browser_sessions", &[], |row| row.get(0)))
            .await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert_eq!(left, [0]);
    }

    async fn a_code_ends_after_ten_minutes_and_is_deleted(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let (token, _) = graph.create_token("t", [Scope::GraphRead].into(), None, None).await.unwrap();
        let (in_time, _) = graph.create_login_code(token.id).await.unwrap();
        let (late, end) = graph.create_login_code(token.id).await.unwrap();
        assert_eq!(end, graph.clock().now() + Duration::from_secs(600));
        graph.clock().advance(Duration::from_secs(599));
        assert!(graph.start_session_with_code(&in_time).await.unwrap().is_some());
        assert!(graph.start_session_with_code(&in_time).await.unwrap().is_none(), "it was used");
        graph.clock().advance(Duration::from_secs(1));
        assert!(graph.start_session_with_code(&late).await.unwrap().is_none());
        graph.clock().advance(Duration::from_secs(1));
        graph.delete_expired(CleanupSettings::default()).await.unwrap();
        let left: Vec<i64> = graph.db().read(|tx| tx.query("SELECT count(*) FROM login_codes", &[], |row| row.get(0)))
            .await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert_eq!(left, [0]);
    }

    async fn a_token_has_a_limited_number_of_sessions_and_the_oldest_end_first(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let (token, _) = graph.create_token("t", [Scope::GraphRead].into(), None, None).await.unwrap();
        let other = start(graph, None).await;
        let mut sessions = Vec::new();
        for _ in 0..MAX_SESSIONS + 2 {
            graph.clock().advance(Duration::from_secs(1));
            let started = graph.start_session(token.id).await.unwrap().expect("a valid token");
            sessions.push(Credential::Session(started.secret.as_str().into()));
        }
        let logins = graph.log_in_each(&sessions).await.unwrap();
        let ended = logins.iter().take_while(|login| login.is_none()).count();
        assert_eq!((ended, logins.iter().flatten().count()), (2, MAX_SESSIONS));
        assert!(graph.log_in(&other).await.unwrap().is_some(), "other tokens have their own sessions");
        let recorded: Vec<i64> = graph.db()
            .read(|tx| tx.query("SELECT count(*) FROM audit_log WHERE action = 'session.end'", &[], |row| row.get(0)))
            .await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert_eq!(recorded, [2]);
    }

    async fn a_token_has_a_limited_number_of_unused_codes(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let (token, _) = graph.create_token("t", [Scope::GraphRead].into(), None, None).await.unwrap();
        let (used, _) = graph.create_login_code(token.id).await.unwrap();
        assert!(graph.start_session_with_code(&used).await.unwrap().is_some());
        let mut codes = Vec::new();
        for _ in 0..MAX_OPEN_CODES + 1 {
            graph.clock().advance(Duration::from_secs(1));
            codes.push(graph.create_login_code(token.id).await.unwrap().0);
        }
        let mut accepted = Vec::new();
        for code in &codes {
            accepted.push(graph.start_session_with_code(code).await.unwrap().is_some());
        }
        assert_eq!(accepted, [vec![false], vec![true; MAX_OPEN_CODES]].concat());
        assert!(graph.start_session_with_code(&used).await.unwrap().is_none(), "it stays used");
    }
}
