//! The objects that the input of a call names: decides by the rules of an agent about a call, however it names them, and
//! tells whether an approved call still names the same ones.

use std::collections::{BTreeMap, HashMap};

use emergent_domain::{
    approval::{
        self, Approval, ApprovalRule, Decision, IN_PLACE_STEPS, InputNames, MAX_DECISION_STEPS,
        MAX_EARLIER_REFERENCES, MAX_REFERENCES, NamedObject, NormalInput, ObjectNames, OwnWork, Steps,
        ToolFacts, Verdict, objects_text,
    },
    ids::{ProjectId, RunId},
    object_ref::ObjectRef,
    time::Timestamp,
};
use emergent_graph::judged_names::JudgedNames;
use emergent_tools::Tool;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{Executor, Result};

/// The tool that names a template pack in the field in which others name objects.
const ASSIGNS_PACK: &str = "schema_pack_assign";

/// Why no person can approve a call, and no rule allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The number of the rule that denies it, counted from one.
    Rule(usize),
    /// The rules cannot be compared with it.
    TooManySteps,
}

/// The objects that each text of an input may name, by how it is written.
type NamedObjects = BTreeMap<String, Vec<NamedObject>>;

impl Executor {
    /// What the rules say about a call of a run. `label` is the name by which the model calls the tool.
    pub(crate) async fn decide_call(
        &self,
        (project, run): (ProjectId, RunId),
        rules: &[ApprovalRule],
        (label, tool): (&str, &dyn Tool),
        input: &Value,
    ) -> Result<Verdict> {
        Ok(self.decide_names((project, run), rules, (label, tool), input).await?.0)
    }

    /// Like [`Executor::decide_call`], with the objects that the input may name, if the rules look at them.
    pub(crate) async fn decide_names(
        &self,
        (project, run): (ProjectId, RunId),
        rules: &[ApprovalRule],
        (label, tool): (&str, &dyn Tool),
        input: &Value,
    ) -> Result<(Verdict, Option<JudgedNames>)> {
        let at = self.clock().now();
        let input = self.normal_input((project, run), rules, tool, input).await?;
        let names = self.input_names((project, run), rules, tool, input.completed()).await?;
        let (verdict, objects) =
            self.decide_here_or_aside(project, rules, (label, tool), input, names).await?;
        let judged = objects.filter(|_| rules.iter().any(|rule| !rule.when.is_empty()));
        Ok((verdict, judged.map(|objects| JudgedNames { objects, at })))
    }

    /// Decides at once if this is quick, and otherwise in the pool of validations, so that a large input, many rules or
    /// many names do not keep a thread of the server from answering requests. Also returns the objects that were named.
    async fn decide_here_or_aside(
        &self,
        project: ProjectId,
        rules: &[ApprovalRule],
        (label, tool): (&str, &dyn Tool),
        input: NormalInput<'_>,
        names: InputNames,
    ) -> Result<(Verdict, Option<HashMap<String, Vec<NamedObject>>>)> {
        let facts = tool_facts(label, tool);
        let verdict = approval::decide(rules, &facts, &input, &names, &Steps::new(IN_PLACE_STEPS));
        if verdict != Verdict::TooManySteps {
            return Ok((verdict, objects_of(names)));
        }
        let (label, name, server) =
            (label.to_owned(), facts.name.to_owned(), facts.server.map(str::to_owned));
        let is_destructive_external = facts.is_destructive_external;
        let (rules, input) = (rules.to_vec(), input.into_owned());
        let decide = move || {
            let facts =
                ToolFacts { label: &label, name: &name, server: server.as_deref(), is_destructive_external };
            let steps = Steps::new(MAX_DECISION_STEPS);
            (approval::decide(&rules, &facts, &input, &names, &steps), objects_of(names))
        };
        Ok(self.graph().run_validation(project, decide).await?)
    }

    /// Returns why a call cannot be made, whoever approves it. A person who approves a call with another input cannot make
    /// one that the rules of its agent deny.
    pub(crate) async fn denial(
        &self,
        (project, run): (ProjectId, RunId),
        rules: &[ApprovalRule],
        call: (&str, &dyn Tool),
        input: &Value,
    ) -> Result<Option<Denial>> {
        Ok(match self.decide_call((project, run), rules, call, input).await? {
            Verdict::Deny { rule } => Some(Denial::Rule(rule)),
            Verdict::TooManySteps => Some(Denial::TooManySteps),
            Verdict::Allow | Verdict::Ask { .. } => None,
        })
    }

    /// The input in the form that rules judge. Only conditions look at it, and only the tools of this server are known.
    async fn normal_input<'a>(
        &self,
        (project, run): (ProjectId, RunId),
        rules: &[ApprovalRule],
        tool: &dyn Tool,
        input: &'a Value,
    ) -> Result<NormalInput<'a>> {
        let info = tool.info();
        if info.server.is_some() || rules.iter().all(|rule| rule.when.is_empty()) {
            return Ok(NormalInput::as_written(input));
        }
        let own = match approval::leaves_out_own(&info.name, input) {
            true => self.graph().own_work(project, run).await?,
            false => OwnWork::default(),
        };
        Ok(NormalInput::new(&info.name, input, &own))
    }

    /// The names of the objects in an input. Only the tools of this server take references to objects, and only a condition
    /// compares them.
    async fn input_names(
        &self,
        (project, run): (ProjectId, RunId),
        rules: &[ApprovalRule],
        tool: &dyn Tool,
        input: &Value,
    ) -> Result<InputNames> {
        if tool.info().server.is_some() || rules.iter().all(|rule| rule.when.is_empty()) {
            return Ok(InputNames::default());
        }
        if tool.info().name == ASSIGNS_PACK {
            let Some(named) = input["id"].as_str() else { return Ok(InputNames::default()) };
            return Ok(InputNames::Known(self.graph().pack_names(project, named.to_owned()).await?));
        }
        let Some(references) = approval::references(input) else { return Ok(InputNames::Unknown) };
        if references.objects.is_empty() {
            return Ok(InputNames::default());
        }
        let run = takes_task_keys(&tool.info().name).then_some(run);
        Ok(InputNames::Known(self.graph().object_names(project, references, run).await?))
    }

    /// Returns the hash of the objects that the input of a tool of this server may name by keys; `None` if it names none in
    /// this way. An object that was created after `since` counts as none: a call may be about what an earlier call of the
    /// same answer creates. The inner error says why the input cannot be approved.
    pub(crate) async fn objects_digest(
        &self,
        project: ProjectId,
        input: &Value,
        since: Timestamp,
    ) -> Result<Result<Option<String>, String>> {
        Ok(self.named_objects(project, input, since).await?.map(|objects| objects_digest(&objects)))
    }

    /// The objects of [`Executor::objects_digest`], by the text of the reference.
    async fn named_objects(
        &self,
        project: ProjectId,
        input: &Value,
        since: Timestamp,
    ) -> Result<Result<Option<NamedObjects>, String>> {
        let Some(mut references) = approval::references(input) else {
            return Ok(Err(too_many_objects()));
        };
        // An id never names another object.
        references.objects.retain(|(_, reference)| matches!(reference, ObjectRef::Key { .. }));
        if references.objects.is_empty() {
            return Ok(Ok(None));
        }
        Ok(Ok(Some(self.graph().objects_named(project, references, since).await?)))
    }

    /// The objects that the input of an approved call names, if they are those for which it was approved. A request that an
    /// earlier version of the server made and decided says nothing about them, so its call has to be approved once more.
    pub(crate) async fn names_approved_objects(
        &self,
        approval: &Approval,
        decision: &Decision,
        input: &Value,
    ) -> Result<Option<JudgedNames>> {
        let (approved, since) = match (&decision.objects_digest, approval.objects_digest()) {
            (None, Some(asked)) if decision.edited_input.is_none() => (Some(asked), approval.created_at),
            (decided, _) => (decided.as_deref(), decision.at),
        };
        let Ok(objects) = self.named_objects(approval.project, input, since).await? else { return Ok(None) };
        let is_approved = objects_digest(&objects).as_deref() == approved;
        Ok(is_approved
            .then(|| JudgedNames { objects: objects.unwrap_or_default().into_iter().collect(), at: since }))
    }
}

/// Whether a tool finds tasks by their keys in a workflow.
fn takes_task_keys(tool: &str) -> bool {
    tool.starts_with("tasks_") || tool.starts_with("discussions_") || tool == "create_subtasks"
}

fn objects_digest(objects: &Option<NamedObjects>) -> Option<String> {
    objects.as_ref().map(|objects| hash(objects_text(objects)))
}

/// Why nobody can approve a call.
pub(crate) fn too_many_objects() -> String {
    format!(
        "The call names more than {MAX_REFERENCES} objects, or more than {MAX_EARLIER_REFERENCES} with `asOf`, which \
         nobody can approve at once: make several calls."
    )
}

/// Why a call cannot be compared with the rules.
pub(crate) fn too_many_steps() -> String {
    format!(
        "comparing the rules of the agent's approvals with this call takes more than {MAX_DECISION_STEPS} steps, so it \
         cannot be made: name fewer objects, or give less text, in one call"
    )
}

/// The hash of a text, in hexadecimal digits.
pub(crate) fn hash(text: String) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The objects that each text may name; `None` if they are not known.
fn objects_of(names: InputNames) -> Option<HashMap<String, Vec<NamedObject>>> {
    let InputNames::Known(names) = names else { return None };
    let objects = |(text, names): (String, Vec<ObjectNames>)| {
        (text, names.iter().filter_map(ObjectNames::object).collect())
    };
    Some(names.into_iter().map(objects).collect())
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
