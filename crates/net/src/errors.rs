//! Formats errors and panics as one line of text, for logs and messages.

use std::{any::Any, error::Error};

/// Formats an error and its causes. A cause that the text contains already is not repeated, because some
/// errors print their cause themselves.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let reason = cause.to_string();
        if !text.contains(&reason) {
            // An error may end with the question of what was meant.
            text.push_str(if text.ends_with(['?', '.']) { " " } else { ": " });
            text.push_str(&reason);
        }
        source = cause.source();
    }
    text
}

/// Returns the text of the last cause of an error, or of the error itself when it has none.
pub fn root_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => root_cause(cause),
        None => error.to_string(),
    }
}

/// Returns the message of a panic; `None` if its payload is not text.
pub fn panic_message(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Failure(&'static str, #[source] Option<Box<Failure>>);

    fn failure(texts: &[&'static str]) -> Failure {
        Failure(texts[0], (texts.len() > 1).then(|| Box::new(failure(&texts[1..]))))
    }

    #[test]
    fn each_cause_is_printed_once() {
        let error = failure(&["no answer: timed out", "timed out", "os error 110"]);
        assert_eq!(error_chain(&error), "no answer: timed out: os error 110");
        assert_eq!(root_cause(&error), "os error 110");
        assert_eq!(error_chain(&failure(&["did you mean `b`?", "no file"])), "did you mean `b`? no file");
        assert_eq!(error_chain(&failure(&["alone"])), "alone");
        assert_eq!(root_cause(&failure(&["alone"])), "alone");
    }
}
