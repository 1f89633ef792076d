//! Relationships: the typed, versioned edges of the graph. They connect objects, not versions of
//! objects.

use serde_json::{Map, Value};

use crate::{
    author::Author,
    ids::{ObjectId, ProjectId, RelationshipId},
    invalid::Invalid,
    json::JsonObject,
    object::{check_properties, check_type},
    patch,
    time::Timestamp,
};

#[derive(Debug, Clone, PartialEq)]
pub struct Relationship {
    pub id: RelationshipId,
    pub project: ProjectId,
    pub type_: String,
    pub from: ObjectId,
    pub to: ObjectId,
    pub properties: JsonObject,
    pub weight: Option<f64>,
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
    /// The object whose deletion also deleted this edge. Restoring the object restores the edge.
    pub deleted_with: Option<ObjectId>,
    pub author: Author,
    /// Explains an automatic change, as for an object.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewRelationship {
    pub type_: String,
    pub from: ObjectId,
    pub to: ObjectId,
    pub properties: Map<String, Value>,
    pub weight: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct RelationshipPatch {
    pub properties: Option<Map<String, Value>>,
    pub weight: Option<Option<f64>>,
    pub expected_version: Option<i64>,
}

impl NewRelationship {
    pub fn check(mut self) -> Result<Self, Invalid> {
        check_type(&self.type_)?;
        check_properties(&self.properties)?;
        check_weight(self.weight)?;
        self.properties.retain(|_, value| !value.is_null());
        Ok(self)
    }
}

impl RelationshipPatch {
    pub fn check(self) -> Result<Self, Invalid> {
        if let Some(properties) = &self.properties {
            check_properties(properties)?;
        }
        check_weight(self.weight.flatten())?;
        Ok(self)
    }

    /// Returns the properties and the weight after the update, or `None` if nothing changes.
    pub fn apply(&self, current: &Relationship) -> Option<(Map<String, Value>, Option<f64>)> {
        let before = current.properties.to_map();
        let properties = match &self.properties {
            Some(changes) => patch::apply_patch(&before, changes),
            None => before.clone(),
        };
        let weight = self.weight.unwrap_or(current.weight);
        let same = weight == current.weight
            && patch::canonical_json(&Value::Object(properties.clone()))
                == patch::canonical_json(&Value::Object(before));
        if same { None } else { Some((properties, weight)) }
    }
}

fn check_weight(weight: Option<f64>) -> Result<(), Invalid> {
    match weight {
        Some(weight) if !weight.is_finite() => Err(Invalid::new("weight", "must be a finite number")),
        _ => Ok(()),
    }
}
