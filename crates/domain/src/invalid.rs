//! Validation errors: the problems of an input, field by field.

use std::fmt;

use serde::Serialize;

use crate::text::counted;

/// The most problems that an answer lists.
pub const MAX_SHOWN_PROBLEMS: usize = 100;
/// The most bytes of the problems that an answer lists. The first one is always listed.
pub const MAX_SHOWN_BYTES: usize = 1 << 20;

/// An input that breaks one or more rules. Holds every problem, in the order of the fields.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
pub struct Invalid {
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Problem {
    /// The path of the field, as in code: `properties.priority`, `objects[3].type`. Empty if the
    /// problem concerns the whole input.
    pub field: String,
    /// The rest of a sentence that begins with the field: "is required", "11 is more than the
    /// maximum of 10".
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

    /// Returns an error if the list contains any problem.
    pub fn if_any(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }

    /// The problems that an answer lists. It counts the others: a small request can have very many.
    pub fn shown(&self) -> &[Problem] {
        let mut bytes = 0;
        let is_shown = |problem: &&Problem| {
            bytes += problem.field.len() + problem.reason.len();
            bytes <= MAX_SHOWN_BYTES
        };
        let fitting = self.problems.iter().take(MAX_SHOWN_PROBLEMS).take_while(is_shown).count();
        &self.problems[..fitting.max(1).min(self.problems.len())]
    }

    /// Prefixes every field with the path of the outer value: `priority` within `properties`
    /// becomes `properties.priority`.
    #[must_use]
    pub fn prefixed(mut self, prefix: &str) -> Self {
        for problem in &mut self.problems {
            problem.field = join_path(prefix, &problem.field);
        }
        self
    }
}

/// Joins two paths. An index such as `[3]` follows its list without a dot.
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
        let shown = self.shown();
        for (index, problem) in shown.iter().enumerate() {
            write!(f, "{problem}")?;
            // A reason may end with the question of what was meant.
            match index + 1 < self.problems.len() {
                true if problem.reason.ends_with(['?', '.']) => f.write_str(" ")?,
                true => f.write_str("; ")?,
                false => {}
            }
        }
        match self.problems.len() - shown.len() {
            0 => Ok(()),
            left_out => write!(f, "and {}", counted(left_out, "more problem")),
        }
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
        let mut asked = Invalid::new("agent", "there is no agent `a`; did you mean `b`?");
        asked.problems.push(Problem::new("title", "is required"));
        let text = "`agent`: there is no agent `a`; did you mean `b`? `title`: is required";
        assert_eq!(asked.to_string(), text);
    }

    #[test]
    fn an_answer_lists_the_first_problems_and_counts_the_others() {
        let many = |count, reason: &str| Invalid { problems: vec![Problem::new("a", reason); count] };
        let text = many(180_000, "is wrong").to_string();
        assert!(text.starts_with("`a`: is wrong; `a`: is wrong") && text.len() < 2_500, "{}", text.len());
        assert!(text.ends_with("; and 179900 more problems"), "{text}");
        assert_eq!(many(5, &"x".repeat(400_000)).shown().len(), 2);
        assert_eq!(many(2, &"x".repeat(MAX_SHOWN_BYTES)).shown().len(), 1, "the first one is always listed");
        assert!(Invalid { problems: Vec::new() }.shown().is_empty());
    }

    #[test]
    fn problems_nest_under_fields_and_list_items() {
        let field = |invalid: Invalid| invalid.problems[0].field.clone();
        let nested = Invalid::new("type", "is empty").prefixed("[3]").prefixed("objects");
        assert_eq!(field(nested), "objects[3].type");
        assert_eq!(field(Invalid::new("", "is empty").prefixed("properties")), "properties");
    }
}
