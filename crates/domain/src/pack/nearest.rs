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

/// Counts the insertions, deletions, substitutions and swaps of neighbouring characters.
fn edit_distance(name: &[char], candidate: &str) -> usize {
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
