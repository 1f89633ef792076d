/// Returns whether a text is a semantic version (semver.org 2.0.0): `1.2.0`, `1.2.0-beta.1+build5`.
pub fn is_semver(text: &str) -> bool {
    if text.len() > 128 {
        return false;
    }
    let (text, build) = split(text, '+');
    let (core, pre_release) = split(text, '-');
    let numbers: Vec<&str> = core.split('.').collect();
    numbers.len() == 3
        && numbers.iter().all(|number| is_number(number))
        && build.is_none_or(|build| build.split('.').all(is_identifier))
        && pre_release.is_none_or(|pre| {
            pre.split('.').all(|part| is_identifier(part) && (!is_digits(part) || is_number(part)))
        })
}

fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    match text.split_once(separator) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a text is a number in range without a leading zero.
fn is_number(text: &str) -> bool {
    is_digits(text) && (text == "0" || !text.starts_with('0')) && text.parse::<u64>().is_ok()
}

fn is_identifier(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers_with_optional_pre_release_and_build() {
        for good in ["1.0.0", "0.0.0", "1.2.3-beta.1", "1.2.3+5", "1.2.3-a-b+01.x", "10.20.30"] {
            assert!(is_semver(good), "{good}");
        }
        for bad in [
            "",
            "1",
            "1.0",
            "1.0.0.0",
            "v1.0.0",
            "01.0.0",
            "1.0.0-",
            "1.0.0-01",
            "1.0.0+",
            "1.0.0-a..b",
            "1.0.x",
            " 1.0.0",
            "1.0.99999999999999999999",
        ] {
            assert!(!is_semver(bad), "{bad}");
        }
    }
}
