//! Tools whose calls a test can observe.

use std::{
    panic::panic_any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use emergent_tools::{Effect, GraphChange, Tool, ToolContext, ToolError, ToolInfo, ToolOutput};
use serde_json::{Value, json};

pub const EXTERNAL: Effect = Effect::External { read_only: false, idempotent: false };
pub const WRITES: Effect = Effect::Writes { destructive: false };

/// A tool that takes a set time and counts its calls.
pub struct Probe {
    info: ToolInfo,
    takes: Duration,
    does: Box<dyn Fn(Value) -> ToolOutput + Send + Sync>,
    at_work: AtomicUsize,
    most_at_work: AtomicUsize,
    /// All calls: `name` at the start, `/name` at the end.
    log: Arc<Mutex<Vec<String>>>,
    definition: Option<String>,
    is_marked_destructive: bool,
}

impl Probe {
    pub fn new(name: &str, effect: Effect) -> Self {
        let info = ToolInfo {
            name: name.to_owned(),
            server: None,
            description: format!("The test tool {name}.").into(),
            input_schema: json!({ "type": "object" }).into(),
            effect,
            scope: None,
        };
        Self {
            info,
            takes: Duration::ZERO,
            does: Box::new(|input| ToolOutput::Answer(json!({ "got": input }))),
            at_work: AtomicUsize::new(0),
            most_at_work: AtomicUsize::new(0),
            log: Arc::default(),
            definition: None,
            is_marked_destructive: false,
        }
    }

    pub fn taking(mut self, time: Duration) -> Self {
        self.takes = time;
        self
    }

    pub fn never_answers(self) -> Self {
        self.taking(Duration::from_secs(86_400))
    }

    pub fn schema(mut self, schema: Value) -> Self {
        self.info.input_schema = schema.into();
        self
    }

    pub fn server(mut self, server: &str) -> Self {
        self.info.server = Some(server.to_owned());
        self
    }

    /// Gives the tool the digest of a definition, as a tool of an external server has it.
    pub fn definition(mut self, digest: &str) -> Self {
        self.definition = Some(digest.to_owned());
        self
    }

    pub fn marked_destructive(mut self) -> Self {
        self.is_marked_destructive = true;
        self
    }

    pub fn answers(mut self, answer: Value) -> Self {
        self.does = Box::new(move |_| ToolOutput::Answer(answer.clone()));
        self
    }

    /// Makes the tool compute its answer from its input.
    pub fn replies(mut self, reply: impl Fn(Value) -> Value + Send + Sync + 'static) -> Self {
        self.does = Box::new(move |input| ToolOutput::Answer(reply(input)));
        self
    }

    pub fn panics(mut self) -> Self {
        self.does = Box::new(|_| panic_any("the tool met a defect"));
        self
    }

    /// Makes the tool prepare a change instead of an answer.
    pub fn changes(mut self, change: impl Fn(&Value) -> GraphChange + Send + Sync + 'static) -> Self {
        self.does = Box::new(move |input| ToolOutput::Change(change(&input)));
        self
    }

    /// Makes the tool log its calls to a log that it shares with other tools.
    pub fn logging(mut self, log: &Arc<Mutex<Vec<String>>>) -> Self {
        self.log = Arc::clone(log);
        self
    }

    pub fn build(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// Returns how often the tool was called.
    pub fn called(&self) -> usize {
        self.log().iter().filter(|line| **line == self.info.name).count()
    }

    pub fn at_work(&self) -> usize {
        self.at_work.load(Ordering::SeqCst)
    }

    pub fn most_at_work(&self) -> usize {
        self.most_at_work.load(Ordering::SeqCst)
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// Counts the call as finished when it is dropped, however the call ended.
struct AtWork<'a>(&'a AtomicUsize);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Tool for Probe {
    fn info(&self) -> &ToolInfo {
        &self.info
    }

    fn definition_digest(&self) -> Option<&str> {
        self.definition.as_deref()
    }

    fn is_marked_destructive(&self) -> bool {
        self.is_marked_destructive
    }

    async fn call(&self, _: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
        self.log.lock().unwrap().push(self.info.name.clone());
        let now = self.at_work.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_work.fetch_max(now, Ordering::SeqCst);
        let _at_work = AtWork(&self.at_work);
        tokio::time::sleep(self.takes).await;
        let done = (self.does)(input);
        self.log.lock().unwrap().push(format!("/{}", self.info.name));
        Ok(done)
    }
}
