//! What is wrong with something a caller gave us, field by field.

use std::fmt;

use serde::Serialize;

/// Input that breaks one or more rules; holds every problem found, in the order of the fields.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
pub struct Invalid {
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    /// Where it is, written as one would in code: `properties.priority`, `objects[3].type`.
    /// Empty when the whole input is meant.
    pub field: String,
    /// Reads on from the field: "is required", "11 is more than the maximum of 10".
    pub reason: String,
}

impl Problem {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { field: field.into(), reason: reason.into() }
    }
}

impl Invalid {
    pub fn new(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { problems: vec![Problem::new(field, reason)] }
    }

    /// The verdict on a list of problems: fine when there are none.
    pub fn if_any(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }

    /// The same problems, seen from outside: `priority` at `properties` is `properties.priority`.
    #[must_use]
    pub fn prefixed(mut self, prefix: &str) -> Self {
        for problem in &mut self.problems {
            problem.field = join_path(prefix, &problem.field);
        }
        self
    }
}

/// One path inside another; `[3]` follows its list without a dot.
pub(crate) fn join_path(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", _) => inner.to_owned(),
        (_, "") => outer.to_owned(),
        _ if inner.starts_with('[') => format!("{outer}{inner}"),
        _ => format!("{outer}.{inner}"),
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.reason)
        } else {
            write!(f, "`{}`: {}", self.field, self.reason)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named_with_its_field() {
        let invalid =
            Invalid { problems: vec![Problem::new("title", "is required"), Problem::new("", "is too big")] };
        assert_eq!(invalid.to_string(), "`title`: is required; is too big");
    }

    #[test]
    fn problems_nest_under_fields_and_list_items() {
        let field = |invalid: Invalid| invalid.problems[0].field.clone();
        let nested = Invalid::new("type", "is empty").prefixed("[3]").prefixed("objects");
        assert_eq!(field(nested), "objects[3].type");
        assert_eq!(field(Invalid::new("", "is empty").prefixed("properties")), "properties");
    }
}
