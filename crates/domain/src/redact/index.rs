//! The values that must not pass, and where a text holds one.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::{MIN_SECRET_BYTES, forms};
use crate::ids::ProjectId;

/// A value that was replaced may still be under way; those before it are forgotten.
const VALUES_PER_NAME: usize = 3;
/// Values of one project: twice as many as it can have secrets.
const MAX_VALUES_PER_PROJECT: usize = 2_000;
/// A shorter number is too likely to be just that number.
const MIN_NUMBER_DIGITS: usize = 8;

#[derive(Default)]
pub(super) struct SecretIndex {
    /// The values of each project, the oldest first.
    projects: HashMap<ProjectId, VecDeque<Arc<IndexedSecret>>>,
    /// The forms that begin with these bytes.
    forms: HashMap<[u8; MIN_SECRET_BYTES], Vec<Form>>,
    /// Which pairs of bytes begin a form, a bit each: nearly every place in a text is settled here.
    /// A bit outlives its forms, which costs a look among them and nothing else.
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
    /// How many of its first bytes are as good as all of them.
    revealing_bytes: usize,
}

/// Whose secrets are looked for.
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

/// Where a text holds a secret.
pub(super) struct Hit<'a> {
    pub start: usize,
    pub end: usize,
    pub name: &'a str,
}

impl SecretIndex {
    pub fn is_empty_for(&self, whose: ProjectFilter) -> bool {
        match whose {
            ProjectFilter::All => self.forms.is_empty(),
            ProjectFilter::Only(project) => !self.projects.contains_key(&project),
        }
    }

    /// Whether this is the last value that was learnt under the name.
    pub fn has_current(&self, project: ProjectId, name: &str, value: &str) -> bool {
        let latest = self.projects.get(&project).and_then(|all| all.iter().rfind(|one| one.name == name));
        latest.is_some_and(|one| one.value == value)
    }

    pub fn insert(&mut self, project: ProjectId, name: &str, value: &str) {
        if self.has_current(project, name, value) {
            return;
        }
        let new = Arc::new(IndexedSecret { name: name.to_owned(), value: value.to_owned() });
        let all = self.projects.entry(project).or_default();
        let mut gone = Vec::new();
        // A value that comes back is the newest again.
        if let Some(at) = all.iter().position(|one| one.name == name && one.value == value) {
            gone.extend(all.remove(at));
        }
        all.push_back(Arc::clone(&new));
        if all.iter().filter(|one| one.name == name).count() > VALUES_PER_NAME {
            let oldest = all.iter().position(|one| one.name == name);
            gone.extend(oldest.and_then(|at| all.remove(at)));
        }
        if all.len() > MAX_VALUES_PER_PROJECT {
            gone.extend(all.remove(eviction_index(all)));
        }
        for one in gone {
            self.remove(&one);
        }
        self.index(project, &new);
    }

    fn index(&mut self, project: ProjectId, of: &Arc<IndexedSecret>) {
        self.starts.resize(1 << 10, 0);
        for (bytes, telling) in forms::encoded_forms(&of.value) {
            let Some(start) = bytes.first_chunk::<MIN_SECRET_BYTES>().copied() else { continue };
            let pair = prefix_bucket(&start);
            self.starts[pair / 64] |= 1 << (pair % 64);
            self.forms.entry(start).or_default().push(Form {
                project,
                secret: Arc::clone(of),
                bytes,
                revealing_bytes: telling,
            });
        }
    }

    fn remove(&mut self, one: &Arc<IndexedSecret>) {
        for bytes in forms::encoded_forms(&one.value).into_keys() {
            let Some(start) = bytes.first_chunk::<MIN_SECRET_BYTES>() else { continue };
            if let Some(forms) = self.forms.get_mut(start) {
                forms.retain(|form| !Arc::ptr_eq(&form.secret, one));
                if forms.is_empty() {
                    self.forms.remove(start);
                }
            }
        }
    }

    /// In the order of the text; none overlaps another.
    pub fn find_all(&self, text: &[u8], whose: ProjectFilter) -> Vec<Hit<'_>> {
        let (mut hits, mut at) = (Vec::new(), 0);
        while at + MIN_SECRET_BYTES <= text.len() {
            match self.longest_match(&text[at..], whose) {
                Some((name, length)) => {
                    hits.push(Hit { start: at, end: at + length, name });
                    at += length;
                }
                None => at += 1,
            }
        }
        hits
    }

    /// The name of the secret that a number as a whole is.
    pub fn find_number(&self, digits: &str, whose: ProjectFilter) -> Option<&str> {
        let forms = self.forms.get(digits.as_bytes().first_chunk::<MIN_SECRET_BYTES>()?)?;
        let same = |form: &&Form| whose.includes(form) && form.bytes == digits.as_bytes();
        forms
            .iter()
            .find(same)
            .filter(|_| digits.len() >= MIN_NUMBER_DIGITS)
            .map(|form| form.secret.name.as_str())
    }

    /// The secret a text begins with, and how much of the text is it.
    fn longest_match(&self, text: &[u8], whose: ProjectFilter) -> Option<(&str, usize)> {
        let start = text.first_chunk::<MIN_SECRET_BYTES>()?;
        let pair = prefix_bucket(start);
        if self.starts.get(pair / 64)? & (1 << (pair % 64)) == 0 {
            return None;
        }
        let candidates = self.forms.get(start)?.iter().filter(|form| whose.includes(form));
        candidates
            .filter_map(|form| {
                let same = form.bytes.iter().zip(text).take_while(|(a, b)| a == b).count();
                match same == form.bytes.len() {
                    true => Some((form.secret.name.as_str(), same)),
                    false if same >= form.revealing_bytes => {
                        Some((form.secret.name.as_str(), char_boundary(text, same)))
                    }
                    false => None,
                }
            })
            .max_by_key(|(_, length)| *length)
    }
}

/// Which value to forget first: the oldest that another took the place of, or else the oldest.
fn eviction_index(all: &VecDeque<Arc<IndexedSecret>>) -> usize {
    let mut later = HashSet::new();
    let replaced = all.iter().enumerate().rev().filter(|(_, one)| !later.insert(one.name.as_str()));
    replaced.last().map_or(0, |(at, _)| at)
}

fn prefix_bucket(start: &[u8; MIN_SECRET_BYTES]) -> usize {
    usize::from(u16::from_be_bytes([start[0], start[1]]))
}

/// Where a part ends may be neither inside a letter nor inside its escape: what is left would not
/// be text, or not be JSON.
fn char_boundary(text: &[u8], mut length: usize) -> usize {
    while length > 1 && text[length - 1] == b'\\' {
        length -= 1;
    }
    while length > 1 && text.get(length).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {
        length -= 1;
    }
    length
}
