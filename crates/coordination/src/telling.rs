//! What an attempt is told of the work before it: by rules, or as a model chose where the workflow
//! wants that and there is much to tell.

use emergent_domain::{
    ids::ObjectId,
    task::{Task, TaskStatus, VerdictKind},
    workflow::ThreadingKind,
};
use serde_json::Value;

use crate::{
    known::Known,
    state::{Snapshot, Talk},
    think::{self, Asked, Thought},
    threading::{self, Source, Sources, Threaded},
    walk::Walk,
};

/// How many tasks further back are told at most: in a wide graph nearly everything lies behind a task,
/// and little of it says more than what is near.
const MOST_INDIRECT: usize = 8;

pub(crate) enum Told {
    /// `chosen` says so where a model chose.
    Now { threaded: Threaded, chosen: Option<String> },
    /// A model is asked what matters.
    Thinking,
}

/// What went before, within the workflow's measure.
pub(crate) fn told(walk: &mut Walk, known: &Known, task: &Task) -> Told {
    let settings = &known.workflow().settings;
    let budget = settings.context_tokens;
    let mut sources = sources(known, task);
    let mut chosen = None;
    let much = settings.threading == ThreadingKind::Llm && sources.are_many(budget);
    if let Some(judge) = walk.judge().filter(|_| much) {
        let open = sources.open();
        match think::telling(&judge, &mut walk.thoughts, task, &open) {
            Asked::Thinking => return Told::Thinking,
            Asked::Said(Some(Thought::Keep(kept))) => {
                let offered: Vec<ObjectId> = open.iter().map(|source| source.id).collect();
                sources.keep(&offered, &kept);
                let (kept, of) = (kept.len(), offered.len());
                chosen = Some(format!("a model chose {kept} of {of} sources it is told of"));
            }
            // No answer that can be used: rules decide.
            Asked::No | Asked::Said(_) => {}
        }
    }
    let Sources { direct, discussions, indirect } = &sources;
    let threaded = threading::thread(budget, task, direct, discussions, &task.failure_context, indirect);
    Told::Now { threaded, chosen }
}

/// Everything that could be told.
fn sources(known: &Known, task: &Task) -> Sources {
    let snapshot = &known.snapshot;
    let verified: Vec<ObjectId> = match task.verdict {
        VerdictKind::None => Vec::new(),
        _ => snapshot.verified_by(task).into_iter().map(|one| one.id).collect(),
    };
    let source = |other: &Task| Source {
        id: other.id,
        title: named(other),
        kind: other.kind.clone(),
        agent: other.assigned_agent.clone(),
        text: text_of(other.output.as_ref()).or_else(|| other.summary.clone()).unwrap_or_default(),
        verified: verified.contains(&other.id),
    };
    let direct = direct(snapshot, task, &verified);
    let discussions = direct
        .iter()
        .flat_map(|one| known.talking.get(&one.id).into_iter().flatten().map(|talking| (one.id, talking)))
        .filter(|(_, talking)| talking.talk() == Talk::Resolved)
        .map(|(of, talking)| Source {
            id: talking.id,
            title: talking.topic().to_owned(),
            kind: talking.kind().to_owned(),
            agent: None,
            text: talking.told(),
            verified: verified.contains(&of),
        })
        .collect();
    let mut indirect = snapshot.indirect_blockers(task.id, MOST_INDIRECT + verified.len());
    indirect.retain(|far| direct.iter().all(|one| one.id != far.id));
    indirect.truncate(MOST_INDIRECT);
    Sources {
        direct: direct.into_iter().map(source).collect(),
        discussions,
        indirect: indirect.into_iter().map(source).collect(),
    }
}

/// What a task builds on itself, and what it has to judge, however far back that is.
fn direct<'a>(snapshot: &'a Snapshot, task: &Task, verified: &[ObjectId]) -> Vec<&'a Task> {
    let mut direct: Vec<&Task> = snapshot.blockers(task.id).collect();
    let far = verified.iter().filter_map(|id| snapshot.get(*id));
    for one in far.filter(|one| one.status == TaskStatus::Completed) {
        if direct.iter().all(|known| known.id != one.id) {
            direct.push(one);
        }
    }
    direct
}

fn named(task: &Task) -> String {
    if task.title.is_empty() { task.key.clone() } else { task.title.clone() }
}

fn text_of(output: Option<&Value>) -> Option<String> {
    match output? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
