//! Verdicts: the outcome of a task that tests or reviews other tasks.

use serde_json::{Value, json};

use crate::{agent::string_enum, task::VerdictKind};

string_enum! {
    VerdictWord {
        Pass = "PASS",
        Fail = "FAIL",
        NeedsChanges = "NEEDS_CHANGES",
        Approve = "APPROVE",
        RequestChanges = "REQUEST_CHANGES",
        /// Approval with comments.
        Comment = "COMMENT",
    }
}

impl VerdictWord {
    pub fn kind(self) -> VerdictKind {
        match self {
            VerdictWord::Pass | VerdictWord::Fail | VerdictWord::NeedsChanges => VerdictKind::Test,
            _ => VerdictKind::Review,
        }
    }

    /// Returns whether the verified tasks are sent back.
    pub fn is_negative(self) -> bool {
        matches!(self, VerdictWord::Fail | VerdictWord::NeedsChanges | VerdictWord::RequestChanges)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub word: VerdictWord,
    /// The problems, or the required changes.
    pub issues: Vec<String>,
    pub suggestions: Vec<String>,
    pub comments: Vec<String>,
    /// The steps of a test, each with the fields step, result, issue and suggested_fix.
    pub steps: Vec<Value>,
    pub summary: String,
}

impl Verdict {
    /// Returns the type of the graph object that stores the verdict.
    pub fn object_type(&self) -> &'static str {
        match self.word.kind() {
            VerdictKind::Review => "CodeReview",
            _ => "TestResult",
        }
    }

    /// Returns the properties of that graph object.
    pub fn to_properties(&self) -> Value {
        let mut properties = match self.word.kind() {
            VerdictKind::Review => json!({
                "verdict": self.word.as_str(), "comments": self.comments,
                "required_changes": self.issues, "suggestions": self.suggestions,
            }),
            _ => json!({ "verdict": self.word.as_str(), "steps": self.steps, "issues": self.issues }),
        };
        if !self.summary.is_empty() {
            properties["summary"] = json!(self.summary);
        }
        properties
    }
}
