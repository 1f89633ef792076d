//! The forms a secret takes on its way.

use std::collections::{BTreeMap, BTreeSet};

use base64::{
    Engine,
    prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};

use super::MIN_SECRET_BYTES;

/// A line of a longer secret is a secret of its own from this length on: programs log by lines.
const MIN_LINE_BYTES: usize = 16;
/// What is shorter may be a word, and words begin alike: `production` is not in `productivity`.
const MIN_PREFIX_BYTES: usize = 16;
/// A beginning this long gives a secret away, however long the whole is.
const REVEALING_BYTES: usize = 64;

/// Each form once, and how many of its first bytes give the secret away: what was cut off on its
/// way is nearly as good as the whole to whoever finds it.
pub(super) fn encoded_forms(value: &str) -> BTreeMap<Vec<u8>, usize> {
    let mut all = BTreeMap::new();
    for part in plain_forms(value) {
        // The second is as a form of a page sends it.
        let plain = [part.as_bytes().to_vec(), part.replace(' ', "+").into_bytes()];
        for form in plain.into_iter().chain((0..3).flat_map(|shift| base64(part, shift))) {
            let telling = match part.len() < MIN_PREFIX_BYTES {
                true => form.len(),
                false => REVEALING_BYTES.min((form.len() * 3).div_ceil(4)),
            };
            all.entry(form).and_modify(|least: &mut usize| *least = telling.min(*least)).or_insert(telling);
        }
    }
    all.retain(|form, _| form.len() >= MIN_SECRET_BYTES);
    all
}

/// The whole, the whole without what stands around it, and its lines.
fn plain_forms(value: &str) -> BTreeSet<&str> {
    let lines = value
        .lines()
        .map(str::trim)
        .filter(|line| line.len() >= MIN_LINE_BYTES && !line.starts_with("-----"));
    lines.chain([value, value.trim()]).filter(|part| part.len() >= MIN_SECRET_BYTES).collect()
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
