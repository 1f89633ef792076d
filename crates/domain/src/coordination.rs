//! How a project coordinates its agents: which agents it chooses for tasks, beyond what their definitions say.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::invalid::{Invalid, Problem};

const MAX_RULES: usize = 100;
const MAX_PATTERN_BYTES: usize = 500;
const MAX_AGENT_BYTES: usize = 128;

/// The fields of a task that a pattern can name.
pub const PATTERN_FIELDS: &[&str] = &["title", "description", "kind", "tag", "key", "priority", "verdict"];

/// The fields of [`PATTERN_FIELDS`] that a task may be without.
const OPTIONAL_FIELDS: &[&str] = &["kind", "tag", "verdict"];

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

/// What holds for the discussions of a project or of a task unless one says otherwise. `None` leaves it to the
/// kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiscussionDefaults {
    /// One of [`DISCUSSION_KINDS`].
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
    /// The phases of a collaboration. With phases and without a kind, a discussion is a collaboration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<DiscussionPhase>,
}

/// A phase of a collaboration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiscussionPhase {
    pub name: String,
    /// Who is asked; nobody named means everybody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<i64>,
    /// What its entries are: one of [`DISCUSSION_ENTRY_TYPES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// The kinds of discussions.
pub const DISCUSSION_KINDS: &[&str] =
    &["review_loop", "consensus", "debate", "brainstorm", "problem_solving", COLLABORATION];
/// The types of the entries of discussions.
pub const DISCUSSION_ENTRY_TYPES: &[&str] =
    &["argument", "proposal", "vote", "question", "clarification", "feedback", "decision"];
/// The states of a discussion.
pub const DISCUSSION_STATUSES: &[&str] = &["active", "resolved", "escalated", "abandoned"];
const COLLABORATION: &str = "collaboration";
/// The kinds in which an option needs a share of the votes.
const KINDS_WITH_THRESHOLD: [&str; 2] = ["consensus", COLLABORATION];
const MAX_ROUNDS: i64 = 10;
const MAX_QUORUM: usize = 20;
const MAX_PHASES: usize = 10;
const MAX_PHASE_AGENTS: usize = 20;
const MAX_PHASE_NAME_BYTES: usize = 64;

impl DiscussionDefaults {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Reads the settings of a task. Those that do not pass the checks count as absent, because the graph is
    /// not only written by requests that were checked.
    pub fn from_json(value: &Value) -> Option<Self> {
        let settings: Self = serde_json::from_value(value.clone()).ok()?;
        settings.value_problems("discussion").is_empty().then_some(settings)
    }

    /// Fills in what is not set here with what another one sets, such as the project for a task.
    pub fn or(&self, other: &Self) -> Self {
        let kind = self.effective_kind().or_else(|| other.effective_kind()).map(str::to_owned);
        let phases = match kind.as_deref() {
            Some(COLLABORATION) if self.phases.is_empty() => other.phases.clone(),
            Some(COLLABORATION) => self.phases.clone(),
            _ => Vec::new(),
        };
        Self {
            kind,
            rounds: self.rounds.or(other.rounds),
            threshold: self.threshold.or(other.threshold),
            quorum: self.quorum.or(other.quorum),
            phases,
        }
    }

    /// The kind, which phases imply.
    pub fn effective_kind(&self) -> Option<&str> {
        let implied = (!self.phases.is_empty()).then_some(COLLABORATION);
        self.kind.as_deref().or(implied)
    }

    /// The agents that the phases name.
    pub fn agents(&self) -> impl Iterator<Item = &String> {
        self.phases.iter().flat_map(|phase| &phase.agents)
    }

    /// Why a threshold that is set here has no effect in a discussion of this kind; `None` if it has one, or is not set.
    pub fn threshold_problem(&self, kind: &str) -> Option<String> {
        let is_ignored = self.threshold.is_some() && !KINDS_WITH_THRESHOLD.contains(&kind);
        is_ignored.then(|| {
            format!(
                "is only for the kinds `{}`: a `{kind}` has no threshold",
                KINDS_WITH_THRESHOLD.join("` and `")
            )
        })
    }

    /// Returns what is wrong with the settings; `path` is the field that has them.
    pub fn problems(&self, path: &str) -> Vec<Problem> {
        let mut problems = self.value_problems(path);
        // Without a kind, the threshold is for those discussions that have one. An unknown kind is a problem by itself.
        let kind = self.effective_kind().filter(|kind| DISCUSSION_KINDS.contains(kind));
        if let Some(reason) = kind.and_then(|kind| self.threshold_problem(kind)) {
            problems.push(Problem::new(format!("{path}.threshold"), reason));
        }
        problems
    }

    fn value_problems(&self, path: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |field: &str, reason: String| {
            problems.push(Problem::new(format!("{path}.{field}"), reason));
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
        if self.phases.len() > MAX_PHASES {
            add("phases", format!("must be at most {MAX_PHASES}"));
            return problems;
        }
        if !self.phases.is_empty() && self.effective_kind() != Some(COLLABORATION) {
            add("phases", "are only for the kind `collaboration`".to_owned());
        }
        for (index, phase) in self.phases.iter().enumerate() {
            phase.check(|field, reason| add(&format!("phases[{index}].{field}"), reason));
        }
        problems
    }
}

impl DiscussionPhase {
    fn check(&self, mut add: impl FnMut(&str, String)) {
        let is_name = |name: &str, max_bytes: usize| {
            !name.trim().is_empty() && name.len() <= max_bytes && !name.contains('\0')
        };
        if !is_name(&self.name, MAX_PHASE_NAME_BYTES) {
            add("name", format!("must be 1 to {MAX_PHASE_NAME_BYTES} bytes"));
        }
        if self.agents.len() > MAX_PHASE_AGENTS {
            add("agents", format!("must be at most {MAX_PHASE_AGENTS} names"));
        } else if !self.agents.iter().all(|agent| is_name(agent, MAX_AGENT_BYTES)) {
            add("agents", format!("must be names of agents, 1 to {MAX_AGENT_BYTES} bytes each"));
        }
        if self.max_rounds.is_some_and(|rounds| !(1..=MAX_ROUNDS).contains(&rounds)) {
            add("maxRounds", format!("must be 1 to {MAX_ROUNDS}"));
        }
        if self.output.as_deref().is_some_and(|output| !DISCUSSION_ENTRY_TYPES.contains(&output)) {
            add("output", format!("must be one of {}", DISCUSSION_ENTRY_TYPES.join(", ")));
        }
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
        let mut problems = self.discussions.problems("discussions");
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
        let (field, value) = self.parts();
        // Not every task has these fields, so `*` alone asks for tasks that have one.
        let is_optional = field.is_some_and(|field| OPTIONAL_FIELDS.contains(&field));
        let is_blank = match value {
            "*" => !is_optional,
            value => value.chars().all(|c| c == '*' || c.is_whitespace()),
        };
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
    fn a_threshold_is_for_the_kinds_that_have_one() {
        let with = |kind: Option<&str>| DiscussionDefaults {
            kind: kind.map(str::to_owned),
            threshold: Some(0.6),
            ..DiscussionDefaults::default()
        };
        for kind in [None, Some("consensus"), Some("collaboration")] {
            assert_eq!(with(kind).problems("discussion"), []);
        }
        for kind in ["review_loop", "debate", "brainstorm", "problem_solving"] {
            let problems = with(Some(kind)).problems("discussion");
            assert_eq!(problems[0].field, "discussion.threshold");
            assert!(problems[0].reason.contains("`consensus` and `collaboration`"), "{}", problems[0].reason);
        }
        let stored = serde_json::json!({ "kind": "debate", "threshold": 0.6 });
        assert_eq!(
            DiscussionDefaults::from_json(&stored),
            Some(with(Some("debate"))),
            "what is stored stays as it is"
        );
    }

    #[test]
    fn a_task_says_how_it_is_discussed_and_the_project_says_the_rest() {
        let phase = |name: &str| DiscussionPhase { name: name.into(), ..DiscussionPhase::default() };
        let project = DiscussionDefaults {
            kind: Some("debate".into()),
            rounds: Some(2),
            threshold: Some(0.9),
            ..DiscussionDefaults::default()
        };
        let task = DiscussionDefaults {
            rounds: Some(4),
            phases: vec![phase("review"), phase("decision")],
            ..DiscussionDefaults::default()
        };
        let merged = task.or(&project);
        assert_eq!(merged.kind.as_deref(), Some("collaboration"), "phases are those of a collaboration");
        assert_eq!((merged.rounds, merged.threshold, merged.phases.len()), (Some(4), Some(0.9), 2));
        let other = DiscussionDefaults { kind: Some("consensus".into()), ..DiscussionDefaults::default() };
        assert_eq!(other.or(&task).phases, [], "the phases of the project are not for another kind");
        assert_eq!(DiscussionDefaults::default().or(&project), project);
    }

    #[test]
    fn phases_are_checked_with_their_place() {
        let phase = DiscussionPhase {
            name: " ".into(),
            agents: vec![String::new()],
            max_rounds: Some(99),
            output: Some("song".into()),
        };
        let settings = DiscussionDefaults {
            kind: Some("debate".into()),
            phases: vec![phase],
            ..DiscussionDefaults::default()
        };
        let fields: Vec<String> =
            settings.problems("discussion").into_iter().map(|problem| problem.field).collect();
        let expected = ["", "[0].name", "[0].agents", "[0].maxRounds", "[0].output"];
        assert_eq!(fields, expected.map(|place| format!("discussion.phases{place}")));
    }

    #[test]
    fn rules_that_match_nothing_or_everything_are_refused_with_their_place() {
        let settings = CoordinationSettings {
            selection_rules: vec![rule("verdict:*", "a"), rule(" * ", "a"), rule("kind:", "")],
            ..CoordinationSettings::default()
        };
        let fields: Vec<String> =
            settings.check().unwrap_err().problems.into_iter().map(|problem| problem.field).collect();
        assert_eq!(
            fields,
            ["selectionRules[1].pattern", "selectionRules[2].pattern", "selectionRules[2].agent"]
        );
        for (pattern, is_allowed) in
            [("kind:*", true), ("tag: *", true), ("title:*", false), ("priority:*", false)]
        {
            assert_eq!(rule(pattern, "a").pattern_problem().is_none(), is_allowed, "{pattern}");
        }
    }
}
