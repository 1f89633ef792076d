//! Compares changes of the graph with event triggers, as far as one pass may.

use std::collections::HashMap;

use emergent_domain::{
    author::Author,
    change::Change,
    ids::{AgentId, FiringId, ProjectId, RunId},
    time::Timestamp,
    trigger::{
        CheckedConditions, Decision, EventKind, EventTrigger, Firing, FiringCause, FiringStatus,
        ObservedChange, decide_with, needs_content,
    },
};
use emergent_store::{Tx, runs};

use super::event_context::{self, MAX_CONTENT_BYTES};
use crate::Result;

/// How many bytes are compared in a pass, after which no further trigger is: some tens of milliseconds. Otherwise a project
/// with many large triggers would delay those of all others.
const MAX_WORK: usize = 32 << 20;
/// The most firings that a pass creates. One transaction inserts them, which others wait for.
const MAX_FIRINGS: usize = 500;

/// Compares changes with triggers until enough was done for one pass.
pub(super) struct Comparison<'t> {
    project: ProjectId,
    /// By agent.
    triggers: &'t [(EventTrigger, CheckedConditions)],
    now: Timestamp,
    /// The lengths of the chains of triggers before the runs that wrote the changes.
    depths: HashMap<RunId, i64>,
    content_bytes: usize,
    work: usize,
    pub firings: Vec<Firing>,
}

impl<'t> Comparison<'t> {
    pub fn new(
        project: ProjectId,
        triggers: &'t [(EventTrigger, CheckedConditions)],
        now: Timestamp,
    ) -> Self {
        let (depths, firings) = (HashMap::new(), Vec::new());
        Self { project, triggers, now, depths, content_bytes: 0, work: 0, firings }
    }

    /// Whether no further change is compared in this pass.
    pub fn is_full(&self) -> bool {
        self.work >= MAX_WORK || self.firings.len() >= MAX_FIRINGS || self.content_bytes >= MAX_CONTENT_BYTES
    }

    /// Compares a change with the triggers after `last`. If some are left for the next pass, returns the last one that was
    /// compared.
    pub fn compare(
        &mut self,
        tx: &mut Tx<'_>,
        change: &Change,
        last: Option<AgentId>,
    ) -> Result<Option<AgentId>> {
        let Some(event) = EventKind::from_change(change.kind) else { return Ok(None) };
        let triggers = self.triggers;
        let matching: Vec<&(EventTrigger, CheckedConditions)> = triggers
            .iter()
            .filter(|(trigger, _)| last.is_none_or(|last| trigger.agent > last))
            .filter(|(trigger, _)| trigger.event == event && trigger.since.includes(change.position))
            .collect();
        let Some((last_matching, _)) = matching.last() else { return Ok(None) };
        let cause = self.cause(tx, change)?;
        let reads_content = |trigger: &EventTrigger| needs_content(trigger, event, &change.entity_type);
        let content = match matching.iter().any(|(trigger, _)| reads_content(trigger)) {
            true => {
                event_context::content_at_version(tx, self.project, event, change.entity, change.version)?
            }
            false => None,
        };
        self.content_bytes += content.as_ref().map_or(0, |content| content.bytes);
        let content = content.map(|content| content.content);
        let observed = ObservedChange { change, content: content.as_ref(), cause };
        for (trigger, conditions) in &matching {
            self.work += conditions.work(content.as_ref().filter(|_| reads_content(trigger)));
            self.firings.extend(new_firing(&observed, trigger, conditions, event, self.now));
            let did_enough = self.work >= MAX_WORK || self.firings.len() >= MAX_FIRINGS;
            if did_enough && trigger.agent != last_matching.agent {
                return Ok(Some(trigger.agent));
            }
        }
        Ok(None)
    }

    /// The run that wrote a change, and the length of the chain of triggers before it.
    fn cause(&mut self, tx: &mut Tx<'_>, change: &Change) -> Result<Option<(RunId, i64)>> {
        let Author::Run { run_id, .. } = change.author else { return Ok(None) };
        let depth = match self.depths.get(&run_id) {
            Some(depth) => *depth,
            None => runs::cause_depth(tx, self.project, run_id)?.unwrap_or(0),
        };
        self.depths.insert(run_id, depth);
        Ok(Some((run_id, depth)))
    }
}

/// Returns the firing of a trigger for a change; `None` if the trigger ignores the change.
fn new_firing(
    observed: &ObservedChange<'_>,
    trigger: &EventTrigger,
    conditions: &CheckedConditions,
    event: EventKind,
    now: Timestamp,
) -> Option<Firing> {
    let (status, reason, due_at, depth) = match decide_with(observed, trigger, conditions, now) {
        Decision::Ignore => return None,
        Decision::Fire { due_at, depth } => (FiringStatus::Pending, None, due_at, depth),
        Decision::Skip { why: reason, depth } => (FiringStatus::Skipped, Some(reason), now, depth),
    };
    let change = observed.change;
    Some(Firing {
        id: FiringId::new(),
        project: trigger.project,
        agent: trigger.agent,
        fired: FiringCause::Event {
            event,
            entity: change.entity,
            entity_type: change.entity_type.clone(),
            version: change.version,
            at: Some(change.position),
        },
        cause: observed.cause.map(|(run, _)| run),
        cause_depth: depth,
        status,
        reason: reason.map(|reason| reason.as_str().to_owned()),
        run: None,
        workflow: None,
        trigger_name: trigger.name.clone(),
        due_at,
        created_at: now,
        settled_at: reason.map(|_| now),
    })
}
