//! Messages of parsers in the words of JSON. Deserialisers name the Rust types that they read into, such as `usize` or
//! `struct Question`, which say nothing to somebody who writes a file or a request.

/// The Rust types that a message may expect, and what they are in JSON.
const TYPES: [(&str, &str); 16] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u64", "a whole number, 0 or more"),
    ("usize", "a whole number, 0 or more"),
    ("a nonzero u64", "a whole number, 1 or more"),
    ("i8", "a whole number"),
    ("i16", "a whole number"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i64", "a whole number"),
    ("isize", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a sequence", "a list"),
    ("a map", "an object"),
];

/// The message with the types of JSON in place of those of Rust. Only what the parser expected and found is replaced,
/// and never the text that it quotes.
pub fn in_plain_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let found = match found.strip_suffix("invalid type: map") {
        Some(before) => format!("{before}invalid type: object"),
        None => match found.strip_suffix("invalid type: sequence") {
            Some(before) => format!("{before}invalid type: list"),
            None => found.to_owned(),
        },
    };
    let expected = expected_type(expected).unwrap_or_else(|| expected.to_owned());
    format!("{found}, expected {expected}")
}

/// What was expected in the words of JSON, with what follows it in the message; `None` if it is no Rust type.
fn expected_type(expected: &str) -> Option<String> {
    let structure = expected.strip_prefix("struct variant ").or_else(|| expected.strip_prefix("struct "));
    if let Some(name) = structure {
        let end = name.find(char::is_whitespace).unwrap_or(name.len());
        return Some(format!("an object{}", &name[end..]));
    }
    TYPES.iter().find_map(|(name, plain)| {
        let rest = expected.strip_prefix(*name)?;
        let is_longer_word = rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        (!is_longer_word).then(|| format!("{plain}{rest}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_rust_are_those_of_json() {
        for (message, expected) in [
            ("invalid type: string \"3\", expected f64", "invalid type: string \"3\", expected a number"),
            (
                "invalid type: string \"x\", expected usize at line 2 column 7",
                "invalid type: string \"x\", expected a whole number, 0 or more at line 2 column 7",
            ),
            ("invalid type: map, expected a sequence", "invalid type: object, expected a list"),
            ("invalid type: sequence, expected a map", "invalid type: list, expected an object"),
            ("invalid type: null, expected struct Question", "invalid type: null, expected an object"),
            (
                "invalid type: null, expected struct variant Step::Ask",
                "invalid type: null, expected an object",
            ),
            (
                "invalid value: integer `-1`, expected u8\nin `max-runs`",
                "invalid value: integer `-1`, expected a whole number from 0 to 255\nin `max-runs`",
            ),
        ] {
            assert_eq!(in_plain_words(message), expected);
        }
    }

    #[test]
    fn all_else_of_a_message_stays() {
        for message in [
            "invalid type: string \", expected usize\", expected a string",
            "unknown variant `u8`, expected `u8x` or `a map`",
            "invalid value, expected u8x",
            "invalid type: integer `1`, expected a string",
            "missing field `name`",
        ] {
            assert_eq!(in_plain_words(message), message);
        }
    }
}
