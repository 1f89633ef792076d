//! Parses the table that maps the codes of a font to characters.
//!
//! The PDF library can parse it too, but it expands every code of a range, and a range may contain
//! four billion codes.

use std::collections::BTreeMap;

/// A `ToUnicode` map (ISO 32000-1, 9.10.3).
#[derive(Debug, Default)]
pub(super) struct CMap {
    /// Maps the first code of a range to its last code and to the character of the first code in
    /// UTF-16. The characters of the other codes follow consecutively.
    ranges: BTreeMap<u32, (u32, Vec<u16>)>,
}

impl CMap {
    /// Parses the map, and skips what it does not understand.
    pub fn parse(source: &[u8]) -> CMap {
        let mut map = CMap::default();
        let mut section = Section::None;
        let mut operands: Vec<Operand> = Vec::new();
        for token in Tokens(source) {
            match token {
                Token::Word(b"beginbfchar") => section = Section::Chars,
                Token::Word(b"beginbfrange") => section = Section::Ranges,
                Token::Word(_) => section = Section::None,
                Token::Hex(bytes) => match operands.last_mut() {
                    Some(Operand::List { items, open: true }) => items.push(bytes),
                    _ => operands.push(Operand::One(bytes)),
                },
                Token::ListBegin => operands.push(Operand::List { items: Vec::new(), open: true }),
                Token::ListEnd => {
                    if let Some(Operand::List { open, .. }) = operands.last_mut() {
                        *open = false;
                    }
                }
            }
            if section.take_operands(&mut operands, &mut map) {
                operands.clear();
            }
        }
        map
    }

    /// Maps the codes from `first` to `last` to characters in UTF-16, starting with `target`.
    fn insert(&mut self, first: &[u8], last: &[u8], target: &[u8]) {
        let (first, last) = (code(first), code(last));
        let target = target.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
        let target: Vec<u16> = target.collect();
        if last >= first && !target.is_empty() {
            self.ranges.insert(first, (last, target));
        }
    }

    /// Appends the characters of a code. Returns false if the map does not contain the code.
    pub fn write(&self, code: u32, out: &mut String) -> bool {
        let Some((first, (last, target))) = self.ranges.range(..=code).next_back() else {
            return false;
        };
        if code > *last {
            return false;
        }
        let (last_unit, leading_units) = target.split_last().unwrap_or((&0, &[]));
        let last_unit = u32::from(*last_unit).wrapping_add(code - first) as u16;
        let units = leading_units.iter().copied().chain([last_unit]);
        out.extend(char::decode_utf16(units).map_while(Result::ok));
        true
    }
}

fn code(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte))
}

/// The section of the source that contains the current operands.
#[derive(Clone, Copy)]
enum Section {
    None,
    Chars,
    Ranges,
}

/// A hexadecimal string, or a list of them that is open until its `]`.
enum Operand {
    One(Vec<u8>),
    List { items: Vec<Vec<u8>>, open: bool },
}

impl Section {
    /// Uses the operands if they are complete. Returns true if they can be discarded.
    fn take_operands(self, operands: &mut [Operand], map: &mut CMap) -> bool {
        match (self, operands) {
            (Section::None, _) => true,
            (Section::Chars, [Operand::One(code), Operand::One(target)]) => {
                map.insert(code, code, target);
                true
            }
            (Section::Ranges, [Operand::One(first), Operand::One(last), Operand::One(target)]) => {
                map.insert(first, last, target);
                true
            }
            (
                Section::Ranges,
                [Operand::One(first), Operand::One(_), Operand::List { items, open: false }],
            ) => {
                for (index, target) in (0..).zip(items) {
                    let code = code(first).wrapping_add(index).to_be_bytes();
                    map.insert(&code, &code, target);
                }
                true
            }
            (_, operands) => operands.len() >= 3 && !matches!(operands[2], Operand::List { open: true, .. }),
        }
    }
}

enum Token<'a> {
    Hex(Vec<u8>),
    ListBegin,
    ListEnd,
    Word(&'a [u8]),
}

/// Iterates over the tokens that matter for the map.
struct Tokens<'a>(&'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let (&first, rest) = self.0.split_first()?;
            match first {
                b'[' => {
                    self.0 = rest;
                    return Some(Token::ListBegin);
                }
                b']' => {
                    self.0 = rest;
                    return Some(Token::ListEnd);
                }
                b'<' if rest.first().is_some_and(|next| *next != b'<') => {
                    let inside = self.take_while(1, |byte| byte != b'>');
                    return Some(Token::Hex(hex(inside)));
                }
                b'%' => {
                    self.take_while(0, |byte| byte != b'\n' && byte != b'\r');
                }
                byte if byte.is_ascii_alphabetic() => {
                    let word = self.take_while(0, |byte| byte.is_ascii_alphanumeric());
                    return Some(Token::Word(word));
                }
                _ => self.0 = rest,
            }
        }
    }
}

impl<'a> Tokens<'a> {
    /// Skips some bytes, then takes those that satisfy the condition.
    fn take_while(&mut self, skip: usize, matches: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = &self.0[skip..];
        let end = rest.iter().position(|byte| !matches(*byte)).unwrap_or(rest.len());
        self.0 = &rest[end..];
        &rest[..end]
    }
}

fn hex(digits: &[u8]) -> Vec<u8> {
    let digits = digits.iter().filter_map(|digit| char::from(*digit).to_digit(16));
    let digits: Vec<u8> = digits.map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, codes: &[u32], expected: &str) {
        let map = CMap::parse(source.as_bytes());
        let mut text = String::new();
        for code in codes {
            if !map.write(*code, &mut text) {
                text.push('?');
            }
        }
        assert_eq!(text, expected, "{source}");
    }

    #[test]
    fn characters_ranges_and_lists_are_parsed() {
        let source = "/CIDInit /ProcSet findresource begin\n\
            1 begincodespacerange <0000> <FFFF> endcodespacerange\n\
            2 beginbfchar <01> <0041> <0002><00660066> endbfchar % f f\n\
            2 beginbfrange <10> <12> <0061>\n<20> <21> [<0078> <D83DDE00>] endbfrange";
        check(source, &[1, 2, 0x10, 0x12, 0x13, 0x20, 0x21], "Affac?x😀");
    }

    #[test]
    fn a_huge_range_is_not_expanded() {
        check("beginbfrange <00000000> <FFFFFFFF> <0041> endbfrange", &[0, 1, u32::MAX], "AB@");
    }

    #[test]
    fn malformed_input_is_skipped() {
        check("beginbfchar [ [ <41> beginbfrange <1> <2", &[1], "?");
        check("beginbfrange <01> [<0041>] <0042> <05> <05> <0043> endbfrange", &[5], "C");
    }
}
