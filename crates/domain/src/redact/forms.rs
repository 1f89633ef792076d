//! The encoded forms in which a secret can occur.

use std::collections::{BTreeMap, BTreeSet};

use base64::{
    Engine,
    prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD},
};

use super::MIN_SECRET_BYTES;

/// A line of a longer secret is redacted on its own if it has at least this length, because
/// programs log line by line.
const MIN_LINE_BYTES: usize = 16;
/// The prefix of a shorter form may be an ordinary word, so such a form is redacted only as a
/// whole: `production` does not match `productivity`.
const MIN_PREFIX_BYTES: usize = 16;
/// A prefix of this length reveals a secret, however long the secret is.
const REVEALING_BYTES: usize = 64;

/// Returns each form once, with the length of the prefix that reveals the secret. A truncated
/// secret is nearly as useful to an attacker as the complete one.
pub(super) fn encoded_forms(value: &str) -> BTreeMap<Vec<u8>, usize> {
    let mut all = BTreeMap::new();
    for part in plain_forms(value) {
        // The second form is the one that an HTML form submits.
        let plain = [part.as_bytes().to_vec(), part.replace(' ', "+").into_bytes()];
        for form in plain.into_iter().chain((0..3).flat_map(|shift| base64(part, shift))) {
            let telling = match part.len() < MIN_PREFIX_BYTES {
                true => form.len(),
                false => REVEALING_BYTES.min((form.len() * 3).div_ceil(4)),
            };
            all.entry(form)
                .and_modify(|shortest: &mut usize| *shortest = telling.min(*shortest))
                .or_insert(telling);
        }
    }
    all.retain(|form, _| form.len() >= MIN_SECRET_BYTES);
    all
}

/// Returns the value, the value without surrounding whitespace, and its lines.
fn plain_forms(value: &str) -> BTreeSet<&str> {
    let lines = value
        .lines()
        .map(str::trim)
        .filter(|line| line.len() >= MIN_LINE_BYTES && !line.starts_with("-----"));
    lines.chain([value, value.trim()]).filter(|part| part.len() >= MIN_SECRET_BYTES).collect()
}

/// Returns the part of the base64 encoding that does not depend on the neighbours, if `shift` bytes
/// (modulo three) precede the text. Characters that also encode bits of neighbouring bytes are left
/// out.
fn base64(text: &str, shift: usize) -> [Vec<u8>; 2] {
    let mut bytes = vec![0; shift];
    bytes.extend_from_slice(text.as_bytes());
    let (from, to) = ((shift * 8).div_ceil(6), bytes.len() * 8 / 6);
    [BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD]
        .map(|engine| engine.encode(&bytes).as_bytes()[from..to].to_vec())
}
