//! The index of secret values, and the search for them in a text.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::Arc,
};

use super::{MIN_SECRET_BYTES, forms};
use crate::ids::ProjectId;

/// How many values of each name are remembered besides those that are held. A replaced value may still be
/// in use somewhere; older ones are dropped.
const VALUES_PER_NAME: usize = 3;
/// How many values of one project are remembered: twice as many as it can have secrets. Values that are held
/// are kept beyond this.
const MAX_VALUES_PER_PROJECT: usize = 2_000;
/// How many bytes of matches inside other matches are compared in one text. Only a secret that repeats itself
/// needs more.
const MAX_OVERLAP_BYTES: usize = 1 << 20;
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

pub(super) struct IndexedSecret {
    name: String,
    value: String,
    /// Shared with everybody who holds the secret.
    holders: Arc<()>,
}

impl IndexedSecret {
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.holders) > 1
    }
}

/// A value that somebody still uses, such as an open connection that has sent it. The redactor remembers the
/// value as long as this exists.
#[derive(Clone)]
pub struct HeldSecret {
    secret: Arc<IndexedSecret>,
    _holder: Arc<()>,
}

impl HeldSecret {
    fn new(secret: &Arc<IndexedSecret>) -> Self {
        Self { secret: Arc::clone(secret), _holder: Arc::clone(&secret.holders) }
    }

    /// Whether both hold the same value of the same secret.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.secret, &other.secret)
    }
}

impl fmt::Debug for HeldSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldSecret({})", self.secret.name)
    }
}

struct Form {
    project: ProjectId,
    secret: Arc<IndexedSecret>,
    bytes: Vec<u8>,
    /// The length of the prefix that reveals the secret.
    revealing_bytes: usize,
}

/// Selects the secrets that are searched for.
#[derive(Clone, Default)]
pub(super) enum SecretFilter {
    #[default]
    All,
    Project(ProjectId),
    /// Only these.
    Held(Arc<[HeldSecret]>),
}

impl SecretFilter {
    fn includes(&self, form: &Form) -> bool {
        match self {
            SecretFilter::All => true,
            SecretFilter::Project(project) => form.project == *project,
            SecretFilter::Held(held) => held.iter().any(|one| Arc::ptr_eq(&one.secret, &form.secret)),
        }
    }
}

/// An occurrence of a secret in a text.
pub(super) struct Hit<'a> {
    pub start: usize,
    pub end: usize,
    pub name: &'a str,
    /// The whole value of the secret; empty for a part of a text that is left out as a whole.
    pub value: &'a str,
}

impl SecretIndex {
    pub fn is_empty_for(&self, filter: &SecretFilter) -> bool {
        match filter {
            SecretFilter::All => self.forms.is_empty(),
            SecretFilter::Project(project) => !self.projects.contains_key(project),
            SecretFilter::Held(held) => held.is_empty(),
        }
    }

    /// Returns the value if it is the newest one of the name.
    pub fn hold_current(&self, project: ProjectId, name: &str, value: &str) -> Option<HeldSecret> {
        let newest = self.projects.get(&project)?.iter().rfind(|secret| secret.name == name)?;
        (newest.value == value).then(|| HeldSecret::new(newest))
    }

    /// Adds a value, which becomes the newest one of the name.
    pub fn insert(&mut self, project: ProjectId, name: &str, value: &str) -> HeldSecret {
        if let Some(current) = self.hold_current(project, name, value) {
            return current;
        }
        let values = self.projects.entry(project).or_default();
        let known = values.iter().position(|secret| secret.name == name && secret.value == value);
        if let Some(known) = known.and_then(|index| values.remove(index)) {
            let held = HeldSecret::new(&known);
            values.push_back(known);
            return held;
        }
        let new = Arc::new(IndexedSecret {
            name: name.to_owned(),
            value: value.to_owned(),
            holders: Arc::default(),
        });
        // The new value is held from here on, so it is not removed at once.
        let held = HeldSecret::new(&new);
        values.push_back(Arc::clone(&new));
        let mut removed = Vec::new();
        loop {
            let is_old = |secret: &Arc<IndexedSecret>| secret.name == name && !secret.is_held();
            // The new value will not be held for ever.
            if values.iter().filter(|secret| is_old(secret)).count() < VALUES_PER_NAME {
                break;
            }
            let oldest = values.iter().position(is_old);
            removed.extend(oldest.and_then(|index| values.remove(index)));
        }
        while values.len() > MAX_VALUES_PER_PROJECT {
            let Some(index) = eviction_index(values) else { break };
            removed.extend(values.remove(index));
        }
        for secret in removed {
            self.remove(&secret);
        }
        self.index(project, &new);
        held
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

    /// Returns the hits in the order of the text. They may overlap: where one secret ends, another one may have
    /// begun before.
    pub fn find_all(&self, text: &[u8], filter: &SecretFilter) -> Vec<Hit<'_>> {
        let mut hits: Vec<Hit<'_>> = Vec::new();
        let (mut covered, mut budget) = (0, MAX_OVERLAP_BYTES);
        for position in 0..(text.len() + 1).saturating_sub(MIN_SECRET_BYTES) {
            let Some((secret, length)) = self.longest_match(&text[position..], filter) else { continue };
            let (name, value, end) = (secret.name.as_str(), secret.value.as_str(), position + length);
            if position < covered {
                if length > budget {
                    // Nobody can tell any more what else is hidden here, so nothing of the rest is shown.
                    hits.push(Hit { start: position, end: text.len(), name, value: "" });
                    break;
                }
                budget -= length;
                if end <= covered && hits.last().is_some_and(|last| last.value == value) {
                    continue;
                }
            }
            hits.push(Hit { start: position, end, name, value });
            covered = covered.max(end);
        }
        hits
    }

    /// Returns the name of the secret that equals a number.
    pub fn find_number(&self, digits: &str, filter: &SecretFilter) -> Option<&str> {
        let forms = self.forms.get(digits.as_bytes().first_chunk::<MIN_SECRET_BYTES>()?)?;
        let same = |form: &&Form| filter.includes(form) && form.bytes == digits.as_bytes();
        forms
            .iter()
            .find(same)
            .filter(|_| digits.len() >= MIN_NUMBER_DIGITS)
            .map(|form| form.secret.name.as_str())
    }

    /// Returns the secret at the start of a text, and the length of the match.
    fn longest_match(&self, text: &[u8], filter: &SecretFilter) -> Option<(&IndexedSecret, usize)> {
        let start = text.first_chunk::<MIN_SECRET_BYTES>()?;
        let pair = prefix_bucket(start);
        if self.starts.get(pair / 64)? & (1 << (pair % 64)) == 0 {
            return None;
        }
        let candidates = self.forms.get(start)?.iter().filter(|form| filter.includes(form));
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

/// Returns the index of the value to drop first: the oldest that was replaced, or else the oldest. `None` if all
/// of them are held.
fn eviction_index(values: &VecDeque<Arc<IndexedSecret>>) -> Option<usize> {
    let mut later = HashSet::new();
    let (mut oldest, mut oldest_replaced) = (None, None);
    for (index, secret) in values.iter().enumerate().rev() {
        let is_replaced = !later.insert(secret.name.as_str());
        if secret.is_held() {
            continue;
        }
        oldest = Some(index);
        if is_replaced {
            oldest_replaced = Some(index);
        }
    }
    oldest_replaced.or(oldest)
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
