//! Follows one answer: prints it as it is written, asks what the agent needs to know, and stops it if the person
//! wants so.

use std::time::Duration;

use console::Term;
use emergent_domain::approval::ApprovalStatus;
use emergent_wire::{
    chat::{ChatMessageView, ConversationView},
    chat_frame::ChatFrameView,
};
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    frames::{ChatFrame, ChatFrames},
    line::Line,
    typed_ahead::{self, TypedAhead, TypedInput},
    view::View,
};
use crate::{
    client::{Client, Received},
    commands::{
        inbox::{self, Reviewed},
        watch_run::{self, Spinner, listen_for_interrupt},
        watch_workflow,
    },
    error::{Error, Result},
    hints, output,
};

/// How often the terminal is looked at for `/stop`.
const TYPED_INTERVAL: Duration = Duration::from_millis(100);
/// How long a person who leaves waits for the status of the run.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// How following an answer ended.
pub enum AnswerEnd {
    /// The answer as it is stored.
    Stored(Box<Received<ChatMessageView>>),
    /// The answer goes on, or waits for a person, without this program.
    Left,
    /// The person wrote `/quit`, or pressed Ctrl-D when a decision was asked for.
    Quit,
    /// The person pressed Ctrl-C twice.
    Interrupted,
}

/// What is shown of an answer while it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    All,
    /// The caller prints the answer when it is complete.
    Nothing,
}

pub struct Answer<'a> {
    client: &'a Client,
    view: View,
    spinner: Spinner,
    shown: Shown,
    /// Whether a person at the terminal can be asked.
    is_attended: bool,
    /// Where lines go that a person types meanwhile. `None` for a single answer: the shell reads what was typed after
    /// its command.
    typed: Option<&'a mut TypedAhead>,
    /// Whether the input ended while the answer was written. The answer is followed to its end nevertheless: what was
    /// asked before the end is answered.
    pub has_input_ended: bool,
    begun: Instant,
    /// Known from the first frame on.
    conversation: Option<Uuid>,
    run: Option<Uuid>,
    /// Whether the person wanted it to stop.
    pub was_stopped: bool,
}

impl<'a> Answer<'a> {
    pub fn new(
        client: &'a Client,
        shown: Shown,
        is_attended: bool,
        typed: Option<&'a mut TypedAhead>,
    ) -> Self {
        Self {
            client,
            view: View::new(output::use_colour(), output::terminal_width()),
            spinner: Spinner::default(),
            shown,
            is_attended,
            typed,
            begun: Instant::now(),
            conversation: None,
            run: None,
            was_stopped: false,
            has_input_ended: false,
        }
    }

    /// The conversation, once it is known.
    pub fn conversation(&self) -> Option<Uuid> {
        self.conversation
    }

    /// Follows the answer to its end.
    pub async fn follow(&mut self, mut frames: ChatFrames<'_>) -> Result<AnswerEnd> {
        let mut interrupt = listen_for_interrupt().await;
        let followed = self.read_frames(&mut frames, &mut interrupt).await;
        self.spinner.hide();
        self.print_part(|view| view.end_line())?;
        followed
    }

    async fn read_frames(
        &mut self,
        frames: &mut ChatFrames<'_>,
        interrupt: &mut BoxFuture<'static, ()>,
    ) -> Result<AnswerEnd> {
        loop {
            let ChatFrame { mut raw, parsed } = match self.next_frame(frames, interrupt).await? {
                Next::Frame(frame) => frame,
                Next::Leave(end) => return Ok(end),
            };
            // Kinds of frames that only a newer server knows are not shown.
            let Some(frame) = parsed else { continue };
            self.spinner.hide();
            let now = self.begun.elapsed();
            self.print_part(|view| view.frame(&frame, now))?;
            match frame {
                ChatFrameView::Meta { conversation_id, run_id, .. } => {
                    (self.conversation, self.run) = (Some(conversation_id), run_id.or(self.run));
                }
                ChatFrameView::McpTool { approval_id: Some(approval), .. } => {
                    let asked = self.ask(approval).await?;
                    // A Ctrl-C at the keys or in an editor does not stop the answer.
                    *interrupt = listen_for_interrupt().await;
                    match asked {
                        Asked::GoOn => {}
                        Asked::Later => return Ok(AnswerEnd::Left),
                        Asked::Quit => return Ok(AnswerEnd::Quit),
                    }
                }
                ChatFrameView::Done { message, .. } => {
                    self.print_footer(&message);
                    let message = serde_json::from_value(raw["message"].take());
                    return message
                        .map(|stored| AnswerEnd::Stored(Box::new(stored)))
                        .map_err(|error| Error::Unexpected(error.to_string()));
                }
                ChatFrameView::Token { .. } | ChatFrameView::McpTool { .. } | ChatFrameView::Error { .. } => {
                }
            }
        }
    }

    /// The next frame, or how the person leaves.
    async fn next_frame(
        &mut self,
        frames: &mut ChatFrames<'_>,
        interrupt: &mut BoxFuture<'static, ()>,
    ) -> Result<Next> {
        let mut looks = tokio::time::interval(TYPED_INTERVAL);
        let next = frames.next();
        tokio::pin!(next);
        loop {
            if self.shown == Shown::All && !self.view.is_mid_line() {
                self.spinner.show(self.view.activity());
            }
            tokio::select! {
                frame = &mut next => return frame.map(Next::Frame),
                () = &mut *interrupt => {
                    self.spinner.hide();
                    if self.was_stopped {
                        return Ok(Next::Leave(AnswerEnd::Interrupted));
                    }
                    *interrupt = listen_for_interrupt().await;
                    tokio::select! {
                        stopped = self.stop() => if !stopped? { return Ok(Next::Leave(AnswerEnd::Interrupted)) },
                        () = &mut *interrupt => return Ok(Next::Leave(AnswerEnd::Interrupted)),
                    }
                }
                _ = looks.tick(), if self.is_attended && self.typed.is_some() => {
                    let Some(typed) = self.typed.as_mut() else { continue };
                    let line = match typed.poll() {
                        Some(TypedInput::Line(line)) => line,
                        Some(TypedInput::End) => {
                            self.end_input()?;
                            continue;
                        }
                        None => continue,
                    };
                    match Line::parse(&line) {
                        Line::Stop => { self.stop().await?; }
                        Line::Quit => return Ok(Next::Leave(AnswerEnd::Quit)),
                        _ => {
                            self.has_input_ended = false;
                            typed.keep(line);
                        }
                    }
                }
            }
        }
    }

    /// Remembers that the input has ended, and says what follows from it.
    fn end_input(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.has_input_ended, true) {
            return Ok(());
        }
        self.spinner.hide();
        self.print_part(|view| view.end_line())?;
        output::print_notice(
            "The input has ended: the chat ends after this answer; Ctrl-C stops the answer.",
        );
        Ok(())
    }

    /// Asks the server to stop the answer, whose last frame then follows. False if nothing is known of it yet.
    async fn stop(&mut self) -> Result<bool> {
        self.was_stopped = true;
        let Some(conversation) = self.conversation else { return Ok(false) };
        self.print_part(|view| view.end_line())?;
        output::print_notice("Stopping the answer; Ctrl-C leaves without waiting for it.");
        let path = format!("/api/chat/conversations/{conversation}/stop");
        let stopped: Result<Received<ConversationView>> = match self.client.post(&path, &json!({})).await {
            Ok(response) => response.data().await,
            Err(error) => Err(error),
        };
        if let Err(error) = stopped {
            output::print_notice(&format!("The answer could not be stopped: {}", error.describe()));
        }
        Ok(true)
    }

    /// Asks the person what the answer waits for, unless it is decided already.
    async fn ask(&mut self, approval: Uuid) -> Result<Asked> {
        let id = approval.to_string();
        let request = match inbox::load(self.client, &id).await {
            Ok(request) => request,
            // Somebody with another token has to decide.
            Err(error @ Error::Refused { .. }) if self.is_attended => {
                output::print_notice(&error.describe());
                return Ok(Asked::GoOn);
            }
            Err(error) => return Err(error),
        };
        if request.status != ApprovalStatus::Pending {
            return Ok(Asked::GoOn);
        }
        if !self.is_attended || self.has_input_ended {
            return Err(Error::Usage(self.waiting_text(&id)));
        }
        // The keys would take the lines, and the shell is to have them: the next command may be the one that decides.
        if self.typed.is_none() && typed_ahead::is_line_waiting() {
            output::print_notice(&format!(
                "A command is waiting, so nothing is asked: {}.",
                self.waiting_text(&id)
            ));
            return Ok(Asked::Later);
        }
        let mut text = String::new();
        let reviewed = inbox::review_request(self.client, &Term::stderr(), &request, &mut text).await;
        if let Some(typed) = self.typed.as_mut() {
            typed.keep_text(&text);
        }
        match reviewed? {
            Reviewed::Decided => Ok(Asked::GoOn),
            Reviewed::Later | Reviewed::Interrupted => {
                let show = hints::command(&format!("inbox show {id}"));
                output::print_notice(&match self.typed {
                    Some(_) => format!("It waits for a decision: `{show}`; /follow goes on with it."),
                    None => format!("Nothing was decided: {}.", self.waiting_text(&id)),
                });
                Ok(Asked::Later)
            }
            Reviewed::Ended => Ok(Asked::Quit),
        }
    }

    /// That the answer waits for a decision about a request, with the commands to decide and to go on.
    fn waiting_text(&self, request: &str) -> String {
        let show = hints::command(&format!("inbox show {request}"));
        let chat = self.conversation.map(|id| hints::command(&format!("chat --conversation {id}")));
        format!(
            "the answer waits for a person: `{show}` says how to decide, and `{}` goes on with it",
            chat.unwrap_or_default()
        )
    }

    /// What becomes of an answer that is not followed to its end.
    pub async fn print_left(&self) {
        let Some(run) = self.run else { return };
        let ended = ended_status(self.client, run).await;
        output::print_notice(&watch_workflow::interrupted_message(
            self.client.other_driver(),
            "run",
            &run.to_string(),
            ended.as_deref(),
        ));
    }

    /// Prints what a complete answer cost where its text is piped: not among the text.
    fn print_footer(&mut self, message: &ChatMessageView) {
        if self.shown == Shown::All && output::terminal_width().is_none() {
            output::print_error(&self.view.usage(message, self.begun.elapsed()));
        }
    }

    fn print_part(&mut self, text: impl FnOnce(&mut View) -> String) -> Result<()> {
        let text = text(&mut self.view);
        match self.shown {
            Shown::All if !text.is_empty() => output::print_part(&text),
            _ => Ok(()),
        }
    }
}

/// The status of a run that has ended. `None` if it goes on, or if the server does not say so soon: the person wants
/// to leave.
async fn ended_status(client: &Client, run: Uuid) -> Option<String> {
    let path = format!("/api/admin/runs/{run}");
    tokio::time::timeout(STATUS_TIMEOUT, watch_run::ended_status(client, &path)).await.ok().flatten()
}

/// What a person did about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    GoOn,
    Later,
    Quit,
}

/// What comes next.
enum Next {
    Frame(ChatFrame),
    Leave(AnswerEnd),
}
