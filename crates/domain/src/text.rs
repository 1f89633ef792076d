//! Texts for people to read.

/// The first `max` characters, with a mark where something was left out.
pub fn truncate(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A number with the noun that it counts: `1 run`, `2 runs`. The plural of `noun` ends in `s`.
pub fn counted(count: impl TryInto<u64>, noun: &str) -> String {
    let count = count.try_into().unwrap_or(0);
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
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

    #[test]
    fn a_noun_has_a_plural_unless_there_is_exactly_one() {
        assert_eq!((counted(0_usize, "run"), counted(1_i64, "run")), ("0 runs".into(), "1 run".into()));
        assert_eq!(counted(2_u32, "tool call"), "2 tool calls");
    }
}
