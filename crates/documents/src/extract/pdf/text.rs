//! The graphics and text state of a content stream (ISO 32000-1, 9.3 and 9.4).

use std::rc::Rc;

use lopdf::Object;
use lopdf::content::Operation;

use super::font::Font;
use super::matrix::Matrix;
use super::number;

/// What a text operation displays: strings, and shifts between them.
pub(super) enum Part<'o> {
    String(&'o [u8]),
    /// Moves the position back, in thousandths of the font size.
    Shift(f64),
}

/// The settings that `q` saves and `Q` restores.
#[derive(Clone)]
pub(super) struct TextState<'a> {
    /// Maps the coordinates of the content to those of the page.
    pub page: Matrix,
    pub font: Option<Rc<Font<'a>>>,
    pub size: f64,
    pub char_spacing: f64,
    pub word_spacing: f64,
    /// The horizontal scaling, 1.0 by default.
    pub stretch: f64,
    leading: f64,
    rise: f64,
}

/// The maximum number of saved states. A program that exceeds it is trying to exhaust memory.
const MAX_STATE_DEPTH: usize = 256;

/// The position and the settings with which text is drawn.
pub(super) struct Text<'a> {
    pub state: TextState<'a>,
    saved: Vec<TextState<'a>>,
    /// The number of states that were not saved because the limit was reached.
    unsaved: usize,
    /// The start of the current line.
    line: Matrix,
    /// The position of the next glyph.
    matrix: Matrix,
}

impl<'a> Text<'a> {
    pub fn new(page: Matrix) -> Text<'a> {
        Text {
            state: TextState {
                page,
                font: None,
                size: 0.0,
                char_spacing: 0.0,
                word_spacing: 0.0,
                stretch: 1.0,
                leading: 0.0,
                rise: 0.0,
            },
            saved: Vec::new(),
            unsaved: 0,
            line: Matrix::IDENTITY,
            matrix: Matrix::IDENTITY,
        }
    }

    /// Returns the transformation of the next glyph to the page.
    pub fn position(&self) -> Matrix {
        Matrix::translation(0.0, self.state.rise).then(self.matrix).then(self.state.page)
    }

    /// Moves the position along the line.
    pub fn advance(&mut self, x: f64) {
        self.matrix = Matrix::translation(x, 0.0).then(self.matrix);
    }

    fn next_line(&mut self, x: f64, y: f64) {
        self.line = Matrix::translation(x, y).then(self.line);
        self.matrix = self.line;
    }

    /// Applies an operation, and returns the text that it displays.
    pub fn apply<'o>(&mut self, operation: &'o Operation) -> Vec<Part<'o>> {
        let operands = operation.operands.as_slice();
        let operand = |index: usize| operands.get(index).and_then(number).unwrap_or(0.0);
        match operation.operator.as_str() {
            "q" if self.saved.len() < MAX_STATE_DEPTH => self.saved.push(self.state.clone()),
            "q" => self.unsaved += 1,
            "Q" if self.unsaved > 0 => self.unsaved -= 1,
            "Q" => self.state = self.saved.pop().unwrap_or_else(|| self.state.clone()),
            "cm" => {
                if let Some(matrix) = matrix_of(operands) {
                    self.state.page = matrix.then(self.state.page);
                }
            }
            "BT" => {
                self.line = Matrix::IDENTITY;
                self.matrix = Matrix::IDENTITY;
            }
            "Tm" => {
                if let Some(matrix) = matrix_of(operands) {
                    self.line = matrix;
                    self.matrix = matrix;
                }
            }
            "Tf" => self.state.size = operand(1),
            "Tc" => self.state.char_spacing = operand(0),
            "Tw" => self.state.word_spacing = operand(0),
            "Tz" => self.state.stretch = operand(0) / 100.0,
            "TL" => self.state.leading = operand(0),
            "Ts" => self.state.rise = operand(0),
            "Td" => self.next_line(operand(0), operand(1)),
            "TD" => {
                self.state.leading = -operand(1);
                self.next_line(operand(0), operand(1));
            }
            "T*" => self.next_line(0.0, -self.state.leading),
            "Tj" => return parts(operands),
            "'" => {
                self.next_line(0.0, -self.state.leading);
                return parts(operands);
            }
            "\"" => {
                self.state.word_spacing = operand(0);
                self.state.char_spacing = operand(1);
                self.next_line(0.0, -self.state.leading);
                return parts(operands.get(2..).unwrap_or_default());
            }
            "TJ" => {
                let list = operands.first().and_then(|list| list.as_array().ok());
                return parts(list.map(Vec::as_slice).unwrap_or_default());
            }
            _ => {}
        }
        Vec::new()
    }
}

fn parts(operands: &[Object]) -> Vec<Part<'_>> {
    operands.iter().filter_map(part).collect()
}

fn part(operand: &Object) -> Option<Part<'_>> {
    match operand {
        Object::String(string, _) => Some(Part::String(string)),
        shift => number(shift).map(Part::Shift),
    }
}

/// Parses six numbers as a matrix.
pub(super) fn matrix_of(operands: &[Object]) -> Option<Matrix> {
    let mut matrix = [0.0; 6];
    for (index, value) in matrix.iter_mut().enumerate() {
        *value = number(operands.get(index)?)?;
    }
    Some(Matrix(matrix))
}
