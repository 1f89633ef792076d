//! A chat at the terminal: reads messages and commands, one after the other, until the person leaves.

use emergent_domain::{
    conversation::{ChatMessageStatus, ConversationStatus},
    text::counted,
};
use emergent_wire::{
    agent::AgentView,
    chat::{ChatMessageView, ConversationView},
};

use super::{
    NO_AGENT, Target,
    answer::{Answer, AnswerEnd, Shown},
    frames::ChatFrames,
    input::{Input, Read},
    line::{Continuation, HELP, Line},
    refusal,
    typed_ahead::TypedAhead,
    view::incomplete_reason,
};
use crate::{
    client::{Client, Received},
    commands::{agent, conversation, resolve::LAST, run, suggestion},
    error::{Error, Result},
    hints,
    output::{self, bold, dim, first_line, red},
};

pub struct Session<'a> {
    client: &'a Client,
    input: Input,
    target: Target,
    as_json: bool,
    typed: TypedAhead,
    continuation: Continuation,
    /// Whether a message was not answered, or a command failed.
    failed: bool,
    /// Whether the input ended while an answer was written.
    has_input_ended: bool,
    /// Whether the input had a line with a text, or an answer was there to follow.
    has_work: bool,
}

/// Whether the session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Leave,
}

impl<'a> Session<'a> {
    pub fn new(client: &'a Client, input: Input, target: Target, as_json: bool) -> Self {
        let (typed, continuation) = (TypedAhead::default(), Continuation::default());
        Self {
            client,
            input,
            target,
            as_json,
            typed,
            continuation,
            failed: false,
            has_input_ended: false,
            has_work: false,
        }
    }

    pub async fn run(mut self) -> Result<()> {
        let left = self.read_lines().await;
        if let (Some(conversation), true) = (self.target.conversation, self.input.is_terminal()) {
            let command = hints::command(&format!("chat --conversation {conversation}"));
            output::print_notice(&dim(&format!("to go on: {command}")));
        }
        left?;
        // A person has seen what failed; a script reads the exit code.
        if self.input.is_terminal() {
            return Ok(());
        }
        if self.failed {
            return Err(Error::Usage("not every line of the input was answered".to_owned()));
        }
        if !self.has_work {
            let command = hints::command("chat 'MESSAGE'");
            return Err(Error::Usage(format!(
                "nothing was sent: no message was given, and standard input is empty (`{command}` sends one)"
            )));
        }
        Ok(())
    }

    async fn read_lines(&mut self) -> Result<()> {
        let begun = self.begin().await;
        let mut next = self.settle(begun)?;
        let mut was_interrupted = false;
        while next == Next::GoOn {
            let line = match self.next_line().await? {
                Read::Line(line) => line,
                Read::End => return Ok(()),
                Read::Interrupted if was_interrupted || !self.input.is_terminal() => {
                    return Err(Error::Interrupted);
                }
                Read::Interrupted => {
                    was_interrupted = true;
                    self.continuation.clear();
                    output::print_notice("Ctrl-C again, Ctrl-D or /quit leaves.");
                    continue;
                }
            };
            was_interrupted = false;
            self.has_work |= !line.trim().is_empty();
            let Some(line) = self.continuation.push(&line) else { continue };
            let done = self.handle(Line::parse(&line)).await;
            next = self.settle(done)?;
        }
        Ok(())
    }

    /// Prints an error that does not end the session.
    fn settle(&mut self, done: Result<Next>) -> Result<Next> {
        match done {
            Err(error @ (Error::Interrupted | Error::Io(_))) => Err(error),
            Err(error) if self.has_input_ended => Err(error),
            Err(error) => {
                self.failed = true;
                output::print_error(&format!("error: {}", error.describe()));
                Ok(Next::GoOn)
            }
            done => done,
        }
    }

    async fn next_line(&mut self) -> Result<Read> {
        if let Some(line) = self.typed.next() {
            output::print_line(&dim(&format!("{}{line}", self.prompt())))?;
            return Ok(Read::Line(line));
        }
        let (prompt, begun) = (self.prompt(), self.typed.take_begun());
        self.input.read(&prompt, &begun).await
    }

    fn prompt(&self) -> String {
        match (&self.target.agent_name, self.continuation.is_open()) {
            (_, true) => "… ".to_owned(),
            (Some(agent), false) => format!("{agent}> "),
            (None, false) => "> ".to_owned(),
        }
    }

    /// Loads the conversation that is gone on with, and greets.
    async fn begin(&mut self) -> Result<Next> {
        let mut is_answering = false;
        if let Some(id) = self.target.conversation {
            let loaded: Received<ConversationView> =
                self.client.get(&format!("/api/chat/conversations/{id}")).await?.data().await?;
            self.target.agent_name = loaded.agent_name.clone();
            self.target.agent = loaded.agent_definition_id;
            is_answering = loaded.status == ConversationStatus::Answering;
            if self.input.is_terminal() {
                let messages = counted(loaded.message_count, "message");
                output::print_text(&format!("Conversation \"{}\", {messages} so far.", loaded.title))?;
            }
        }
        if self.input.is_terminal() {
            let with = match &self.target.agent_name {
                Some(agent) => format!("{agent} answers."),
                None => "Answers are based on what a search finds; /agents lists agents.".to_owned(),
            };
            output::print_dim(&format!("{with} /help lists commands, Ctrl-D leaves."))?;
            self.warn_of_model().await;
        }
        self.has_work |= is_answering;
        if is_answering { self.follow().await } else { Ok(Next::GoOn) }
    }

    async fn handle(&mut self, line: Line) -> Result<Next> {
        match line {
            Line::Empty => {}
            Line::Message(text) => {
                let frames = match ChatFrames::send(self.client, &self.target.message(text), None).await {
                    Err(error) => {
                        return Err(refusal::explain(self.client, &self.target, error).await);
                    }
                    sent => sent?,
                };
                return self.show(frames).await;
            }
            Line::Follow => return self.follow().await,
            Line::New => self.begin_new()?,
            Line::Agents(None) => self.list_agents().await?,
            Line::Agents(Some(name)) => self.choose_agent(&name).await?,
            Line::Open(run) => self.open_run(run).await?,
            Line::History => match self.target.conversation {
                Some(id) => conversation::print_messages(self.client, id).await?,
                None => output::print_line("Nothing was said yet.")?,
            },
            Line::Stop => output::print_line("No answer is being written.")?,
            Line::Help => {
                for (command, text) in HELP {
                    output::print_item(&format!("  {command:<11} "), text)?;
                }
                output::print_line(&dim(
                    "  A line that ends with \\ goes on in the next; // begins a message with /.",
                ))?;
            }
            Line::Quit => return Ok(Next::Leave),
            Line::Unknown(text) => {
                let name = text.split_whitespace().next().unwrap_or_default();
                let names = HELP.iter().filter_map(|(command, _)| command.split_whitespace().next());
                let nearest = suggestion(name, names);
                return Err(Error::Usage(format!(
                    "there is no command `{text}`{nearest} (/help lists them)"
                )));
            }
        }
        Ok(Next::GoOn)
    }

    /// Says that the agent has no model that can be called, before somebody writes to it in vain. Nothing is said if this
    /// token may not know.
    async fn warn_of_model(&self) {
        let Some(id) = self.target.agent else { return };
        let Some(models) = agent::usable_models(self.client).await else { return };
        let Ok(response) = self.client.get(&format!("/api/admin/agents/{id}")).await else { return };
        let Ok(agent) = response.data::<AgentView>().await else { return };
        if let Some(problem) = models.problem(&agent) {
            output::print_notice(&format!(
                "! {} cannot answer: {}; {}, or choose another agent with /agents",
                agent.name, problem.reason, problem.fix
            ));
        }
    }

    fn begin_new(&mut self) -> Result<()> {
        self.target.conversation = None;
        output::print_line(&dim("A new conversation begins with the next message."))
    }

    async fn list_agents(&self) -> Result<()> {
        let agents: Vec<Received<AgentView>> =
            self.client.get_all_pages("/api/admin/agents?include_internal=false").await?;
        if agents.is_empty() {
            let create = hints::command("agent create FILE");
            return output::print_line(&format!("There is no agent yet: `{create}` defines one."));
        }
        for agent in &agents {
            let is_current = self.target.agent == Some(agent.id);
            let mark = if is_current { "*" } else { " " };
            output::print_line(&format!(
                "{mark} {}  {}",
                bold(&agent.name),
                dim(&first_line(&agent.description, 60))
            ))?;
        }
        output::print_line(&dim("/agents NAME begins a new conversation with one."))
    }

    async fn choose_agent(&mut self, name: &str) -> Result<()> {
        if name == NO_AGENT {
            (self.target.agent, self.target.agent_name) = (None, None);
        } else {
            let agent = agent::resolve_agent(self.client, name).await.map_err(in_chat)?;
            (self.target.agent, self.target.agent_name) = (Some(agent.id), Some(agent.name.clone()));
            if self.input.is_terminal() {
                self.warn_of_model().await;
            }
        }
        self.begin_new()
    }

    /// Shows a run; without one, or for `last`, that of the newest answer of this conversation.
    async fn open_run(&self, reference: Option<String>) -> Result<()> {
        let reference = match (reference, self.target.conversation) {
            (Some(reference), _) if reference != LAST => reference,
            (_, Some(id)) => match conversation::newest_run(self.client, id).await? {
                Some(run) => run.to_string(),
                None => return output::print_line("No message was answered yet."),
            },
            // The newest run of the project is not one of this conversation.
            (_, None) => return output::print_line("Nothing was said yet."),
        };
        run::Run::Show { run: reference }.run(self.client, false).await
    }

    async fn follow(&mut self) -> Result<Next> {
        let followed = match self.target.conversation {
            Some(conversation) => ChatFrames::follow(self.client, conversation).await?,
            None => None,
        };
        match followed {
            Some(frames) => self.show(frames).await,
            None => {
                output::print_line("There is no answer to follow.")?;
                Ok(Next::GoOn)
            }
        }
    }

    /// Shows an answer until it ends.
    async fn show(&mut self, frames: ChatFrames<'a>) -> Result<Next> {
        let is_attended = self.input.is_terminal() && console::Term::stderr().is_term();
        let shown = if self.as_json { Shown::Nothing } else { Shown::All };
        let mut answer = Answer::new(self.client, shown, is_attended, Some(&mut self.typed));
        let followed = answer.follow(frames).await;
        self.has_input_ended = answer.has_input_ended;
        self.target.conversation = answer.conversation().or(self.target.conversation);
        match followed? {
            AnswerEnd::Stored(stored) => {
                let was_stopped = answer.was_stopped;
                self.end_answer(&stored, was_stopped)?;
                Ok(if self.has_input_ended { Next::Leave } else { Next::GoOn })
            }
            AnswerEnd::Left => Ok(Next::GoOn),
            AnswerEnd::Quit => {
                answer.print_left().await;
                Ok(Next::Leave)
            }
            AnswerEnd::Interrupted => {
                answer.print_left().await;
                Err(Error::Interrupted)
            }
        }
    }

    /// `was_stopped`: by the person at this terminal.
    fn end_answer(&mut self, stored: &Received<ChatMessageView>, was_stopped: bool) -> Result<()> {
        if self.as_json {
            output::print_json_line(stored)?;
        }
        let Some(reason) = incomplete_reason(stored) else { return Ok(()) };
        self.failed |= stored.status == ChatMessageStatus::Failed;
        if self.as_json {
            return Ok(());
        }
        if was_stopped && stored.status == ChatMessageStatus::Stopped {
            return output::print_line(&format!("{} stopped by you; the text so far is kept", red("✗")));
        }
        let mark = if stored.status == ChatMessageStatus::Paused { "⏸".to_owned() } else { red("✗") };
        output::print_item(&format!("{mark} "), &reason)
    }
}

/// An error about an agent that does not exist, with the command of the chat that lists them.
fn in_chat(error: Error) -> Error {
    let list = format!("`{}`", hints::command("agent list --internal"));
    match error {
        Error::Usage(message) => Error::Usage(message.replace(&list, "`/agents`")),
        other => other,
    }
}
