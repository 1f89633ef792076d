//! The forms a secret takes on its way.

use std::collections::BTreeSet;

use base64::{
    Engine,
    prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};

use super::SHORTEST;

/// A line of a longer secret is a secret of its own from this length on: programs log by lines.
const LINE: usize = 16;

/// Each form once.
pub(super) fn of(value: &str) -> BTreeSet<Vec<u8>> {
    let mut all = BTreeSet::new();
    for part in parts(value) {
        all.insert(part.as_bytes().to_vec());
        // As a form of a page sends it.
        all.insert(part.replace(' ', "+").into_bytes());
        all.extend((0..3).flat_map(|shift| base64(part, shift)));
    }
    all.retain(|form| form.len() >= SHORTEST);
    all
}

/// The whole, the whole without what stands around it, and its lines.
fn parts(value: &str) -> BTreeSet<&str> {
    let lines = value.lines().map(str::trim).filter(|line| line.len() >= LINE && !line.starts_with("-----"));
    lines.chain([value, value.trim()]).filter(|part| part.len() >= SHORTEST).collect()
}

/// What is certain of the base64 of a text in which `shift` bytes (and any number of three) stand
/// before this one: letters that also hold bits of its neighbours are left out.
fn base64(text: &str, shift: usize) -> [Vec<u8>; 2] {
    let mut bytes = vec![0; shift];
    bytes.extend_from_slice(text.as_bytes());
    let (from, to) = ((shift * 8).div_ceil(6), bytes.len() * 8 / 6);
    [BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD]
        .map(|engine| engine.encode(&bytes).as_bytes()[from..to].to_vec())
}
