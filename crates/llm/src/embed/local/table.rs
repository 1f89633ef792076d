//! The vectors of the words, before the first layer. They are more than half of a small model.

use super::{Precision, linear::quantise_rows};
use crate::error::BoxedError;

pub struct Table {
    rows: Rows,
    width: usize,
}

enum Rows {
    Float(Vec<f32>),
    Int8 { numbers: Vec<i8>, scales: Vec<f32> },
}

impl Table {
    pub fn new(numbers: Vec<f32>, width: usize, precision: Precision) -> Result<Self, BoxedError> {
        let rows = match precision {
            Precision::Float => Rows::Float(numbers),
            Precision::Int8 => {
                let (numbers, scales) = quantise_rows(&numbers, width, i8::MAX)
                    .map_err(|error| format!("embeddings.word_embeddings: {error}"))?;
                Rows::Int8 { numbers, scales }
            }
        };
        Ok(Self { rows, width })
    }

    /// Appends a row; returns false if there is none with this number.
    pub fn push(&self, row: usize, to: &mut Vec<f32>) -> bool {
        let range = row * self.width..(row + 1) * self.width;
        match &self.rows {
            Rows::Float(numbers) => {
                let Some(row) = numbers.get(range) else { return false };
                to.extend_from_slice(row);
            }
            Rows::Int8 { numbers, scales } => {
                let (Some(numbers), Some(scale)) = (numbers.get(range), scales.get(row)) else {
                    return false;
                };
                to.extend(numbers.iter().map(|&x| f32::from(x) * scale));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_in_either_precision_and_there_is_none_after_the_last() {
        let numbers = vec![1.0, -0.5, 0.25, 100.0, 0.0, -30.0];
        for precision in [Precision::Float, Precision::Int8] {
            let table = Table::new(numbers.clone(), 3, precision).unwrap();
            let mut row = vec![7.0];
            assert!(table.push(1, &mut row) && !table.push(2, &mut row));
            assert_eq!(row.len(), 4);
            let off = row.iter().zip([7.0, 100.0, 0.0, -30.0]).map(|(x, y)| (x - y).abs());
            assert!(off.fold(0.0, f32::max) < 0.5, "{row:?}");
        }
    }
}
