//! Decides by the rules of an agent about a call, however the call names its objects.

use emergent_domain::{
    approval::{self, ApprovalRule, ToolFacts, Verdict},
    ids::ProjectId,
};
use emergent_tools::Tool;
use serde_json::Value;

use crate::{Executor, Result};

impl Executor {
    /// What the rules say about a call. `label` is the name by which the model calls the tool.
    pub(crate) async fn decide_call(
        &self,
        project: ProjectId,
        rules: &[ApprovalRule],
        (label, tool): (&str, &dyn Tool),
        input: &Value,
    ) -> Result<Verdict> {
        let others = self.other_spellings(project, rules, tool, input).await?;
        Ok(approval::decide_spelt(rules, &tool_facts(label, tool), input, &others))
    }

    /// Returns the number of the rule that denies a call, counted from one. A person who approves a call with another
    /// input cannot make one that the rules of its agent deny.
    pub(crate) async fn denying_rule(
        &self,
        project: ProjectId,
        rules: &[ApprovalRule],
        call: (&str, &dyn Tool),
        input: &Value,
    ) -> Result<Option<usize>> {
        Ok(match self.decide_call(project, rules, call, input).await? {
            Verdict::Deny { rule } => Some(rule),
            Verdict::Allow | Verdict::Ask { .. } => None,
        })
    }

    /// The input with the other names of its objects. Only the tools of this server take references to objects, and only
    /// a condition compares them.
    async fn other_spellings(
        &self,
        project: ProjectId,
        rules: &[ApprovalRule],
        tool: &dyn Tool,
        input: &Value,
    ) -> Result<Vec<Value>> {
        if tool.info().server.is_some() || rules.iter().all(|rule| rule.when.is_empty()) {
            return Ok(Vec::new());
        }
        let references = approval::references(input);
        if references.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.graph().object_names(project, references).await?;
        Ok(approval::other_spellings(input, &names))
    }
}

fn tool_facts<'a>(label: &'a str, tool: &'a dyn Tool) -> ToolFacts<'a> {
    let info = tool.info();
    ToolFacts {
        label,
        name: &info.name,
        server: info.server.as_deref(),
        is_destructive_external: tool.is_marked_destructive(),
    }
}
