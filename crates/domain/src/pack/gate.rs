//! Checks a schema from an untrusted source before anything is compiled from it.
//!
//! The compiler recurses along references, and for `unevaluatedProperties` it compiles every path through them anew, so
//! a schema of two kilobytes can overflow the stack or never end. Everything here looks at the plain JSON, in time
//! proportional to its size.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{cost, limits, pattern, schema::for_each_pattern};
use crate::{invalid::Invalid, patch::check_depth};

/// The short form of the properties of a relationship is wrapped in two levels before it is compiled.
const WRAPPING_LEVELS: usize = 2;

/// How many states the patterns of one schema may have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternLimit {
    /// The schema is one of a pack, which is compiled once for a project.
    Pack,
    /// The schema stands alone, and is compiled where it is used.
    Alone,
}

impl PatternLimit {
    fn max_states(self) -> u64 {
        match self {
            Self::Pack => pattern::MAX_STATES,
            Self::Alone => pattern::MAX_STATES_ALONE,
        }
    }
}

/// Refuses a schema that could cost too much to compile or to validate against. Returns how many subschemas the
/// validation of one value visits.
pub(super) fn check(schema: &Value, limit: PatternLimit) -> Result<u64, Invalid> {
    if !schema.is_object() {
        return Err(Invalid::new("", "must be a JSON schema, which is a JSON object"));
    }
    check_depth(schema, limits::DEPTH + WRAPPING_LEVELS)?;
    let bytes = schema.to_string().len();
    if bytes > limits::SCHEMA {
        let reason = format!("is {bytes} bytes, more than the maximum of {}", limits::SCHEMA);
        return Err(Invalid::new("", reason));
    }
    check_patterns([schema], limit.max_states())?;
    let mut positions = Positions { uses_draft_4: names_draft_4(schema), ..Positions::default() };
    positions.visit_schema(schema, &mut String::new())?;
    for (path, target) in &positions.references {
        let found = resolve(schema, target);
        if !found.is_some_and(|found| positions.schemas.contains(&std::ptr::from_ref(found))) {
            return Err(Invalid::new(
                path.clone(),
                format!(
                    "refers to `{target}`, which is not a part of this schema. Nothing is fetched: \
                     put the referenced schema under `$defs` and refer to it with `#/$defs/…`"
                ),
            ));
        }
    }
    cost::check_cost(schema)
}

/// Checks the patterns of schemas, because compiling them is what costs memory.
pub(super) fn check_patterns<'a>(
    schemas: impl IntoIterator<Item = &'a Value>,
    max_states: u64,
) -> Result<(), Invalid> {
    let (mut count, mut states, mut longest) = (0_usize, 0_u64, 0_usize);
    for schema in schemas {
        for_each_pattern(schema, &mut |pattern| {
            count += 1;
            states = states.saturating_add(pattern::PatternCost::estimate(pattern).states);
            longest = longest.max(pattern.chars().count());
        });
    }
    let too_many = |what: &str, found: u64, max: u64| {
        Err(Invalid::new("", format!("{what}: {found}, more than the maximum of {max}")))
    };
    if count > pattern::MAX_PATTERNS {
        let max = pattern::MAX_PATTERNS as u64;
        return too_many("the schemas have too many patterns", count as u64, max);
    }
    if longest > pattern::MAX_PATTERN_CHARS {
        let max = pattern::MAX_PATTERN_CHARS as u64;
        return too_many("a pattern of the schemas has too many characters", longest as u64, max);
    }
    if states > max_states {
        let what =
            "the patterns of the schemas have too many states, mostly from repetitions such as `x{500}`";
        return too_many(what, states, max_states);
    }
    Ok(())
}

/// Returns the part of a schema that a reference points to, as the validator finds it. Only pointers into the schema
/// itself are found.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let fragment = reference.strip_prefix('#')?;
    if !fragment.contains('%') {
        return root.pointer(fragment);
    }
    root.pointer(&percent_decoded(fragment)?)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let (high, low) = (digit()?, digit()?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Returns the schema without the names of its root, which the compiler would resolve references against. A reference
/// is a pointer that begins at the root, so these names mean nothing here.
pub(super) fn without_root_names(schema: &Value) -> Option<Value> {
    let map = schema.as_object()?;
    let is_name = |key: &str| {
        matches!(key, "$id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$vocabulary")
            || (key == "id" && map.get(key).is_some_and(Value::is_string))
    };
    if !map.keys().any(|key| is_name(key)) {
        return None;
    }
    let kept: Map<String, Value> = map
        .iter()
        .filter(|(key, _)| !is_name(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    Some(Value::Object(kept))
}

fn names_draft_4(schema: &Value) -> bool {
    schema.get("$schema").and_then(Value::as_str).is_some_and(|draft| draft.contains("draft-04"))
}

/// The subschemas and references of a schema.
#[derive(Default)]
struct Positions {
    schemas: HashSet<*const Value>,
    /// The path of each reference, and its target.
    references: Vec<(String, String)>,
    uses_draft_4: bool,
}

impl Positions {
    /// Visits a subschema. `path` is where it is, and is the same again when this returns.
    fn visit_schema(&mut self, node: &Value, path: &mut String) -> Result<(), Invalid> {
        self.schemas.insert(std::ptr::from_ref(node));
        let Value::Object(keywords) = node else { return Ok(()) };
        for (keyword, value) in keywords {
            let length = push(path, keyword);
            self.visit_keyword(keyword, value, path, length == 0)?;
            path.truncate(length);
        }
        Ok(())
    }

    fn visit_keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        path: &mut String,
        is_root: bool,
    ) -> Result<(), Invalid> {
        match (keyword, value) {
            ("enum" | "const" | "default" | "examples", _) => Ok(()),
            ("$ref", Value::String(target)) => {
                self.references.push((path.clone(), target.clone()));
                Ok(())
            }
            ("$dynamicRef" | "$recursiveRef", Value::String(_)) => Err(Invalid::new(
                path.clone(),
                format!(
                    "`{keyword}` cannot be used: refer to a part of this schema with `$ref` and `#/$defs/…`"
                ),
            )),
            ("$id" | "$anchor" | "$dynamicAnchor" | "$schema", Value::String(_))
            | ("$recursiveAnchor" | "$vocabulary", _)
                if !is_root =>
            {
                Err(name_below_root(keyword, path))
            }
            ("id", Value::String(_)) if !is_root && self.uses_draft_4 => Err(name_below_root(keyword, path)),
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Value::Object(schemas),
            ) => {
                for (name, schema) in schemas {
                    let length = push(path, name);
                    self.visit_schema(schema, path)?;
                    path.truncate(length);
                }
                Ok(())
            }
            // An unknown keyword may hold schemas that references point to.
            (_, Value::Object(_)) => self.visit_schema(value, path),
            (_, Value::Array(items)) => self.visit_list(items, path),
            // `additionalProperties` and others may be `true` or `false`, which are schemas as well.
            (_, Value::Bool(_)) => {
                self.schemas.insert(std::ptr::from_ref(value));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn visit_list(&mut self, items: &[Value], path: &mut String) -> Result<(), Invalid> {
        for (index, item) in items.iter().enumerate() {
            let length = path.len();
            path.push_str(&format!("[{index}]"));
            match item {
                Value::Array(inner) => self.visit_list(inner, path)?,
                _ => self.visit_schema(item, path)?,
            }
            path.truncate(length);
        }
        Ok(())
    }
}

fn name_below_root(keyword: &str, path: &str) -> Invalid {
    let reason = format!(
        "`{keyword}` is only allowed at the root of a schema: remove it, and refer to the subschema with `#/$defs/…`"
    );
    Invalid::new(path, reason)
}

/// Appends a segment and returns the length before it.
fn push(path: &mut String, segment: &str) -> usize {
    let length = path.len();
    if length > 0 {
        path.push('.');
    }
    path.push_str(segment);
    length
}

#[cfg(test)]
mod tests;
