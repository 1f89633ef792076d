//! A model that plays a script: no key, no network, the same answers every time.
//!
//! What it answers depends on the conversation alone. A run that goes on after a crash therefore
//! meets the same model, and a test can be run a thousand times.

mod scene;
mod script;
mod template;

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use emergent_domain::{
    chat::{Call, Part, Stop},
    ids::{RunId, ToolCallId},
};
use parking_lot::{Mutex, RwLock};
use tokio::time::sleep;

use self::{
    scene::{Scene, mark},
    template::Filler,
};
use super::{
    estimate,
    shelf::Shelf,
    stream::{IDLE, cut_off},
};
use crate::{Answer, ChatRequest, Delta, Error, Provider};

pub use script::{Fault, Reply, Rule, Script, ToolCall, When};

/// Failed requests that were never asked again are forgotten beyond this many.
const MOST_FAULTS: usize = 10_000;

pub struct Rehearsal {
    /// Scripts that came with the program or a product; they go before files.
    given: RwLock<HashMap<String, Arc<Script>>>,
    files: Shelf<Script>,
    /// How often each rule has failed a request that is still unanswered. Faults are the one thing
    /// the conversation does not show.
    faults: Mutex<HashMap<Request, HashMap<usize, u32>>>,
}

/// What tells one request of a run from the next.
type Request = (Option<RunId>, String, usize);

impl Rehearsal {
    pub fn new(folders: Vec<PathBuf>) -> Self {
        let given = HashMap::from([("echo".to_owned(), Arc::new(Script::echo()))]);
        let files = Shelf::new(folders, &["yaml", "yml", "json"], Script::parse);
        Self { given: RwLock::new(given), files, faults: Mutex::default() }
    }

    pub fn add(&self, name: String, script: Script) {
        self.given.write().insert(name, Arc::new(script));
    }

    fn script(&self, name: &str) -> Result<Arc<Script>, Error> {
        if let Some(script) = self.given.read().get(name) {
            return Ok(script.clone());
        }
        self.files.find(name)?.ok_or_else(|| {
            let mut known = self.files.names();
            known.extend(self.given.read().keys().cloned());
            let known = known.into_iter().collect::<Vec<_>>().join("`, `");
            Error::Config(format!(
                "there is no rehearsal script `{name}`; put `{name}.yaml` into the folder of \
                 `EMERGENT_REHEARSALS`, or use one of `{known}`"
            ))
        })
    }

    /// The first rule that fits and is not used up.
    fn pick<'s>(
        &self,
        script: &'s Script,
        request: &ChatRequest,
        scene: &Scene,
    ) -> Option<(usize, &'s Rule)> {
        let asked = || (request.about.run, request.about.agent.to_owned(), request.turns.len());
        for (index, rule) in script.rules.iter().enumerate().filter(|(_, rule)| scene.fits(&rule.when)) {
            match (rule.fault, rule.times) {
                (Some(_), Some(times)) => {
                    let mut faults = self.faults.lock();
                    if faults.len() >= MOST_FAULTS {
                        faults.clear();
                    }
                    let failed = faults.entry(asked()).or_default().entry(index).or_default();
                    if *failed < times {
                        *failed += 1;
                        return Some((index, rule));
                    }
                }
                (None, Some(times)) if scene.uses(request.model, index) >= times => {}
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
        let scene = Scene::new(request);
        let Some((index, rule)) = self.pick(&script, &request, &scene) else {
            let scene = scene.describe();
            return Err(Error::Config(format!("the script `rehearsal/{name}` has no rule for {scene}")));
        };
        let fill = Filler { scene: &scene, rule, agent: request.about.agent };
        let parts = parts(name, index, rule, &fill).map_err(|reason| {
            let scene = scene.describe();
            Error::Config(format!("rules[{index}] of `rehearsal/{name}` cannot answer: {reason} ({scene})"))
        })?;
        pause(script.delay(rule)).await;
        if let Some(fault) = rule.fault {
            return Err(fail(fault, name, rule, &parts, on_delta).await);
        }
        for part in &parts {
            match part {
                Part::Thought { text, .. } => on_delta(Delta::Thought(text.clone())),
                Part::Text { text, .. } => speak(text, script.chunk_delay(rule), on_delta).await,
                Part::Call(_) | Part::Result(_) => {}
            }
        }
        let calls = parts.iter().any(|part| matches!(part, Part::Call(_)));
        let stop = if calls { Stop::ToolCalls } else { Stop::End };
        Ok(Answer { usage: estimate::usage(&request, &parts), parts, stop })
    }
}

/// What the rule answers, every part marked with where it came from.
fn parts(script: &str, index: usize, rule: &Rule, fill: &Filler) -> Result<Vec<Part>, String> {
    let mark = || Some(mark(script, index));
    let empty = Reply::default();
    let reply = rule.answer.as_ref().unwrap_or(&empty);
    let mut parts = Vec::with_capacity(2 + reply.calls.len());
    if let Some(thought) = &reply.thought {
        parts.push(Part::Thought { text: fill.text(thought)?, provider: mark() });
    }
    // An answer without a word still is a turn that counts.
    if reply.text.is_some() || reply.calls.is_empty() {
        let text = fill.text(reply.text.as_deref().unwrap_or_default())?;
        parts.push(Part::Text { text, provider: mark() });
    }
    for call in &reply.calls {
        parts.push(Part::Call(Call {
            id: ToolCallId::new(),
            name: call.tool.clone(),
            input: fill.json(&call.input)?,
            provider: mark(),
        }));
    }
    Ok(parts)
}

async fn speak(text: &str, between: Duration, on_delta: &mut (dyn FnMut(Delta) + Send)) {
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

async fn fail(
    fault: Fault,
    script: &str,
    rule: &Rule,
    parts: &[Part],
    on_delta: &mut (dyn FnMut(Delta) + Send),
) -> Error {
    let model = format!("rehearsal/{script}");
    let message = "as the script says".to_owned();
    match fault {
        Fault::RateLimit => {
            let retry_after = rule.retry_after_ms.map(Duration::from_millis);
            Error::RateLimited { model, message, retry_after }
        }
        Fault::Overloaded => Error::Overloaded { model, message, source: None },
        Fault::Auth => Error::Auth { model, message },
        Fault::Cut => {
            let text = emergent_domain::chat::text_of(parts);
            let half: String = text.chars().take(text.chars().count().div_ceil(2)).collect();
            if !half.is_empty() {
                on_delta(Delta::Text(half));
            }
            cut_off(&model)
        }
        Fault::Silence => {
            sleep(IDLE).await;
            Error::Overloaded { model, message: format!("silent for {IDLE:?}"), source: None }
        }
    }
}

async fn pause(duration: Duration) {
    // Even a wait of nothing would give the turn to others and set a timer.
    if !duration.is_zero() {
        sleep(duration).await;
    }
}
