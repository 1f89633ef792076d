//! `emergent chat`: talks with an agent in the terminal, or answers one message in a script.

mod answer;
mod busy;
mod frames;
mod input;
mod line;
mod refusal;
mod session;
mod sources;
mod typed_ahead;
mod view;

use std::io::{IsTerminal, Read};

use emergent_domain::conversation::{ChatMessageStatus, MAX_MESSAGE_BYTES};
use emergent_wire::{
    agent::AgentView,
    chat::{ChatMessageView, SendMessage},
};
use uuid::Uuid;

use super::{
    agent,
    resolve::{CONVERSATIONS, resolve_id},
};
use crate::{
    client::{Client, Received},
    error::{Error, Result},
    hints,
    output::{self, dim},
};
use answer::{Answer, AnswerEnd, Shown};
pub use busy::ActiveAnswer;
use frames::ChatFrames;
use input::Input;
use session::Session;
use view::incomplete_reason;

/// Talk with an agent, or ask about what the graph knows
///
/// Without a message, a conversation starts in the terminal; /help lists its commands. With a message, the answer is
/// printed, and the command ends; a failed answer is an error. If the input is no terminal, each line is a message.
#[derive(Debug, clap::Args)]
pub struct Chat {
    /// What to ask; `-` reads it from standard input
    message: Option<String>,
    /// The agent that answers, by name or id; without this, the default agent of the project answers. With `-`, or
    /// without a default agent, answers are based on what a search finds
    #[arg(long, value_name = "AGENT", conflicts_with = "conversation")]
    agent: Option<String>,
    /// Go on with a conversation: an id, the end of an id, or `last`
    #[arg(long, short, value_name = "CONVERSATION")]
    conversation: Option<String>,
    /// Begin a new conversation, which is the default
    #[arg(long, conflicts_with = "conversation")]
    new: bool,
    /// While another message is being answered, wait for a turn instead of failing
    #[arg(long)]
    queue: bool,
    /// Sent again with the same key, the message is not stored again, and its answer is printed
    #[arg(long, value_name = "KEY", requires = "message")]
    idempotency_key: Option<String>,
}

/// What `--agent` and `/agents` call a conversation without an agent.
const NO_AGENT: &str = "-";

/// Where messages go: to a conversation that exists, or to a new one with an agent or without.
#[derive(Debug, Clone, Default)]
pub struct Target {
    pub conversation: Option<Uuid>,
    pub agent: Option<Uuid>,
    pub agent_name: Option<String>,
    pub queue: bool,
}

impl Target {
    fn message(&self, text: String) -> SendMessage {
        SendMessage {
            message: text,
            conversation_id: self.conversation,
            agent_definition_id: self.agent.filter(|_| self.conversation.is_none()),
            parent_id: None,
            queue: self.queue,
        }
    }
}

impl Chat {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let message = match self.message.as_deref() {
            Some("-") => Some(read_message()?),
            Some(text) => Some(text.to_owned()),
            None => None,
        };
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        if as_json && message.is_none() && is_terminal {
            return Err(Error::Usage("--json needs a message: `emergent chat MESSAGE --json`".to_owned()));
        }
        if as_json {
            output::print_only_json_on_stdout();
        }
        let target = self.target(client).await?;
        // On a data folder, this process drives the runs of the answers.
        let driver = client.drive_runs();
        let ended = match message {
            Some(message) => {
                let key = self.idempotency_key.as_deref();
                answer_once(client, &target, message, key, as_json).await
            }
            None => {
                let input = if is_terminal { Input::terminal() } else { Input::standard_input() };
                match input {
                    Ok(input) => Session::new(client, input, target, as_json).run().await,
                    Err(error) => Err(error),
                }
            }
        };
        driver.stop().await;
        ended
    }

    async fn target(&self, client: &Client) -> Result<Target> {
        let mut target = Target { queue: self.queue, ..Target::default() };
        if let Some(conversation) = &self.conversation {
            let id = resolve_id(client, &CONVERSATIONS, conversation).await?;
            target.conversation = Some(parse_id(&id)?);
        }
        let agent = match self.agent.as_deref() {
            Some(NO_AGENT) => None,
            Some(name) => Some(agent::resolve_agent(client, name).await?),
            None if target.conversation.is_none() => find_default_agent(client).await,
            // The agent of a conversation never changes.
            None => None,
        };
        if let Some(agent) = agent {
            (target.agent, target.agent_name) = (Some(agent.id), Some(agent.name.clone()));
        }
        Ok(target)
    }
}

fn parse_id(id: &str) -> Result<Uuid> {
    id.parse().map_err(|error| Error::Unexpected(format!("`{id}` is not an id: {error}")))
}

/// Reads a message from standard input, without the line breaks at its end.
fn read_message() -> Result<String> {
    let mut bytes = Vec::new();
    // More than a message may have is not kept in memory.
    std::io::stdin().lock().take(MAX_MESSAGE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_MESSAGE_BYTES {
        return Err(Error::Usage(format!("the message is longer than {MAX_MESSAGE_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| Error::Usage("the message is not UTF-8".to_owned()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// The default agent of the project, which the API does not assume; `None` as well if the token may not list agents.
async fn find_default_agent(client: &Client) -> Option<Received<AgentView>> {
    let agents: Vec<Received<AgentView>> =
        client.get_all_pages("/api/admin/agents?include_internal=false").await.ok()?;
    agents.into_iter().find(|agent| agent.is_default)
}

/// Sends one message and prints its answer: all that happens on a terminal, and only the text elsewhere.
async fn answer_once(
    client: &Client,
    target: &Target,
    message: String,
    key: Option<&str>,
    as_json: bool,
) -> Result<()> {
    let is_terminal = std::io::stdout().is_terminal() && !as_json;
    let is_attended = is_terminal && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let shown = if is_terminal { Shown::All } else { Shown::Nothing };
    let frames = match ChatFrames::send(client, &target.message(message), key).await {
        Err(error) => return Err(refusal::explain(client, target, error).await),
        sent => sent?,
    };
    let mut answer = Answer::new(client, shown, is_attended, None);
    let end = answer.follow(frames).await?;
    let stored = match end {
        AnswerEnd::Stored(stored) => stored,
        AnswerEnd::Left => return Ok(()),
        AnswerEnd::Quit => {
            answer.print_left().await;
            return Ok(());
        }
        AnswerEnd::Interrupted => {
            answer.print_left().await;
            return Err(Error::Interrupted);
        }
    };
    let was_stopped = answer.was_stopped;
    if as_json {
        output::print_json_line(&stored)?;
    } else if is_terminal {
        let more = hints::command(&format!("chat --conversation {}", stored.conversation_id));
        output::print_line(&dim(&format!("to go on: {more}")))?;
    } else if !stored.content.is_empty() {
        output::print_line(&stored.content)?;
    }
    if was_stopped { Err(Error::Interrupted) } else { check(&stored) }
}

/// Fails for an answer that failed or was stopped, and says why an answer is not complete.
fn check(stored: &Received<ChatMessageView>) -> Result<()> {
    let Some(reason) = incomplete_reason(stored) else { return Ok(()) };
    match stored.status {
        ChatMessageStatus::Paused => {
            output::print_notice(&format!("The answer is not complete: {reason}"));
            Ok(())
        }
        _ => Err(Error::Usage(format!("the answer {reason}"))),
    }
}
