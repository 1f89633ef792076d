//! Planning the template packs of a product.

use emergent_domain::{
    ids::{PackId, ProjectId},
    pack::TemplatePack,
};
use emergent_products::{
    Manifest, ProjectState,
    plan::{ItemKind, StepChange, plan},
};
use emergent_store::packs::StoredPack;
use serde_json::{Value, json};

use crate::{after, at, change, manifest, refused};

fn pack(name: &str, version: &str, of: Option<&str>, assigned: bool, types: Value) -> StoredPack {
    let pack: TemplatePack =
        serde_json::from_value(json!({ "name": name, "version": version, "object_type_schemas": types }))
            .unwrap();
    let product = of.map(str::to_owned);
    let assigned_by = product.clone().filter(|_| assigned);
    StoredPack {
        id: PackId::new(),
        project: Some(ProjectId::new()),
        pack,
        created_at: at(),
        assigned,
        product,
        assigned_by,
    }
}

#[test]
fn packs_are_versioned_shared_and_never_changed_behind_their_version() {
    let types = json!({ "T": { "type": "object" } });
    let wants = |version: &str, types: &Value| {
        manifest(
            "p",
            "1.0.0",
            json!({ "template_packs": [{ "name": "k", "version": version, "object_type_schemas": types }] }),
        )
    };
    let v1 = wants("1.0.0", &types);
    let at = |packs: Vec<StoredPack>, products: &[&Manifest]| ProjectState { packs, ..after(products) };
    let told = |state: &ProjectState, manifest: &Manifest| {
        change(&plan("p", state, Some(manifest)).unwrap(), ItemKind::TemplatePack, "k").cloned()
    };

    assert_eq!(told(&at(vec![], &[]), &v1), Some(StepChange::Add));
    let ours = || pack("k", "1.0.0", Some("p"), true, types.clone());
    assert_eq!(told(&at(vec![ours()], &[&v1]), &v1), Some(StepChange::Keep));
    assert!(matches!(told(&at(vec![ours()], &[&v1]), &wants("1.1.0", &types)), Some(StepChange::Update(_))));
    let other = json!({ "T": { "type": "object", "required": ["x"] } });
    refused(
        "p",
        &at(vec![ours()], &[&v1]),
        &wants("1.0.0", &other),
        "/template_packs/0/version",
        "publish the change as a new version",
    );
    // An identical existing pack is used, regardless of who created it.
    let theirs = pack("k", "1.0.0", None, true, types.clone());
    assert_eq!(told(&at(vec![theirs.clone()], &[]), &v1), Some(StepChange::Keep));
    refused(
        "p",
        &at(vec![theirs], &[]),
        &wants("2.0.0", &types),
        "/template_packs/0/name",
        "not by this product alone",
    );
}

#[test]
fn only_packs_of_its_own_go_with_a_product() {
    let types = json!({ "T": { "type": "object" } });
    let packs =
        json!({ "template_packs": [{ "name": "k", "version": "1.0.0", "object_type_schemas": types }] });
    let (p, q) = (manifest("p", "1.0.0", packs.clone()), manifest("q", "1.0.0", packs));
    let gone = |of: Option<&str>, products: &[&Manifest]| {
        let state =
            ProjectState { packs: vec![pack("k", "1.0.0", of, true, types.clone())], ..after(products) };
        change(&plan("p", &state, None).unwrap(), ItemKind::TemplatePack, "k").cloned()
    };
    assert_eq!(gone(Some("p"), &[&p]), Some(StepChange::Remove));
    assert_eq!(gone(None, &[&p]), None, "the project had it before");
    assert_eq!(
        gone(Some("p"), &[&p, &q]),
        Some(StepChange::Keep),
        "the other product needs it: it is handed over"
    );
}
