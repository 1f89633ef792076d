//! Template packs: the object and relationship types of a project, and the schemas of their
//! properties.
//!
//! A [`TemplatePack`] is read from an API request or a manifest and validated once. The packs
//! assigned to a project are compiled into a [`PackSet`], which validates every write.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::ids::{NAME_IS_ID, is_id};
use crate::invalid::{Invalid, Problem};
use crate::json_cost::JsonCost;
use crate::object::{check_chars, check_nul, check_type};
use crate::patch::check_depth;
use schema::CompiledSchema;

mod cost;
mod gate;
pub mod messages;
mod nearest;
mod pattern;
mod schema;
mod set;
mod steps;
mod value_schema;
mod version;

pub(crate) use nearest::edit_distance;
pub use nearest::{nearest_name, with_nearest_name};
pub use set::{PackSet, Refusal, UnusableType};
pub use value_schema::ValueSchema;
pub use version::is_semver;

/// Maximum sizes and counts in one pack.
pub mod limits {
    pub const NAME: usize = 128;
    pub const DESCRIPTION: usize = 4_000;
    /// The number of object types. The same limit applies to relationship types.
    pub const TYPES: usize = 500;
    /// The number of types that one end of a relationship may name.
    pub const ENDS: usize = 100;
    /// The size of one schema as JSON, in bytes.
    pub const SCHEMA: usize = 256 * 1024;
    /// The size of all schemas together in bytes. The same limit applies to `uiConfigs` and to
    /// `extractionPrompts`.
    pub const TOTAL: usize = 4 * 1024 * 1024;
    /// The number of values in `uiConfigs` and in `extractionPrompts`.
    pub const EXTRA_VALUES: usize = 20_000;
    /// The nesting depth of a schema.
    pub const DEPTH: usize = 64;
    /// How many steps the validation of one value may take: about one for each keyword that is applied to
    /// a part of the value, and more for patterns and long texts. The maximum takes about a second.
    pub const STEPS: u64 = 10_000_000;
    /// How many steps the validation of an answer may take, such as the typed output of a run. The maximum takes about
    /// a fifth of a second.
    pub const ANSWER_STEPS: u64 = 2_000_000;
    /// The size in memory of all packs that are assigned to one project, in bytes.
    pub const COMPILED: u64 = 64 * 1024 * 1024;
}

/// A set of types and their schemas, with a name and a version. Stored as JSON in camelCase;
/// manifests use snake_case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TemplatePack {
    pub name: String,
    /// A semantic version.
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A JSON schema for the properties of each type (draft 2020-12, unless the schema names
    /// another draft).
    #[serde(default, alias = "object_type_schemas")]
    pub object_type_schemas: BTreeMap<String, Value>,
    #[serde(default, alias = "relationship_type_schemas")]
    pub relationship_type_schemas: BTreeMap<String, RelationshipTypeSchema>,
    #[serde(default, alias = "ui_configs", skip_serializing_if = "Option::is_none")]
    pub ui_configs: Option<Value>,
    #[serde(default, alias = "extraction_prompts", skip_serializing_if = "Option::is_none")]
    pub extraction_prompts: Option<Value>,
}

/// The types that a relationship connects, and the schema of its properties.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationshipTypeSchema {
    #[serde(alias = "source")]
    pub from: EndTypes,
    #[serde(alias = "target")]
    pub to: EndTypes,
    /// A complete JSON schema, or only the map of its `properties`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// The object types allowed at one end: `"Tag"`, `["Tag", "Topic"]`, or `"*"` for any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndTypes {
    Any,
    Only(Vec<String>),
}

impl EndTypes {
    pub fn accepts(&self, object_type: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(types) => types.iter().any(|accepted| accepted == object_type),
        }
    }
}

impl TemplatePack {
    /// Validates a pack before it is stored. A relationship may name object types that the pack
    /// does not describe, because another pack may describe them.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut problems = Vec::new();
        let mut collect = |result: Result<(), Invalid>, path: &str| {
            if let Err(invalid) = result {
                problems.extend(invalid.prefixed(path).problems);
            }
        };

        collect(check_name(&self.name), "name");
        // A pack is named by its id or its name.
        if is_id(&self.name) {
            collect(Err(Invalid::new("", NAME_IS_ID)), "name");
        }
        collect(check_version(&self.version), "version");
        let description = self.description.as_deref().unwrap_or_default();
        collect(check_length(description, limits::DESCRIPTION), "description");
        collect(check_count(self.object_type_schemas.len()), "objectTypeSchemas");
        collect(check_count(self.relationship_type_schemas.len()), "relationshipTypeSchemas");
        // Patterns are checked before they are compiled, because compiling them is what costs memory.
        if let Err(invalid) = self.check_patterns() {
            problems.extend(invalid.problems);
            return Invalid::if_any(problems);
        }

        let mut total = 0;
        for (name, schema) in &self.object_type_schemas {
            let path = format!("objectTypeSchemas.{name}");
            collect(check_type_name(name), &path);
            collect(check_schema(schema, schema::compile, &mut total), &path);
        }
        for (name, relationship) in &self.relationship_type_schemas {
            let path = format!("relationshipTypeSchemas.{name}");
            collect(check_type_name(name), &path);
            collect(check_end_types(&relationship.from).map_err(|i| i.prefixed("from")), &path);
            collect(check_end_types(&relationship.to).map_err(|i| i.prefixed("to")), &path);
            let description = relationship.description.as_deref().unwrap_or_default();
            let fits = check_length(description, limits::DESCRIPTION);
            collect(fits.map_err(|i| i.prefixed("description")), &path);
            if let Some(properties) = &relationship.properties {
                let checked = check_schema(properties, schema::compile_properties, &mut total);
                collect(checked.map_err(|i| i.prefixed("properties")), &path);
            }
        }
        if total > limits::TOTAL {
            collect(too_big("all schemas together are", total, limits::TOTAL), "");
        }
        for (field, value) in
            [("uiConfigs", &self.ui_configs), ("extractionPrompts", &self.extraction_prompts)]
        {
            if let Some(value) = value {
                collect(check_size(value, limits::TOTAL).map(drop), field);
                if JsonCost::estimate(value.to_string().as_bytes()).values > limits::EXTRA_VALUES {
                    let reason = format!("has more than {} values", limits::EXTRA_VALUES);
                    collect(Err(Invalid::new("", reason)), field);
                }
            }
        }
        Invalid::if_any(problems)
    }

    fn check_patterns(&self) -> Result<(), Invalid> {
        let relationships =
            self.relationship_type_schemas.values().filter_map(|type_| type_.properties.as_ref());
        gate::check_patterns(self.object_type_schemas.values().chain(relationships), pattern::MAX_STATES)
    }
}

fn check_name(name: &str) -> Result<(), Invalid> {
    check_length(name, limits::NAME)?;
    if name.is_empty() || name.trim() != name || name.contains(char::is_control) {
        return Err(Invalid::new(
            "",
            "must not be empty, start or end with whitespace, or contain control characters",
        ));
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

/// Applies the rule for object types, without the field name that it reports for objects.
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
    compile: fn(&Value) -> Result<CompiledSchema, Invalid>,
    total: &mut usize,
) -> Result<(), Invalid> {
    *total += check_size(schema, limits::SCHEMA)?;
    compile(schema).map(drop)
}

/// Returns the size of a value as JSON. The depth is checked first, because serialising a value
/// that is nested too deeply would overflow the stack.
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
                [single] => serializer.serialize_str(single),
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
            Written::One(single) => vec![single],
            Written::Several(several) => several,
        };
        if types.iter().any(|name| name == "*") { Ok(Self::Any) } else { Ok(Self::Only(types)) }
    }
}

/// The built-in pack of coordination: tasks, sessions, discussions and verdicts.
#[expect(clippy::expect_used, reason = "the text is part of the program, and a test parses it")]
pub fn coordination_pack() -> &'static TemplatePack {
    static PACK: LazyLock<TemplatePack> = LazyLock::new(|| {
        crate::stored_json::from_str(include_str!("coordination_pack.json"))
            .expect("the built-in pack parses")
    });
    &PACK
}

#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod tests;
