//! The name of a secret, which follows the rules of environment variables.

use std::{fmt, str::FromStr};

use emergent_domain::invalid::Invalid;

const MAX_NAME_CHARS: usize = 128;

/// A name of the form `[A-Z][A-Z0-9_]{0,127}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

impl SecretName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SecretName {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let mut bytes = text.bytes();
        let is_valid = bytes.next().is_some_and(|first| first.is_ascii_uppercase())
            && bytes.all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && text.len() <= MAX_NAME_CHARS;
        // The text may be the value instead of a name, so the message does not quote it.
        is_valid.then(|| Self(text.to_owned())).ok_or_else(|| {
            Invalid::new(
                "name",
                format!(
                    "a secret is named like GITHUB_TOKEN: capital letters, digits and `_`, a letter \
                     first, at most {MAX_NAME_CHARS}"
                ),
            )
        })
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_variables_and_an_error_does_not_quote_the_text() {
        for good in ["A", "GITHUB_TOKEN", "K8S_2"] {
            assert_eq!(good.parse::<SecretName>().unwrap().as_str(), good);
        }
        for bad in ["", "a", "1A", "_A", "A-B", "A B", "Ä", "GITHUB_TOKEN=ghp_x", &"A".repeat(129)] {
            let error = bad.parse::<SecretName>().unwrap_err().to_string();
            assert!(bad.len() < 2 || !error.contains(bad), "{error}");
        }
    }
}
