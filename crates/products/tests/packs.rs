//! Packs of products in a project: who had one assigned decides whether it stays.

mod support;

use emergent_domain::object::NewObject;
use emergent_products::Error;
use emergent_testkit::both_engines;
use serde_json::{Value, json};
use support::{Shop, shipped};

const COORDINATION: &str = "emergent-coordination";

/// A product that needs version `pack` of the pack `tickets`.
fn product(name: &str, version: &str, pack: &str) -> Value {
    json!({ "name": name, "version": version, "template_packs": [tickets(pack)] })
}

fn tickets(version: &str) -> Value {
    json!({ "name": "tickets", "version": version, "object_type_schemas": { "Ticket": { "type": "object" } } })
}

/// A product that needs the built-in pack and brings nothing else.
fn coordinated(name: &str) -> Value {
    let packs = shipped("emergent.code")["template_packs"].as_array().unwrap().clone();
    let pack = packs.into_iter().find(|pack| pack["name"] == COORDINATION).expect("the built-in pack");
    json!({ "name": name, "version": "1.0.0", "template_packs": [pack] })
}

impl Shop {
    /// The project assigns a pack by itself.
    async fn assign(&self, name: &str) {
        let pack = self.pack(name).await;
        self.executor.graph().assign_pack(self.actor.project, pack.id).await.unwrap();
    }

    /// The version of a pack that is assigned.
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
        let shop = Shop::open(&db).await;
        shop.builtin("emergent.code").await.unwrap();
        assert!(shop.assigned(COORDINATION).await.is_some());
        let gone = shop.uninstall("emergent.code").await.unwrap();
        assert!(gone.plan.steps.iter().any(|step| step.name == COORDINATION && step.change.as_str() == "remove"));
        assert_eq!(shop.assigned(COORDINATION).await, None);
        assert!(shop.pack(COORDINATION).await.project.is_none(), "it is built in, and there for the next");
        shop.install(&coordinated("p")).await.unwrap();
        shop.upgrade(&json!({ "name": "p", "version": "2.0.0" })).await.unwrap();
        assert_eq!(shop.assigned(COORDINATION).await, None, "nor does it stay when it is no longer named");
    }

    async fn what_the_project_assigned_itself_stays(db: TestDb) {
        let shop = Shop::open(&db).await;
        shop.assign(COORDINATION).await;
        shop.install(&coordinated("p")).await.unwrap();
        shop.uninstall("p").await.unwrap();
        assert!(shop.assigned(COORDINATION).await.is_some(), "it was there before the product");
        let project = shop.actor.project;
        let pack = shop.pack(COORDINATION).await;
        shop.executor.graph().unassign_pack(project, pack.id).await.unwrap();
        shop.install(&coordinated("p")).await.unwrap();
        shop.assign(COORDINATION).await;
        shop.uninstall("p").await.unwrap();
        assert!(shop.assigned(COORDINATION).await.is_some(), "the project asked for it meanwhile");
    }

    async fn a_pack_stays_as_long_as_one_product_needs_it(db: TestDb) {
        let shop = Shop::open(&db).await;
        for (first, last) in [("p", "q"), ("q", "p")] {
            shop.install(&coordinated("p")).await.unwrap();
            shop.install(&coordinated("q")).await.unwrap();
            shop.uninstall(first).await.unwrap();
            assert!(shop.assigned(COORDINATION).await.is_some(), "`{last}` needs it");
            shop.uninstall(last).await.unwrap();
            assert_eq!(shop.assigned(COORDINATION).await, None, "nobody needs it");
        }
    }

    async fn a_pack_that_a_product_brought_and_the_project_assigned_becomes_the_projects(db: TestDb) {
        let shop = Shop::open(&db).await;
        shop.install(&product("p", "1.0.0", "1.0.0")).await.unwrap();
        let ticket = NewObject { type_: "Ticket".into(), ..Default::default() };
        let ticket = shop.executor.graph().create_object(shop.actor, ticket).await.unwrap();
        shop.assign("tickets").await;
        shop.uninstall("p").await.unwrap();
        let kept = shop.pack("tickets").await;
        assert_eq!((kept.assigned, kept.product, kept.assigned_by), (true, None, None));
        shop.install(&product("p", "1.0.0", "1.0.0")).await.unwrap();
        shop.uninstall("p").await.unwrap();
        assert!(shop.assigned("tickets").await.is_some());
        let object = shop.executor.graph().get_object(shop.actor.project, ticket.id).await.unwrap();
        assert_eq!((object.version, object.type_.as_str()), (1, "Ticket"), "what is written is left alone");
    }

    async fn an_upgrade_replaces_what_it_assigned_and_nothing_else(db: TestDb) {
        let shop = Shop::open(&db).await;
        let graph = shop.executor.graph();
        let own = graph.create_pack(shop.actor.project, serde_json::from_value(tickets("1.0.0")).unwrap()).await.unwrap();
        graph.assign_pack(shop.actor.project, own.id).await.unwrap();
        shop.install(&product("p", "1.0.0", "1.0.0")).await.unwrap();
        let before = shop.fingerprint().await;
        let refused = shop.upgrade(&product("p", "2.0.0", "2.0.0")).await;
        assert!(matches!(&refused, Err(Error::Incompatible(problems)) if problems[0].pointer == "/template_packs/0/name"), "{refused:?}");
        assert_eq!(shop.fingerprint().await, before);
        graph.unassign_pack(shop.actor.project, own.id).await.unwrap();
        shop.upgrade(&product("p", "2.0.0", "2.0.0")).await.unwrap();
        assert_eq!(shop.assigned("tickets").await.as_deref(), Some("2.0.0"));
        shop.upgrade(&product("p", "3.0.0", "3.0.0")).await.unwrap();
        assert_eq!(shop.assigned("tickets").await.as_deref(), Some("3.0.0"));
        shop.uninstall("p").await.unwrap();
        assert_eq!(shop.assigned("tickets").await, None);
        assert_eq!(shop.pack("tickets").await.id, own.id, "the project's own is there still");
    }
}
