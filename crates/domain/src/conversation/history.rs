//! What an agent is shown of the messages before the one that it answers.

/// How many questions with their answers an agent is shown besides the message that it answers.
pub const MAX_HISTORY_TURNS: usize = 10;
/// How much of them an agent is shown.
const MAX_HISTORY_TOKENS: usize = 8_000;

/// A question and its answer, as an agent is shown them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryTurn {
    pub question: String,
    pub answer: String,
}

/// Chooses the newest turns that fit. `newest_first` are the turns of one branch; the result is in the order in
/// which they were said.
pub fn select_history(newest_first: impl IntoIterator<Item = HistoryTurn>) -> Vec<HistoryTurn> {
    let (mut chosen, mut left) = (Vec::new(), MAX_HISTORY_TOKENS);
    for turn in newest_first.into_iter().take(MAX_HISTORY_TURNS) {
        let tokens = estimate_tokens(&turn);
        if tokens > left {
            break;
        }
        left -= tokens;
        chosen.push(turn);
    }
    chosen.reverse();
    chosen
}

/// A token has about four bytes.
fn estimate_tokens(turn: &HistoryTurn) -> usize {
    (turn.question.len() + turn.answer.len()) / 4 + 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(number: usize, bytes: usize) -> HistoryTurn {
        HistoryTurn { question: format!("q{number}"), answer: "a".repeat(bytes) }
    }

    fn questions(turns: Vec<HistoryTurn>) -> Vec<String> {
        turns.into_iter().map(|turn| turn.question).collect()
    }

    #[test]
    fn an_agent_is_shown_the_last_ten_turns_that_fit_in_their_order() {
        let all = questions(select_history((0..30).map(|number| turn(number, 10))));
        assert_eq!((all.len(), all[0].as_str(), all[9].as_str()), (10, "q9", "q0"));
        let large = select_history([turn(0, 100), turn(1, 40_000), turn(2, 10)]);
        assert_eq!(questions(large), ["q0"], "nothing is shown from before a gap");
    }
}
