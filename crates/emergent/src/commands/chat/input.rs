//! Reads what a person writes: with a line editor on a terminal, and line by line from anything else.

use rustyline::{Config, DefaultEditor, error::ReadlineError};
use tokio::sync::mpsc;

use crate::{
    commands::{
        mcp::stdio::{self, Line},
        watch_run::listen_for_interrupt,
    },
    error::{Error, Result},
};

/// How many lines the editor remembers.
const MAX_REMEMBERED: usize = 500;

pub enum Input {
    Terminal(Box<DefaultEditor>),
    Lines(mpsc::Receiver<Line>),
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub enum Read {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    End,
}

impl Input {
    pub fn terminal() -> Result<Self> {
        let config =
            Config::builder().max_history_size(MAX_REMEMBERED).map_err(failed)?.auto_add_history(true);
        let editor = DefaultEditor::with_config(config.build()).map_err(failed)?;
        Ok(Self::Terminal(Box::new(editor)))
    }

    pub fn standard_input() -> Result<Self> {
        Ok(Self::Lines(stdio::standard_input()?))
    }

    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Waits for the next line. On a terminal, the thread of the command waits: it has nothing else to do, and others
    /// drive the runs. `begun` is the start of the line, which the person can still change.
    pub async fn read(&mut self, prompt: &str, begun: &str) -> Result<Read> {
        match self {
            Self::Terminal(editor) => match editor.readline_with_initial(prompt, (begun, "")) {
                Ok(line) => Ok(Read::Line(line)),
                Err(ReadlineError::Eof) => Ok(Read::End),
                Err(ReadlineError::Interrupted) => Ok(Read::Interrupted),
                Err(error) => Err(failed(error)),
            },
            Self::Lines(lines) => {
                let interrupt = listen_for_interrupt().await;
                tokio::select! {
                    line = lines.recv() => match line {
                        Some(Line::Text(line)) => Ok(Read::Line(line)),
                        Some(Line::TooLong) => Err(Error::Usage("a line of the input is too long".to_owned())),
                        None => Ok(Read::End),
                    },
                    () = interrupt => Ok(Read::Interrupted),
                }
            }
        }
    }
}

fn failed(error: ReadlineError) -> Error {
    Error::Io(std::io::Error::other(format!("the terminal cannot be read: {error}")))
}
