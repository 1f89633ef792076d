//! Redaction: removes secrets from everything that is written or returned, such as logs, records of
//! runs and error messages.
//!
//! A redactor knows the values of secrets and replaces each occurrence with `[secret NAME]`. It
//! finds a value literally and in base64 at any alignment (such as `user:secret` in a `Basic`
//! header). It finds both also inside JSON, URLs and log lines that escape some characters, because
//! it decodes such a text first (see `decoded`).
//!
//! A secret belongs to one project. Text that a project can read passes through
//! [`Redactor::for_project`], which leaves the secrets of other projects alone: their values are
//! ordinary words there, and their names must not be disclosed. Text of the whole server, such as
//! its log, passes through the redactor itself, which covers all projects.
//!
//! Redaction must not confirm guesses: whoever sends a text and sees a placeholder come back knows that the
//! text is a secret. So only texts from outside are redacted, such as the answers of external servers, and
//! [`Redactor::except`] leaves what the caller itself sent to them. What an external server says may come back
//! to it, by a model that repeats it or by a person who reads the record. So [`Redactor::for_secrets`] replaces
//! only the secrets that the server was sent: about these, a placeholder tells it nothing new.

mod decoded;
mod forms;
mod index;
mod sent;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use serde_json::Value;

use crate::ids::ProjectId;
use decoded::DecodedText;
pub use index::HeldSecret;
use index::{Hit, SecretFilter, SecretIndex};
use sent::{SentSearch, SentText};

/// The minimum length of a secret. Shorter values would occur inside too many ordinary words.
pub const MIN_SECRET_BYTES: usize = 6;

/// Replaces secrets in texts and JSON. Clones share the set of secrets.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Arc<RwLock<SecretIndex>>,
    filter: SecretFilter,
    /// What the caller sent.
    sent: Option<SentText>,
}

/// How a redacted secret is displayed.
fn placeholder(name: &str) -> String {
    format!("[secret {name}]")
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// Returns a redactor that replaces only the secrets of one project.
    #[must_use]
    pub fn for_project(&self, project: ProjectId) -> Self {
        Self { filter: SecretFilter::Project(project), ..self.clone() }
    }

    /// Returns a redactor that leaves what a caller sent, such as the input of a tool: a part of the text
    /// that occurs in `sent`, and any form of a secret whose whole value occurs there. The caller knows these
    /// already, and a placeholder would tell it that they are secrets.
    #[must_use]
    pub fn except(&self, sent: &Value) -> Self {
        Self { sent: Some(SentText::new(sent.to_string())), ..self.clone() }
    }

    /// Returns a redactor that replaces only these secrets, for a text of somebody who was sent them. It says
    /// nothing about other secrets: whoever wrote the text cannot find out whether it contains one.
    #[must_use]
    pub fn for_secrets(&self, held: &[HeldSecret]) -> Self {
        Self { filter: SecretFilter::Held(held.into()), ..self.clone() }
    }

    /// Adds a value to redact from now on. The redactor remembers the last few values of each name,
    /// and a bounded number per project.
    pub fn add_secret(&self, project: ProjectId, name: &str, value: &str) {
        drop(self.hold_secret(project, name, value));
    }

    /// Like [`Redactor::add_secret`]. The value is remembered at least as long as the result exists, however
    /// often the secret is replaced.
    pub fn hold_secret(&self, project: ProjectId, name: &str, value: &str) -> HeldSecret {
        // The value is nearly always present already, and then a read lock suffices.
        if let Some(held) = self.secrets().hold_current(project, name, value) {
            return held;
        }
        self.secrets.write().unwrap_or_else(PoisonError::into_inner).insert(project, name, value)
    }

    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redacted(text.as_bytes()) {
            None => Cow::Borrowed(text),
            Some(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    pub fn redact_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.redacted(bytes).map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    /// Redacts every string in a value, including the names of fields.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.redact_text(text) {
                    *text = clean;
                }
            }
            // A secret that consists of digits can be serialised as a JSON number. Only a number
            // that equals the secret is replaced; a number that merely contains its digits stays.
            Value::Number(number) => {
                let digits = number.to_string();
                let name = self.secrets().find_number(&digits, &self.filter).map(str::to_owned);
                let was_sent = || self.sent_search().is_some_and(|sent| sent.contains(digits.as_bytes()));
                let secret = name.filter(|_| !was_sent()).map(|name| placeholder(&name));
                if let Some(secret) = secret {
                    *value = Value::String(secret);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(map) => {
                if map.keys().any(|key| matches!(self.redact_text(key), Cow::Owned(_))) {
                    *map = std::mem::take(map)
                        .into_iter()
                        .map(|(key, value)| (self.redact_text(&key).into_owned(), value))
                        .collect();
                }
                map.values_mut().for_each(|value| self.redact_value(value));
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Returns `None` if there is nothing to redact, which is nearly always the case.
    fn redacted(&self, text: &[u8]) -> Option<Vec<u8>> {
        let index = self.secrets();
        if index.is_empty_for(&self.filter) {
            return None;
        }
        let mut sent = None;
        let mut hits = self.find_hidden(&index, text, &mut sent);
        for view in DecodedText::decodings(text) {
            let found = self.find_hidden(&index, view.bytes(), &mut sent);
            hits.extend(found.into_iter().map(|hit| view.to_original(hit)));
        }
        if hits.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(text.len());
        let mut copied = 0;
        for hit in merge_overlapping(hits, text) {
            out.extend_from_slice(&text[copied..hit.start]);
            out.extend_from_slice(placeholder(hit.name).as_bytes());
            copied = hit.end;
        }
        out.extend_from_slice(&text[copied..]);
        Some(out)
    }

    /// Finds the secrets in a text, without those that the caller sent. `search` is prepared when the first
    /// secret is found, which is rare.
    fn find_hidden<'a>(
        &self,
        index: &'a SecretIndex,
        text: &[u8],
        search: &mut Option<SentSearch>,
    ) -> Vec<Hit<'a>> {
        let mut hits = index.find_all(text, &self.filter);
        if let Some(sent) = self.sent.as_ref().filter(|_| !hits.is_empty()) {
            let search = search.get_or_insert_with(|| sent.search());
            hits.retain(|hit| {
                !search.contains(&text[hit.start..hit.end]) && !search.contains(hit.value.as_bytes())
            });
        }
        hits
    }

    fn sent_search(&self) -> Option<SentSearch> {
        self.sent.as_ref().map(SentText::search)
    }

    fn secrets(&self) -> RwLockReadGuard<'_, SecretIndex> {
        self.secrets.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Merges overlapping hits into one, which has the name of the longest.
fn merge_overlapping<'a>(mut hits: Vec<Hit<'a>>, text: &[u8]) -> Vec<Hit<'a>> {
    for hit in &mut hits {
        // A preceding backslash would escape the first character of the placeholder, so it is
        // removed too.
        let before = text[..hit.start].iter().rev().take_while(|byte| **byte == b'\\').count();
        hit.start -= before % 2;
    }
    hits.sort_by_key(|hit| (hit.start, std::cmp::Reverse(hit.end)));
    let mut merged: Vec<Hit<'a>> = Vec::with_capacity(hits.len());
    for hit in hits {
        match merged.last_mut() {
            Some(last) if hit.start < last.end => {
                if hit.end - hit.start > last.end - last.start {
                    last.name = hit.name;
                }
                last.end = last.end.max(hit.end);
            }
            _ => merged.push(hit),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
