//! What somebody who may write agents but not read them learns from a change: nothing that depends on whether a guess of
//! what is stored is right. The rights are checked before anything is compared (`AgentsBefore::check_unread`), every
//! change is a version, and a refusal is about what the request sent.

use std::collections::BTreeSet;

use emergent_domain::{
    agent::{AvailableNames, ShownNames},
    invalid::{Invalid, Problem},
    token::Scope,
};
use emergent_tools::ToolPool;

use crate::{Error, Result, agent_rights::AgentsBefore};

/// What the errors of a change may show its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Everything,
    /// What the request sent, and the names of built-in tools.
    Sent,
}

impl Shown {
    pub fn to_author(before: &AgentsBefore) -> Self {
        if before.may_read() { Self::Everything } else { Self::Sent }
    }

    /// The names that a definition may refer to, with those that may be shown.
    pub fn names(self, available: &AvailableNames, tools: &ToolPool) -> AvailableNames {
        let shown = match self {
            Self::Everything => ShownNames::All,
            Self::Sent => builtin_names(tools),
        };
        AvailableNames { shown, ..available.clone() }
    }

    /// Returns an outcome with the problems that may be shown. `sent` has the fields of the request; `None` if all of the
    /// definition is from it.
    pub fn outcome<T>(self, outcome: Result<T>, sent: Option<&BTreeSet<String>>) -> Result<T> {
        match (outcome, self, sent) {
            (Err(Error::Invalid(invalid)), Self::Sent, Some(sent)) => {
                Err(Error::Invalid(withhold(invalid, sent)))
            }
            (outcome, _, _) => outcome,
        }
    }
}

/// The names that may be shown to somebody who may not read agents.
pub(super) fn builtin_names(tools: &ToolPool) -> ShownNames {
    ShownNames::Builtin(tools.builtin_names().into_iter().collect())
}

/// Returns the problems of the fields that the request sent. Of the others it says only that there is something.
fn withhold(invalid: Invalid, sent: &BTreeSet<String>) -> Invalid {
    let is_sent = |problem: &Problem| {
        let field = problem.field.split(['.', '[']).next().unwrap_or_default();
        sent.contains(field)
    };
    let (mut problems, withheld): (Vec<_>, Vec<_>) = invalid.problems.into_iter().partition(is_sent);
    if !withheld.is_empty() {
        let reason = format!(
            "with this change the definition would not be valid; the fields that the request did not send are shown with \
             the scope `{}` only",
            Scope::AgentsRead
        );
        problems.push(Problem::new("", reason));
    }
    Invalid { problems }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_fields_that_were_sent_are_told() {
        let problems = ["tools[0]", "config.trigger.filter", "maxSteps", "trigger"]
            .map(|field| Problem::new(field, "secret"));
        let sent = BTreeSet::from(["tools", "maxSteps"].map(str::to_owned));
        let told = withhold(Invalid { problems: problems.into() }, &sent).problems;
        let fields: Vec<&str> = told.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["tools[0]", "maxSteps", ""]);
        assert!(told[2].reason.contains("agents:read"), "{}", told[2].reason);
    }
}
