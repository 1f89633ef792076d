//! Evaluates the result of a task before the task completes.

use emergent_domain::task::Task;
use serde_json::{Value, json};

use crate::workflow::question::{Question, find_json_object, truncate};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluation {
    Accept,
    /// The task is done again, for this reason.
    Redo {
        why: String,
    },
}

/// Evaluates by rules: an empty result is none. Rules cannot say whether a result is good.
pub fn evaluate_by_rules(output: &str) -> Evaluation {
    match output.trim() {
        "" => Evaluation::Redo { why: "it ended without a result".to_owned() },
        _ => Evaluation::Accept,
    }
}

pub fn evaluation_question(task: &Task, output: &str) -> Question {
    let mut prompt = format!("TASK: {}\n{}\n", task.title, truncate(&task.description, 6_000));
    if !task.failure_context.trim().is_empty() {
        prompt += &format!("\nWHAT WAS WRONG BEFORE:\n{}\n", truncate(&task.failure_context, 4_000));
    }
    prompt += &format!(
        "\nRESULT:\n{}\n\nDoes the result do what the task asks? Accept it if others can build on it; small flaws \
         are no reason to redo it. If not, `why` says exactly what is missing or wrong.",
        truncate(output, 16_000)
    );
    Question {
        system: "You judge whether the result of a task is what was asked for.".to_owned(),
        prompt,
        schema: json!({
            "type": "object",
            "properties": {
                "verdict": { "type": "string", "enum": ["accept", "redo"] },
                "why": { "type": "string" },
            },
            "required": ["verdict", "why"],
            "additionalProperties": false,
        }),
    }
}

/// Reads the answer of the judge. `None` if it cannot be read; [`evaluate_by_rules`] decides then.
pub fn parse_evaluation(answer: &str) -> Option<Evaluation> {
    let value = find_json_object(answer, "verdict")?;
    let why = value.get("why").and_then(Value::as_str).unwrap_or_default();
    match value.get("verdict")?.as_str()?.trim().to_lowercase().as_str() {
        "accept" => Some(Evaluation::Accept),
        // Without a reason the next attempt would be the same again.
        "redo" if why.trim().is_empty() => None,
        "redo" => Some(Evaluation::Redo { why: truncate(why, 2_000) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_accepts_or_says_why_not() {
        let redo = |why: &str| Some(Evaluation::Redo { why: why.into() });
        for (answer, expected) in [
            ("{\"verdict\": \"accept\", \"why\": \"\"}", Some(Evaluation::Accept)),
            ("Hm. {\"verdict\": \"Redo\", \"why\": \"no sources\"}", redo("no sources")),
            ("{\"verdict\": \"redo\", \"why\": \" \"}", None),
            ("{\"verdict\": \"perhaps\"}", None),
            ("accept", None),
        ] {
            assert_eq!(parse_evaluation(answer), expected, "{answer}");
        }
    }

    #[test]
    fn nothing_is_not_a_result() {
        assert_eq!(evaluate_by_rules("Three patterns fit."), Evaluation::Accept);
        assert!(matches!(evaluate_by_rules(" \n"), Evaluation::Redo { .. }));
    }
}
