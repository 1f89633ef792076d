//! A model with a price, and checks of the recorded spending.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use emergent_domain::{
    chat::{Part, StopReason, ToolCall, Usage},
    ids::{ProjectId, ToolCallId, WorkflowId},
    time::{Clock, Timestamp},
    workflow::{Amount, Limit},
};
use emergent_llm::{Answer, ChatRequest, Delta, Error, Models, Provider};
use emergent_store::{
    Db, Tx,
    budget::{self, Counter, DayStart, WorkflowSpend},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::time::{Duration, sleep};

/// Answers at random, and reports its usage like a provider: the tokens of its input and output.
#[derive(Clone)]
pub struct PricedModel(Arc<Mutex<StdRng>>);

impl PricedModel {
    /// The price table contains this model.
    pub const MODEL: &str = "openai/gpt-4o-mini";

    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    pub fn models(&self) -> Models {
        Models::default().with_provider(Arc::new(self.clone()))
    }

    fn roll(&self, sides: u32) -> u32 {
        self.0.lock().unwrap().random_range(0..sides)
    }
}

fn size(part: &Part) -> usize {
    match part {
        Part::Text { text, .. } | Part::Thought { text, .. } => text.len(),
        Part::Call(call) => call.name.len() + call.input.to_string().len(),
        Part::Result(result) => result.output.to_string().len(),
    }
}

#[async_trait]
impl Provider for PricedModel {
    fn name(&self) -> &str {
        "openai"
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let most = request.max_tokens.expect("a call under a limit has one");
        sleep(Duration::from_millis(self.roll(12).into())).await;
        let words = "word ".repeat(1 + self.roll(60) as usize);
        match self.roll(14) {
            0 => return Err(refused("try another way")),
            1 => {
                on_delta(Delta::Text(words));
                return Err(refused("in the middle of a sentence"));
            }
            _ => {}
        }
        let mut words = words;
        words.truncate(4 * most as usize);
        on_delta(Delta::Text(words.clone()));
        sleep(Duration::from_millis(self.roll(12).into())).await;
        let mut parts = vec![Part::text(words)];
        let calls = !request.tools.is_empty() && self.roll(3) > 0 && most > 200;
        if calls {
            // The input varies, because identical calls would count as a loop.
            let input = json!({ "limit": 1 + self.roll(90) });
            let name = "entities_query".to_owned();
            parts.push(Part::Call(ToolCall { id: ToolCallId::new(), name, input, provider: None }));
        }
        let read: usize =
            request.system.len() + request.turns.iter().flat_map(|turn| &turn.parts).map(size).sum::<usize>();
        let spoken = parts.iter().map(size).sum::<usize>().div_ceil(4);
        let usage = Usage {
            input: read.div_ceil(4) as u64,
            output: (spoken + self.roll(200) as usize).min(most as usize) as u64,
            cache_read: u64::from(self.roll(2)),
            ..Usage::default()
        };
        Ok(Answer {
            parts,
            usage,
            stop: if calls { StopReason::ToolCalls } else { StopReason::End },
            response: Default::default(),
        })
    }
}

/// A model that streams until it is cut off.
pub struct Endless;

impl Endless {
    pub const MODEL: &str = "endless/words";

    pub fn models() -> Models {
        Models::default().with_provider(Arc::new(Self))
    }
}

#[async_trait]
impl Provider for Endless {
    fn name(&self) -> &str {
        "endless"
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        _: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let output = request.max_tokens.expect("a call under a limit has one").into();
        let usage = Usage { input: 20, output, ..Usage::default() };
        Ok(Answer {
            parts: vec![Part::text("and so on, ".repeat(50))],
            usage,
            stop: StopReason::MaxTokens,
            response: Default::default(),
        })
    }
}

fn refused(message: &str) -> Error {
    Error::BadRequest { model: PricedModel::MODEL.into(), status: 400, message: message.into() }
}

/// Returns all budget counters of a project by name.
pub async fn counters(db: &Db, project: ProjectId) -> Vec<(String, Counter)> {
    let read = move |tx: &mut Tx<'_>| {
        tx.query(
            "SELECT name, spent_microusd, spent_tokens, reserved_microusd, reserved_tokens FROM budget_counters
             WHERE project_id = $1 ORDER BY name",
            &[project.into()],
            |row| {
                let spent = Amount { microusd: row.get(1)?, tokens: row.get(2)? };
                let reserved = Amount { microusd: row.get(3)?, tokens: row.get(4)? };
                Ok((row.get(0)?, Counter { spent, reserved }))
            },
        )
    };
    let found: Result<_, emergent_store::Error> = db.read(read).await;
    found.unwrap()
}

pub async fn spent(db: &Db, project: ProjectId, workflow: WorkflowId) -> WorkflowSpend {
    let found: Result<_, emergent_store::Error> =
        db.read(move |tx| budget::workflow_spend(tx, project, workflow)).await;
    found.unwrap()
}

pub async fn limit_day(db: &Db, project: ProjectId, agent: Option<&'static str>, limit: Limit) {
    if limit.is_unlimited() {
        let done: Result<(), emergent_store::Error> =
            db.write(move |tx| budget::remove_day_limit(tx, project, agent)).await;
        return done.unwrap();
    }
    let start = DayStart::read(db, &Clock::system(), project, agent).await.unwrap();
    set_limit(db, start, limit).await;
}

/// Sets the limit of a day whose start was read.
pub async fn set_limit(db: &Db, start: DayStart, limit: Limit) {
    let done: Result<(), emergent_store::Error> =
        db.write(move |tx| budget::set_day_limit(tx, &start, limit, Timestamp::now())).await;
    done.unwrap();
}

/// Checks that the counters agree with the model calls, and the calls with the spending of tasks and
/// agents. No reservation may be left open.
pub async fn check_books(db: &Db, project: ProjectId, workflow: WorkflowId, said: &str) -> WorkflowSpend {
    let books = spent(db, project, workflow).await;
    assert_eq!(books.reserved, Amount::default(), "{said}: something is left open");
    let tasks: Amount = books.by_task.iter().map(|share| share.spent).sum();
    let agents: Amount = books.by_agent.iter().map(|share| share.spent).sum();
    assert_eq!((tasks, agents), (books.spent, books.spent), "{said}");
    for (name, counter) in counters(db, project).await {
        assert_eq!(counter.reserved, Amount::default(), "{said}: {name} has something left open");
        let whole = match name.rsplit_once(':') {
            Some(("workflow", id)) if id != workflow.to_string() => continue,
            Some(("workflow", _)) => books.spent,
            Some(("day", _)) => books.spent,
            Some((_, agent)) => {
                let own = books.by_agent.iter().find(|share| share.key == agent);
                own.map(|share| share.spent).unwrap_or_default()
            }
            None => panic!("{name}"),
        };
        assert_eq!(counter.spent, whole, "{said}: {name}");
    }
    books
}
