//! What a model may do about what a task is told: leave out and reorder. It never sees what the task
//! has to judge, so that cannot be left out.

use std::fmt::Write;

use emergent_documents::count_tokens;
use emergent_domain::{ids::ObjectId, task::Task};
use serde_json::{Value, json};

use super::{PriorResult, result_heading};
use crate::workflow::question::{Question, find_json_object, truncate};

/// So many can be told without a choice, if they fit.
const MAX_WITHOUT_SELECTION: usize = 6;

/// Everything a task could be told of the work before it, by rank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriorResults {
    pub direct: Vec<PriorResult>,
    pub discussions: Vec<PriorResult>,
    /// The nearest first.
    pub indirect: Vec<PriorResult>,
}

impl PriorResults {
    fn iter(&self) -> impl Iterator<Item = &PriorResult> {
        self.direct.iter().chain(&self.discussions).chain(&self.indirect)
    }

    /// What there is to choose among: what says something and is not what the task has to judge.
    pub fn selectable(&self) -> Vec<PriorResult> {
        self.iter().filter(|source| !source.verified && !source.text.trim().is_empty()).cloned().collect()
    }

    /// Whether there is more than can or should be told.
    pub fn need_selection(&self, budget_tokens: usize) -> bool {
        let open = self.iter().filter(|source| !source.verified && !source.text.trim().is_empty()).count();
        let tokens = || self.iter().map(|source| count_tokens(&source.text)).sum::<usize>();
        open > MAX_WITHOUT_SELECTION || (open > 1 && tokens() > budget_tokens)
    }

    /// Leaves of `open` what was kept, in that order; what was not to be chosen among stays, in front.
    /// A rank stays a rank: what a task builds on directly is told before what lies further back.
    pub fn retain_selected(&mut self, open: &[ObjectId], kept: &[ObjectId]) {
        for rank in [&mut self.direct, &mut self.discussions, &mut self.indirect] {
            rank.retain(|source| !open.contains(&source.id) || kept.contains(&source.id));
            rank.sort_by_key(|source| kept.iter().position(|id| *id == source.id));
        }
    }
}

/// Asks a model which sources a task needs.
pub fn narrowing_question(task: &Task, sources: &[PriorResult]) -> Question {
    let mut prompt = format!("TASK: {}\n{}\n\nSOURCES:\n", task.title, truncate(&task.description, 4_000));
    for (at, source) in sources.iter().enumerate() {
        let _ = writeln!(
            prompt,
            "{}. {}{}",
            at + 1,
            result_heading("from", source).replace('\n', " "),
            truncate(&source.text, 400)
        );
    }
    prompt += "\nWhich of them does the task need? Give their numbers, the most important first.";
    Question {
        system: "You choose what a task is told of the work before it. You leave out what it does not need."
            .to_owned(),
        prompt,
        schema: json!({
            "type": "object",
            "properties": { "keep": { "type": "array", "items": { "type": "integer" } } },
            "required": ["keep"],
            "additionalProperties": false,
        }),
    }
}

/// The sources a model chose, in its order. It can only drop and reorder: a number that is none of
/// them or comes twice is passed over. `None`: the answer cannot be read, and nothing is changed.
pub fn parse_narrowing(answer: &str, sources: &[ObjectId]) -> Option<Vec<ObjectId>> {
    let answer = find_json_object(answer, "keep")?;
    let numbers = answer.get("keep").and_then(Value::as_array)?;
    let mut kept: Vec<ObjectId> = Vec::new();
    for number in numbers {
        let place = number.as_u64().and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
        match place.and_then(|place| sources.get(place)) {
            Some(id) if !kept.contains(id) => kept.push(*id),
            _ => {}
        }
    }
    // Numbers were given, and none of them means anything: that is not a choice.
    (numbers.is_empty() || !kept.is_empty()).then_some(kept)
}
