//! How the bytes of a case are made.

use proptest::{prelude::*, sample::Index};

use crate::targets::Target;

/// The largest input. A larger one finds nothing new, and the time limit is for this size.
pub const MAX_BYTES: usize = 64 << 10;

/// What the edits start from.
#[derive(Debug, Clone)]
enum Origin {
    Sample(Index),
    Bytes(Vec<u8>),
}

/// One change of the bytes. Positions are fractions of the length.
#[derive(Debug, Clone)]
enum Edit {
    Flip {
        at: Index,
        bit: u8,
    },
    Set {
        at: Index,
        byte: u8,
    },
    Cut {
        from: Index,
        length: usize,
    },
    Truncate {
        at: Index,
    },
    /// Inserts a part of the input again, several times.
    Repeat {
        from: Index,
        length: usize,
        at: Index,
        times: usize,
    },
    Insert {
        token: Index,
        at: Index,
    },
    /// A token many times in a row, as in deeply nested input.
    Nest {
        token: Index,
        at: Index,
        times: usize,
    },
    /// A part of another sample.
    Splice {
        sample: Index,
        from: Index,
        length: usize,
        at: Index,
    },
    Number {
        at: Index,
        value: i64,
    },
}

fn edit() -> impl Strategy<Value = Edit> {
    let index = any::<Index>;
    let interesting = prop_oneof![
        Just(0_i64),
        Just(-1),
        Just(i64::MAX),
        Just(i64::MIN),
        Just(i64::from(u32::MAX)),
        Just(i64::from(i32::MAX)),
        Just(65_536),
        any::<i64>(),
    ];
    prop_oneof![
        3 => (index(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip { at, bit }),
        3 => (index(), any::<u8>()).prop_map(|(at, byte)| Edit::Set { at, byte }),
        2 => (index(), 1..200_usize).prop_map(|(from, length)| Edit::Cut { from, length }),
        1 => index().prop_map(|at| Edit::Truncate { at }),
        2 => (index(), 1..300_usize, index(), 1..40_usize)
            .prop_map(|(from, length, at, times)| Edit::Repeat { from, length, at, times }),
        4 => (index(), index()).prop_map(|(token, at)| Edit::Insert { token, at }),
        1 => (index(), index(), 1..6_000_usize).prop_map(|(token, at, times)| Edit::Nest { token, at, times }),
        2 => (index(), index(), 1..500_usize, index())
            .prop_map(|(sample, from, length, at)| Edit::Splice { sample, from, length, at }),
        2 => (index(), interesting).prop_map(|(at, value)| Edit::Number { at, value }),
    ]
}

/// The inputs of a parser.
pub fn inputs(target: &Target) -> impl Strategy<Value = Vec<u8>> + use<> {
    let (samples, tokens) = ((target.samples)(), target.tokens);
    let origin = prop_oneof![
        6 => any::<Index>().prop_map(Origin::Sample),
        1 => prop::collection::vec(any::<u8>(), 0..400).prop_map(Origin::Bytes),
        1 => "\\PC{0,200}".prop_map(|text| Origin::Bytes(text.into_bytes())),
    ];
    (origin, prop::collection::vec(edit(), 0..12)).prop_map(move |(origin, edits)| {
        let mut bytes = match origin {
            Origin::Sample(index) => index.get(&samples).clone(),
            Origin::Bytes(bytes) => bytes,
        };
        for edit in &edits {
            apply(edit, &mut bytes, &samples, tokens);
            bytes.truncate(MAX_BYTES);
        }
        bytes
    })
}

fn apply(edit: &Edit, bytes: &mut Vec<u8>, samples: &[Vec<u8>], tokens: &[&str]) {
    let length_before = bytes.len();
    let position = |at: &Index| at.index(length_before + 1);
    let range = |from: &Index, length: usize, all: &[u8]| {
        let start = from.index(all.len() + 1);
        all[start..(start + length).min(all.len())].to_vec()
    };
    let (at, inserted) = match edit {
        Edit::Flip { at, bit } => return change(bytes, at, |byte| *byte ^= 1 << bit),
        Edit::Set { at, byte: value } => return change(bytes, at, |byte| *byte = *value),
        Edit::Cut { from, length } => {
            let start = position(from);
            bytes.drain(start..(start + length).min(length_before));
            return;
        }
        Edit::Truncate { at } => return bytes.truncate(position(at)),
        Edit::Repeat { from, length, at, times } => (at, range(from, *length, bytes).repeat(*times)),
        Edit::Insert { token, at } => (at, token.get(tokens).as_bytes().to_vec()),
        Edit::Nest { token, at, times } => (at, token.get(tokens).as_bytes().repeat(*times)),
        Edit::Splice { sample, from, length, at } => {
            (at, range(from, *length, sample.get::<Vec<u8>>(samples)))
        }
        Edit::Number { at, value } => (at, value.to_string().into_bytes()),
    };
    let at = position(at);
    bytes.splice(at..at, inserted.into_iter().take(MAX_BYTES));
}

fn change(bytes: &mut [u8], at: &Index, change: impl FnOnce(&mut u8)) {
    if !bytes.is_empty() {
        let at = at.index(bytes.len());
        change(&mut bytes[at]);
    }
}
