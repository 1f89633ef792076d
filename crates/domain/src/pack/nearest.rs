/// Returns the candidate that was probably meant: the one with the smallest edit distance, ignoring
/// case, if the distance is at most a third of the length of the name. If several are equally
/// close, the first one wins.
pub fn nearest_name<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let allowed = (name.len() / 3).clamp(1, 4);
    candidates
        .into_iter()
        // The distance is at least the difference of the lengths. Without this, a name of megabytes would be
        // compared character by character with every candidate.
        .filter(|candidate| candidate.chars().count().abs_diff(name.len()) <= allowed)
        .map(|candidate| (edit_distance(&name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How deserialisers begin to describe a name that they do not know.
const UNKNOWN_NAMES: [&str; 2] = ["unknown field `", "unknown variant `"];

/// Longer messages are left as they are: a caller's name of megabytes is in them, and searching it takes time.
const MAX_MESSAGE_BYTES: usize = 4 << 10;
/// How many unknown names of one message get the nearest one. Deserialisers name one.
const MAX_UNKNOWN_NAMES: usize = 8;

/// Adds the name that was probably meant to the message of a deserialiser about an unknown field or variant. The
/// message itself only lists the names that were expected.
pub fn with_nearest_name(message: &str) -> String {
    if message.len() > MAX_MESSAGE_BYTES {
        return message.to_owned();
    }
    let mut text = String::with_capacity(message.len() + 32);
    let mut rest = message;
    for _ in 0..MAX_UNKNOWN_NAMES {
        let Some((name, end)) = find_unknown_name(rest) else { break };
        let (before, after) = rest.split_at(end);
        text.push_str(before);
        let expected = after.strip_prefix(", expected ");
        if let Some(nearest) = expected.and_then(|list| nearest_name(name, expected_names(list))) {
            text.push_str(&format!(" (did you mean `{nearest}`?)"));
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

/// The first unknown name of a message, and where the text after it begins.
fn find_unknown_name(message: &str) -> Option<(&str, usize)> {
    let starts = UNKNOWN_NAMES.iter().filter_map(|words| Some(message.find(*words)? + words.len()));
    let start = starts.min()?;
    let length = message[start..].find('`')?;
    Some((&message[start..start + length], start + length + 1))
}

/// The names in a list such as "one of `a`, `b` at line 1 column 2". Some deserialisers leave out the backticks.
fn expected_names(list: &str) -> impl Iterator<Item = &str> {
    let list = list.lines().next().unwrap_or_default();
    let list = list.split(" at line ").next().unwrap_or_default();
    list.split([',', ' ', '`']).filter(|word| !matches!(*word, "" | "one" | "of" | "or"))
}

/// Counts the insertions, deletions, substitutions and swaps of neighbouring characters. `name` is in lower case.
pub(crate) fn edit_distance(name: &[char], candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.to_lowercase().chars().collect();
    let mut before_last = Vec::new();
    let mut last: Vec<usize> = (0..=candidate.len()).collect();
    for (i, &a) in name.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in candidate.iter().enumerate() {
            let changed = last[j] + usize::from(a != b);
            let mut best = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == candidate[j - 1] && name[i - 1] == b {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[candidate.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_about_an_unknown_name_gets_the_nearest_one() {
        for (message, expected) in [
            (
                "unknown field `typ`, expected one of `kind`, `type`, `id` at line 1 column 9",
                "unknown field `typ` (did you mean `type`?), expected one of `kind`, `type`, `id` at line 1 column 9",
            ),
            (
                "line 2: unknown field `agnet`, expected one of agent, step\n | ^ here",
                "line 2: unknown field `agnet` (did you mean `agent`?), expected one of agent, step\n | ^ here",
            ),
            (
                "unknown variant `objct`, expected `object` or `relationship`",
                "unknown variant `objct` (did you mean `object`?), expected `object` or `relationship`",
            ),
        ] {
            assert_eq!(with_nearest_name(message), expected);
        }
        for message in [
            "unknown field `colour`, expected one of `kind`, `type`",
            "unknown field `lin`, expected `a` or `b` at line 1 column 2",
            "unknown field `a`, there are no fields",
            "unknown field `never closed",
            "invalid type: integer `1`, expected a string",
        ] {
            assert_eq!(with_nearest_name(message), message);
        }
    }

    #[test]
    fn a_name_of_megabytes_that_looks_like_a_message_costs_no_time() {
        let started = std::time::Instant::now();
        // Each round found the end of one name, and searched the whole rest for the other kind of message.
        let message = format!("unknown field `{}`, expected `cron`", "unknown field `".repeat(500_000));
        assert_eq!(with_nearest_name(&message), message);
        let short = "unknown field `agnt`, expected `agent`; ".repeat(20);
        assert_eq!(with_nearest_name(&short).matches("did you mean").count(), MAX_UNKNOWN_NAMES);
        assert!(started.elapsed() < std::time::Duration::from_secs(1), "{:?}", started.elapsed());
    }

    #[test]
    fn a_slip_of_the_pen_finds_the_name_that_was_meant() {
        let candidates = ["Session", "SessionMessage", "SpecTask"];
        let check = |name, expected| assert_eq!(nearest_name(name, candidates), expected, "{name}");
        check("SpecTsak", Some("SpecTask"));
        check("spectask", Some("SpecTask"));
        check("spec_task", Some("SpecTask"));
        check("Sesion", Some("Session"));
        check("Document", None);
        check("", None);
        assert_eq!(nearest_name("x", []), None);
    }

    #[test]
    fn a_long_name_is_not_compared_character_by_character() {
        let started = std::time::Instant::now();
        let candidates = vec!["Europe/Amsterdam"; 600];
        assert_eq!(nearest_name(&"x".repeat(4 << 20), candidates), None);
        assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
    }
}
