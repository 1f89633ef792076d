//! Verdicts: what a task that tests or reviews says of what it looked at.

use serde_json::{Value, json};

use crate::{agent::string_enum, task::VerdictKind};

string_enum! {
    VerdictWord {
        Pass = "PASS",
        Fail = "FAIL",
        NeedsChanges = "NEEDS_CHANGES",
        Approve = "APPROVE",
        RequestChanges = "REQUEST_CHANGES",
        /// Approval with remarks.
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

    /// Whether what was looked at goes back.
    pub fn is_negative(self) -> bool {
        matches!(self, VerdictWord::Fail | VerdictWord::NeedsChanges | VerdictWord::RequestChanges)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub word: VerdictWord,
    /// What is wrong, or has to change.
    pub issues: Vec<String>,
    pub suggestions: Vec<String>,
    pub comments: Vec<String>,
    /// As a test says them: step, result, issue, suggested_fix.
    pub steps: Vec<Value>,
    pub summary: String,
}

impl Verdict {
    /// The type of the object it is kept as.
    pub fn object_type(&self) -> &'static str {
        match self.word.kind() {
            VerdictKind::Review => "CodeReview",
            _ => "TestResult",
        }
    }

    /// Its properties there.
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
