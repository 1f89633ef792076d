//! The values that must not pass, and where a text holds one.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::{SHORTEST, forms};
use crate::ids::ProjectId;

/// A value that was replaced may still be under way; those before it are forgotten.
const KEPT: usize = 3;
/// Values of one project: twice as many as it can have secrets.
const MOST: usize = 2_000;
/// A shorter number is too likely to be just that number.
const NUMBER: usize = 8;

#[derive(Default)]
pub(super) struct Known {
    /// The values of each project, the oldest first.
    projects: HashMap<ProjectId, VecDeque<Arc<Learnt>>>,
    /// The forms that begin with these bytes.
    forms: HashMap<[u8; SHORTEST], Vec<Form>>,
    /// Which pairs of bytes begin a form, a bit each: nearly every place in a text is settled here.
    /// A bit outlives its forms, which costs a look among them and nothing else.
    starts: Vec<u64>,
}

struct Learnt {
    name: String,
    value: String,
}

struct Form {
    project: ProjectId,
    of: Arc<Learnt>,
    bytes: Vec<u8>,
    /// How many of its first bytes are as good as all of them.
    telling: usize,
}

/// Whose secrets are looked for.
#[derive(Clone, Copy, Default)]
pub(super) enum Whose {
    #[default]
    Everybodys,
    Of(ProjectId),
}

impl Whose {
    fn includes(self, form: &Form) -> bool {
        match self {
            Whose::Everybodys => true,
            Whose::Of(project) => form.project == project,
        }
    }
}

/// Where a text holds a secret.
pub(super) struct Hit<'a> {
    pub start: usize,
    pub end: usize,
    pub name: &'a str,
}

impl Known {
    pub fn has_none(&self, whose: Whose) -> bool {
        match whose {
            Whose::Everybodys => self.forms.is_empty(),
            Whose::Of(project) => !self.projects.contains_key(&project),
        }
    }

    /// Whether this is the last value that was learnt under the name.
    pub fn knows(&self, project: ProjectId, name: &str, value: &str) -> bool {
        let latest = self.projects.get(&project).and_then(|all| all.iter().rfind(|one| one.name == name));
        latest.is_some_and(|one| one.value == value)
    }

    pub fn learn(&mut self, project: ProjectId, name: &str, value: &str) {
        if self.knows(project, name, value) {
            return;
        }
        let new = Arc::new(Learnt { name: name.to_owned(), value: value.to_owned() });
        let all = self.projects.entry(project).or_default();
        let mut gone = Vec::new();
        // A value that comes back is the newest again.
        if let Some(at) = all.iter().position(|one| one.name == name && one.value == value) {
            gone.extend(all.remove(at));
        }
        all.push_back(Arc::clone(&new));
        if all.iter().filter(|one| one.name == name).count() > KEPT {
            let oldest = all.iter().position(|one| one.name == name);
            gone.extend(oldest.and_then(|at| all.remove(at)));
        }
        if all.len() > MOST {
            gone.extend(all.remove(dispensable(all)));
        }
        for one in gone {
            self.forget(&one);
        }
        self.index(project, &new);
    }

    fn index(&mut self, project: ProjectId, of: &Arc<Learnt>) {
        self.starts.resize(1 << 10, 0);
        for (bytes, telling) in forms::of(&of.value) {
            let Some(start) = bytes.first_chunk::<SHORTEST>().copied() else { continue };
            let pair = pair(&start);
            self.starts[pair / 64] |= 1 << (pair % 64);
            self.forms.entry(start).or_default().push(Form { project, of: Arc::clone(of), bytes, telling });
        }
    }

    fn forget(&mut self, one: &Arc<Learnt>) {
        for bytes in forms::of(&one.value).into_keys() {
            let Some(start) = bytes.first_chunk::<SHORTEST>() else { continue };
            if let Some(forms) = self.forms.get_mut(start) {
                forms.retain(|form| !Arc::ptr_eq(&form.of, one));
                if forms.is_empty() {
                    self.forms.remove(start);
                }
            }
        }
    }

    /// In the order of the text; none overlaps another.
    pub fn hits(&self, text: &[u8], whose: Whose) -> Vec<Hit<'_>> {
        let (mut hits, mut at) = (Vec::new(), 0);
        while at + SHORTEST <= text.len() {
            match self.longest(&text[at..], whose) {
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
    pub fn number(&self, digits: &str, whose: Whose) -> Option<&str> {
        let forms = self.forms.get(digits.as_bytes().first_chunk::<SHORTEST>()?)?;
        let same = |form: &&Form| whose.includes(form) && form.bytes == digits.as_bytes();
        forms.iter().find(same).filter(|_| digits.len() >= NUMBER).map(|form| form.of.name.as_str())
    }

    /// The secret a text begins with, and how much of the text is it.
    fn longest(&self, text: &[u8], whose: Whose) -> Option<(&str, usize)> {
        let start = text.first_chunk::<SHORTEST>()?;
        let pair = pair(start);
        if self.starts.get(pair / 64)? & (1 << (pair % 64)) == 0 {
            return None;
        }
        let candidates = self.forms.get(start)?.iter().filter(|form| whose.includes(form));
        candidates
            .filter_map(|form| {
                let same = form.bytes.iter().zip(text).take_while(|(a, b)| a == b).count();
                match same == form.bytes.len() {
                    true => Some((form.of.name.as_str(), same)),
                    false if same >= form.telling => Some((form.of.name.as_str(), whole_letters(text, same))),
                    false => None,
                }
            })
            .max_by_key(|(_, length)| *length)
    }
}

/// Which value to forget first: the oldest that another took the place of, or else the oldest.
fn dispensable(all: &VecDeque<Arc<Learnt>>) -> usize {
    let mut later = HashSet::new();
    let replaced = all.iter().enumerate().rev().filter(|(_, one)| !later.insert(one.name.as_str()));
    replaced.last().map_or(0, |(at, _)| at)
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
