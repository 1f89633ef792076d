//! Recordings: answers of a real model that are stored once and replayed without it.
//!
//! Each line holds the fingerprints of a request and its answer, never the request itself, a key or a
//! header. Ids differ from run to run, so both sides refer to them by their order of appearance.

mod fingerprint;

use std::{collections::HashMap, fs, io::Write, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use emergent_domain::{
    chat::{Part, StopReason, ToolCall, Usage},
    foreign_json,
    ids::ToolCallId,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::fingerprint::{Fingerprint, IdNumbers};
use super::file_cache::{FileCache, is_safe_name};
use crate::{Answer, ChatRequest, Delta, Error, Provider, ResponseIds};

const FILE_EXTENSION: &str = "jsonl";
/// This name stands for all recordings.
const ALL_RECORDINGS: &str = "all";

#[derive(Serialize, Deserialize)]
struct RecordingLine {
    agent: String,
    step: i64,
    model: String,
    request: Fingerprint,
    answer: RecordedAnswer,
}

#[derive(Clone, Serialize, Deserialize)]
struct RecordedAnswer {
    parts: Vec<RecordedPart>,
    usage: Usage,
    stop: StopReason,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordedPart {
    Text(String),
    Thought(String),
    Call { tool: String, input: Value },
}

/// Writes one file per agent into a directory.
pub struct AnswerRecorder {
    folder: PathBuf,
    /// Values that must not be written to disk, in case a model repeats one.
    secrets: Vec<String>,
    writing: Mutex<()>,
}

impl AnswerRecorder {
    pub fn new(folder: PathBuf, secrets: Vec<String>) -> Self {
        Self { folder, secrets, writing: Mutex::default() }
    }

    /// Appends the answer to the agent's recording. The file is written when this returns.
    pub fn write(&self, provider: &str, request: &ChatRequest, answer: &Answer) -> Result<(), Error> {
        let agent = Some(request.meta.agent).filter(|name| is_safe_name(name) && !name.contains('/'));
        let path = self.folder.join(format!("{}.{FILE_EXTENSION}", agent.unwrap_or("unnamed")));
        let (print, ids) = fingerprint::fingerprint(request);
        let line = RecordingLine {
            agent: request.meta.agent.to_owned(),
            step: request.meta.step,
            model: format!("{provider}/{}", request.model),
            request: print,
            answer: RecordedAnswer {
                parts: answer.parts.iter().filter_map(|part| RecordedPart::from_part(part, &ids)).collect(),
                usage: answer.usage,
                stop: answer.stop.clone(),
            },
        };
        let failed = |error: std::io::Error| {
            Error::Config(format!("could not write the recording `{}`: {error}", path.display()))
        };
        let mut text = serde_json::to_string(&line).map_err(|error| failed(error.into()))?;
        for secret in &self.secrets {
            text = text.replace(secret.as_str(), "[secret]");
        }
        text.push('\n');
        // This is a short write after a call of seconds, and losing it unnoticed would make the recording
        // incomplete.
        let _alone = self.writing.lock();
        let append = || {
            fs::create_dir_all(&self.folder)?;
            let mut options = fs::OpenOptions::new();
            options.create(true).append(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(&path)?.write_all(text.as_bytes())
        };
        append().map_err(failed)
    }
}

impl RecordedPart {
    fn from_part(part: &Part, ids: &IdNumbers) -> Option<Self> {
        Some(match part {
            Part::Text { text, .. } => Self::Text(ids.to_numbers(text)),
            Part::Thought { text, .. } => Self::Thought(ids.to_numbers(text)),
            Part::Call(call) => Self::Call { tool: call.name.clone(), input: ids.to_numbers_in(&call.input) },
            Part::Result(_) => return None,
        })
    }

    fn to_part(&self, ids: &IdNumbers) -> Part {
        match self {
            Self::Text(text) => Part::Text { text: ids.restore_ids(text), provider: None },
            Self::Thought(text) => Part::Thought { text: ids.restore_ids(text), provider: None },
            Self::Call { tool, input } => {
                let (id, name, input) = (ToolCallId::new(), tool.clone(), ids.restore_ids_in(input));
                Part::Call(ToolCall { id, name, input, provider: None })
            }
        }
    }
}

/// One file. Of two answers to the same request the later one counts, so a new recording replaces the
/// old one.
struct Recording {
    answers: HashMap<Fingerprint, RecordedAnswer>,
    /// The fingerprints of each agent and step, to explain how a request differs.
    by_step: HashMap<(String, i64), Vec<Fingerprint>>,
}

impl Recording {
    fn parse(text: &str) -> Result<Self, String> {
        let mut recording = Self { answers: HashMap::new(), by_step: HashMap::new() };
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line: RecordingLine =
                foreign_json::from_str(line).map_err(|error| format!("line {}: {error}", number + 1))?;
            recording.by_step.entry((line.agent, line.step)).or_default().push(line.request.clone());
            recording.answers.insert(line.request, line.answer);
        }
        Ok(recording)
    }
}

/// Replays recordings.
pub struct Replay {
    files: FileCache<Recording>,
}

impl Replay {
    pub fn new(folder: PathBuf) -> Self {
        Self { files: FileCache::new(vec![folder], &[FILE_EXTENSION], Recording::parse) }
    }

    fn recordings(&self, name: &str) -> Result<Vec<Arc<Recording>>, Error> {
        let names = self.files.names();
        let requested: Vec<_> =
            if name == ALL_RECORDINGS { names.iter().map(String::as_str).collect() } else { vec![name] };
        let mut recordings = Vec::new();
        for name in requested {
            recordings.extend(self.files.find(name)?);
        }
        if recordings.is_empty() {
            // The recordings that exist are not listed: whoever starts an agent may not read the folder.
            let missing = match name {
                ALL_RECORDINGS => "there are no recordings".to_owned(),
                name => format!("there is no recording `{name}`"),
            };
            return Err(Error::Config(format!(
                "{missing} in the folder of `EMERGENT_RECORDINGS`; run the agent once with the model \
                 `record/<provider>/<name>`, which records its answers there (`replay/{ALL_RECORDINGS}` plays every one \
                 of them)"
            )));
        }
        Ok(recordings)
    }
}

#[async_trait]
impl Provider for Replay {
    fn name(&self) -> &str {
        "replay"
    }

    fn check(&self, model: &str) -> Result<(), Error> {
        self.recordings(model).map(drop)
    }

    async fn chat(
        &self,
        request: ChatRequest<'_>,
        on_delta: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Error> {
        let recordings = self.recordings(request.model)?;
        let (print, ids) = fingerprint::fingerprint(&request);
        let Some(recorded) = recordings.iter().find_map(|recording| recording.answers.get(&print)) else {
            return Err(not_recorded_error(&request, &print, &recordings));
        };
        let parts: Vec<Part> = recorded.parts.iter().map(|word| word.to_part(&ids)).collect();
        for part in &parts {
            match part {
                Part::Text { text, .. } => on_delta(Delta::Text(text.clone())),
                Part::Thought { text, .. } => on_delta(Delta::Thought(text.clone())),
                Part::Call(_) | Part::Result(_) => {}
            }
        }
        Ok(Answer {
            parts,
            usage: recorded.usage,
            stop: recorded.stop.clone(),
            response: ResponseIds::default(),
        })
    }
}

fn not_recorded_error(request: &ChatRequest, print: &Fingerprint, recordings: &[Arc<Recording>]) -> Error {
    let about = request.meta;
    let key = (about.agent.to_owned(), about.step);
    let near = recordings.iter().filter_map(|recording| recording.by_step.get(&key)).flatten();
    let reason = match near.map(|other| print.differences(other)).min_by_key(Vec::len) {
        None => "nothing was recorded for this agent and step".to_owned(),
        Some(parts) => format!("it differs from the recorded one in its {}", parts.join(" and its ")),
    };
    Error::Config(format!(
        "the recording `replay/{}` has no answer for this request of agent `{}`, step {}: {reason}; \
         record it again with `record/<provider>/<name>`",
        request.model, about.agent, about.step
    ))
}
