//! Which versions of the protocol a request may use.

use super::{
    PROTOCOL_VERSION,
    error::{A2aError, ErrorKind},
};

/// What a request without the header means.
const WITHOUT_HEADER: &str = "0.3";

/// Checks the version that a request names (`A2A-Version`). The patch number does not count.
pub fn check_version(named: Option<&str>) -> Result<(), A2aError> {
    let named = named.map(str::trim).filter(|named| !named.is_empty()).unwrap_or(WITHOUT_HEADER);
    let mut numbers = named.split('.');
    let (major, minor, patch, rest) = (numbers.next(), numbers.next(), numbers.next(), numbers.next());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_supported = rest.is_none()
        && patch.is_none_or(is_number)
        && major.zip(minor).is_some_and(|(major, minor)| format!("{major}.{minor}") == PROTOCOL_VERSION);
    if is_supported {
        return Ok(());
    }
    let shown: String = named.chars().take(20).collect();
    let message = format!(
        "version `{shown}` of A2A is not supported: send the header `A2A-Version: {PROTOCOL_VERSION}`; a request \
         without it counts as version {WITHOUT_HEADER}"
    );
    Err(A2aError::new(ErrorKind::VersionNotSupported, message).with("supportedVersions", PROTOCOL_VERSION))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_version_1_0_is_supported_and_no_version_means_0_3() {
        for (named, expected) in [
            (Some("1.0"), true),
            (Some("1.0.1"), true),
            (Some(" 1.0 "), true),
            (None, false),
            (Some(""), false),
            (Some("0.3"), false),
            (Some("1.1"), false),
            (Some("1"), false),
            (Some("1.0.x"), false),
            (Some("1.0.1.2"), false),
        ] {
            let found = check_version(named);
            assert_eq!(found.is_ok(), expected, "{named:?}");
            assert!(found.err().is_none_or(|error| error.kind == ErrorKind::VersionNotSupported));
        }
    }
}
