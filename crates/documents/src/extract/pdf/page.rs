//! Executes the content stream of a page to extract its text.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use lopdf::content::{Content, Operation};
use lopdf::{Dictionary, Document, Object, ObjectId};

use super::font::Font;
use super::layout::Layout;
use super::matrix::Matrix;
use super::text::{Part, Text, matrix_of};
use super::{MAX_STREAM_BYTES, MAX_TEXT_BYTES, MAX_TIME, dictionary};
use crate::error::PdfError;

/// Reads the pages of one document. The counters are for all pages together.
pub(super) struct Reader<'a> {
    document: &'a Document,
    deadline: Instant,
    /// How many operations were executed.
    operations: usize,
    /// How many forms were drawn.
    forms: usize,
    fonts: HashMap<ObjectId, Rc<Font<'a>>>,
    /// Whether text was drawn with a font that cannot be mapped to characters.
    saw_unreadable_font: bool,
    /// The text of the current page.
    layout: Layout,
    /// How many bytes of text were drawn.
    text_bytes: usize,
}

/// Forms can draw forms. Beyond this depth, they are assumed to draw themselves.
const MAX_FORM_DEPTH: usize = 12;
/// Ten forms that each draw the next one ten times need few bytes but an unbounded amount of work.
const MAX_FORMS: usize = 50_000;
/// The limits are checked after this many operations.
const OPERATIONS_PER_CHECK: usize = 256;

/// The resources of the current content, followed by those it inherits.
type Resources<'a> = Vec<&'a Dictionary>;

impl<'a> Reader<'a> {
    pub fn new(document: &'a Document, deadline: Instant) -> Reader<'a> {
        Reader {
            document,
            deadline,
            operations: 0,
            forms: 0,
            fonts: HashMap::new(),
            saw_unreadable_font: false,
            layout: Layout::default(),
            text_bytes: 0,
        }
    }

    pub fn saw_unreadable_font(&self) -> bool {
        self.saw_unreadable_font
    }

    /// Returns the paragraphs of a page. A damaged page returns those that could be read.
    pub fn read(&mut self, page: ObjectId) -> Result<Vec<String>, PdfError> {
        self.check_limits()?;
        let Ok((own, inherited)) = self.document.get_page_resources(page) else {
            return Ok(Vec::new());
        };
        let inherited = inherited.into_iter().filter_map(|id| self.document.get_dictionary(id).ok());
        let resources: Resources = own.into_iter().chain(inherited).collect();
        // A page that is too large is skipped, and the other pages are still read.
        if let Ok(content) = self.document.get_page_content_with_limit(page, MAX_STREAM_BYTES) {
            self.run(&content, &resources, Matrix::IDENTITY, 0)?;
        }
        Ok(std::mem::take(&mut self.layout).paragraphs())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this crate has no runtime: the limit is for the real time of a thread"
    )]
    fn check_limits(&self) -> Result<(), PdfError> {
        if Instant::now() > self.deadline {
            return Err(PdfError::TooSlow(MAX_TIME));
        }
        if self.text_bytes > MAX_TEXT_BYTES {
            return Err(PdfError::TooMuchText { max: MAX_TEXT_BYTES });
        }
        Ok(())
    }

    /// Executes a content stream. `page` maps its coordinates to those of the page.
    fn run(
        &mut self,
        content: &[u8],
        resources: &Resources<'a>,
        page: Matrix,
        depth: usize,
    ) -> Result<(), PdfError> {
        let mut text = Text::new(page);
        for operation in Content::decode_iter(content) {
            self.operations += 1;
            if self.operations.is_multiple_of(OPERATIONS_PER_CHECK) {
                self.check_limits()?;
            }
            // After an operation that cannot be parsed, the rest of the stream is not valid either.
            let Ok(operation) = operation else { break };
            match operation.operator.as_str() {
                "Tf" => text.state.font = self.font(resources, &operation),
                "Do" if depth < MAX_FORM_DEPTH && self.forms < MAX_FORMS => {
                    self.forms += 1;
                    self.check_limits()?;
                    self.form(resources, &operation, text.state.page, depth)?;
                }
                _ => {}
            }
            for string in text.apply(&operation) {
                self.show(&mut text, string);
            }
        }
        Ok(())
    }

    /// Returns the font that a `Tf` operation selects.
    fn font(&mut self, resources: &Resources<'a>, operation: &Operation) -> Option<Rc<Font<'a>>> {
        let name = operation.operands.first()?.as_name().ok()?;
        let (id, font) = self.resource(resources, b"Font", name)?;
        let font = font.as_dict().ok()?;
        let document = self.document;
        let font = match id {
            Some(id) => {
                let entry = self.fonts.entry(id);
                Rc::clone(entry.or_insert_with(|| Rc::new(Font::new(document, font))))
            }
            None => Rc::new(Font::new(document, font)),
        };
        Some(font)
    }

    /// Draws the form that a `Do` operation names; images are ignored.
    fn form(
        &mut self,
        resources: &Resources<'a>,
        operation: &Operation,
        page: Matrix,
        depth: usize,
    ) -> Result<(), PdfError> {
        let name = operation.operands.first().and_then(|name| name.as_name().ok());
        let xobject = name.and_then(|name| self.resource(resources, b"XObject", name));
        let Some(Ok(form)) = xobject.map(|(_, object)| object.as_stream()) else {
            return Ok(());
        };
        if !form.dict.get(b"Subtype").and_then(Object::as_name).is_ok_and(|kind| kind == b"Form") {
            return Ok(());
        }
        let own_resources = form.dict.get(b"Resources").ok();
        let own_resources = own_resources.and_then(|own_resources| dictionary(self.document, own_resources));
        let resources =
            own_resources.into_iter().chain(resources.iter().copied()).take(MAX_FORM_DEPTH).collect();
        let matrix = form.dict.get_deref(b"Matrix", self.document).and_then(Object::as_array);
        let matrix = matrix.ok().and_then(|operands| matrix_of(operands));
        let page = matrix.unwrap_or(Matrix::IDENTITY).then(page);
        match form.get_plain_content_with_limit(MAX_STREAM_BYTES) {
            Ok(content) => self.run(&content, &resources, page, depth + 1),
            Err(_) => Ok(()),
        }
    }

    /// Finds a resource by its kind and name. It has an id if it is an indirect object.
    fn resource(
        &self,
        resources: &Resources<'a>,
        kind: &[u8],
        name: &[u8],
    ) -> Option<(Option<ObjectId>, &'a Object)> {
        resources.iter().find_map(|resources| {
            let of_kind = dictionary(self.document, resources.get(kind).ok()?)?;
            self.document.dereference(of_kind.get(name).ok()?).ok()
        })
    }

    /// Draws a string, or moves the position.
    fn show(&mut self, text: &mut Text<'a>, part: Part<'_>) {
        let string = match part {
            Part::Shift(thousandths) => {
                let shift = -thousandths / 1000.0 * text.state.size * text.state.stretch;
                return text.advance(shift);
            }
            Part::String(string) => string,
        };
        let Some(font) = text.state.font.clone() else {
            return;
        };
        self.saw_unreadable_font |= !font.is_readable();
        let start = text.position();
        let mut shown = String::new();
        for glyph in font.glyphs(string) {
            font.write(&glyph, &mut shown);
            let state = &text.state;
            let spacing = state.char_spacing + if font.is_space(&glyph) { state.word_spacing } else { 0.0 };
            text.advance((glyph.width / 1000.0 * state.size + spacing) * state.stretch);
        }
        self.text_bytes += shown.len();
        if !shown.is_empty() {
            let size = (text.state.size * start.height()).abs();
            self.layout.add(&shown, start, text.position().origin(), size);
        }
    }
}
