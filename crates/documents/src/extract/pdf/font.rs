//! [`Font`] maps the codes of a PDF string to characters and widths.

use std::collections::BTreeMap;

use lopdf::{Dictionary, Document, Encoding, Object};

use super::cmap::CMap;
use super::{dictionary, number};

/// A font of a page.
pub(super) struct Font<'a> {
    decoding: Decoding<'a>,
    widths: Widths,
    /// Type 0 fonts have codes of two bytes, and all others of one byte.
    composite: bool,
}

/// How codes become characters.
enum Decoding<'a> {
    ToUnicode(CMap),
    Table(Encoding<'a>),
    /// The font has a built-in encoding, which is assumed to be the standard one.
    BuiltIn(Encoding<'a>),
    /// The codes are UTF-16 units.
    Utf16,
    /// The font does not say which characters its codes stand for.
    Unreadable,
}

/// The widths of glyphs, in thousandths of the font size.
struct Widths {
    /// Maps the first code of a range to its last code and the width.
    ranges: BTreeMap<u32, (u32, f64)>,
    default: DefaultWidth,
}

/// The width of a code for which the font has none.
enum DefaultWidth {
    Fixed(f64),
    Helvetica,
}

/// One code of a string, and its width.
pub(super) struct Glyph {
    pub code: u32,
    pub width: f64,
}

/// Codes 11 to 15 of TeX fonts. The standard encoding has no characters there, so without this
/// table `efficient` would lose its ligature.
const TEX_LIGATURES: [&str; 5] = ["ff", "fi", "fl", "ffi", "ffl"];

/// The code of the first ligature in [`TEX_LIGATURES`].
const FIRST_TEX_LIGATURE: usize = 11;

/// The default width of composite fonts (ISO 32000-1, 9.7.4.3).
const COMPOSITE_WIDTH: f64 = 1000.0;
/// The width of all characters of Courier.
const COURIER_WIDTH: f64 = 600.0;
/// The width of most letters and digits of Helvetica, for codes outside of its table.
const HELVETICA_WIDTH: f64 = 556.0;

/// The maximum decompressed size of a character map.
const MAX_CMAP_BYTES: usize = 4 << 20;

impl<'a> Font<'a> {
    pub fn new(document: &'a Document, font: &'a Dictionary) -> Font<'a> {
        let composite = font.get(b"Subtype").and_then(Object::as_name).is_ok_and(|name| name == b"Type0");
        Font {
            decoding: Decoding::new(document, font, composite),
            widths: match composite {
                true => Widths::composite(document, font),
                false => Widths::simple(document, font),
            },
            composite,
        }
    }

    /// Whether the codes of the font can be mapped to characters.
    pub fn is_readable(&self) -> bool {
        !matches!(self.decoding, Decoding::Unreadable)
    }

    /// Returns the glyphs that a string draws.
    pub fn glyphs(&self, string: &[u8]) -> impl Iterator<Item = Glyph> {
        let length = if self.composite { 2 } else { 1 };
        string.chunks(length).map(|bytes| {
            let code = bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte));
            Glyph { code, width: self.widths.width(code) }
        })
    }

    /// Whether word spacing applies to the glyph: only to a space with a code of one byte.
    pub fn is_space(&self, glyph: &Glyph) -> bool {
        !self.composite && glyph.code == 32
    }

    /// Appends the characters of a glyph.
    pub fn write(&self, glyph: &Glyph, out: &mut String) {
        match &self.decoding {
            Decoding::ToUnicode(map) => {
                map.write(glyph.code, out);
            }
            Decoding::Table(table) => {
                // A code that the encoding does not contain draws nothing that could be written.
                let _ = table.write_to_string(&[glyph.code as u8], out);
            }
            Decoding::BuiltIn(table) => {
                match TEX_LIGATURES.get((glyph.code as usize).wrapping_sub(FIRST_TEX_LIGATURE)) {
                    Some(letters) => out.push_str(letters),
                    None => {
                        let _ = table.write_to_string(&[glyph.code as u8], out);
                    }
                }
            }
            Decoding::Utf16 => out.extend(char::from_u32(glyph.code)),
            Decoding::Unreadable => {}
        }
    }
}

impl<'a> Decoding<'a> {
    fn new(document: &'a Document, font: &'a Dictionary, composite: bool) -> Decoding<'a> {
        let to_unicode = font.get_deref(b"ToUnicode", document).and_then(Object::as_stream);
        if let Ok(stream) = to_unicode
            && let Ok(source) = stream.get_plain_content_with_limit(MAX_CMAP_BYTES)
        {
            return Decoding::ToUnicode(CMap::parse(&source));
        }
        if composite {
            let encoding = font.get_deref(b"Encoding", document).and_then(Object::as_name);
            return match encoding {
                Ok(name) if is_utf16(name) => Decoding::Utf16,
                _ => Decoding::Unreadable,
            };
        }
        // An unusable `ToUnicode` map was tried above. The library must not parse it, see `cmap`.
        if font.has(b"ToUnicode") && !font.has(b"Encoding") {
            return Decoding::Unreadable;
        }
        match font.get_font_encoding_with_limit(document, MAX_CMAP_BYTES) {
            Ok(encoding) if font.has(b"Encoding") => Decoding::Table(encoding),
            Ok(encoding) => Decoding::BuiltIn(encoding),
            Err(_) => Decoding::Unreadable,
        }
    }
}

/// Returns whether a predefined map uses Unicode codes: UniGB-UCS2-H, UniJIS-UTF16-V and similar
/// ones.
fn is_utf16(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name);
    name.starts_with("Uni") && (name.contains("UCS2") || name.contains("UTF16"))
}

impl Widths {
    fn width(&self, code: u32) -> f64 {
        match self.ranges.range(..=code).next_back() {
            Some((_, (last, width))) if code <= *last => *width,
            _ => match self.default {
                DefaultWidth::Fixed(width) => width,
                DefaultWidth::Helvetica => {
                    let index = (code as usize).wrapping_sub(32);
                    HELVETICA.get(index).map_or(HELVETICA_WIDTH, |width| f64::from(*width))
                }
            },
        }
    }

    /// The widths of a font with codes of one byte.
    fn simple(document: &Document, font: &Dictionary) -> Widths {
        let mut ranges = BTreeMap::new();
        let first = font.get_deref(b"FirstChar", document).and_then(Object::as_i64).unwrap_or(0);
        let list = font.get_deref(b"Widths", document).and_then(Object::as_array);
        // A Type 3 font defines its own unit.
        let unit = font.get_deref(b"FontMatrix", document).and_then(Object::as_array).ok();
        let scale = unit.and_then(|unit| number(unit.first()?)).map_or(1.0, |unit| unit * 1000.0);
        for (index, width) in (0..256).zip(list.into_iter().flatten()) {
            let code = u32::try_from(first.saturating_add(index));
            if let (Ok(code), Some(width)) = (code, resolved_number(document, width)) {
                ranges.insert(code, (code, width * scale));
            }
        }
        let is_courier =
            font.get(b"BaseFont").and_then(Object::as_name).is_ok_and(|name| name.starts_with(b"Courier"));
        let default = if is_courier { DefaultWidth::Fixed(COURIER_WIDTH) } else { DefaultWidth::Helvetica };
        Widths { ranges, default }
    }

    /// The widths of a composite font are those of its only descendant (ISO 32000-1, 9.7.4.3).
    fn composite(document: &Document, font: &Dictionary) -> Widths {
        let descendants = font.get_deref(b"DescendantFonts", document).and_then(Object::as_array);
        let descendant = descendants.ok().and_then(|fonts| dictionary(document, fonts.first()?));
        let Some(font) = descendant else {
            return Widths { ranges: BTreeMap::new(), default: DefaultWidth::Fixed(COMPOSITE_WIDTH) };
        };
        let mut ranges = BTreeMap::new();
        let list = font.get_deref(b"W", document).and_then(Object::as_array);
        let mut list = list.map(Vec::as_slice).unwrap_or_default();
        while let [first, second, rest @ ..] = list {
            let first = resolved_number(document, first).unwrap_or(0.0) as u32;
            let second = document.dereference(second).map_or(second, |(_, object)| object);
            if let Ok(widths) = second.as_array() {
                for (code, width) in (first..).zip(widths) {
                    ranges.insert(code, (code, resolved_number(document, width).unwrap_or(0.0)));
                }
                list = rest;
            } else {
                let last = number(second).unwrap_or(0.0) as u32;
                let width = rest.first().and_then(|width| resolved_number(document, width));
                ranges.insert(first, (last, width.unwrap_or(0.0)));
                list = rest.get(1..).unwrap_or_default();
            }
        }
        let default = font.get(b"DW").ok().and_then(|width| resolved_number(document, width));
        Widths { ranges, default: DefaultWidth::Fixed(default.unwrap_or(COMPOSITE_WIDTH)) }
    }
}

/// Returns the number that an object is or refers to.
fn resolved_number(document: &Document, object: &Object) -> Option<f64> {
    number(document.dereference(object).ok()?.1)
}

/// The widths of Helvetica, starting with the space. The standard fonts need not contain widths,
/// and those of Helvetica are close enough to find the spaces between words.
#[rustfmt::skip]
const HELVETICA: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278,
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556,
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556,
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556,
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
