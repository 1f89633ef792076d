//! Template packs of products: a pack stays assigned as long as the product or project that
//! assigned it is there.

mod support;

use emergent_domain::object::NewObject;
use emergent_products::Error;
use emergent_testkit::both_engines;
use serde_json::{Value, json};
use support::{Harness, builtin_manifest};

const COORDINATION: &str = "emergent-coordination";

/// A product that needs version `pack` of the pack `tickets`.
fn product(name: &str, version: &str, pack: &str) -> Value {
    json!({ "name": name, "version": version, "template_packs": [tickets(pack)] })
}

fn tickets(version: &str) -> Value {
    json!({ "name": "tickets", "version": version, "object_type_schemas": { "Ticket": { "type": "object" } } })
}

/// A product that needs the built-in pack and contains nothing else.
fn coordinated(name: &str) -> Value {
    let packs = builtin_manifest("emergent.code")["template_packs"].as_array().unwrap().clone();
    let pack = packs.into_iter().find(|pack| pack["name"] == COORDINATION).expect("the built-in pack");
    json!({ "name": name, "version": "1.0.0", "template_packs": [pack] })
}

impl Harness {
    /// Assigns a pack as the project itself.
    async fn assign(&self, name: &str) {
        let pack = self.pack(name).await;
        self.executor.graph().assign_pack(self.actor.project, pack.id).await.unwrap();
    }

    /// Returns the assigned version of a pack.
    async fn assigned(&self, name: &str) -> Option<String> {
        let packs = self.state().await.packs.into_iter();
        packs.filter(|one| one.pack.name == name && one.assigned).map(|one| one.pack.version).next()
    }

    async fn pack(&self, name: &str) -> emergent_store::packs::StoredPack {
        self.state().await.packs.into_iter().find(|one| one.pack.name == name).expect("a pack")
    }
}

both_engines! {
    async fn a_pack_that_a_product_only_assigned_is_taken_back_with_it(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.builtin("emergent.code").await.unwrap();
        assert!(harness.assigned(COORDINATION).await.is_some());
        let gone = harness.uninstall("emergent.code").await.unwrap();
        assert!(gone.plan.steps.iter().any(|step| step.name == COORDINATION && step.change.as_str() == "remove"));
        assert_eq!(harness.assigned(COORDINATION).await, None);
        assert!(harness.pack(COORDINATION).await.project.is_none(), "it is built in, and there for the next");
        harness.install(&coordinated("p")).await.unwrap();
        harness.upgrade(&json!({ "name": "p", "version": "2.0.0" })).await.unwrap();
        assert_eq!(harness.assigned(COORDINATION).await, None, "nor does it stay when it is no longer named");
    }

    async fn what_the_project_assigned_itself_stays(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.assign(COORDINATION).await;
        harness.install(&coordinated("p")).await.unwrap();
        harness.uninstall("p").await.unwrap();
        assert!(harness.assigned(COORDINATION).await.is_some(), "it was there before the product");
        let project = harness.actor.project;
        let pack = harness.pack(COORDINATION).await;
        harness.executor.graph().unassign_pack(project, pack.id).await.unwrap();
        harness.install(&coordinated("p")).await.unwrap();
        harness.assign(COORDINATION).await;
        harness.uninstall("p").await.unwrap();
        assert!(harness.assigned(COORDINATION).await.is_some(), "the project asked for it meanwhile");
    }

    async fn a_pack_stays_as_long_as_one_product_needs_it(db: TestDb) {
        let harness = Harness::open(&db).await;
        for (first, last) in [("p", "q"), ("q", "p")] {
            harness.install(&coordinated("p")).await.unwrap();
            harness.install(&coordinated("q")).await.unwrap();
            harness.uninstall(first).await.unwrap();
            assert!(harness.assigned(COORDINATION).await.is_some(), "`{last}` needs it");
            harness.uninstall(last).await.unwrap();
            assert_eq!(harness.assigned(COORDINATION).await, None, "nobody needs it");
        }
    }

    async fn a_pack_that_a_product_brought_and_the_project_assigned_becomes_the_projects(db: TestDb) {
        let harness = Harness::open(&db).await;
        harness.install(&product("p", "1.0.0", "1.0.0")).await.unwrap();
        let ticket = NewObject { type_: "Ticket".into(), ..Default::default() };
        let ticket = harness.executor.graph().create_object(harness.actor, ticket).await.unwrap();
        harness.assign("tickets").await;
        harness.uninstall("p").await.unwrap();
        let kept = harness.pack("tickets").await;
        assert_eq!((kept.assigned, kept.product, kept.assigned_by), (true, None, None));
        harness.install(&product("p", "1.0.0", "1.0.0")).await.unwrap();
        harness.uninstall("p").await.unwrap();
        assert!(harness.assigned("tickets").await.is_some());
        let object = harness.executor.graph().get_object(harness.actor.project, ticket.id).await.unwrap();
        assert_eq!((object.version, object.type_.as_str()), (1, "Ticket"), "what is written is left alone");
    }

    async fn an_upgrade_replaces_what_it_assigned_and_nothing_else(db: TestDb) {
        let harness = Harness::open(&db).await;
        let graph = harness.executor.graph();
        let own = graph.create_pack(harness.actor.project, serde_json::from_value(tickets("1.0.0")).unwrap()).await.unwrap();
        graph.assign_pack(harness.actor.project, own.id).await.unwrap();
        harness.install(&product("p", "1.0.0", "1.0.0")).await.unwrap();
        let before = harness.fingerprint().await;
        let refused = harness.upgrade(&product("p", "2.0.0", "2.0.0")).await;
        assert!(matches!(&refused, Err(Error::Incompatible(problems)) if problems[0].pointer == "/template_packs/0/name"), "{refused:?}");
        assert_eq!(harness.fingerprint().await, before);
        graph.unassign_pack(harness.actor.project, own.id).await.unwrap();
        harness.upgrade(&product("p", "2.0.0", "2.0.0")).await.unwrap();
        assert_eq!(harness.assigned("tickets").await.as_deref(), Some("2.0.0"));
        harness.upgrade(&product("p", "3.0.0", "3.0.0")).await.unwrap();
        assert_eq!(harness.assigned("tickets").await.as_deref(), Some("3.0.0"));
        harness.uninstall("p").await.unwrap();
        assert_eq!(harness.assigned("tickets").await, None);
        assert_eq!(harness.pack("tickets").await.id, own.id, "the project's own is there still");
    }
}
