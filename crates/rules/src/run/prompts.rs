//! What the machine tells the model: at a limit, after an incomplete answer, and instead of a result.

pub(super) const STEP_LIMIT_PROMPT: &str = "CRITICAL - MAXIMUM STEPS REACHED

Tools are disabled. Respond with text only.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

pub(super) const TIMEOUT_PROMPT: &str = "CRITICAL - TIME IS UP

Tools are disabled. Respond with text only, at once: you have a few seconds.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

pub(super) const BUDGET_PROMPT: &str = "CRITICAL - BUDGET REACHED

Tools are disabled. Respond with text only, in a few sentences: very little may still be spent.

Your response MUST include:
- Summary of what has been accomplished so far
- List of any remaining tasks that were not completed
- Recommendations for what should be done next";

pub(super) const CONTINUE_PROMPT: &str = "Your answer reached the maximum length and was truncated. Continue exactly where it stops. Do not \
                               repeat what you have written already, and add no remark about this message.";
pub(super) const CONTINUE_EMPTY_PROMPT: &str = "Your answer was truncated at the maximum length, and its continuation was empty. Continue exactly where \
                                     it stops. If nothing is missing, repeat its last sentence.";
pub(super) const SHORTER_PROMPT: &str = "Your answer reached the maximum length before it had any text. Answer again, with less reasoning \
                              and in fewer words.";
pub(super) const EMPTY_PROMPT: &str =
    "Your answer was empty. Call a tool, or write the answer to your task as text.";
pub(super) const EMPTY_SUMMARY_PROMPT: &str =
    "Your answer was empty. Tools are disabled: write the summary as text, at once.";

/// The result of a tool call whose arguments were truncated.
pub const TRUNCATED_CALL_RESULT: &str = "This call was not made: your answer reached the maximum length inside of it, so its arguments \
     are incomplete. Make the call again with shorter arguments, or in several calls.";

/// The error of a run that its budget ended when the refusal's own reason is not known, for example
/// after a restart.
pub(super) const BUDGET_EXHAUSTED: &str = "the budget does not allow another model call";

pub(super) const TOOLS_DISABLED_RESULT: &str =
    "This call was not made: tools are disabled, only a summary was asked for.";
pub(super) const RUN_ENDED_RESULT: &str =
    "This call was not made: the run ended because it went on with a loop after the warning.";
