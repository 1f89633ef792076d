//! Texts that refer to secrets: `Bearer ${GITHUB_TOKEN}`, `{{secrets.GITHUB_TOKEN}}`.

use std::{fmt, str::FromStr};

use emergent_domain::invalid::Invalid;

use crate::SecretName;

/// A parsed text with references to secrets. `$${` stands for a literal `${`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

/// A piece of a template: literal text, or a reference to a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Secret(SecretName),
}

impl Template {
    /// Returns the secrets that the text refers to, in order and including repetitions.
    pub fn names(&self) -> impl Iterator<Item = &SecretName> {
        self.parts.iter().filter_map(|part| match part {
            Part::Secret(name) => Some(name),
            Part::Text(_) => None,
        })
    }

    pub fn has_secrets(&self) -> bool {
        self.names().next().is_some()
    }

    /// Returns the original text. It contains references and no values, so it may be displayed.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }
}

impl FromStr for Template {
    type Err = Invalid;
    fn from_str(source: &str) -> Result<Self, Invalid> {
        let (mut parts, mut text, mut rest) = (Vec::new(), String::new(), source);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("$${") {
                text.push_str("${");
                rest = after;
            } else if let Some((inside, after)) = reference(rest)? {
                let name = inside.trim().parse().map_err(|_| {
                    Invalid::new("", "`${…}` and `{{secrets.…}}` must contain a name such as GITHUB_TOKEN; write `$${` for a literal `${`")
                })?;
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(Part::Secret(name));
                rest = after;
            } else {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                text.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Self { source: source.to_owned(), parts })
    }
}

/// Returns the content of the reference at the start of the text, and the text after it.
fn reference(text: &str) -> Result<Option<(&str, &str)>, Invalid> {
    if let Some(inside) = text.strip_prefix("${") {
        let unclosed = || Invalid::new("", "`${` is not closed; write `$${` for a literal `${`");
        return inside.split_once('}').map(Some).ok_or_else(unclosed);
    }
    // Other expressions in double braces are left unchanged; only `secrets.` is a reference.
    let Some(inside) = text.strip_prefix("{{").map(str::trim_start) else { return Ok(None) };
    let Some(inside) = inside.strip_prefix("secrets.") else { return Ok(None) };
    let unclosed = || Invalid::new("", "`{{secrets.` is not closed by `}}`");
    inside.split_once("}}").map(Some).ok_or_else(unclosed)
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the parsed parts, with secrets in angle brackets.
    #[track_caller]
    fn check(written: &str, expected: &str) {
        let template: Template = written.parse().unwrap();
        let shown: String = template
            .parts()
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Secret(name) => format!("<{name}>"),
            })
            .collect();
        assert_eq!((shown.as_str(), template.as_str()), (expected, written));
    }

    #[test]
    fn references_to_secrets_have_two_notations() {
        check("", "");
        check("plain $HOME $ {x} {{ other }} ü", "plain $HOME $ {x} {{ other }} ü");
        check("Bearer ${TOKEN}", "Bearer <TOKEN>");
        check("{{secrets.A}}:{{ secrets.B_2 }}", "<A>:<B_2>");
        check("${A}${B}", "<A><B>");
        check("$${A} costs $$5", "${A} costs $$5");
        let names = "x ${A} {{secrets.B}} ${A}".parse::<Template>().unwrap();
        assert_eq!(names.names().map(SecretName::as_str).collect::<Vec<_>>(), ["A", "B", "A"]);
        assert!(names.has_secrets() && !"$${A}".parse::<Template>().unwrap().has_secrets());
    }

    #[test]
    fn a_malformed_reference_is_rejected() {
        for bad in ["${", "${A", "${}", "${lower}", "${A B}", "{{secrets.A", "{{secrets.}}", "{{secrets.a}}"]
        {
            assert!(bad.parse::<Template>().is_err(), "{bad}");
        }
    }
}
