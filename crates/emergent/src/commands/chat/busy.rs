//! Says in the words of the command line why a conversation does not accept a message at the moment.

use emergent_domain::{conversation::ConversationStatus, run::RunStatus};
use emergent_wire::{
    chat::ConversationView,
    run_detail::RunDetailView,
    run_message::{ContentView, RunMessageView},
};
use uuid::Uuid;

use crate::{
    client::{Client, Received},
    error::{Error, Result},
    hints,
    text::short_id,
};

/// The error of a refused message, with the commands that help if the conversation is being answered.
pub async fn explain(client: &Client, conversation: Option<Uuid>, error: Error) -> Error {
    let (Error::Refused { code, .. }, Some(conversation)) = (&error, conversation) else { return error };
    if code != "conflict" {
        return error;
    }
    match busy_message(client, conversation).await {
        Ok(Some(message)) => Error::Usage(message),
        Ok(None) | Err(_) => error,
    }
}

/// `None` if the conversation is not being answered.
async fn busy_message(client: &Client, id: Uuid) -> Result<Option<String>> {
    let conversation: Received<ConversationView> =
        client.get(&format!("/api/chat/conversations/{id}")).await?.data().await?;
    if conversation.status != ConversationStatus::Answering {
        return Ok(None);
    }
    let text = id.to_string();
    let follow = hints::command(&format!("chat -c {}", short_id(&text)));
    let queue = "`--queue` sends the message after it";
    let waiting = conversation.waiting_for.first().map(|request| request.approval_id);
    Ok(Some(match waiting {
        Some(request) => format!(
            "an answer of this conversation waits for a person: `{}` shows what to decide, `{follow}` goes on with \
             it, and {queue}",
            hints::command(&format!("inbox show {}", short_id(&request.to_string())))
        ),
        None => format!(
            "a message of this conversation is being answered: `{follow}` follows the answer, and {queue}"
        ),
    }))
}

/// An answer that is not complete.
pub struct ActiveAnswer {
    /// Whether it waits for a person.
    pub is_waiting: bool,
    /// What was said and recorded so far.
    pub text: String,
}

impl ActiveAnswer {
    /// Loads the answer that a run writes.
    pub async fn load(client: &Client, run: Uuid) -> Result<Self> {
        let run: Received<RunDetailView> =
            client.get(&format!("/api/admin/runs/{run}")).await?.data().await?;
        let path = format!("/api/admin/agents/{}/runs/{}/messages", run.facts.agent_id, run.facts.id);
        let messages: Vec<Received<RunMessageView>> = client.get_all_pages(&path).await?;
        let texts: Vec<&str> = messages
            .iter()
            .filter(|message| message.step_number > 0)
            .filter_map(|message| match &message.content {
                ContentView::Answer(answer) => Some(answer.text.trim()).filter(|text| !text.is_empty()),
                _ => None,
            })
            .collect();
        Ok(Self { is_waiting: run.facts.status == RunStatus::Waiting, text: texts.join("\n") })
    }
}
