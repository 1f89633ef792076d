//! Agents of products: the default flag and jobs.

mod support;

use emergent_domain::{agent::AgentDefinition, trigger::Schedule};
use emergent_products::Error;
use emergent_testkit::both_engines;
use serde_json::{Value, json};
use support::Harness;

fn product(name: &str, version: &str, agents: Value, jobs: Value) -> Value {
    json!({ "name": name, "version": version, "agents": agents, "jobs": jobs })
}

fn job(agent: &str) -> Value {
    json!([{ "name": "daily", "cron": "0 8 * * *", "agent": agent }])
}

impl Harness {
    async fn job(&self, product: &str) -> Option<Schedule> {
        self.state().await.schedules.into_iter().find(|one| one.product.as_deref() == Some(product))
    }
}

both_engines! {
    async fn the_default_agent_changes_whatever_the_order(db: TestDb) {
        let harness = Harness::open(&db).await;
        let face = |is_default| json!({ "name": "face", "visibility": "external", "is_default": is_default });
        let inner = |is_default| json!({ "name": "inner", "is_default": is_default });
        let version = |version, agents| product("p", version, agents, json!([]));
        harness.install(&version("1.0.0", json!([face(true), inner(false)]))).await.unwrap();
        for (number, agents, default, versions) in [
            ("2.0.0", json!([inner(true), face(false)]), "inner", 2),
            ("3.0.0", json!([inner(false), face(true)]), "face", 3),
            ("4.0.0", json!([face(false), inner(true)]), "inner", 4),
        ] {
            let done = harness.upgrade(&version(number, agents)).await;
            done.unwrap_or_else(|error| panic!("{number}: {error}"));
            assert_eq!(harness.default_agent().await.as_deref(), Some(default), "{number}");
            let both = (harness.agent("face").await.version, harness.agent("inner").await.version);
            assert_eq!(both, (versions, versions), "{number}: one version each");
        }
    }

    async fn an_agent_that_anothers_job_starts_does_not_go(db: TestDb) {
        let harness = Harness::open(&db).await;
        let one = |version, agents| product("one", version, agents, json!([]));
        harness.install(&one("1.0.0", json!([{ "name": "a" }, { "name": "b" }]))).await.unwrap();
        harness.install(&product("two", "1.0.0", json!([]), job("a"))).await.unwrap();
        let before = (harness.fingerprint().await, harness.rows().await);
        let gone = harness.uninstall("one").await;
        let named = |why: &str| why.contains("`daily`") && why.contains("`two`") && why.contains("`a`");
        assert!(matches!(&gone, Err(Error::Conflict(why)) if named(why)), "{gone:?}");
        let told = harness.products.uninstall(harness.actor, "one", true).await;
        assert!(matches!(&told, Err(Error::Conflict(why)) if named(why)), "a dry run says so too: {told:?}");
        let without = harness.upgrade(&one("2.0.0", json!([{ "name": "b" }]))).await;
        assert!(matches!(&without, Err(Error::Incompatible(problems)) if problems[0].pointer == "/agents" && named(&problems[0].message)), "{without:?}");
        assert_eq!((harness.fingerprint().await, harness.rows().await), before, "nothing was written");
        harness.upgrade(&one("2.0.0", json!([{ "name": "a" }]))).await.unwrap();
        harness.uninstall("two").await.unwrap();
        harness.uninstall("one").await.unwrap();
    }

    async fn an_agent_that_a_job_starts_is_not_deleted_by_hand(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.own_agent(AgentDefinition { trigger: Some("0 7 * * *".into()), ..AgentDefinition::new("mine") }).await;
        harness.install(&product("p", "1.0.0", json!([{ "name": "theirs" }]), job("mine"))).await.unwrap();
        let refused = harness.delete("mine").await;
        assert!(matches!(&refused, Err(emergent_executor::Error::Conflict(why)) if why.contains("`daily`") && why.contains("`p`")), "{refused:?}");
        assert_eq!(harness.state().await.schedules.len(), 2, "the job and the agent's own are there");
        harness.delete("theirs").await.unwrap();
        harness.uninstall("p").await.unwrap();
        harness.delete("mine").await.unwrap();
        assert!(harness.state().await.schedules.is_empty(), "its own schedule goes with it");
    }

    async fn a_job_that_moves_to_another_agent_stays_the_same_schedule(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.install(&product("p", "1.0.0", json!([{ "name": "old" }]), job("old"))).await.unwrap();
        let before = harness.job("p").await.unwrap();
        harness.upgrade(&product("p", "2.0.0", json!([{ "name": "new" }]), job("new"))).await.unwrap();
        let after = harness.job("p").await.unwrap();
        assert_eq!((after.id, after.next_at, after.created_at), (before.id, before.next_at, before.created_at));
        assert_eq!(after.agent, harness.agent("new").await.id);
        // The flag moves to an agent of the project itself, and away from it.
        harness.own_agent(AgentDefinition::new("mine")).await;
        harness.upgrade(&product("p", "3.0.0", json!([]), job("mine"))).await.unwrap();
        assert_eq!(harness.job("p").await.unwrap().id, before.id);
        harness.upgrade(&product("p", "4.0.0", json!([]), json!([]))).await.unwrap();
        assert!(harness.job("p").await.is_none());
    }

    async fn an_agent_that_somebody_renamed_is_told_of_before_it_goes(db: TestDb) {
        let harness = Harness::open(&db).await;
        let version = |version| product("p", version, json!([{ "name": "a" }]), job("a"));
        harness.install(&version("1.0.0")).await.unwrap();
        let before = harness.job("p").await.unwrap();
        harness.change("a", |agent| agent.name = "b".into()).await;
        let (_, own) = harness.products.get(harness.actor.project, "p").await.unwrap();
        let told: Vec<_> = own.iter().map(|one| (one.agent.as_str(), one.deleted)).collect();
        assert_eq!(told, [("a", true), ("b", false)]);
        let up = harness.upgrade(&version("2.0.0")).await.unwrap();
        let told: Vec<_> = up.plan.warnings.iter().map(|one| (one.kind(), one.subject())).collect();
        assert_eq!(told, [("own_change", "b"), ("own_deletion", "a")]);
        let after = harness.job("p").await.unwrap();
        assert_eq!((after.id, after.agent), (before.id, harness.agent("a").await.id));
    }
}
