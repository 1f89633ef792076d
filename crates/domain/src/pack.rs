//! Template packs: what types a project knows, and what their properties look like.
//!
//! A [`TemplatePack`] is read from an API body or a manifest and checked once. The packs assigned
//! to a project are compiled into a [`PackSet`], which is asked about every write.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::invalid::{Invalid, Problem};
use crate::object::{check_chars, check_nul, check_type};
use crate::patch::check_depth;

mod cost;
pub mod messages;
mod nearest;
mod schema;
mod set;
mod version;

pub use nearest::nearest_name;
pub use set::PackSet;
pub use version::is_semver;

/// The most there may be of anything in one pack.
pub mod limits {
    pub const NAME: usize = 128;
    pub const DESCRIPTION: usize = 4_000;
    /// Object types, and as many relationship types.
    pub const TYPES: usize = 500;
    /// Types one end of a relationship may name.
    pub const ENDS: usize = 100;
    /// Bytes of one schema's JSON.
    pub const SCHEMA: usize = 256 * 1024;
    /// Bytes of all schemas together, and of each of `uiConfigs` and `extractionPrompts`.
    pub const TOTAL: usize = 4 * 1024 * 1024;
    /// Nesting inside a schema.
    pub const DEPTH: usize = 64;
}

/// Types and their schemas, under a name and a version. Read in camelCase from the API and in
/// snake_case from manifests; written in camelCase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplatePack {
    pub name: String,
    /// Semantic version, as text.
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A JSON schema (2020-12 unless it names another draft) for the properties of each type.
    #[serde(default, alias = "object_type_schemas")]
    pub object_type_schemas: BTreeMap<String, Value>,
    #[serde(default, alias = "relationship_type_schemas")]
    pub relationship_type_schemas: BTreeMap<String, RelationshipTypeSchema>,
    #[serde(default, alias = "ui_configs", skip_serializing_if = "Option::is_none")]
    pub ui_configs: Option<Value>,
    #[serde(default, alias = "extraction_prompts", skip_serializing_if = "Option::is_none")]
    pub extraction_prompts: Option<Value>,
}

/// What a relationship joins, and what it may say about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationshipTypeSchema {
    #[serde(alias = "source")]
    pub from: EndTypes,
    #[serde(alias = "target")]
    pub to: EndTypes,
    /// A JSON schema, or only the map of properties that would stand in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The object types at one end: `"Tag"`, `["Tag", "Topic"]`, or `"*"` for any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndTypes {
    Any,
    Only(Vec<String>),
}

impl EndTypes {
    pub fn accepts(&self, object_type: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(types) => types.iter().any(|known| known == object_type),
        }
    }
}

impl TemplatePack {
    /// Every rule a pack must keep before it is stored. Types at the ends of relationships need
    /// not be described here: another pack may do so.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut problems = Vec::new();
        let mut note = |result: Result<(), Invalid>, at: &str| {
            if let Err(invalid) = result {
                problems.extend(invalid.prefixed(at).problems);
            }
        };

        note(check_name(&self.name), "name");
        note(check_version(&self.version), "version");
        let description = self.description.as_deref().unwrap_or_default();
        note(check_length(description, limits::DESCRIPTION), "description");
        note(check_count(self.object_type_schemas.len()), "objectTypeSchemas");
        note(check_count(self.relationship_type_schemas.len()), "relationshipTypeSchemas");

        let mut total = 0;
        for (name, schema) in &self.object_type_schemas {
            let at = format!("objectTypeSchemas.{name}");
            note(check_type_name(name), &at);
            note(check_schema(schema, schema::compile, &mut total), &at);
        }
        for (name, relationship) in &self.relationship_type_schemas {
            let at = format!("relationshipTypeSchemas.{name}");
            note(check_type_name(name), &at);
            note(check_end_types(&relationship.from).map_err(|i| i.prefixed("from")), &at);
            note(check_end_types(&relationship.to).map_err(|i| i.prefixed("to")), &at);
            let description = relationship.description.as_deref().unwrap_or_default();
            let fits = check_length(description, limits::DESCRIPTION);
            note(fits.map_err(|i| i.prefixed("description")), &at);
            if let Some(properties) = &relationship.properties {
                let checked = check_schema(properties, schema::compile_properties, &mut total);
                note(checked.map_err(|i| i.prefixed("properties")), &at);
            }
        }
        if total > limits::TOTAL {
            note(too_big("all schemas together are", total, limits::TOTAL), "");
        }
        for (field, value) in
            [("uiConfigs", &self.ui_configs), ("extractionPrompts", &self.extraction_prompts)]
        {
            if let Some(value) = value {
                note(check_size(value, limits::TOTAL).map(drop), field);
            }
        }
        Invalid::if_any(problems)
    }
}

fn check_name(name: &str) -> Result<(), Invalid> {
    check_length(name, limits::NAME)?;
    if name.is_empty() || name.trim() != name || name.contains(char::is_control) {
        return Err(Invalid::new("", "must be a name, without spaces around it or control characters"));
    }
    Ok(())
}

fn check_version(version: &str) -> Result<(), Invalid> {
    if is_semver(version) {
        return Ok(());
    }
    let shown = messages::display_value(&Value::from(version));
    let reason = format!("{shown} is not a semantic version such as 1.2.0");
    Err(Invalid::new("", reason))
}

fn check_length(text: &str, max: usize) -> Result<(), Invalid> {
    if text.chars().count() > max {
        let reason = format!("is longer than the maximum of {max} characters");
        return Err(Invalid::new("", reason));
    }
    check_chars("", text)
}

fn check_count(types: usize) -> Result<(), Invalid> {
    if types > limits::TYPES {
        let reason = format!("has {types} types, more than the maximum of {}", limits::TYPES);
        return Err(Invalid::new("", reason));
    }
    Ok(())
}

/// The rule for objects, without the field it names there.
fn check_type_name(name: &str) -> Result<(), Invalid> {
    check_type(name).map_err(|invalid| Invalid {
        problems: invalid
            .problems
            .into_iter()
            .map(|problem| Problem::new("", format!("the type's name {}", problem.reason)))
            .collect(),
    })
}

fn check_end_types(ends: &EndTypes) -> Result<(), Invalid> {
    let EndTypes::Only(types) = ends else { return Ok(()) };
    if types.is_empty() || types.len() > limits::ENDS {
        let reason = format!("must name 1 to {} types, or \"*\" for any", limits::ENDS);
        return Err(Invalid::new("", reason));
    }
    types.iter().try_for_each(|name| check_type_name(name))
}

fn check_schema(
    schema: &Value,
    compile: fn(&Value) -> Result<Validator, Invalid>,
    total: &mut usize,
) -> Result<(), Invalid> {
    *total += check_size(schema, limits::SCHEMA)?;
    compile(schema).map(drop)
}

/// The bytes of a value's JSON. Depth comes first: writing a value that is too deep would
/// overflow the stack.
fn check_size(value: &Value, max: usize) -> Result<usize, Invalid> {
    check_depth(value, limits::DEPTH)?;
    check_nul("", value)?;
    let bytes = value.to_string().len();
    if bytes > max {
        too_big("is", bytes, max)?;
    }
    Ok(bytes)
}

fn too_big(subject: &str, bytes: usize, max: usize) -> Result<(), Invalid> {
    let reason = format!("{subject} {bytes} bytes, more than the maximum of {max}");
    Err(Invalid::new("", reason))
}

impl Serialize for EndTypes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str("*"),
            Self::Only(types) => match types.as_slice() {
                [one] => serializer.serialize_str(one),
                several => several.serialize(serializer),
            },
        }
    }
}

impl<'de> Deserialize<'de> for EndTypes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a type's name, a list of them, or \"*\" for any")]
        enum Written {
            One(String),
            Several(Vec<String>),
        }
        let types = match Written::deserialize(deserializer)? {
            Written::One(one) => vec![one],
            Written::Several(several) => several,
        };
        if types.iter().any(|name| name == "*") { Ok(Self::Any) } else { Ok(Self::Only(types)) }
    }
}

/// The built-in pack of coordination: tasks, sessions, discussions and verdicts.
pub fn coordination_pack() -> &'static TemplatePack {
    static PACK: LazyLock<TemplatePack> = LazyLock::new(|| {
        serde_json::from_str(include_str!("coordination_pack.json"))
            .expect("the built-in pack is read by a test")
    });
    &PACK
}

#[cfg(test)]
mod tests;
