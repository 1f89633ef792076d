//! Texts shortened for people to read.

/// The first `max` characters, with a mark where something was left out.
pub fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_not_bytes() {
        assert_eq!(truncate("füñf", 4), "füñf");
        assert_eq!(truncate("füñf wörter", 4), "füñf…");
        assert_eq!(truncate("", 0), "");
    }
}
