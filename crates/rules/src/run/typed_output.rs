//! Typed output: what becomes of a final answer when the run has an output schema.

use emergent_domain::{
    output_schema::OutputSchema,
    run::{Reason, RunEnd},
    text::counted,
};
use serde_json::Value;

/// So often a run may ask its model to correct a final answer that does not match the output schema. A model that
/// fails three times with the reason in front of it rarely succeeds later, and each correction is a paid call.
pub const MAX_CORRECTIONS: u32 = 2;

/// What becomes of a final answer.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputDecision {
    /// The answer is this value, which matches the schema.
    Accept(Value),
    /// The model is asked to correct its answer, with this text.
    Correct(String),
    /// The run fails with this error.
    Fail(String),
}

/// Decides about a complete final answer. `corrections` counts how often the run has asked for a correction, and
/// `has_step_left` says whether the step limit allows one more answer.
pub fn decide_output(
    schema: &OutputSchema,
    answer: &str,
    corrections: u32,
    has_step_left: bool,
) -> OutputDecision {
    let problem = match schema.read(answer) {
        Ok(output) => return OutputDecision::Accept(output),
        Err(problem) => problem,
    };
    if corrections >= MAX_CORRECTIONS {
        return OutputDecision::Fail(format!(
            "the answer {problem}; the agent was asked to correct it {}",
            counted(corrections, "time")
        ));
    }
    if !has_step_left {
        return OutputDecision::Fail(format!(
            "the answer {problem}; the step limit leaves no step to correct it: raise `maxSteps`"
        ));
    }
    OutputDecision::Correct(format!(
        "Your answer {problem}.\n\nAnswer again with one JSON value that matches the JSON schema of your \
         instructions, and with nothing else: no explanation, no code fence."
    ))
}

/// Returns the system prompt of a run with an output schema. The model is told of the schema in any case, because
/// not every provider takes a schema beside tools.
pub fn system_prompt(own: &str, schema: &Value) -> String {
    let separator = if own.trim().is_empty() { "" } else { "\n\n" };
    format!(
        "{own}{separator}Your final answer must be one JSON value that matches the JSON schema below, and nothing \
         else: no explanation, no code fence. This holds for the final answer only: call tools as you need them \
         before, and if you are told that a limit is reached, answer as you are told there.\n\nJSON schema of the \
         final answer:\n{schema}"
    )
}

/// Returns the end of a flow with an output schema. The part that writes the answer of the flow is held to the schema,
/// so this refuses only an answer that no part was held to: the joined texts of a parallel flow, or a part that ended
/// before the flow had the schema. A flow without a schema passes on the output of the part that wrote its answer.
pub fn end_of_flow(schema: Option<&OutputSchema>, end: RunEnd) -> RunEnd {
    let (Some(schema), RunEnd::Completed { summary, .. }) = (schema, &end) else { return end };
    match schema.read(summary) {
        Ok(output) => RunEnd::Completed { summary: summary.clone(), output: Some(output) },
        Err(problem) => RunEnd::Failed {
            reason: Reason::InvalidOutput,
            error: format!("the answer of the flow {problem}"),
            summary: summary.clone(),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn numbers() -> OutputSchema {
        OutputSchema::compile(&json!({ "type": "array", "items": { "type": "number" } })).unwrap()
    }

    #[test]
    fn a_matching_answer_is_accepted_however_often_it_was_corrected() {
        for corrections in 0..=MAX_CORRECTIONS {
            let decision = decide_output(&numbers(), "[1, 2]", corrections, false);
            assert_eq!(decision, OutputDecision::Accept(json!([1, 2])));
        }
    }

    #[test]
    fn the_model_reads_what_does_not_match() {
        let OutputDecision::Correct(text) = decide_output(&numbers(), r#"[1, "x"]"#, 0, true) else {
            panic!()
        };
        assert!(
            text.starts_with(r#"Your answer does not match the output schema: `[1]`: "x" is not a number."#),
            "{text}"
        );
    }

    #[test]
    fn after_the_last_correction_and_without_a_step_the_run_fails_and_says_why() {
        let OutputDecision::Fail(error) = decide_output(&numbers(), "so", MAX_CORRECTIONS, true) else {
            panic!()
        };
        assert!(error.contains("is not one JSON value") && error.contains("2 times"), "{error}");
        let OutputDecision::Fail(error) = decide_output(&numbers(), "so", 0, false) else { panic!() };
        assert!(error.contains("is not one JSON value") && error.contains("`maxSteps`"), "{error}");
    }

    #[test]
    fn a_flow_never_has_an_output_that_does_not_match_its_schema() {
        let schema = numbers();
        let end = end_of_flow(Some(&schema), RunEnd::completed("[1]"));
        assert_eq!(end.output(), Some(&json!([1])));
        let passed_on = RunEnd::Completed { summary: "\"a\"".into(), output: Some(json!("a")) };
        assert_eq!(end_of_flow(None, passed_on.clone()), passed_on);
        let end = end_of_flow(Some(&schema), passed_on);
        assert_eq!((end.reason(), end.output()), (Some(Reason::InvalidOutput), None));
        let paused = RunEnd::Paused { reason: Reason::Timeout, summary: "[1]".into() };
        assert_eq!(end_of_flow(Some(&schema), paused.clone()), paused);
    }

    #[test]
    fn the_system_prompt_has_the_schema_after_the_own_text() {
        let prompt = system_prompt("Be brief.", numbers().as_value());
        assert!(prompt.starts_with("Be brief.\n\nYour final answer"), "{prompt}");
        assert!(prompt.ends_with(&numbers().as_value().to_string()), "{prompt}");
        assert!(system_prompt("", numbers().as_value()).starts_with("Your final answer"));
    }
}
