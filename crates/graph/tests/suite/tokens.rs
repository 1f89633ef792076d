//! Projects and their tokens.

use crate::support;

use std::{collections::BTreeSet, time::Duration};

use emergent_domain::{
    audit::AuditOrigin,
    ids::{ProjectId, TokenId},
    project::ProjectPatch,
    token::{Scope, Token},
};
use emergent_graph::{Credential, Error, Graph};
use emergent_store::audit;
use emergent_testkit::{both_engines, fixed_clock};
use support::*;

fn reads() -> BTreeSet<Scope> {
    BTreeSet::from([Scope::GraphRead])
}

both_engines! {
    async fn a_secret_opens_its_token_and_nothing_else_does(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let (token, secret) = graph.create_token("ci", reads(), Some(harness.project()), None).await.unwrap();
        assert!(secret.starts_with("emt_") && secret.len() > 40);
        assert_eq!(graph.authenticate(&secret).await.unwrap(), Some(token.clone()));
        let known = Credential::Token(secret.as_str().into());
        let each = [Credential::Token("emt_unknown".into()), known.clone(), Credential::Token("".into()), known];
        let each: Vec<_> = graph.log_in_each(&each).await.unwrap().into_iter().map(|login| login.map(|login| (*login.token).clone())).collect();
        assert_eq!(each, [None, Some(token.clone()), None, Some(token.clone())]);
        let (_, other) = graph.create_token("ci", reads(), None, None).await.unwrap();
        assert_ne!(secret, other);
        for wrong in ["", "emt_", &secret[1..], &format!("{secret} "), "\0", "emt_\u{e9}"] {
            assert_eq!(graph.authenticate(wrong).await.unwrap(), None, "{wrong:?}");
        }
        let kept: Vec<Vec<u8>> = graph.db().read(|tx| tx.query("SELECT hash FROM tokens", &[], |row| row.get(0)))
            .await.unwrap_or_else(|error: emergent_store::Error| panic!("{error}"));
        assert!(kept.iter().all(|hash| hash.len() == 32));
    }

    async fn a_token_ends_when_it_is_revoked_expires_or_its_project_goes(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let end = graph.clock().now() + Duration::from_secs(60);
        let (_, expiring) = graph.create_token("a", reads(), None, Some(end)).await.unwrap();
        let (revoked, secret) = graph.create_token("b", reads(), None, None).await.unwrap();
        let (_, of_project) = graph.create_token("c", reads(), Some(harness.project()), None).await.unwrap();
        let opens = async |secret: &str| graph.authenticate(secret).await.unwrap().is_some();
        assert!(opens(&expiring).await && opens(&secret).await && opens(&of_project).await);
        let first = graph.revoke_token(None, revoked.id).await.unwrap();
        graph.clock().advance(Duration::from_secs(60));
        assert_eq!(graph.revoke_token(None, revoked.id).await.unwrap().revoked_at, first.revoked_at);
        graph.delete_project(harness.project()).await.unwrap();
        assert!(!opens(&expiring).await && !opens(&secret).await && !opens(&of_project).await);
        assert_eq!(problem(graph.create_token("d", reads(), None, Some(end)).await), "expiresAt: must be in the future");
        assert!(problem(graph.create_token("d", BTreeSet::new(), None, None).await).starts_with("scopes"));
        assert!(problem(graph.create_token("", reads(), None, None).await).starts_with("name"));
        let gone = graph.create_token("d", reads(), Some(harness.project()), None).await;
        assert!(matches!(gone, Err(Error::NotFound { what: "project", .. })));
    }

    async fn tokens_are_listed_and_revoked_within_their_project(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let other = project(graph, "other", false).await.project;
        let mut made = Vec::new();
        for owner in [Some(harness.project()), None, Some(other), Some(harness.project()), Some(harness.project())] {
            made.push(graph.create_token("t", reads(), owner, None).await.unwrap().0);
        }
        let list = async |project: Option<ProjectId>| -> Vec<TokenId> {
            all_pages(async |page| graph.list_tokens(project, page).await).await.iter().map(|token| token.id).collect()
        };
        assert_eq!(list(None).await, [made[4].id, made[3].id, made[2].id, made[1].id, made[0].id]);
        assert_eq!(list(Some(harness.project())).await, [made[4].id, made[3].id, made[0].id]);
        for stranger in [made[2].id, made[1].id, TokenId::new()] {
            let outcome = graph.revoke_token(Some(harness.project()), stranger).await;
            assert!(matches!(outcome, Err(Error::NotFound { what: "token", .. })), "{outcome:?}");
        }
        graph.revoke_token(Some(other), made[2].id).await.unwrap();
    }

    async fn the_operators_secret_is_a_token_with_every_scope(db: TestDb) {
        let graph = Graph::new(db.db.clone(), fixed_clock(), None);
        let secret = "correct-horse-battery";
        let token = graph.ensure_admin_token(secret).await.unwrap();
        assert_eq!(graph.ensure_admin_token(secret).await.unwrap(), token);
        assert_eq!((token.project, token.scopes.len()), (None, Scope::ALL.len()));
        graph.revoke_token(None, token.id).await.unwrap();
        assert_eq!(graph.authenticate(secret).await.unwrap(), None);
        let again = graph.ensure_admin_token(secret).await.unwrap();
        assert!(again.id == token.id && again.revoked_at.is_some(), "a token that was revoked stays revoked");
        assert_eq!(graph.authenticate(secret).await.unwrap(), None);
        assert!(graph.ensure_admin_token("short").await.is_err());
        let (_, lesser) = graph.create_token("l", reads(), None, None).await.unwrap();
        assert!(matches!(graph.ensure_admin_token(&lesser).await, Err(Error::Conflict { .. })));
    }

    async fn projects_are_found_by_id_and_by_name(db: TestDb) {
        let graph = Graph::new(db.db.clone(), fixed_clock(), None);
        let default = graph.ensure_default_project().await.unwrap();
        assert_eq!(graph.ensure_default_project().await.unwrap(), default);
        let made = graph.create_project("docs", false).await.unwrap();
        assert_ne!(made.no, default.no);
        assert_eq!(graph.find_project("docs").await.unwrap(), made);
        assert_eq!(graph.find_project(&made.id.to_string()).await.unwrap(), made);
        for missing in ["Docs", "", "\0", "x y"] {
            assert!(matches!(graph.find_project(missing).await, Err(Error::NotFound { .. })), "{missing:?}");
        }
        assert!(matches!(graph.create_project("docs", false).await, Err(Error::Conflict { .. })));
        assert!(problem(graph.create_project("a b", false).await).starts_with("name"));
        let renamed = graph.update_project(made.id, ProjectPatch { name: Some("papers".to_owned()), strict: Some(true), ..ProjectPatch::default() }).await.unwrap();
        assert_eq!((renamed.name.as_str(), renamed.strict), ("papers", true));
        let taken = graph.update_project(made.id, ProjectPatch { name: Some("default".to_owned()), ..ProjectPatch::default() }).await;
        assert!(matches!(taken, Err(Error::Conflict { .. })));
        assert!(matches!(graph.delete_project(default.id).await, Err(Error::Conflict { .. })));
        assert!(matches!(graph.update_project(default.id, ProjectPatch { name: Some("x".to_owned()), ..ProjectPatch::default() }).await, Err(Error::Conflict { .. })));
        graph.delete_project(made.id).await.unwrap();
        assert!(matches!(graph.get_project(made.id).await, Err(Error::NotFound { .. })));
        assert!(matches!(graph.delete_project(made.id).await, Err(Error::NotFound { .. })));
        let again = graph.create_project("papers", false).await.unwrap();
        assert!(again.no > made.no, "numbers are never given twice");
        let all = all_pages(async |page| graph.list_projects(page).await).await;
        assert_eq!(all.len(), 2);
    }

    async fn revoking_a_token_with_its_children_ends_all_that_it_created(db: TestDb) {
        let harness = Harness::new(&db).await;
        let graph = &harness.graph;
        let project = Some(harness.project());
        let create = async |creator: Option<&Token>, name: &'static str| {
            let origin = AuditOrigin { token: creator.map(|token| (token.id, token.name.clone())), session: None, address: None };
            audit::with_origin(origin, graph.create_token(name, reads(), project, None)).await
        };
        let (parent, _) = create(None, "parent").await.unwrap();
        let (child, _) = create(Some(&parent), "child").await.unwrap();
        let (_, secret) = create(Some(&child), "grandchild").await.unwrap();
        let (_, stranger) = create(None, "stranger").await.unwrap();
        graph.revoke_token(None, parent.id).await.unwrap();
        let names = |tokens: Vec<Token>| tokens.into_iter().map(|token| (token.name, token.revoked_at.is_some())).collect::<Vec<_>>();
        let open = names(graph.list_created_tokens(project, parent.id).await.unwrap());
        assert_eq!(open, [("child".to_owned(), false), ("grandchild".to_owned(), false)]);
        assert!(graph.authenticate(&secret).await.unwrap().is_some(), "it was not asked for");
        let late = create(Some(&parent), "late").await;
        assert!(matches!(late, Err(Error::TokenEnded)), "a request that was under way creates none");
        assert!(graph.revoke_created_tokens(Some(ProjectId::new()), parent.id).await.unwrap().is_empty());
        let ended = names(graph.revoke_created_tokens(project, parent.id).await.unwrap());
        assert_eq!(ended, [("child".to_owned(), true), ("grandchild".to_owned(), true)]);
        assert!(graph.authenticate(&secret).await.unwrap().is_none());
        assert!(graph.authenticate(&stranger).await.unwrap().is_some());
    }
}
