//! What the loop guard tells the model, and whoever reads why a run ended.

use super::{LoopKind, MAX_STALE_CALLS, idle::MAX_IDLE_CALLS};

/// The text that the model receives instead of the result of a looping call: what it repeats, what to do, and what
/// happens otherwise.
pub fn loop_warning(tool: &str, count: usize, kind: LoopKind) -> String {
    let repeated = match kind {
        LoopKind::SameCall => format!("You have called {tool} with identical arguments {count} times."),
        LoopKind::Cycle(length) => format!(
            "You have called {tool} with identical arguments {count} times, in a cycle of {length} tool calls that you \
             repeat in the same order."
        ),
        LoopKind::KnownResults => format!(
            "You have called {tool} with identical arguments {count} times, and your last {MAX_STALE_CALLS} tool calls \
             returned nothing that they had not returned before."
        ),
        LoopKind::SameQuestion => format!(
            "You have called {tool} {count} times with arguments that differ only in spelling or in the number of results, \
             and the result was always the same."
        ),
        LoopKind::NothingNew => format!(
            "You have called {tool} with identical arguments {count} times with the same result, and no other tool call in \
             between returned anything new."
        ),
        LoopKind::SameFailure => {
            format!("You have called {tool} {count} times, and it always failed with the same error.")
        }
        LoopKind::UnknownTools => format!(
            "You have called tools that you do not have {count} times, the last one as {tool}. Call only the tools that \
             are listed for you."
        ),
        LoopKind::Idle => format!(
            "Your last {count} tool calls brought nothing new: whatever their arguments were, each of them failed or \
             returned what was known. So {tool} will hardly find anything else. After {MAX_IDLE_CALLS} more such calls \
             the loop counts as continued."
        ),
    };
    format!(
        "LOOP DETECTED: {repeated} This tool call will not be executed. Please try a different approach or summarize \
         your progress so far. If you go on with this loop, your run ends."
    )
}

/// Why a run ended that was warned of a loop and went on with it: what it repeated.
pub fn loop_error(tool: &str, count: usize, kind: LoopKind) -> String {
    let repeated = match kind {
        LoopKind::SameCall => format!("`{tool}` {count} times with the same arguments"),
        LoopKind::Cycle(length) => {
            format!(
                "`{tool}` {count} times with the same arguments, in a repeated cycle of {length} tool calls"
            )
        }
        LoopKind::KnownResults => {
            format!(
                "`{tool}` {count} times with the same arguments, among calls that returned only what was known"
            )
        }
        LoopKind::SameQuestion => format!(
            "`{tool}` {count} times with arguments that differ only in spelling or in the number of results, and the \
             result was always the same"
        ),
        LoopKind::NothingNew => format!(
            "`{tool}` {count} times with the same arguments and the same result, and nothing else brought anything new"
        ),
        LoopKind::SameFailure => format!("`{tool}` {count} times, and it always failed with the same error"),
        LoopKind::UnknownTools => {
            format!("tools that it does not have {count} times, the last one as `{tool}`")
        }
        LoopKind::Idle => {
            format!("tools {count} times in a row without any new result, the last one was `{tool}`")
        }
    };
    format!(
        "the agent was warned of a loop and went on: it called {repeated}; change its prompt or its tools"
    )
}
