//! An error as one line of text, for a log or for a person.

use std::{any::Any, error::Error};

/// The error and its causes, each once: some errors print their cause as well.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let reason = cause.to_string();
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        source = cause.source();
    }
    text
}

/// The last cause of an error, or the error itself when it has none.
pub fn root_cause(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => root_cause(cause),
        None => error.to_string(),
    }
}

/// What a panic said; `None` when its payload is not text.
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
        assert_eq!(error_chain(&failure(&["alone"])), "alone");
        assert_eq!(root_cause(&failure(&["alone"])), "alone");
    }
}
