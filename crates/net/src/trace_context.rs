//! The trace context of W3C (`traceparent`): the one that a request carried, and the one that is sent on
//! with requests to models and MCP servers.

use std::sync::{Arc, OnceLock};

/// The name of the header, and of the field in the `_meta` of an MCP request.
pub const TRACEPARENT: &str = "traceparent";

tokio::task_local! {
    static PARENT: Option<Arc<str>>;
}

/// Returns the context of the current span, if spans are exported.
type CurrentSpan = Box<dyn Fn() -> Option<String> + Send + Sync>;

static CURRENT_SPAN: OnceLock<CurrentSpan> = OnceLock::new();

/// Sets how the context of the current span is found. Called once, when spans are exported.
pub fn set_current_span(current_span: impl Fn() -> Option<String> + Send + Sync + 'static) {
    let _ = CURRENT_SPAN.set(Box::new(current_span));
}

/// Returns a value of the header if it is valid: version, trace id, span id and flags in lower-case
/// hexadecimal digits, and neither id is zero.
pub fn parse(value: &str) -> Option<Arc<str>> {
    let parts: Vec<&str> = value.trim().split('-').collect();
    let [version, trace, span, flags, ..] = parts[..] else { return None };
    let is_hex = |text: &str, length: usize| {
        text.len() == length
            && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_valid = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(span, 16);
    let has_ids = trace.bytes().any(|byte| byte != b'0') && span.bytes().any(|byte| byte != b'0');
    // Version 00 has exactly four fields. Later versions may have more, which are left out.
    let has_known_length = version != "00" || parts.len() == 4;
    (is_valid && is_hex(flags, 2) && has_ids && has_known_length)
        .then(|| format!("00-{trace}-{span}-{flags}").into())
}

/// Runs a future within the context that a request, or the start of a run, carried.
pub async fn with_parent<T>(parent: Option<Arc<str>>, future: impl Future<Output = T>) -> T {
    PARENT.scope(parent, future).await
}

/// The context that the current request or run carries.
pub fn parent() -> Option<Arc<str>> {
    PARENT.try_with(Clone::clone).ok().flatten()
}

/// The context to send with a request: that of the current span, or the one that was received.
pub fn outgoing() -> Option<String> {
    let span = CURRENT_SPAN.get().and_then(|current_span| current_span());
    span.or_else(|| parent().map(|parent| parent.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn only_valid_contexts_are_taken() {
        assert_eq!(parse(VALID).as_deref(), Some(VALID));
        assert_eq!(parse(&format!(" {VALID} ")).as_deref(), Some(VALID));
        assert_eq!(parse(&format!("cc{}-more", &VALID[2..])).as_deref(), Some(VALID), "a later version");
        let wrong = [
            "",
            "00",
            &VALID.to_uppercase(),
            &VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &VALID.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &format!("ff{}", &VALID[2..]),
            &format!("{VALID}-more"),
            &VALID[..50],
        ];
        for value in wrong {
            assert_eq!(parse(value), None, "{value}");
        }
    }

    #[tokio::test]
    async fn the_context_of_a_request_is_sent_on() {
        assert_eq!(outgoing(), None);
        with_parent(parse(VALID), async { assert_eq!(outgoing().as_deref(), Some(VALID)) }).await;
    }
}
