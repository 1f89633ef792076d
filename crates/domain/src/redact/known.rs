//! The values that must not pass, and where a text holds one.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use super::{SHORTEST, forms};
use crate::ids::ProjectId;

/// A beginning this long gives a secret away, however long the whole is.
const TELLING: usize = 64;
/// A value that was replaced may still be under way; those before it are forgotten.
const KEPT: usize = 3;

type Owner = (ProjectId, String);

#[derive(Default)]
pub(super) struct Known {
    values: HashMap<Owner, VecDeque<String>>,
    forms: Vec<Form>,
    /// Which forms begin with these bytes.
    by_start: HashMap<[u8; SHORTEST], Vec<usize>>,
    /// Which pairs of bytes begin a form, a bit each: nearly every place in a text is settled here.
    starts: Vec<u64>,
}

struct Form {
    name: Arc<str>,
    bytes: Vec<u8>,
}

/// Where a text holds a secret.
pub(super) struct Hit<'a> {
    pub start: usize,
    pub end: usize,
    pub name: &'a str,
}

impl Known {
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    pub fn knows(&self, owner: &Owner, value: &str) -> bool {
        self.values.get(owner).is_some_and(|values| values.iter().any(|one| one == value))
    }

    pub fn learn(&mut self, owner: Owner, value: &str) {
        if self.knows(&owner, value) {
            return;
        }
        let name = owner.1.clone();
        let values = self.values.entry(owner).or_default();
        values.push_back(value.to_owned());
        if values.len() <= KEPT {
            return self.index(&name, value);
        }
        values.pop_front();
        (self.forms, self.by_start, self.starts) = Default::default();
        let values = std::mem::take(&mut self.values);
        for ((_, name), values) in &values {
            values.iter().for_each(|value| self.index(name, value));
        }
        self.values = values;
    }

    fn index(&mut self, name: &str, value: &str) {
        let name: Arc<str> = name.into();
        self.starts.resize(1 << 10, 0);
        for bytes in forms::of(value) {
            let Some(start) = bytes.first_chunk::<SHORTEST>().copied() else { continue };
            let pair = pair(&start);
            self.starts[pair / 64] |= 1 << (pair % 64);
            self.by_start.entry(start).or_default().push(self.forms.len());
            self.forms.push(Form { name: Arc::clone(&name), bytes });
        }
    }

    /// In the order of the text; none overlaps another.
    pub fn hits(&self, text: &[u8]) -> Vec<Hit<'_>> {
        let (mut hits, mut at) = (Vec::new(), 0);
        while at + SHORTEST <= text.len() {
            match self.longest(&text[at..]) {
                Some((name, length)) => {
                    hits.push(Hit { start: at, end: at + length, name });
                    at += length;
                }
                None => at += 1,
            }
        }
        hits
    }

    /// The secret a text begins with, and how much of the text is it.
    fn longest(&self, text: &[u8]) -> Option<(&str, usize)> {
        let start = text.first_chunk::<SHORTEST>()?;
        let pair = pair(start);
        if self.starts[pair / 64] & (1 << (pair % 64)) == 0 {
            return None;
        }
        let candidates = self.by_start.get(start)?.iter().map(|at| &self.forms[*at]);
        candidates
            .filter_map(|form| {
                let same = form.bytes.iter().zip(text).take_while(|(a, b)| a == b).count();
                // What was cut off on its way is nearly as good as the whole to whoever finds it.
                match same == form.bytes.len() {
                    true => Some((&*form.name, same)),
                    false if same >= TELLING || same * 4 >= form.bytes.len() * 3 => {
                        Some((&*form.name, whole_letters(text, same)))
                    }
                    false => None,
                }
            })
            .max_by_key(|(_, length)| *length)
    }
}

fn pair(start: &[u8; SHORTEST]) -> usize {
    usize::from(u16::from_be_bytes([start[0], start[1]]))
}

/// Where a part ends may be neither inside a letter nor inside its escape: what is left would not
/// be text, or not be JSON.
fn whole_letters(text: &[u8], mut length: usize) -> usize {
    while length > 1 && text[length - 1] == b'\\' {
        length -= 1;
    }
    while length > 1 && text.get(length).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {
        length -= 1;
    }
    length
}
