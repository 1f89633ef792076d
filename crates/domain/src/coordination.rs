//! How a project coordinates its agents: which agents it chooses for tasks, beyond what their definitions say.

use serde::{Deserialize, Serialize};

use crate::invalid::{Invalid, Problem};

const MAX_RULES: usize = 100;
const MAX_PATTERN_BYTES: usize = 500;
const MAX_AGENT_BYTES: usize = 128;

/// The fields of a task that a pattern can name.
pub const PATTERN_FIELDS: &[&str] = &["title", "description", "kind", "tag", "key", "priority", "verdict"];

/// The settings of a project for its workflows. A field that was stored by a newer version is ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoordinationSettings {
    /// Which agent gets which tasks. The first rule that matches decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub selection_rules: Vec<SelectionRule>,
    /// Whether internal agents of products are chosen like other agents.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub select_internal_agents: bool,
    /// How discussions go that do not say it themselves.
    #[serde(skip_serializing_if = "DiscussionDefaults::is_empty")]
    pub discussions: DiscussionDefaults,
}

/// What holds for the discussions of a project unless one says otherwise. `None` leaves it to the kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiscussionDefaults {
    /// One of [`DISCUSSION_KINDS`], for discussions that agents start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<i64>,
    /// The share of weight that an option needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// How many participants have to be left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<usize>,
}

/// The kinds of discussions that agents start.
pub const DISCUSSION_KINDS: &[&str] =
    &["review_loop", "consensus", "debate", "brainstorm", "problem_solving", "collaboration"];
const MAX_ROUNDS: i64 = 10;
const MAX_QUORUM: usize = 20;

impl DiscussionDefaults {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |field: &str, reason: String| {
            problems.push(Problem::new(format!("discussions.{field}"), reason));
        };
        if self.kind.as_deref().is_some_and(|kind| !DISCUSSION_KINDS.contains(&kind)) {
            add("kind", format!("must be one of {}", DISCUSSION_KINDS.join(", ")));
        }
        if self.rounds.is_some_and(|rounds| !(1..=MAX_ROUNDS).contains(&rounds)) {
            add("rounds", format!("must be 1 to {MAX_ROUNDS}"));
        }
        if self.threshold.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            add("threshold", "must be above 0 and at most 1".to_owned());
        }
        if self.quorum.is_some_and(|quorum| !(1..=MAX_QUORUM).contains(&quorum)) {
            add("quorum", format!("must be 1 to {MAX_QUORUM}"));
        }
        problems
    }
}

/// A rule of a project: a task that matches the pattern goes to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectionRule {
    /// Text that stands in the title or the description, or `field:value` for one field of
    /// [`PATTERN_FIELDS`]. `*` stands for anything. Case does not matter.
    pub pattern: String,
    pub agent: String,
}

impl CoordinationSettings {
    pub fn check(&self) -> Result<(), Invalid> {
        let rules = &self.selection_rules;
        if rules.len() > MAX_RULES {
            let reason = format!("has {} rules, and {MAX_RULES} are the limit", rules.len());
            return Err(Invalid::new("selectionRules", reason));
        }
        let mut problems = self.discussions.problems();
        for (index, rule) in rules.iter().enumerate() {
            let mut add = |field: &str, reason: String| {
                problems.push(Problem::new(format!("selectionRules[{index}].{field}"), reason));
            };
            if let Some(reason) = rule.pattern_problem() {
                add("pattern", reason);
            }
            if rule.agent.is_empty() || rule.agent.len() > MAX_AGENT_BYTES || rule.agent.contains('\0') {
                add("agent", format!("must be the name of an agent, 1 to {MAX_AGENT_BYTES} bytes"));
            }
        }
        Invalid::if_any(problems)
    }
}

impl SelectionRule {
    fn pattern_problem(&self) -> Option<String> {
        let (_, value) = self.parts();
        let is_blank = value.chars().all(|c| c == '*' || c.is_whitespace());
        if is_blank || self.pattern.len() > MAX_PATTERN_BYTES || self.pattern.contains('\0') {
            return Some(format!(
                "must be 1 to {MAX_PATTERN_BYTES} bytes of text, such as `into german` or `kind:research`"
            ));
        }
        None
    }

    /// The field that the pattern names, if it names one, and the text to look for. A word before a colon that
    /// is not a field is part of the text.
    pub fn parts(&self) -> (Option<&str>, &str) {
        match self.pattern.split_once(':') {
            Some((field, value)) if PATTERN_FIELDS.contains(&field.trim()) => {
                (Some(field.trim()), value.trim())
            }
            _ => (None, self.pattern.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, agent: &str) -> SelectionRule {
        SelectionRule { pattern: pattern.into(), agent: agent.into() }
    }

    #[test]
    fn a_pattern_names_a_field_or_is_text() {
        assert_eq!(rule("kind: research", "a").parts(), (Some("kind"), "research"));
        assert_eq!(rule("into german", "a").parts(), (None, "into german"));
        assert_eq!(rule("note: urgent", "a").parts(), (None, "note: urgent"));
    }

    #[test]
    fn rules_that_match_nothing_or_everything_are_refused_with_their_place() {
        let settings = CoordinationSettings {
            selection_rules: vec![rule("kind:research", "a"), rule(" * ", "a"), rule("kind:", "")],
            ..CoordinationSettings::default()
        };
        let fields: Vec<String> =
            settings.check().unwrap_err().problems.into_iter().map(|problem| problem.field).collect();
        assert_eq!(
            fields,
            ["selectionRules[1].pattern", "selectionRules[2].pattern", "selectionRules[2].agent"]
        );
    }
}
