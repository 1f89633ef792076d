//! How agents behave: well, badly, or not to the end. It is chance, but the same for the same
//! question, so that a case can be repeated and a call that was lost is answered as before.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use emergent_domain::chat::Speaker;
use emergent_testkit::scripted::{ModelRequest, ScriptedModel, ScriptedReply, calls, fails, says};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;

/// Each with the tools it may use.
pub const AGENTS: [(&str, &[&str]); 4] =
    [("worker", &["entities_query", "create_subtasks"]), ("tester", &[]), ("reviewer", &[]), ("critic", &[])];
/// Whoever calls more often than this is stopped at the limit.
pub const MAX_STEPS: u32 = 2;

pub fn answer(asked: &ModelRequest) -> ScriptedReply {
    let question = Question::of(asked);
    let mut dice = StdRng::seed_from_u64(question.number);
    let pause = Duration::from_millis(dice.random_range(0..20));
    let luck = dice.random_range(0..100);
    let say = match (asked.agent.as_str(), luck) {
        (_, 0..6) => refused(),
        ("critic", _) => critic(luck),
        _ if asked.tools.is_empty() => says("I got half way."),
        ("tester", _) => judge(&question, luck, "PASS", if luck % 2 == 0 { "FAIL" } else { "NEEDS_CHANGES" }),
        ("reviewer", _) => {
            judge(&question, luck, if luck % 3 == 0 { "COMMENT" } else { "APPROVE" }, "REQUEST_CHANGES")
        }
        _ => worker(&question, luck, &mut dice),
    };
    say.with_delay(pause)
}

/// What an answer depends on.
struct Question {
    first: String,
    /// Calls that were answered since somebody last said something.
    called: usize,
    number: u64,
}

impl Question {
    fn of(asked: &ModelRequest) -> Self {
        let said = || asked.turns.iter().filter(|turn| turn.speaker == Speaker::User);
        let first = said().next().map(|turn| turn.text()).unwrap_or_default();
        let since = asked.turns.iter().rev().take_while(|turn| turn.speaker != Speaker::User);
        let called = since.filter(|turn| turn.speaker == Speaker::Tools).count();
        let mut hasher = DefaultHasher::new();
        // A run that is resumed hears one word more than before, and may do otherwise.
        (&asked.agent, &first, said().count()).hash(&mut hasher);
        Self { first, called, number: hasher.finish() }
    }

    fn case(&self) -> &str {
        let rest = self.first.split_once("case ").map_or("", |(_, rest)| rest);
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default()
    }
}

fn refused() -> ScriptedReply {
    let (model, message) = (ScriptedModel::MODEL.to_owned(), "no such column".to_owned());
    fails(emergent_llm::Error::BadRequest { model, status: 400, message })
}

fn worker(question: &Question, luck: u32, dice: &mut StdRng) -> ScriptedReply {
    // Parts are not split again.
    let may_split = question.called == 0 && !question.first.contains("Part ");
    match luck {
        6..14 => calls("entities_query", json!({ "type": format!("Thing{}", question.called) })),
        14..19 if may_split => {
            let part = |number: u32| json!({ "title": format!("Part {number} of case {}", question.case()), "assignedAgent": "worker" });
            let parts: Vec<_> =
                (0..dice.random_range(1..=3)).map(|_| part(dice.random_range(0..1_000))).collect();
            let mut input = json!({ "tasks": parts, "blocksParent": dice.random_bool(0.5) });
            if dice.random_bool(0.3) {
                input["synthesis"] = part(1_000);
            }
            calls("create_subtasks", input)
        }
        // Said otherwise when it was asked otherwise: whoever judges it looks at something new.
        _ => says(format!("Done, as number {:x}.", question.number)),
    }
}

fn judge(question: &Question, luck: u32, good: &str, bad: &str) -> ScriptedReply {
    match (question.called, luck) {
        (_, 6..10) => says("I had a look at it."),
        (0, 10..28) => calls("submit_verdict", json!({ "verdict": bad, "issues": ["something is missing"] })),
        (_, 28..34) => says(format!("VERDICT: {good}")),
        (0, _) => calls("submit_verdict", json!({ "verdict": good, "summary": "as it should be" })),
        _ => says("That is my verdict."),
    }
}

fn critic(luck: u32) -> ScriptedReply {
    match luck {
        6..40 => says("SUGGEST_CHANGES: say more."),
        _ => says("APPROVED. Nothing to add."),
    }
}
