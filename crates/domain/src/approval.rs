//! Approvals: the rules of a definition that say which tool calls a person has to approve, and what they decide
//! about one call.

mod condition;
mod decision;
mod names;
mod normal_form;
mod request;
mod steps;
mod title;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    agent::string_enum,
    filter::Filter,
    invalid::{Invalid, Problem},
    tool_name::{self, GrantNames},
};

use condition::Call;
pub use decision::{Choice, Decision, DecisionError, NewDecision};
pub use names::{InputNames, MAX_EARLIER_REFERENCES, MAX_REFERENCES, ObjectNames, References, references};
pub use normal_form::{NormalInput, OwnWork, is_normalised, leaves_out_own};
pub use request::{Approval, ApprovalKind, ApprovalStatus, NamedObject, Question, call_text, objects_text};
pub use steps::{IN_PLACE_STEPS, MAX_DECISION_STEPS, Steps};

const MAX_RULES: usize = 100;
const MAX_PATTERNS: usize = 100;
const MAX_CONDITIONS: usize = 20;
/// Thirty days: what nobody decides in a month is decided by expiry.
pub const MAX_EXPIRY_SECONDS: u32 = 30 * 86_400;

string_enum! {
    /// What a rule does with a call that it matches.
    Action {
        Allow = "allow",
        Ask = "ask",
        Deny = "deny",
    }
}

string_enum! {
    /// What happens to a call that nobody decided in time.
    #[derive(Default)]
    OnExpiry {
        /// The model is told that nobody approved the call.
        #[default]
        Deny = "deny",
        /// The call goes on waiting, marked as overdue, and the webhook is told again.
        Escalate = "escalate",
    }
}

/// One entry of `approvals`: the first one that matches a call decides about it. The field names are those of
/// a product manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Names and glob patterns of tools, as in the whitelist of the agent.
    pub tools: Vec<String>,
    /// Conditions on the input of the call. All have to match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<Filter>,
    pub action: Action,
    /// The number of seconds after which `on_expiry` applies. If absent, the call waits until somebody decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u32>,
    #[serde(default, skip_serializing_if = "is_deny")]
    pub on_expiry: OnExpiry,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_deny(on_expiry: &OnExpiry) -> bool {
    *on_expiry == OnExpiry::Deny
}

/// What the rules say about one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Ask {
        expires_in: Option<u32>,
        on_expiry: OnExpiry,
    },
    /// The number of the rule, counted from one, that refuses the call.
    Deny {
        rule: usize,
    },
    /// The comparisons would take more steps than they may, so the call must not be made.
    TooManySteps,
}

/// What the rules have to know about the tool of a call.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    /// The name by which the model calls the tool. It differs from `name` if several tools have that name.
    pub label: &'a str,
    /// The name of the tool itself.
    pub name: &'a str,
    /// The server of an external tool.
    pub server: Option<&'a str>,
    /// True if the tool is on an external server that marks it as destructive.
    pub is_destructive_external: bool,
}

impl<'a> ToolFacts<'a> {
    /// The names that a rule with this action may use. A bare name in a rule that asks or denies means every
    /// tool with that name. In a rule that allows it means only the tool that is called by it, so that a server
    /// cannot announce a tool whose name is allowed already.
    fn names_for(&self, action: Action) -> GrantNames<'a> {
        let Some(server) = self.server else { return GrantNames::builtin(self.name) };
        let names = GrantNames::external(server, self.name);
        match action {
            Action::Allow if self.label != self.name => {
                GrantNames { bare: None, pattern: self.label, ..names }
            }
            Action::Allow | Action::Ask | Action::Deny => names,
        }
    }
}

/// Decides about one call. The first rule that matches decides. Without one the call is allowed, except that a
/// destructive tool of an external server has to be approved. A condition is compared with every name of each object that
/// a text of the input may name.
pub fn decide(
    rules: &[ApprovalRule],
    tool: &ToolFacts<'_>,
    input: &NormalInput<'_>,
    names: &InputNames,
    steps: &Steps,
) -> Verdict {
    // Who decides also drops the names.
    steps.take(names.count());
    let no_names = HashMap::new();
    let known = match names {
        InputNames::Known(names) => names,
        InputNames::Unknown => &no_names,
    };
    let call = Call::new(input, known, steps);
    for (index, rule) in rules.iter().enumerate() {
        let is_match = rule.matches(tool, names, &call);
        if steps.ran_out() {
            return Verdict::TooManySteps;
        }
        if is_match {
            return match rule.action {
                Action::Allow => Verdict::Allow,
                Action::Ask => Verdict::Ask { expires_in: rule.expires_in, on_expiry: rule.on_expiry },
                Action::Deny => Verdict::Deny { rule: index + 1 },
            };
        }
    }
    if tool.is_destructive_external {
        return Verdict::Ask { expires_in: None, on_expiry: OnExpiry::Deny };
    }
    Verdict::Allow
}

impl ApprovalRule {
    /// Whether the rule names the tool and all its conditions hold for the input. What cannot be understood is not
    /// let through.
    fn matches(&self, tool: &ToolFacts<'_>, names: &InputNames, call: &Call<'_>) -> bool {
        call.steps.take(self.tools.len());
        if tool_name::grant_for(&self.tools, &tool.names_for(self.action)).is_none() {
            return false;
        }
        match names {
            InputNames::Known(_) => condition::hold(&self.when, self.action, call),
            InputNames::Unknown => self.when.is_empty() || self.action != Action::Allow,
        }
    }
}

/// Validates the rules of a definition.
pub fn check_rules(
    rules: &[ApprovalRule],
    check_pattern: impl Fn(&str) -> Result<(), String>,
) -> Result<(), Invalid> {
    let mut problems = Vec::new();
    if rules.len() > MAX_RULES {
        problems.push(Problem::new("approvals", format!("has more than {MAX_RULES} rules")));
    }
    for (index, rule) in rules.iter().take(MAX_RULES).enumerate() {
        let field = |name: &str| format!("approvals[{index}].{name}");
        if rule.tools.is_empty() || rule.tools.len() > MAX_PATTERNS {
            problems.push(Problem::new(field("tools"), format!("must have 1 to {MAX_PATTERNS} entries")));
        }
        for (number, pattern) in rule.tools.iter().take(MAX_PATTERNS).enumerate() {
            if let Err(reason) = check_pattern(pattern) {
                problems.push(Problem::new(field(&format!("tools[{number}]")), reason));
            }
        }
        if rule.when.len() > MAX_CONDITIONS {
            problems.push(Problem::new(field("when"), format!("has more than {MAX_CONDITIONS} conditions")));
        }
        for (number, filter) in rule.when.iter().take(MAX_CONDITIONS).enumerate() {
            if let Err(invalid) = filter.check() {
                problems.extend(invalid.prefixed(&field(&format!("when[{number}]"))).problems);
            }
        }
        if rule.expires_in.is_some_and(|seconds| seconds == 0 || seconds > MAX_EXPIRY_SECONDS) {
            problems
                .push(Problem::new(field("expiresIn"), format!("must be 1 to {MAX_EXPIRY_SECONDS} seconds")));
        }
        if rule.action != Action::Ask && (rule.expires_in.is_some() || rule.on_expiry != OnExpiry::Deny) {
            problems.push(Problem::new(
                field("expiresIn"),
                "is only for rules whose `action` is `ask`".to_owned(),
            ));
        }
    }
    Invalid::if_any(problems)
}

#[cfg(test)]
mod tests;
