//! Problems of a manifest. Each has a JSON pointer (RFC 6901) that always refers to an existing
//! value. A missing field is reported at the object that lacks it.

use std::fmt;

use emergent_domain::invalid;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestProblem {
    pub pointer: String,
    /// The rest of a sentence that begins with the pointer: "is required", "is not a cron
    /// expression".
    pub message: String,
    /// The suggested correction, if there is one.
    pub fix: Option<String>,
}

impl ManifestProblem {
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), fix: None }
    }

    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Formats the problem and its correction, for output that shows the location separately.
    pub fn without_pointer(&self) -> String {
        match &self.fix {
            Some(fix) => format!("{} ({fix})", self.message),
            None => self.message.clone(),
        }
    }

    /// Converts a problem that a check of the domain reported about the value at `base` in `root`.
    /// The domain names fields as in code (`flowConfig.agents[1]`). The pointer refers to the
    /// deepest value on that path that exists.
    pub fn from_field(root: &Value, base: &str, problem: invalid::Problem) -> Self {
        let part = root.pointer(base).unwrap_or(&Value::Null);
        let (below, missing) = locate(part, &problem.field);
        let message = match missing.as_str() {
            "" => problem.reason,
            missing => format!("`{missing}` {}", problem.reason),
        };
        Self::new(format!("{base}{below}"), message)
    }
}

impl fmt::Display for ManifestProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = if self.pointer.is_empty() { "the manifest" } else { &self.pointer };
        write!(f, "{location}: {}", self.without_pointer())
    }
}

/// Formats one segment of a pointer.
pub fn pointer_segment(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Returns the pointer to the deepest value of `field` that exists in `part`, and the remaining
/// path.
fn locate(part: &Value, field: &str) -> (String, String) {
    let (mut pointer, mut current, mut rest) = (String::new(), part, field);
    while !rest.is_empty() {
        let step = match current {
            // Names may contain dots, so the existing keys decide where a name ends.
            Value::Object(map) => map
                .iter()
                .filter_map(|(name, value)| Some((name, value, strip_field(rest, name)?)))
                .min_by_key(|(_, _, left)| left.len())
                .map(|(name, value, left)| (pointer_segment(name), value, left)),
            Value::Array(items) => rest.strip_prefix('[').and_then(|inside| {
                let (index, left) = inside.split_once(']')?;
                let value = items.get(index.parse::<usize>().ok()?)?;
                Some((format!("/{index}"), value, left.strip_prefix('.').unwrap_or(left)))
            }),
            _ => None,
        };
        let Some((below, value, left)) = step else { break };
        pointer.push_str(&below);
        (current, rest) = (value, left);
    }
    (pointer, rest.to_owned())
}

/// Returns the text after a name at the start of a field. The domain writes field names in
/// camelCase, a manifest in snake_case.
fn strip_field<'a>(field: &'a str, name: &str) -> Option<&'a str> {
    let left = field.strip_prefix(name).or_else(|| field.strip_prefix(camel(name).as_str()))?;
    match left.chars().next() {
        None => Some(left),
        Some('.') => Some(&left[1..]),
        Some('[') => Some(left),
        Some(_) => None,
    }
}

fn camel(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut upper = false;
    for letter in name.chars() {
        match letter {
            '_' => upper = true,
            letter if upper => {
                camel.extend(letter.to_uppercase());
                upper = false;
            }
            letter => camel.push(letter),
        }
    }
    camel
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_of_the_domain_is_found_in_the_manifest() {
        let part = json!({ "flow_config": { "agents": ["a", "b"] }, "model": { "name": "x" },
            "object_type_schemas": { "a.b": { "properties": {} }, "a": {} }, "env": { "X/Y": "" } });
        for (field, pointer, beyond) in [
            ("flowConfig.agents[1]", "/flow_config/agents/1", ""),
            ("flowConfig.agents[7]", "/flow_config/agents", "[7]"),
            ("flow_config.agents", "/flow_config/agents", ""),
            ("model.temperature", "/model", "temperature"),
            ("objectTypeSchemas.a.b.properties", "/object_type_schemas/a.b/properties", ""),
            ("env.X/Y", "/env/X~1Y", ""),
            ("systemPrompt", "", "systemPrompt"),
            ("", "", ""),
        ] {
            assert_eq!(locate(&part, field), (pointer.to_owned(), beyond.to_owned()), "{field}");
            assert!(part.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
