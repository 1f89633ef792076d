//! Which part of a flow writes the answer of the flow. A flow calls no model itself: in a sequence, and in each round of
//! a loop, the output of the last part is the answer. The parts of a parallel flow are joined, so none is the answer.
//!
//! This is known where both the flow and its part are driven by this process, and only while they are.

use std::{collections::HashMap, sync::Arc};

use emergent_domain::{
    ids::RunId,
    run::{Origin, Run},
};
use parking_lot::Mutex;

/// Flows can be parts of flows; a chain of more is not followed.
const MAX_DEPTH: usize = 16;

/// The flows and the parts that this process drives. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct FlowParts(Arc<Mutex<Parts>>);

#[derive(Default)]
struct Parts {
    /// The index of the part that writes the answer, by flow.
    answering: HashMap<RunId, i64>,
    /// The parts, by flow and index.
    driven: HashMap<(RunId, i64), RunId>,
}

impl FlowParts {
    /// Records that a run is driven, if it is a part of a flow, until the guard is dropped.
    pub fn begin_part(&self, run: &Run) -> Option<DrivenPart> {
        let place = (run.parent.filter(|_| run.origin == Origin::Flow)?, run.child_index);
        self.0.lock().driven.insert(place, run.id);
        Some(DrivenPart { parts: self.clone(), place, run: run.id })
    }

    /// Records that the part at an index writes the answer of a flow, until the guard is dropped.
    pub fn begin_answer(&self, flow: RunId, index: i64) -> AnsweringPart {
        self.0.lock().answering.insert(flow, index);
        AnsweringPart { parts: self.clone(), flow, index }
    }

    /// Returns the run that writes the answer of a run: the run itself, unless it is a flow.
    pub fn answering_run(&self, run: RunId) -> RunId {
        let parts = self.0.lock();
        let mut current = run;
        for _ in 0..MAX_DEPTH {
            let index = parts.answering.get(&current);
            match index.and_then(|index| parts.driven.get(&(current, *index))) {
                Some(part) => current = *part,
                None => break,
            }
        }
        current
    }
}

/// Forgets a part when it is dropped.
pub(crate) struct DrivenPart {
    parts: FlowParts,
    place: (RunId, i64),
    run: RunId,
}

impl Drop for DrivenPart {
    fn drop(&mut self) {
        let mut parts = self.parts.0.lock();
        // A run that continues this part may have taken its place.
        if parts.driven.get(&self.place) == Some(&self.run) {
            parts.driven.remove(&self.place);
        }
    }
}

/// Forgets which part writes the answer of a flow when it is dropped.
pub(crate) struct AnsweringPart {
    parts: FlowParts,
    flow: RunId,
    index: i64,
}

impl Drop for AnsweringPart {
    fn drop(&mut self) {
        let mut parts = self.parts.0.lock();
        // The next round of a loop may have taken its place.
        if parts.answering.get(&self.flow) == Some(&self.index) {
            parts.answering.remove(&self.flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(parts: &FlowParts, flow: RunId, index: i64) -> (RunId, DrivenPart) {
        let (run, place) = (RunId::new(), (flow, index));
        parts.0.lock().driven.insert(place, run);
        (run, DrivenPart { parts: parts.clone(), place, run })
    }

    #[test]
    fn the_part_that_writes_the_answer_is_found_through_flows_in_flows_and_forgotten() {
        let (parts, flow) = (FlowParts::default(), RunId::new());
        assert_eq!(parts.answering_run(flow), flow);
        let (inner, inner_part) = begin(&parts, flow, 1);
        assert_eq!(parts.answering_run(flow), flow, "which part answers is not known yet");
        let outer_answer = parts.begin_answer(flow, 1);
        assert_eq!(parts.answering_run(flow), inner);
        let inner_answer = parts.begin_answer(inner, 0);
        let (writer, writer_part) = begin(&parts, inner, 0);
        assert_eq!(parts.answering_run(flow), writer);
        // Another round.
        let next = parts.begin_answer(flow, 3);
        drop(outer_answer);
        assert_eq!(parts.answering_run(flow), flow);
        let (last, last_part) = begin(&parts, flow, 3);
        assert_eq!(parts.answering_run(flow), last);
        drop((inner_answer, inner_part, writer_part, next, last_part));
        assert!(parts.0.lock().answering.is_empty() && parts.0.lock().driven.is_empty());
    }
}
