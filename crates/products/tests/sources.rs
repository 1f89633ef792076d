//! Manifests from a URL or from the latest release of a repository, and what can fail.

mod support;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use emergent_llm::Models;
use emergent_products::{Error, ManifestInput, ManifestSource, Settings, plan::Direction};
use emergent_testkit::{TestDb, both_engines};
use serde_json::{Value, json};
use support::{Harness, accepted, sample};
use tokio::sync::Semaphore;

/// A server with a manifest and many invalid responses.
#[derive(Clone)]
struct Place {
    manifest: Arc<Mutex<Value>>,
    /// How often `/slow.json` was requested, and how often it may respond.
    asked: Arc<Semaphore>,
    answer: Arc<Semaphore>,
    address: SocketAddr,
}

impl Place {
    async fn open() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = Self {
            manifest: Arc::new(Mutex::new(sample(1))),
            asked: Arc::new(Semaphore::new(0)),
            answer: Arc::new(Semaphore::new(1)),
            address: listener.local_addr().unwrap(),
        };
        let manifest = |State(place): State<Place>| async move {
            let text = place.manifest.lock().unwrap().to_string();
            ([(header::CONTENT_TYPE, "application/octet-stream")], text)
        };
        let slow = |State(place): State<Place>| async move {
            let text = place.manifest.lock().unwrap().to_string();
            place.asked.add_permits(1);
            place.answer.acquire().await.unwrap().forget();
            text
        };
        let round = |State(place): State<Place>| async move { Redirect::to(&place.at("/round")) };
        let routes = Router::new()
            .route("/manifest.json", get(manifest))
            .route("/slow.json", get(slow))
            // Like GitHub, the server redirects to the asset.
            .route(
                "/acme/support/releases/latest/download/manifest.json",
                get(|| async { Redirect::temporary("/assets/1?name=manifest.json") }),
            )
            .route("/assets/1", get(manifest))
            .route("/round", get(round))
            .route("/garbage", get(|| async { "<!doctype html>" }))
            .route("/file", get(|| async { found("file:///etc/passwd") }))
            .route("/inside", get(|| async { found("http://169.254.169.254/latest/meta-data/") }))
            .route("/big", get(|| async { vec![b' '; 9 << 20] }))
            .with_state(place.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        place
    }

    fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn source(&self, path: &str) -> ManifestSource {
        self.at(path).parse().unwrap()
    }

    fn publish(&self, manifest: Value) {
        *self.manifest.lock().unwrap() = manifest;
    }
}

fn found(to: &'static str) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
}

async fn harness(db: &TestDb, settings: Settings) -> Harness {
    Harness::with(db, settings, Models::default()).await
}

fn open_to_all() -> Settings {
    Settings { allow_private_hosts: true, ..Settings::default() }
}

#[track_caller]
fn unreachable(outcome: Result<emergent_products::ProductOutcome, Error>, said: &str) {
    match outcome {
        Err(Error::Unreachable(why)) => assert!(why.to_string().contains(said), "{why}"),
        other => panic!("expected `{said}`, got {other:?}"),
    }
}

both_engines! {
    async fn an_upgrade_looks_where_the_product_came_from(db: TestDb) {
        let place = Place::open().await;
        let harness = harness(&db, open_to_all()).await;
        let source = place.source("/manifest.json");
        harness.products.install(harness.actor, ManifestInput::Source(source.clone()), accepted()).await.unwrap();
        let found = harness.products.check_updates(harness.actor.project).await.unwrap();
        assert_eq!((found[0].available, found[0].latest.as_ref().map(ToString::to_string)), (false, Some("1.0.0".into())));
        let same = harness.products.upgrade(harness.actor, "acme.support", None, accepted()).await.unwrap();
        assert!(same.plan.direction == Direction::Same && same.plan.steps.is_empty());
        place.publish(sample(2));
        assert!(harness.products.check_updates(harness.actor.project).await.unwrap()[0].available);
        let up = harness.products.upgrade(harness.actor, "acme.support", None, accepted()).await.unwrap();
        assert_eq!((up.plan.direction, up.product.unwrap().source), (Direction::Upgrade, Some(source.clone())));
        place.publish(sample(1));
        let back = harness.products.upgrade(harness.actor, "acme.support", None, accepted()).await;
        assert!(matches!(&back, Err(Error::Conflict(why)) if why.contains("name the source")), "{back:?}");
        let back = harness.products.upgrade(harness.actor, "acme.support", Some(ManifestInput::Source(source)), accepted()).await.unwrap();
        assert_eq!(back.plan.direction, Direction::Downgrade);
    }

    async fn an_upgrade_that_was_overtaken_changes_nothing(db: TestDb) {
        let place = Place::open().await;
        let harness = harness(&db, open_to_all()).await;
        let source = ManifestInput::Source(place.source("/slow.json"));
        harness.products.install(harness.actor, source, accepted()).await.unwrap();
        place.asked.acquire().await.unwrap().forget();
        place.publish(sample(2));
        let (products, actor) = (harness.products.clone(), harness.actor);
        let slow = tokio::spawn(async move { products.upgrade(actor, "acme.support", None, accepted()).await });
        place.asked.acquire().await.unwrap().forget();
        let mut newest = sample(2);
        newest["version"] = json!("3.0.0");
        harness.upgrade(&newest).await.unwrap();
        let before = harness.fingerprint().await;
        place.answer.add_permits(1);
        let late = slow.await.unwrap();
        assert!(matches!(&late, Err(Error::Conflict(why)) if why.contains("3.0.0")), "{late:?}");
        assert_eq!(harness.fingerprint().await, before, "it would have gone back to version 2");
    }
}

#[tokio::test]
async fn a_repositorys_latest_release_is_fetched_from_where_the_operator_says() {
    let (db, place) = (TestDb::sqlite().await, Place::open().await);
    // The operator configured this server, so it is contacted although its address is private.
    let settings = Settings { github_url: Some(place.at("/")), ..Settings::default() };
    let harness = harness(&db, settings).await;
    let source: ManifestSource = "github.com/acme/support".parse().unwrap();
    let done =
        harness.products.install(harness.actor, ManifestInput::Source(source), accepted()).await.unwrap();
    assert_eq!(done.product.unwrap().version.to_string(), "1.0.0");
    place.publish(sample(2));
    let found = harness.products.check_updates(harness.actor.project).await.unwrap();
    assert!(found[0].available, "{found:?}");
    let missing: ManifestSource = "github.com/acme/nothing".parse().unwrap();
    unreachable(
        harness.products.install(harness.actor, ManifestInput::Source(missing), accepted()).await,
        "404",
    );
}

#[tokio::test]
async fn what_is_inside_is_not_asked_unless_the_operator_says_so() {
    let (db, place) = (TestDb::sqlite().await, Place::open().await);
    let harness = harness(&db, Settings::default()).await;
    let port = place.address.port();
    for at in [
        place.at("/manifest.json"),
        format!("http://localhost:{port}/manifest.json"),
        format!("http://[::1]:{port}/m"),
    ] {
        let manifest_input = ManifestInput::Source(at.parse().unwrap());
        unreachable(
            harness.products.install(harness.actor, manifest_input, accepted()).await,
            "EMERGENT_ALLOW_PRIVATE_HOSTS",
        );
    }
    // A redirect from an allowed server does not allow it either.
    let settings = Settings { github_url: Some(place.at("")), ..Settings::default() };
    let harness = self::harness(&db, settings).await;
    let manifest_input = ManifestInput::Source(place.source("/inside"));
    unreachable(harness.products.install(harness.actor, manifest_input, accepted()).await, "169.254.169.254");
}

#[tokio::test]
async fn what_is_no_manifest_is_told_so() {
    let (db, place) = (TestDb::sqlite().await, Place::open().await);
    let harness = harness(&db, open_to_all()).await;
    let install = |path: &str| {
        let (products, actor, source) = (harness.products.clone(), harness.actor, place.source(path));
        async move { products.install(actor, ManifestInput::Source(source), accepted()).await }
    };
    unreachable(install("/nothing").await, "404");
    unreachable(install("/round").await, "redirects more than");
    unreachable(install("/file").await, "use http or https");
    unreachable(install("/big").await, "limit of 8388608 bytes");
    let garbage = install("/garbage").await;
    assert!(
        matches!(&garbage, Err(Error::Manifest(problems)) if problems[0].message.contains("not JSON")),
        "{garbage:?}"
    );
    let closed: ManifestSource = "http://127.0.0.1:1/manifest.json".parse().unwrap();
    unreachable(
        harness.products.install(harness.actor, ManifestInput::Source(closed), accepted()).await,
        "could not fetch",
    );
    assert!(harness.products.list(harness.actor.project).await.unwrap().is_empty());
}

#[tokio::test]
async fn one_product_that_cannot_be_asked_about_does_not_hide_the_others() {
    let (db, place) = (TestDb::sqlite().await, Place::open().await);
    let harness = harness(&db, open_to_all()).await;
    harness
        .products
        .install(harness.actor, ManifestInput::Source(place.source("/manifest.json")), accepted())
        .await
        .unwrap();
    harness.builtin("emergent.research").await.unwrap();
    let mut other = sample(1);
    other["name"] = "other".into();
    place.publish(other);
    let found = harness.products.check_updates(harness.actor.project).await.unwrap();
    assert!(found[0].error.as_ref().is_some_and(|why| why.contains("`other`")), "{found:?}");
    assert_eq!((found[1].available, found[1].error.clone()), (false, None));
}
