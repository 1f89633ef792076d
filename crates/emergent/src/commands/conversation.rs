//! `emergent conversation`: lists, shows, exports, renames and deletes conversations.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use emergent_domain::{
    approval::ApprovalKind,
    conversation::{ChatMessageStatus, ChatRole},
};
use emergent_wire::chat::{ChatMessageView, ConversationView, UpdateConversation};
use futures_util::StreamExt;
use serde_json::json;
use uuid::Uuid;

use super::{
    chat::ActiveAnswer,
    confirm::ask_about_last,
    encode,
    resolve::{CONVERSATIONS, LAST, resolve_id},
    watch_run,
};
use crate::{
    cells::cell,
    client::{Client, Received},
    error::{Error, Result},
    hints,
    output::{self, bold, dim},
    text::{short_id, shorten_ids},
};

const TITLE_CHARS: usize = 60;

#[derive(Debug, clap::Subcommand)]
pub enum Conversation {
    /// List the conversations, newest first
    List {
        /// Only those whose title contains this text
        #[arg(long, visible_alias = "query", value_name = "TEXT")]
        q: Option<String>,
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Show what was said in a conversation
    Show {
        /// An id, the end of an id, or `last`
        conversation: String,
    },
    /// Write a conversation with all its branches as Markdown, or as a line of JSON for each message
    Export {
        /// An id, the end of an id, or `last`
        conversation: String,
        /// How it is written
        #[arg(long, default_value = "markdown", value_parser = ["markdown", "jsonl"])]
        format: String,
        /// The file [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Give a conversation another title
    Rename {
        /// An id, the end of an id, or `last`
        conversation: String,
        /// The new title
        title: String,
    },
    /// Delete a conversation; an answer that is being written is stopped
    Delete {
        /// An id, the end of an id, or `last`
        conversation: String,
        /// With `last`, delete it without asking
        #[arg(long, short)]
        yes: bool,
    },
}

impl Conversation {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Conversation::List { q, limit } => {
                let filter = q.map(|text| format!("?q={}", encode(&text))).unwrap_or_default();
                let path = format!("/api/chat/conversations{filter}");
                let listed: Vec<Received<ConversationView>> = client.get_limited(&path, limit).await?;
                if as_json { output::print_json(&listed) } else { print_conversations(&listed) }
            }
            Conversation::Show { conversation } => {
                let shown = load(client, &conversation).await?;
                if as_json {
                    let messages = messages(client, shown.id).await?;
                    return output::print_json(&json!({ "conversation": shown, "messages": messages }));
                }
                // Whoever may read the conversation may be unable to read its run.
                let active = match shown.active_run_id {
                    Some(run) => ActiveAnswer::load(client, run).await.ok(),
                    None => None,
                };
                print_conversation(&shown, active.as_ref())?;
                print_messages(client, shown.id).await?;
                match active {
                    Some(active) if !active.text.is_empty() => {
                        let note = if active.is_waiting { "waiting for a person" } else { "so far" };
                        output::print_line(&format!("{}  {}", bold("assistant"), dim(note)))?;
                        output::print_text(&active.text)
                    }
                    _ => Ok(()),
                }
            }
            Conversation::Export { conversation, format, output } => {
                let path = format!("{}/export?format={format}", path(client, &conversation).await?);
                export(client, &path, output.as_deref()).await
            }
            Conversation::Rename { conversation, title } => {
                let path = path(client, &conversation).await?;
                let renamed: Received<ConversationView> =
                    client.patch(&path, &UpdateConversation { title }).await?.data().await?;
                if as_json {
                    return output::print_json(&renamed);
                }
                output::print_text(&format!("conversation {} is now called {}", renamed.id, renamed.title))
            }
            Conversation::Delete { conversation, yes } => {
                let path = path(client, &conversation).await?;
                if conversation == LAST {
                    let found: Received<ConversationView> = client.get(&path).await?.data().await?;
                    let what = format!(
                        "delete the conversation {} ({})",
                        short_id(&found.id.to_string()),
                        found.title
                    );
                    ask_about_last(&conversation, yes, &what)?;
                }
                let deleted: Received<ConversationView> = client.delete(&path).await?.data().await?;
                if as_json {
                    return output::print_json(&deleted);
                }
                output::print_text(&format!("conversation {} ({}) is deleted", deleted.id, deleted.title))
            }
        }
    }
}

/// The API path of the conversation that a person names.
async fn path(client: &Client, reference: &str) -> Result<String> {
    let id = resolve_id(client, &CONVERSATIONS, reference).await?;
    Ok(format!("/api/chat/conversations/{}", encode(&id)))
}

async fn load(client: &Client, reference: &str) -> Result<Received<ConversationView>> {
    client.get(&path(client, reference).await?).await?.data().await
}

/// The messages of the newest branch, oldest first.
async fn messages(client: &Client, conversation: Uuid) -> Result<Vec<Received<ChatMessageView>>> {
    client.get_all_pages(&format!("/api/chat/conversations/{conversation}/messages")).await
}

/// The run of the newest answer; `None` if no message was answered.
pub async fn newest_run(client: &Client, conversation: Uuid) -> Result<Option<Uuid>> {
    let messages = messages(client, conversation).await?;
    Ok(messages.iter().rev().find_map(|message| message.run_id))
}

/// Prints what was said, oldest first.
pub async fn print_messages(client: &Client, conversation: Uuid) -> Result<()> {
    for message in messages(client, conversation).await? {
        print_message(&message)?;
    }
    Ok(())
}

fn print_conversations(conversations: &[Received<ConversationView>]) -> Result<()> {
    let rows: Vec<Vec<String>> = conversations
        .iter()
        .map(|conversation| {
            let status = match conversation.waiting_kind {
                Some(ApprovalKind::Approval | ApprovalKind::Question) => "waiting".to_owned(),
                Some(ApprovalKind::ClientTool) | None => conversation.status.to_string(),
            };
            vec![
                conversation.id.to_string(),
                conversation.agent_name.clone().unwrap_or_else(|| "–".to_owned()),
                status,
                conversation.message_count.to_string(),
                conversation.updated_at.to_string(),
                cell(&conversation.title, TITLE_CHARS),
            ]
        })
        .collect();
    output::print_table(&["ID", "AGENT", "STATUS", "MESSAGES", "CHANGED", "TITLE"], &rows)
}

fn print_conversation(conversation: &ConversationView, active: Option<&ActiveAnswer>) -> Result<()> {
    output::print_row(&bold(&conversation.title))?;
    output::print_fact("id", &conversation.id.to_string())?;
    output::print_fact(
        "agent",
        conversation.agent_name.as_deref().unwrap_or("none: a search finds passages"),
    )?;
    let status = match active {
        Some(active) if active.is_waiting => "waiting for a person".to_owned(),
        _ => conversation.status.to_string(),
    };
    output::print_fact("status", &status)?;
    if let Some(usage) = &conversation.usage {
        let tokens = watch_run::tokens_text(usage.input_tokens, usage.output_tokens, usage.cost);
        output::print_fact("usage", &tokens)?;
    }
    let command = hints::command(&format!("chat --conversation {}", short_id(&conversation.id.to_string())));
    output::print_command("to go on:", &command)?;
    output::print_line("")
}

fn print_message(message: &ChatMessageView) -> Result<()> {
    let mut notes = Vec::new();
    match message.status {
        ChatMessageStatus::Answered | ChatMessageStatus::Completed => {}
        other => notes.push(other.to_string()),
    }
    notes.extend(message.reason.map(|reason| reason.to_string()));
    if message.role == ChatRole::Assistant {
        notes.extend(message.run_id.map(|run| {
            let run = format!("run {run}");
            if output::terminal_width().is_some() { shorten_ids(&run) } else { run }
        }));
        notes.extend(watch_run::cost(message.usage.and_then(|usage| usage.cost)));
    }
    let notes = if notes.is_empty() { String::new() } else { dim(&format!("  {}", notes.join("  "))) };
    output::print_line(&format!("{}{notes}", bold(message.role.as_str())))?;
    if !message.content.is_empty() {
        output::print_text(&message.content)?;
    }
    if let Some(error) = &message.error {
        output::print_text(&format!("error: {error}"))?;
    }
    output::print_line("")
}

async fn export(client: &Client, path: &str, file: Option<&Path>) -> Result<()> {
    let mut parts = client.get(path).await?.stream();
    let mut out: Box<dyn Write> = match file {
        Some(path) => Box::new(File::create(path).map_err(|source| Error::output_file(path, source))?),
        None => output::text_writer(),
    };
    while let Some(part) = parts.next().await {
        out.write_all(&part?)?;
    }
    out.flush()?;
    Ok(())
}
