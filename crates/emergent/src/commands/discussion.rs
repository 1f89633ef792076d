//! `emergent discussion`: shows a discussion, or decides an escalated one.

use emergent_wire::discussion::{DecideDiscussion, DiscussionView};
use serde::Deserialize;
use serde_json::Value;

use super::{
    encode,
    resolve::{DISCUSSIONS, resolve_id},
};
use crate::{
    client::{Client, Received},
    error::Result,
    output::{self, bold, dim},
};

#[derive(Debug, clap::Subcommand)]
pub enum Discussion {
    /// Show what was said by whom, and what came of it
    Show {
        /// An id, the end of an id, or `last`
        discussion: String,
    },
    /// Decide a discussion that is escalated; its workflow goes on
    Decide {
        /// An id, the end of an id, or `last`
        discussion: String,
        /// In words, or as JSON
        decision: String,
        /// Why, for the agents and the record
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl Discussion {
    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        let discussion: Received<DiscussionView> = match self {
            Discussion::Show { discussion } => {
                client.get(&path(client, &discussion).await?).await?.data().await?
            }
            Discussion::Decide { discussion, decision, reason } => {
                // Anything but a JSON object is text, also `42` and `true`.
                let decision = match serde_json::from_str::<Value>(&decision) {
                    Ok(value) if value.is_object() => value,
                    _ => Value::String(decision),
                };
                let body = DecideDiscussion { decision, reason };
                let path = format!("{}/decide", path(client, &discussion).await?);
                client.post(&path, &body).await?.data().await?
            }
        };
        if as_json { output::print_json(&discussion) } else { print_discussion(&discussion) }
    }
}

/// The API path of the discussion that a person names.
async fn path(client: &Client, reference: &str) -> Result<String> {
    let id = resolve_id(client, &DISCUSSIONS, reference).await?;
    Ok(format!("/api/coordination/discussions/{}", encode(&id)))
}

/// The shown part of `escalation`, whose JSON has no fixed type in the API.
#[derive(Deserialize)]
struct Escalation {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    options: Vec<String>,
}

/// The shown part of a decision. Agents and people write different fields.
#[derive(Default, Deserialize)]
struct Decision {
    text: Option<String>,
    decision: Option<String>,
}

fn print_discussion(discussion: &DiscussionView) -> Result<()> {
    let (kind, status) = (&discussion.kind, &discussion.status);
    output::print_line(&format!("{}  {kind}  {status}", bold(&discussion.topic)))?;
    for entry in &discussion.entries {
        let round = entry.round.filter(|round| *round > 1);
        let round = round.map(|round| format!(", round {round}")).unwrap_or_default();
        let entry_label = dim(&format!("{}{round}", entry.entry_type));
        output::print_line(&format!("\n{}  {entry_label}", bold(&entry.agent)))?;
        output::print_text(&entry.content)?;
        if let Some(option) = &entry.option {
            output::print_line(&format!("for: {option}"))?;
        }
    }
    let escalation = discussion.escalation.as_ref().and_then(|value| Escalation::deserialize(value).ok());
    if let Some(escalation) = escalation.filter(|_| status == "escalated") {
        output::print_line(&format!("\nA person has to decide: {}", escalation.reason))?;
        for option in escalation.options {
            output::print_line(&format!("  - {option}"))?;
        }
    }
    for (label, value) in
        [("decided by a person", &discussion.decided_by_person), ("decision", &discussion.final_decision)]
    {
        if let Some(value) = value.as_ref().filter(|value| value.is_object()) {
            let Decision { text, decision } = Decision::deserialize(value).unwrap_or_default();
            let text = text.or(decision).unwrap_or_else(|| value.to_string());
            output::print_text(&format!("\n{label}: {text}"))?;
        }
    }
    Ok(())
}
