//! Numbers on the command line.

/// Parses a number. JSON has no other ones than finite numbers: `nan` would be sent as `null`, which takes a limit away.
pub fn parse_finite(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if number.is_finite() { Ok(number) } else { Err("it is not a finite number".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_numbers_are_numbers() {
        assert_eq!(parse_finite("2.5"), Ok(2.5));
        assert_eq!(parse_finite("-1e3"), Ok(-1000.0));
        for text in ["nan", "NaN", "-nan", "inf", "infinity", "-inf", "1e999", "", "two"] {
            assert!(parse_finite(text).is_err(), "{text}");
        }
    }
}
