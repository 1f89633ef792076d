//! A model whose lines are written in the test. It says them in order, and fails loudly when it is
//! asked more often than it has lines.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use emergent_domain::{
    chat::{Part, Speaker, StopReason, ToolCall, Turn, Usage},
    ids::ToolCallId,
};
use emergent_llm::{Answer, ChatRequest, Delta, Error, Models, Provider};
use serde_json::Value;

/// What a call of a scripted model counts, whatever was said.
pub const USAGE: Usage = Usage { input: 100, output: 10, reasoning: 2, cache_read: 40, cache_write: 5 };

/// One answer of the model.
#[derive(Default)]
pub struct ScriptedReply {
    parts: Vec<Part>,
    after: Duration,
    fails: Option<Error>,
    usage: Option<Usage>,
    make: Option<ReplyFn>,
}

type ReplyFn = Box<dyn FnOnce(&ModelRequest) -> ScriptedReply + Send>;
type AlwaysFn = Box<dyn Fn(&ModelRequest) -> ScriptedReply + Send + Sync>;

/// The model answers with a text.
pub fn says(text: impl Into<String>) -> ScriptedReply {
    ScriptedReply { parts: vec![Part::text(text)], ..ScriptedReply::default() }
}

/// The model calls a tool.
pub fn calls(tool: impl Into<String>, input: Value) -> ScriptedReply {
    let call = ToolCall { id: ToolCallId::new(), name: tool.into(), input, provider: None };
    ScriptedReply { parts: vec![Part::Call(call)], ..ScriptedReply::default() }
}

/// The provider fails.
pub fn fails(error: Error) -> ScriptedReply {
    ScriptedReply { fails: Some(error), ..ScriptedReply::default() }
}

/// The model answers what depends on the question.
pub fn replies(make: impl FnOnce(&ModelRequest) -> ScriptedReply + Send + 'static) -> ScriptedReply {
    ScriptedReply { make: Some(Box::new(make)), ..ScriptedReply::default() }
}

/// The model is asked and never answers.
pub fn hangs() -> ScriptedReply {
    ScriptedReply::default().with_delay(Duration::from_secs(86_400))
}

impl ScriptedReply {
    /// In the same answer.
    #[must_use]
    pub fn and(mut self, more: ScriptedReply) -> Self {
        self.parts.extend(more.parts);
        self
    }

    /// The model thinks for a while first.
    #[must_use]
    pub fn with_delay(mut self, pause: Duration) -> Self {
        self.after = pause;
        self
    }

    /// The provider counts this many tokens instead of the usual ones.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

/// What the model was asked, to be looked at afterwards.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    pub agent: String,
    pub system: String,
    pub turns: Vec<Turn>,
    pub tools: Vec<String>,
}

impl ModelRequest {
    /// The newest thing said by a user or answered by tools, as text.
    pub fn last_text(&self) -> String {
        let Some(turn) = self.turns.last() else { return String::new() };
        match turn.speaker {
            Speaker::Tools => serde_json::to_string(&turn.parts).unwrap_or_default(),
            Speaker::User | Speaker::Assistant => turn.text(),
        }
    }
}

/// The provider `scripted`; clones share their lines.
#[derive(Clone, Default)]
pub struct ScriptedModel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// By agent; lines for nobody in particular are under the empty name.
    replies: Mutex<HashMap<String, VecDeque<ScriptedReply>>>,
    requests: Mutex<Vec<ModelRequest>>,
    /// Questions that wait for their answer, and the most there ever were.
    open: AtomicUsize,
    most_open: AtomicUsize,
    /// Where there are no lines.
    always: Option<AlwaysFn>,
}

/// A question that is no longer open once this is dropped, however its call ended.
struct OpenRequest<'a>(&'a AtomicUsize);

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ScriptedModel {
    /// What definitions say, as `provider/name`.
    pub const MODEL: &str = "scripted/lines";

    /// Lines for whoever asks.
    pub fn new(lines: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::default().agent("", lines)
    }

    /// Never without an answer: it depends on the question alone.
    pub fn always(make: impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { always: Some(Box::new(make)), ..Inner::default() }))
    }

    /// More lines, for one agent alone.
    #[must_use]
    pub fn agent(self, name: &str, lines: impl IntoIterator<Item = ScriptedReply>) -> Self {
        self.add(name, lines);
        self
    }

    /// More lines, while it is in use.
    pub fn add(&self, agent: &str, lines: impl IntoIterator<Item = ScriptedReply>) {
        let mut all = self.0.replies.lock().expect("no test panics in here");
        all.entry(agent.to_owned()).or_default().extend(lines);
    }

    /// The models of a server that has only this one.
    pub fn models(&self) -> Models {
        Models::default().with_provider(Arc::new(self.clone()))
    }

    /// Every question so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.0.requests.lock().expect("no test panics in here").clone()
    }

    /// Questions of one agent so far.
    pub fn requests_of(&self, agent: &str) -> Vec<ModelRequest> {
        self.requests().into_iter().filter(|asked| asked.agent == agent).collect()
    }

    /// How many questions wait for their answer.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    /// The most questions that ever waited at once.
    pub fn max_open(&self) -> usize {
        self.0.most_open.load(Ordering::SeqCst)
    }

    fn next(&self, agent: &str) -> Option<ScriptedReply> {
        let mut all = self.0.replies.lock().expect("no test panics in here");
        let own = all.get_mut(agent).and_then(VecDeque::pop_front);
        own.or_else(|| all.get_mut("").and_then(VecDeque::pop_front))
    }
}

#[async_trait]
impl Provider for ScriptedModel {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let agent = request.meta.agent;
        let asked = ModelRequest {
            agent: agent.to_owned(),
            system: request.system.to_owned(),
            turns: request.turns.to_vec(),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
        };
        self.0.requests.lock().expect("no test panics in here").push(asked.clone());
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most_open.fetch_max(open, Ordering::SeqCst);
        let _open = OpenRequest(&self.0.open);
        let line = self.next(agent).or_else(|| self.0.always.as_ref().map(|make| make(&asked)));
        let Some(mut line) = line else {
            let message = format!("the test has no more lines for `{agent}`");
            return Err(Error::BadRequest { model: Self::MODEL.to_owned(), status: 400, message });
        };
        tokio::time::sleep(line.after).await;
        if let Some(make) = line.make.take() {
            line = make(&asked);
            tokio::time::sleep(line.after).await;
        }
        if let Some(error) = line.fails {
            return Err(error);
        }
        for part in &line.parts {
            if let Part::Text { text, .. } = part {
                text.split_inclusive(' ').for_each(|word| on_delta(Delta::Text(word.to_owned())));
            }
        }
        let called = line.parts.iter().any(|part| matches!(part, Part::Call(_)));
        let stop = if called { StopReason::ToolCalls } else { StopReason::End };
        Ok(Answer { parts: line.parts, usage: line.usage.unwrap_or(USAGE), stop })
    }
}
