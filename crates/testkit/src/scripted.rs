//! A model with scripted replies. It returns them in order, and fails if it is called more often
//! than it has replies.

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

/// The usage that a scripted model reports for each call.
pub const USAGE: Usage = Usage { input: 100, output: 10, reasoning: 2, cache_read: 40, cache_write: 5 };

/// One reply of the model.
#[derive(Default)]
pub struct ScriptedReply {
    parts: Vec<Part>,
    /// Text that is streamed before the delay.
    streamed: Option<String>,
    after: Duration,
    fails: Option<Error>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    make: Option<ReplyFn>,
}

type ReplyFn = Box<dyn FnOnce(&ModelRequest) -> ScriptedReply + Send>;
type AlwaysFn = Box<dyn Fn(&ModelRequest) -> ScriptedReply + Send + Sync>;

/// Replies with a text.
pub fn says(text: impl Into<String>) -> ScriptedReply {
    ScriptedReply { parts: vec![Part::text(text)], ..ScriptedReply::default() }
}

/// Replies with a tool call.
pub fn calls(tool: impl Into<String>, input: Value) -> ScriptedReply {
    let call = ToolCall { id: ToolCallId::new(), name: tool.into(), input, provider: None };
    ScriptedReply { parts: vec![Part::Call(call)], ..ScriptedReply::default() }
}

/// Fails as a provider would.
pub fn fails(error: Error) -> ScriptedReply {
    ScriptedReply { fails: Some(error), ..ScriptedReply::default() }
}

/// Computes the reply from the request.
pub fn replies(make: impl FnOnce(&ModelRequest) -> ScriptedReply + Send + 'static) -> ScriptedReply {
    ScriptedReply { make: Some(Box::new(make)), ..ScriptedReply::default() }
}

/// Never replies.
pub fn hangs() -> ScriptedReply {
    ScriptedReply::default().with_delay(Duration::from_secs(86_400))
}

/// Streams a text and never completes its answer.
pub fn hangs_after(text: impl Into<String>) -> ScriptedReply {
    ScriptedReply { streamed: Some(text.into()), ..hangs() }
}

impl ScriptedReply {
    /// Adds the parts of another reply to the same answer.
    #[must_use]
    pub fn and(mut self, more: ScriptedReply) -> Self {
        self.parts.extend(more.parts);
        self
    }

    /// Delays the reply.
    #[must_use]
    pub fn with_delay(mut self, pause: Duration) -> Self {
        self.after = pause;
        self
    }

    /// Ends the answer at the maximum length.
    #[must_use]
    pub fn truncated(mut self) -> Self {
        self.stop = Some(StopReason::MaxTokens);
        self
    }

    /// Reports this usage instead of the default.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }
}

/// A request that the model received, for assertions.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    pub agent: String,
    pub system: String,
    pub turns: Vec<Turn>,
    pub tools: Vec<String>,
    pub output_schema: Option<Value>,
}

impl ModelRequest {
    /// Returns the text of the newest message of a user or tool.
    pub fn last_text(&self) -> String {
        let Some(turn) = self.turns.last() else { return String::new() };
        match turn.speaker {
            Speaker::Tools => serde_json::to_string(&turn.parts).unwrap_or_default(),
            Speaker::User | Speaker::Assistant => turn.text(),
        }
    }
}

/// The provider `scripted`. Clones share their replies.
#[derive(Clone, Default)]
pub struct ScriptedModel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// The replies by agent. Replies for any agent have the empty name.
    replies: Mutex<HashMap<String, VecDeque<ScriptedReply>>>,
    requests: Mutex<Vec<ModelRequest>>,
    /// The number of pending requests, and its maximum.
    open: AtomicUsize,
    most_open: AtomicUsize,
    /// The fallback if there are no scripted replies.
    always: Option<AlwaysFn>,
}

/// Counts a pending request until it is dropped, however the call ends.
struct OpenRequest<'a>(&'a AtomicUsize);

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ScriptedModel {
    /// The model name for definitions, as `provider/name`.
    pub const MODEL: &str = "scripted/lines";

    /// Creates a model with replies for any agent.
    pub fn new(lines: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::default().agent("", lines)
    }

    /// Creates a model that computes every reply from the request.
    pub fn always(make: impl Fn(&ModelRequest) -> ScriptedReply + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner { always: Some(Box::new(make)), ..Inner::default() }))
    }

    /// Adds replies for one agent.
    #[must_use]
    pub fn agent(self, name: &str, lines: impl IntoIterator<Item = ScriptedReply>) -> Self {
        self.add(name, lines);
        self
    }

    /// Adds replies while the model is in use.
    pub fn add(&self, agent: &str, lines: impl IntoIterator<Item = ScriptedReply>) {
        let mut all = self.0.replies.lock().expect("no test panics in here");
        all.entry(agent.to_owned()).or_default().extend(lines);
    }

    /// Returns a set of models that contains only this one.
    pub fn models(&self) -> Models {
        Models::default().with_provider(Arc::new(self.clone()))
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.0.requests.lock().expect("no test panics in here").clone()
    }

    /// Returns the requests of one agent so far.
    pub fn requests_of(&self, agent: &str) -> Vec<ModelRequest> {
        self.requests().into_iter().filter(|asked| asked.agent == agent).collect()
    }

    /// Returns the number of pending requests.
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::SeqCst)
    }

    /// Returns the maximum number of concurrently pending requests.
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
            output_schema: request.output_schema.cloned(),
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
        if let Some(text) = line.streamed.take() {
            on_delta(Delta::Text(text));
        }
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
        let usual_stop = if called { StopReason::ToolCalls } else { StopReason::End };
        let stop = line.stop.unwrap_or(usual_stop);
        Ok(Answer {
            parts: line.parts,
            usage: line.usage.unwrap_or(USAGE),
            stop,
            response: Default::default(),
        })
    }
}
