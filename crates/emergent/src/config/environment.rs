//! Reads environment variables, and the numbers, times and flags in them.

use std::time::Duration;

use crate::error::{Error, Result};

/// The value of an environment variable; `None` when it is unset or empty.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub fn env_value(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The names of all environment variables.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub fn env_names() -> Vec<String> {
    std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect()
}

pub(super) fn env_number(name: &str) -> Result<Option<usize>> {
    env_value(name)
        .map(|text| text.parse().map_err(|_| Error::setting(name, format!("`{text}` is not a whole number"))))
        .transpose()
}

/// A time in whole seconds.
pub(super) fn seconds(name: &str, in_file: Option<usize>, default: Duration) -> Result<Duration> {
    match env_number(name)?.or(in_file) {
        None => Ok(default),
        Some(0) => Err(Error::setting(name, "must be 1 or more")),
        Some(seconds) => Ok(Duration::from_secs(seconds as u64)),
    }
}

pub(super) fn env_bool(name: &str) -> Result<Option<bool>> {
    env_value(name)
        .map(|text| match text.as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(Error::setting(name, format!("`{text}` is neither true nor false"))),
        })
        .transpose()
}

/// A whole number of days, hours, minutes or seconds, at most a hundred years.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds: u64 = match unit {
        "d" => 24 * 60 * 60,
        "h" => 60 * 60,
        "m" => 60,
        "s" => 1,
        _ => return None,
    };
    let total = number.parse::<u64>().ok()?.checked_mul(seconds)?;
    (total <= 36_500 * 24 * 60 * 60).then(|| Duration::from_secs(total))
}

pub(super) fn similarity(name: &'static str, in_file: Option<f64>) -> Result<Option<f64>> {
    let value = match env_value(name) {
        Some(text) => {
            Some(text.parse().map_err(|_| Error::setting(name, format!("`{text}` is not a number")))?)
        }
        None => in_file,
    };
    match value {
        Some(min) if !(-1.0..=1.0).contains(&min) => Err(Error::setting(name, "must be -1 to 1")),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        for (text, seconds) in [("30d", 2_592_000), ("12h", 43_200), ("5m", 300), ("0s", 0)] {
            assert_eq!(parse_duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "d", "30", "-1d", "1.5d", "30 d", "99999999999d", "1é"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
