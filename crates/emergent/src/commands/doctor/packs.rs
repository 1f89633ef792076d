//! Lists assigned template packs with a schema that this version refuses. An earlier version may have accepted it;
//! objects of its type cannot be written until the pack is unassigned.

use emergent_domain::pack::{PackSet, TemplatePack};
use emergent_wire::pack::PackView;

use super::{Finding, contents::ProjectLabel, problem_finding};
use crate::{client::Client, error::Result};

pub async fn check_packs(client: &Client, label: &ProjectLabel) -> Result<Vec<Finding>> {
    let packs: Vec<PackView> = client.get_all_pages("/api/template-packs").await?;
    let (suffix, flag) = (label.suffix(), label.project_flag());
    let mut findings = Vec::new();
    for view in packs.into_iter().filter(|pack| pack.assigned && !pack.built_in) {
        let pack = TemplatePack {
            name: view.name,
            version: view.version,
            description: None,
            object_type_schemas: view.object_type_schemas,
            relationship_type_schemas: view.relationship_type_schemas,
            ui_configs: None,
            extraction_prompts: None,
        };
        for unusable in PackSet::compile_stored([&pack]).unusable_types() {
            let found = format!(
                "`{}`: the schema of `{}` cannot be used, so that this type cannot be written{suffix}: {}",
                pack.name, unusable.type_, unusable.problem
            );
            let fix = format!("emergent pack unassign {}{flag}", pack.name);
            findings.push(problem_finding("packs", found, fix));
        }
    }
    Ok(findings)
}
