//! Converts template packs for the API.

use emergent_graph::StoredPack;
pub(crate) use emergent_wire::pack::*;

use super::IntoView;

impl IntoView<PackView> for StoredPack {
    fn into_view(self) -> PackView {
        let stored = self;
        let pack = stored.pack;
        PackView {
            id: stored.id.0,
            name: pack.name,
            version: pack.version,
            description: pack.description,
            object_type_schemas: pack.object_type_schemas,
            relationship_type_schemas: pack.relationship_type_schemas,
            ui_configs: pack.ui_configs,
            extraction_prompts: pack.extraction_prompts,
            assigned: stored.assigned,
            built_in: stored.project.is_none(),
            created_at: stored.created_at,
        }
    }
}
