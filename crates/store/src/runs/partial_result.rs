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

/// Text that the model of a run has streamed, without finishing its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedText {
    pub text: String,
    /// The last `seq` of the run that was assigned before the model began to write the text.
    pub after_seq: i64,
}

/// The summary of a run that is paused at its timeout: its newest text, or what it did if it wrote none.
/// `unfinished` is what its model has streamed, oldest first.
pub(super) fn summary_at_timeout(
    tx: &mut Tx<'_>,
    run: RunId,
    unfinished: &[UnfinishedText],
) -> Result<String> {
    let text = add_unfinished(&newest_messages(tx, run)?, unfinished);
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
    Ok(join_newest_answer(&newest_messages(tx, run)?))
}

/// The newest messages of a run, newest first.
fn newest_messages(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<RecordedMessage>> {
    let sql = format!(
        "SELECT {} FROM agent_run_messages 
         WHERE run_id = $1 AND role IN ('user', 'assistant') AND step_number > 0 ORDER BY seq DESC",
        MessageRow::COLUMNS
    );
    let read = |row: &Row<'_>| MessageRow::from_row(row)?.into_message(None);
    let (newest_first, _) = tx.query_up_to(MAX_READ_BYTES, &sql, params![run], read)?;
    Ok(newest_first)
}

/// Adds text that is not recorded to the newest answer, as the driver of the run would have done at its end: an
/// unfinished answer continues a truncated one, and is a paragraph of its own otherwise. An unfinished summary is a
/// paragraph after it. Of several texts of either kind, the newest counts.
fn add_unfinished(newest_first: &[RecordedMessage], unfinished: &[UnfinishedText]) -> String {
    let (mut answer, mut continues, mut summary) = ("", false, "");
    for UnfinishedText { text, after_seq } in unfinished {
        let is_answer = |message: &&RecordedMessage| matches!(message.content, MessageContent::Parts(_));
        // The driver records an answer before it forgets the text, so that the text may be both here and there.
        let is_recorded = newest_first.iter().filter(is_answer).any(|answer| answer.seq > *after_seq);
        if is_recorded || text.trim().is_empty() {
            continue;
        }
        let mut asked = newest_first.iter().filter(|message| message.seq <= *after_seq).map(injected_reason);
        let is_continued = asked.clone().next().flatten() == Some(Reason::Truncated);
        // A run that was told to sum up does nothing else after that.
        if asked.any(is_limit) && !is_continued {
            summary = text;
        } else {
            (answer, continues) = (text.as_str(), is_continued);
        }
    }
    let mut recorded = join_newest_answer(newest_first);
    if continues {
        recorded.push_str(std::mem::take(&mut answer));
    }
    let texts = [recorded.as_str(), answer, summary];
    let written: Vec<&str> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
    written.join("\n\n")
}

/// Why the run, and not its caller, wrote this message to its model.
fn injected_reason(message: &RecordedMessage) -> Option<Reason> {
    match &message.content {
        MessageContent::Text { injected, .. } => *injected,
        _ => None,
    }
}

/// Whether a message with this reason tells the model to sum up.
fn is_limit(reason: Option<Reason>) -> bool {
    matches!(reason, Some(Reason::Timeout | Reason::StepLimit | Reason::Budget))
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

    /// Returns the newest text of a conversation, which is given oldest first and numbered from 1, with text that was
    /// streamed after these numbers.
    fn with_unfinished(messages: Vec<RecordedMessage>, unfinished: &[(&str, i64)]) -> String {
        let numbered = (1..).zip(messages).map(|(seq, message)| RecordedMessage { seq, ..message });
        let mut messages: Vec<RecordedMessage> = numbered.collect();
        messages.reverse();
        let unfinished: Vec<UnfinishedText> = unfinished
            .iter()
            .map(|(text, after_seq)| UnfinishedText { text: (*text).to_owned(), after_seq: *after_seq })
            .collect();
        add_unfinished(&messages, &unfinished)
    }

    #[test]
    fn text_that_was_streamed_is_the_newest_unless_its_answer_is_recorded() {
        let limit = || asked(Some(Reason::Timeout));
        assert_eq!(with_unfinished(vec![asked(None)], &[("Bees ha", 1)]), "Bees ha");
        assert_eq!(with_unfinished(vec![asked(None), limit()], &[("Bees ha", 1), (" ", 2)]), "Bees ha");
        let looked = || vec![asked(None), answer("I look.")];
        assert_eq!(with_unfinished(looked(), &[("Bees ha", 2)]), "I look.\n\nBees ha");
        assert_eq!(with_unfinished(looked(), &[("I lo", 1)]), "I look.");
        assert_eq!(with_unfinished(looked(), &[]), "I look.");
        assert_eq!(with_unfinished(vec![asked(None)], &[("\n", 1)]), "");
    }

    #[test]
    fn an_unfinished_summary_follows_the_unfinished_answer_before_it() {
        for limit in [Reason::Timeout, Reason::StepLimit, Reason::Budget] {
            let summing_up = || vec![asked(None), asked(Some(limit))];
            let both = with_unfinished(summing_up(), &[("Bees ha", 1), ("To", 2)]);
            assert_eq!(both, "Bees ha\n\nTo", "{limit:?}");
            let again = with_unfinished(summing_up(), &[("Bees ha", 1), ("To", 2), ("In sum", 2)]);
            assert_eq!(again, "Bees ha\n\nIn sum", "{limit:?}");
        }
        let looked = vec![asked(None), answer("I look."), asked(Some(Reason::Timeout))];
        assert_eq!(with_unfinished(looked, &[("Bees ha", 2), ("To", 3)]), "I look.\n\nBees ha\n\nTo");
        let summed_up = vec![asked(None), asked(Some(Reason::Timeout)), answer("A whole summary.")];
        assert_eq!(with_unfinished(summed_up, &[("Bees ha", 1), ("To", 2)]), "A whole summary.");
    }

    #[test]
    fn text_that_was_streamed_continues_a_truncated_answer() {
        let limit = || asked(Some(Reason::Timeout));
        let truncated = || vec![asked(None), answer("One, "), asked(Some(Reason::Truncated))];
        assert_eq!(with_unfinished(truncated(), &[("tw", 3)]), "One, tw");
        assert_eq!(
            with_unfinished(truncated(), &[("t", 3), ("tw", 3)]),
            "One, tw",
            "a call that was repeated"
        );
        let summing_up = || [truncated(), vec![limit()]].concat();
        assert_eq!(with_unfinished(summing_up(), &[("tw", 3)]), "One, tw");
        assert_eq!(with_unfinished(summing_up(), &[("tw", 3), ("So far", 4)]), "One, tw\n\nSo far");
        let truncated_summary = vec![asked(None), limit(), answer("So "), asked(Some(Reason::Truncated))];
        assert_eq!(with_unfinished(truncated_summary, &[("fa", 4)]), "So fa");
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
