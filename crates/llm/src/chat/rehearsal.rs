//! Rehearsals: a scripted model that needs no key and no network, and always gives the same answers.
//!
//! Its answer depends only on the conversation. A run that is recovered after a crash therefore gets
//! the same answers, and tests are repeatable.

mod conversation;
mod script;
mod template;

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_domain::{
    chat::{Part, StopReason, ToolCall},
    ids::{RunId, ToolCallId},
};
use parking_lot::{Mutex, RwLock};
use tokio::time::sleep;

use self::{
    conversation::{ConversationView, rule_mark},
    template::Renderer,
};
use super::{
    estimate,
    file_cache::FileCache,
    stream::{IDLE_TIMEOUT, incomplete_stream_error},
};
use crate::{Answer, ChatRequest, Delta, Error, Provider, ResponseIds};

pub use script::{Fault, Rule, Script, ScriptedCall, ScriptedReply, When};

/// The maximum number of failed requests whose retries are counted; older entries are discarded.
const MAX_FAULTS: usize = 10_000;

pub struct Rehearsal {
    /// Scripts of the program or of a product; they take precedence over files.
    added: RwLock<HashMap<String, Arc<Script>>>,
    files: FileCache<Script>,
    /// How often each rule has failed a request that is still unanswered. Faults are the only state that
    /// the conversation does not contain.
    faults: Mutex<HashMap<RequestKey, HashMap<usize, u32>>>,
}

/// Identifies a request of a run.
type RequestKey = (Option<RunId>, String, usize);

impl Rehearsal {
    pub fn new(folders: Vec<PathBuf>) -> Self {
        let scripts = HashMap::from([("echo".to_owned(), Arc::new(Script::echo()))]);
        let files = FileCache::new(folders, &["yaml", "yml", "json"], Script::parse);
        Self { added: RwLock::new(scripts), files, faults: Mutex::default() }
    }

    pub fn add(&self, name: String, script: Script) {
        self.added.write().insert(name, Arc::new(script));
    }

    fn script(&self, name: &str) -> Result<Arc<Script>, Error> {
        if let Some(script) = self.added.read().get(name) {
            return Ok(script.clone());
        }
        // The error does not list the scripts that exist: whoever starts an agent may not read the folder.
        self.files.find(name)?.ok_or_else(|| {
            Error::Config(format!(
                "there is no rehearsal script `{name}`; put `{name}.yaml` into the folder of \
                 `EMERGENT_REHEARSALS`, which is `rehearsals` in the data folder unless it is set, or use \
                 `rehearsal/echo`"
            ))
        })
    }

    /// Returns the first rule that matches and is not used up.
    fn match_rule<'s>(
        &self,
        script: &'s Script,
        request: &ChatRequest,
        scene: &ConversationView,
    ) -> Option<(usize, &'s Rule)> {
        let asked = || (request.meta.run, request.meta.agent.to_owned(), request.turns.len());
        for (index, rule) in script.rules.iter().enumerate().filter(|(_, rule)| scene.matches(&rule.when)) {
            match (rule.fault, rule.times) {
                (Some(_), Some(times)) => {
                    let mut faults = self.faults.lock();
                    if faults.len() >= MAX_FAULTS {
                        faults.clear();
                    }
                    let failed = faults.entry(asked()).or_default().entry(index).or_default();
                    if *failed < times {
                        *failed += 1;
                        return Some((index, rule));
                    }
                }
                (None, Some(times)) if scene.rule_uses(request.model, index) >= times => {}
                _ => {
                    let mut faults = self.faults.lock();
                    if rule.fault.is_none() && !faults.is_empty() {
                        faults.remove(&asked());
                    }
                    return Some((index, rule));
                }
            }
        }
        None
    }
}

#[async_trait]
impl Provider for Rehearsal {
    fn name(&self) -> &str {
        "rehearsal"
    }

    fn check(&self, model: &str) -> Result<(), Error> {
        self.script(model).map(drop)
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let name = request.model;
        let script = self.script(name)?;
        let scene = ConversationView::new(request);
        let Some((index, rule)) = self.match_rule(&script, &request, &scene) else {
            let scene = scene.describe();
            return Err(Error::Config(format!("the script `rehearsal/{name}` has no rule for {scene}")));
        };
        let fill = Renderer { scene: &scene, rule, agent: request.meta.agent };
        let parts = answer_parts(name, index, rule, &fill).map_err(|reason| {
            let scene = scene.describe();
            Error::Config(format!("rules[{index}] of `rehearsal/{name}` cannot answer: {reason} ({scene})"))
        })?;
        pause(script.delay(rule)).await;
        if let Some(fault) = rule.fault {
            return Err(play_fault(fault, name, rule, &parts, on_delta).await);
        }
        for part in &parts {
            match part {
                Part::Thought { text, .. } => on_delta(Delta::Thought(text.clone())),
                Part::Text { text, .. } => stream_text(text, script.chunk_delay(rule), on_delta).await,
                Part::Call(_) | Part::Result(_) => {}
            }
        }
        let calls = parts.iter().any(|part| matches!(part, Part::Call(_)));
        let stop = if calls { StopReason::ToolCalls } else { StopReason::End };
        Ok(Answer { usage: estimate::usage(&request, &parts), parts, stop, response: ResponseIds::default() })
    }
}

/// Returns the parts of a rule's answer, each marked with the rule it came from.
fn answer_parts(script: &str, index: usize, rule: &Rule, fill: &Renderer) -> Result<Vec<Part>, String> {
    let mark = || Some(rule_mark(script, index));
    let empty = ScriptedReply::default();
    let reply = rule.answer.as_ref().unwrap_or(&empty);
    let mut parts = Vec::with_capacity(2 + reply.calls.len());
    if let Some(thought) = &reply.thought {
        parts.push(Part::Thought { text: fill.render_text(thought)?, provider: mark() });
    }
    // An answer without text still counts as a turn.
    if reply.text.is_some() || reply.calls.is_empty() {
        let text = fill.render_text(reply.text.as_deref().unwrap_or_default())?;
        parts.push(Part::Text { text, provider: mark() });
    }
    for call in &reply.calls {
        parts.push(Part::Call(ToolCall {
            id: ToolCallId::new(),
            name: call.tool.clone(),
            input: fill.render_json(&call.input)?,
            provider: mark(),
        }));
    }
    Ok(parts)
}

async fn stream_text(text: &str, between: Duration, on_delta: &mut (dyn FnMut(Delta) + Send)) {
    if between.is_zero() {
        if !text.is_empty() {
            on_delta(Delta::Text(text.to_owned()));
        }
        return;
    }
    for (index, word) in text.split_inclusive(' ').enumerate() {
        if index > 0 {
            sleep(between).await;
        }
        on_delta(Delta::Text(word.to_owned()));
    }
}

async fn play_fault(
    fault: Fault,
    script: &str,
    rule: &Rule,
    parts: &[Part],
    on_delta: &mut (dyn FnMut(Delta) + Send),
) -> Error {
    let model = format!("rehearsal/{script}");
    let message = "injected by the script".to_owned();
    match fault {
        Fault::RateLimit => {
            let retry_after = rule.retry_after_ms.map(Duration::from_millis);
            Error::RateLimited { model, message, retry_after }
        }
        Fault::Overloaded => Error::Overloaded { model, message, source: None },
        Fault::Auth => Error::Auth { model, message },
        Fault::Cut => {
            let text = emergent_domain::chat::join_text(parts);
            let half: String = text.chars().take(text.chars().count().div_ceil(2)).collect();
            if !half.is_empty() {
                on_delta(Delta::Text(half));
            }
            incomplete_stream_error(&model)
        }
        Fault::Silence => {
            sleep(IDLE_TIMEOUT).await;
            Error::Overloaded { model, message: format!("silent for {IDLE_TIMEOUT:?}"), source: None }
        }
    }
}

async fn pause(duration: Duration) {
    // Even a sleep of zero would yield to other tasks and set a timer.
    if !duration.is_zero() {
        sleep(duration).await;
    }
}
