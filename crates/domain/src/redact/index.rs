//! The index of secret values, and the search for them in a text.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::{MIN_SECRET_BYTES, forms};
use crate::ids::ProjectId;

/// How many values of each name are remembered. A replaced value may still be in use somewhere;
/// older ones are dropped.
const VALUES_PER_NAME: usize = 3;
/// How many values of one project are remembered: twice as many as it can have secrets.
const MAX_VALUES_PER_PROJECT: usize = 2_000;
/// A shorter number is too likely to be an ordinary number.
const MIN_NUMBER_DIGITS: usize = 8;

#[derive(Default)]
pub(super) struct SecretIndex {
    /// The values of each project, oldest first.
    projects: HashMap<ProjectId, VecDeque<Arc<IndexedSecret>>>,
    /// The forms by their first bytes.
    forms: HashMap<[u8; MIN_SECRET_BYTES], Vec<Form>>,
    /// A bitmap of the byte pairs that start a form. It rules out nearly every position of a text
    /// without a lookup. A bit remains set after its forms are removed, which costs a lookup and
    /// has no other effect.
    starts: Vec<u64>,
}

struct IndexedSecret {
    name: String,
    value: String,
}

struct Form {
    project: ProjectId,
    secret: Arc<IndexedSecret>,
    bytes: Vec<u8>,
    /// The length of the prefix that reveals the secret.
    revealing_bytes: usize,
}

/// Selects the projects whose secrets are searched for.
#[derive(Clone, Copy, Default)]
pub(super) enum ProjectFilter {
    #[default]
    All,
    Only(ProjectId),
}

impl ProjectFilter {
    fn includes(self, form: &Form) -> bool {
        match self {
            ProjectFilter::All => true,
            ProjectFilter::Only(project) => form.project == project,
        }
    }
}

/// An occurrence of a secret in a text.
pub(super) struct Hit<'a> {
    pub start: usize,
    pub end: usize,
    pub name: &'a str,
    /// The whole value of the secret.
    pub value: &'a str,
}

impl SecretIndex {
    pub fn is_empty_for(&self, projects: ProjectFilter) -> bool {
        match projects {
            ProjectFilter::All => self.forms.is_empty(),
            ProjectFilter::Only(project) => !self.projects.contains_key(&project),
        }
    }

    /// Returns whether this value is the newest one of the name.
    pub fn has_current(&self, project: ProjectId, name: &str, value: &str) -> bool {
        let latest =
            self.projects.get(&project).and_then(|values| values.iter().rfind(|secret| secret.name == name));
        latest.is_some_and(|secret| secret.value == value)
    }

    pub fn insert(&mut self, project: ProjectId, name: &str, value: &str) {
        if self.has_current(project, name, value) {
            return;
        }
        let new = Arc::new(IndexedSecret { name: name.to_owned(), value: value.to_owned() });
        let values = self.projects.entry(project).or_default();
        let mut removed = Vec::new();
        // A value that is added again becomes the newest one.
        if let Some(index) = values.iter().position(|secret| secret.name == name && secret.value == value) {
            removed.extend(values.remove(index));
        }
        values.push_back(Arc::clone(&new));
        if values.iter().filter(|secret| secret.name == name).count() > VALUES_PER_NAME {
            let oldest = values.iter().position(|secret| secret.name == name);
            removed.extend(oldest.and_then(|index| values.remove(index)));
        }
        if values.len() > MAX_VALUES_PER_PROJECT {
            removed.extend(values.remove(eviction_index(values)));
        }
        for secret in removed {
            self.remove(&secret);
        }
        self.index(project, &new);
    }

    fn index(&mut self, project: ProjectId, secret: &Arc<IndexedSecret>) {
        self.starts.resize(1 << 10, 0);
        for (bytes, revealing_bytes) in forms::encoded_forms(&secret.value) {
            let Some(start) = bytes.first_chunk::<MIN_SECRET_BYTES>().copied() else { continue };
            let pair = prefix_bucket(&start);
            self.starts[pair / 64] |= 1 << (pair % 64);
            self.forms.entry(start).or_default().push(Form {
                project,
                secret: Arc::clone(secret),
                bytes,
                revealing_bytes,
            });
        }
    }

    fn remove(&mut self, secret: &Arc<IndexedSecret>) {
        for bytes in forms::encoded_forms(&secret.value).into_keys() {
            let Some(start) = bytes.first_chunk::<MIN_SECRET_BYTES>() else { continue };
            if let Some(forms) = self.forms.get_mut(start) {
                forms.retain(|form| !Arc::ptr_eq(&form.secret, secret));
                if forms.is_empty() {
                    self.forms.remove(start);
                }
            }
        }
    }

    /// Returns the hits in the order of the text. They do not overlap.
    pub fn find_all(&self, text: &[u8], projects: ProjectFilter) -> Vec<Hit<'_>> {
        let (mut hits, mut position) = (Vec::new(), 0);
        while position + MIN_SECRET_BYTES <= text.len() {
            match self.longest_match(&text[position..], projects) {
                Some((secret, length)) => {
                    let (name, value) = (secret.name.as_str(), secret.value.as_str());
                    hits.push(Hit { start: position, end: position + length, name, value });
                    position += length;
                }
                None => position += 1,
            }
        }
        hits
    }

    /// Returns the name of the secret that equals a number.
    pub fn find_number(&self, digits: &str, projects: ProjectFilter) -> Option<&str> {
        let forms = self.forms.get(digits.as_bytes().first_chunk::<MIN_SECRET_BYTES>()?)?;
        let same = |form: &&Form| projects.includes(form) && form.bytes == digits.as_bytes();
        forms
            .iter()
            .find(same)
            .filter(|_| digits.len() >= MIN_NUMBER_DIGITS)
            .map(|form| form.secret.name.as_str())
    }

    /// Returns the secret at the start of a text, and the length of the match.
    fn longest_match(&self, text: &[u8], projects: ProjectFilter) -> Option<(&IndexedSecret, usize)> {
        let start = text.first_chunk::<MIN_SECRET_BYTES>()?;
        let pair = prefix_bucket(start);
        if self.starts.get(pair / 64)? & (1 << (pair % 64)) == 0 {
            return None;
        }
        let candidates = self.forms.get(start)?.iter().filter(|form| projects.includes(form));
        candidates
            .filter_map(|form| {
                let same = form.bytes.iter().zip(text).take_while(|(a, b)| a == b).count();
                match same == form.bytes.len() {
                    true => Some((form.secret.as_ref(), same)),
                    false if same >= form.revealing_bytes => {
                        Some((form.secret.as_ref(), char_boundary(text, same)))
                    }
                    false => None,
                }
            })
            .max_by_key(|(_, length)| *length)
    }
}

/// Returns the index of the value to drop first: the oldest that was replaced, or else the oldest.
fn eviction_index(values: &VecDeque<Arc<IndexedSecret>>) -> usize {
    let mut later = HashSet::new();
    let replaced = values.iter().enumerate().rev().filter(|(_, secret)| !later.insert(secret.name.as_str()));
    replaced.last().map_or(0, |(index, _)| index)
}

fn prefix_bucket(start: &[u8; MIN_SECRET_BYTES]) -> usize {
    usize::from(u16::from_be_bytes([start[0], start[1]]))
}

/// Shortens a partial match so that it ends neither inside a character nor inside an escape. The
/// remaining text would otherwise be invalid UTF-8 or invalid JSON.
fn char_boundary(text: &[u8], mut length: usize) -> usize {
    while length > 1 && text[length - 1] == b'\\' {
        length -= 1;
    }
    while length > 1 && text.get(length).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {
        length -= 1;
    }
    length
}
