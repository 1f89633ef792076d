//! The partial result of a run that somebody else ends: the newest text of its model.

use emergent_domain::{
    chat::join_text,
    ids::RunId,
    run::Reason,
    run_event::{MessageContent, RecordedMessage},
    run_summary,
};

use super::conversation::MessageRow;
use crate::{error::Result, params, row::TableRow, tx::Tx, value::Row};

/// How much of the newest messages is read. An answer has a few thousand bytes, so this is more than the newest
/// text needs; without a limit, a long conversation would occupy the only writer of SQLite.
const MAX_READ_BYTES: usize = 1 << 20;

/// The summary of a run that is paused at its timeout: its newest text, or what it did if it wrote none.
pub(super) fn summary_at_timeout(tx: &mut Tx<'_>, run: RunId) -> Result<String> {
    let text = newest_text(tx, run)?;
    if !text.trim().is_empty() {
        return Ok(text);
    }
    let sql = "SELECT step_count - steps_before FROM agent_runs WHERE id = $1";
    let steps = tx.query_opt(sql, params![run], |row| row.get::<i64>(0))?.unwrap_or(0);
    let sql = "SELECT tool_name, COUNT(*) FROM agent_run_tool_calls WHERE run_id = $1 GROUP BY tool_name ORDER BY tool_name";
    let tools: Vec<(String, i64)> = tx.query(sql, params![run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let tools = tools.iter().map(|(name, count)| (name.as_str(), usize::try_from(*count).unwrap_or(0)));
    Ok(run_summary::describe_work(Reason::Timeout, steps, tools))
}

/// The newest answer of a run that has text, after the truncated answers that it continues; empty if there is
/// none among the newest messages. What was said before the run has step 0. The caller has locked the run, so that
/// its driver records nothing after this.
pub(super) fn newest_text(tx: &mut Tx<'_>, run: RunId) -> Result<String> {
    let sql = format!(
        "SELECT {} FROM agent_run_messages 
         WHERE run_id = $1 AND role IN ('user', 'assistant') AND step_number > 0 ORDER BY seq DESC",
        MessageRow::COLUMNS
    );
    let read = |row: &Row<'_>| MessageRow::from_row(row)?.into_message(None);
    let (newest_first, _) = tx.query_up_to(MAX_READ_BYTES, &sql, params![run], read)?;
    Ok(join_newest_answer(&newest_first))
}

/// Joins the newest answer that has text with the answers before it that were truncated: between two parts of
/// one answer is only the request to continue.
fn join_newest_answer(newest_first: &[RecordedMessage]) -> String {
    let (mut parts, mut continues) = (Vec::new(), false);
    for message in newest_first {
        match &message.content {
            MessageContent::Parts(answer) if parts.is_empty() => {
                parts.extend(Some(join_text(answer)).filter(|text| !text.trim().is_empty()));
            }
            MessageContent::Parts(answer) if continues => {
                parts.push(join_text(answer));
                continues = false;
            }
            _ if parts.is_empty() => {}
            MessageContent::Text { injected: Some(Reason::Truncated), .. } => continues = true,
            _ => break,
        }
    }
    parts.reverse();
    parts.concat()
}

#[cfg(test)]
mod tests {
    use emergent_domain::{chat::Part, ids::MessageId, run::MessageRole, time::Timestamp};

    use super::*;

    fn message(content: MessageContent) -> RecordedMessage {
        RecordedMessage {
            id: MessageId::new(),
            seq: 0,
            role: MessageRole::Assistant,
            step: 1,
            content,
            usage: None,
            cost: None,
            at: Timestamp::from_micros(0),
        }
    }

    fn answer(text: &str) -> RecordedMessage {
        message(MessageContent::Parts(vec![Part::text(text)]))
    }

    fn asked(injected: Option<Reason>) -> RecordedMessage {
        message(MessageContent::Text { text: "Go on.".to_owned(), injected })
    }

    /// Returns the newest text of a conversation, which is given oldest first.
    fn newest(mut messages: Vec<RecordedMessage>) -> String {
        messages.reverse();
        join_newest_answer(&messages)
    }

    #[test]
    fn the_parts_of_a_continued_answer_are_joined() {
        let truncated = || asked(Some(Reason::Truncated));
        let earlier = || vec![asked(None), answer("Before.")];
        let continued = vec![answer("One, "), truncated(), answer("two, "), truncated(), answer("three.")];
        assert_eq!(newest([earlier(), continued.clone()].concat()), "One, two, three.");
        let still_written = vec![answer("One, "), truncated()];
        assert_eq!(newest([earlier(), still_written].concat()), "One, ");
        let called_tools = vec![answer(" ")];
        assert_eq!(newest([continued, called_tools].concat()), "One, two, three.");
    }

    #[test]
    fn a_summary_does_not_continue_the_answer_before_it() {
        let limit = || asked(Some(Reason::Timeout));
        let messages = vec![answer("One, "), asked(Some(Reason::Truncated)), limit(), answer("So far: one.")];
        assert_eq!(newest(messages), "So far: one.");
        assert_eq!(newest(vec![answer("A."), answer("B.")]), "B.");
        assert_eq!(newest(vec![asked(None), limit()]), "");
    }
}
