//! The arithmetic of the network: one matrix product from a crate, the rest in loops.

use matrixmultiply::sgemm;

/// A rectangle inside a list of numbers. Steps instead of copies: a head of the attention
/// is every few columns of a wider matrix, and a transposed matrix is the same numbers
/// walked the other way.
#[derive(Clone, Copy)]
pub struct View<T> {
    pub numbers: T,
    pub rows: usize,
    pub columns: usize,
    pub row_step: usize,
    pub column_step: usize,
}

impl<T> View<T> {
    pub fn rows_of(numbers: T, rows: usize, columns: usize) -> Self {
        Self { numbers, rows, columns, row_step: columns, column_step: 1 }
    }

    /// The index of the last number, plus one.
    fn required_len(&self) -> usize {
        if self.rows == 0 || self.columns == 0 {
            return 0;
        }
        (self.rows - 1) * self.row_step + (self.columns - 1) * self.column_step + 1
    }
}

impl View<&[f32]> {
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_step: self.column_step,
            column_step: self.row_step,
            ..self
        }
    }
}

/// `into = scale · a · b + keep · into`
#[expect(unsafe_code, reason = "`sgemm` takes pointers; a safe loop is many times slower")]
pub fn multiply(scale: f32, a: View<&[f32]>, b: View<&[f32]>, keep: f32, into: View<&mut [f32]>) {
    assert!(a.columns == b.rows && into.rows == a.rows && into.columns == b.columns);
    assert!(
        a.required_len() <= a.numbers.len()
            && b.required_len() <= b.numbers.len()
            && into.required_len() <= into.numbers.len()
    );
    // SAFETY: the pointers are valid for every element the steps reach, as just checked,
    // and `into` is borrowed for writing, so it overlaps neither.
    unsafe {
        sgemm(
            a.rows,
            a.columns,
            b.columns,
            scale,
            a.numbers.as_ptr(),
            a.row_step as isize,
            a.column_step as isize,
            b.numbers.as_ptr(),
            b.row_step as isize,
            b.column_step as isize,
            keep,
            into.numbers.as_mut_ptr(),
            into.row_step as isize,
            into.column_step as isize,
        );
    }
}

pub fn softmax(row: &mut [f32]) {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|x| *x = (*x - most).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    Gelu,
    GeluTanh,
    Relu,
}

impl Activation {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "gelu" => Some(Self::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" => Some(Self::GeluTanh),
            "relu" => Some(Self::Relu),
            _ => None,
        }
    }

    pub fn apply(self, numbers: &mut [f32]) {
        match self {
            Self::Gelu => {
                numbers.iter_mut().for_each(|x| *x *= 0.5 * (1.0 + erf(*x * std::f32::consts::FRAC_1_SQRT_2)))
            }
            Self::GeluTanh => numbers.iter_mut().for_each(|x| {
                let inner = 0.797_884_6 * (*x + 0.044_715 * *x * *x * *x);
                *x *= 0.5 * (1.0 + inner.tanh());
            }),
            Self::Relu => numbers.iter_mut().for_each(|x| *x = x.max(0.0)),
        }
    }
}

/// Abramowitz and Stegun 7.1.26; off by at most 1.5e-7, about what an `f32` can tell.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series =
        ((((1.061_405_4 * t - 1.453_152) * t + 1.421_413_7) * t - 0.284_496_74) * t + 0.254_829_6) * t;
    (1.0 - series * (-x * x).exp()).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_walks_steps_and_keeps_what_it_is_told_to() {
        // The right column of a 2×2 matrix, times a row read as a transposed column.
        let a =
            View { numbers: &[0.0, 2.0, 0.0, 3.0][1..], rows: 2, columns: 1, row_step: 2, column_step: 1 };
        let b = View::rows_of(&[5.0, 7.0][..], 2, 1).transposed();
        let mut into = [1.0; 4];
        multiply(2.0, a, b, 1.0, View::rows_of(&mut into[..], 2, 2));
        assert_eq!(into, [21.0, 29.0, 31.0, 43.0]);
    }

    #[test]
    #[should_panic]
    fn a_view_larger_than_its_numbers_is_refused() {
        let a = View::rows_of(&[1.0; 3][..], 2, 2);
        multiply(1.0, a, a, 0.0, View::rows_of(&mut [0.0; 4][..], 2, 2));
    }

    #[test]
    fn activations_match_published_values() {
        let check = |activation: Activation, expected: [f32; 3]| {
            let mut numbers = [-1.0, 0.5, 3.0];
            activation.apply(&mut numbers);
            for (is, expected) in numbers.iter().zip(expected) {
                assert!((is - expected).abs() < 1e-6, "{activation:?}: {is} {expected}");
            }
        };
        check(Activation::Gelu, [-0.158_655_25, 0.345_731_23, 2.995_950_3]);
        check(Activation::GeluTanh, [-0.158_808_01, 0.345_714, 2.996_362_6]);
        check(Activation::Relu, [0.0, 0.5, 3.0]);
    }

    #[test]
    fn softmax_adds_up_to_one_even_for_large_numbers() {
        let mut row = [1000.0, 1000.0, 0.0];
        softmax(&mut row);
        assert_eq!(row, [0.5, 0.5, 0.0]);
    }
}
