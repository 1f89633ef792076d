//! The types that the objects and relationships of a project have, with their numbers.

use emergent_domain::ids::ProjectId;
use emergent_store::counts;

use crate::{Graph, error::Result};

/// How many live objects and relationships of each type there are, both sorted by type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeCounts {
    pub objects: Vec<(String, i64)>,
    pub relationships: Vec<(String, i64)>,
}

impl Graph {
    /// Counts the live objects and relationships of a project by type, both at the same moment.
    pub async fn count_types(&self, project: ProjectId) -> Result<TypeCounts> {
        self.db()
            .snapshot(move |tx| {
                Ok(TypeCounts {
                    objects: counts::count_object_types(tx, project)?,
                    relationships: counts::count_relationship_types(tx, project)?,
                })
            })
            .await
    }
}
