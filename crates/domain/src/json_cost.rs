//! Estimates what the values of a JSON text cost, without parsing it.
//!
//! A short text can have many values: two bytes (`0,`) become a value of 32 bytes, and seven (`{"":0},`) a map of
//! more than 600. So the number of values is limited, and their memory is counted, before anything is allocated.

/// The memory of a map with its first entries.
const MAP_BYTES: usize = 650;
/// The memory of a list with its first items.
const LIST_BYTES: usize = 150;
/// The memory of a further item or entry.
const ITEM_BYTES: usize = 100;

/// The estimated cost of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonCost {
    /// The number of values: of lists, of maps, and of what is behind a comma.
    pub values: usize,
    /// The memory that the values need besides their text.
    pub bytes: usize,
}

impl JsonCost {
    /// Counts commas and opening brackets outside strings. The text need not be valid.
    pub fn estimate(text: &[u8]) -> Self {
        let (mut maps, mut lists, mut items) = (0, 0, 0);
        let (mut is_in_string, mut is_escaped) = (false, false);
        for byte in text {
            match (is_in_string, byte) {
                (true, _) if is_escaped => is_escaped = false,
                (true, b'\\') => is_escaped = true,
                (_, b'"') => is_in_string = !is_in_string,
                (true, _) => {}
                (false, b'{') => maps += 1,
                (false, b'[') => lists += 1,
                (false, b',') => items += 1,
                (false, _) => {}
            }
        }
        Self {
            values: maps + lists + items,
            bytes: maps * MAP_BYTES + lists * LIST_BYTES + items * ITEM_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_strings() {
        for (text, values) in [
            ("", 0),
            ("1", 0),
            (r#""a,[{b""#, 0),
            (r#"{"a":1}"#, 1),
            (r#"{"a":[0,0,0],"b":{}}"#, 6),
            (r#"["\\",",","\","]"#, 3),
            ("[[[[", 4),
        ] {
            assert_eq!(JsonCost::estimate(text.as_bytes()).values, values, "{text}");
        }
    }
}
