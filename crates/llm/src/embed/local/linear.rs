//! A dense layer, with its weights as floats or as whole numbers of eight bits.
//!
//! Of eight bits, each output has a scale of its own, chosen when the model is loaded. What is multiplied with them
//! gets a scale and a zero point for each token while it is computed, so nothing has to be known about the texts
//! beforehand. The products are added up in 32 bits, without any further rounding.

use rten_gemm::{BiasVector, GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_simd::SimdOp;
use rten_tensor::Matrix;
use rten_vecmath::{ExtendInit, MinMax, Quantize};

use super::Precision;
use crate::error::BoxedError;

// They find out which instructions the processor has, and are not `Send`.
thread_local! {
    pub static FLOAT: GemmExecutor = GemmExecutor::new();
    static INT8: GemmExecutor<u8, i8, i32> = GemmExecutor::new();
}

pub struct Linear {
    weight: Weight,
    bias: Vec<f32>,
    inputs: usize,
}

/// Packed once in the order in which the product reads them.
enum Weight {
    Float(PackedBMatrix<f32>),
    Int8 {
        packed: PackedBMatrix<i8>,
        scales: Vec<f32>,
        /// The sum of the weights of each output.
        totals: Vec<i32>,
    },
}

impl Linear {
    /// `weight` has a row for each output.
    pub fn new(weight: &[f32], bias: Vec<f32>, precision: Precision) -> Result<Self, BoxedError> {
        let outputs = bias.len();
        let inputs = weight.len() / outputs.max(1);
        let weight = match precision {
            Precision::Float => {
                let weight = columns(weight, inputs, outputs)?;
                Weight::Float(FLOAT.with(|product| product.prepack_b(weight)))
            }
            Precision::Int8 => {
                // Without the right instructions, the sum of two products has 16 bits, and one bit less is safe.
                let most = if INT8.with(GemmExecutor::may_saturate) { 63 } else { 127 };
                let (weight, scales) = quantise_rows(weight, inputs, most)?;
                let totals =
                    weight.chunks_exact(inputs).map(|row| row.iter().map(|&x| i32::from(x)).sum()).collect();
                let weight = columns(&weight, inputs, outputs)?;
                Weight::Int8 { packed: INT8.with(|product| product.prepack_b(weight)), scales, totals }
            }
        };
        Ok(Self { weight, bias, inputs })
    }

    /// The outputs for every token, tokens one after another.
    pub fn apply(&self, states: &[f32]) -> Result<Vec<f32>, BoxedError> {
        let (rows, outputs) = (states.len() / self.inputs, self.bias.len());
        match &self.weight {
            Weight::Float(packed) => {
                let mut out = vec![0.0; rows * outputs];
                let states = GemmInputA::Unpacked(Matrix::from_data([rows, self.inputs], states));
                let options = GemmOptions { bias: Some(BiasVector::Row(&self.bias)), ..Default::default() };
                FLOAT.with(|product| product.gemm(&mut out, states, GemmInputB::Packed(packed), options))?;
                Ok(out)
            }
            Weight::Int8 { packed, scales, totals } => {
                let tokens = Tokens::new(states, self.inputs);
                let mut sums = vec![0; rows * outputs];
                let states =
                    GemmInputA::Unpacked(Matrix::from_data([rows, self.inputs], &tokens.numbers[..]));
                let packed = GemmInputB::Packed(packed);
                INT8.with(|product| product.gemm(&mut sums, states, packed, GemmOptions::default()))?;
                Ok(self.scaled(&sums, &tokens, scales, totals))
            }
        }
    }

    /// The zero points are taken into account here: with a zero point for each of more than eight rows, the product of
    /// rten-gemm 0.27 is wrong on processors with AVX-512.
    fn scaled(&self, sums: &[i32], tokens: &Tokens, scales: &[f32], totals: &[i32]) -> Vec<f32> {
        let mut out = Vec::with_capacity(sums.len());
        let rows = sums.chunks_exact(self.bias.len());
        for ((sums, &zero), &token) in rows.zip(&tokens.zero_points).zip(&tokens.scales) {
            let each = sums.iter().zip(totals).zip(scales).zip(&self.bias);
            out.extend(each.map(|(((sum, total), scale), bias)| {
                (sum - i32::from(zero) * total) as f32 * (scale * token) + bias
            }));
        }
        out
    }
}

/// The numbers of a matrix read column by column.
fn columns<T>(numbers: &[T], rows: usize, columns: usize) -> Result<Matrix<'_, T>, BoxedError> {
    Ok(Matrix::from_slice_with_strides([rows, columns], numbers, [1, rows])?)
}

/// Refuses numbers that no scale can tell apart from others.
pub fn check_finite(numbers: &[f32]) -> Result<(), BoxedError> {
    match numbers.iter().all(|x| x.is_finite()) {
        true => Ok(()),
        false => Err("its weights have a number that is not finite".into()),
    }
}

/// Gives each row a scale of its own, so that its largest number becomes `most`.
pub fn quantise_rows(numbers: &[f32], width: usize, most: i8) -> Result<(Vec<i8>, Vec<f32>), BoxedError> {
    let mut quantised = Vec::with_capacity(numbers.len());
    let mut scales = Vec::with_capacity(numbers.len() / width.max(1));
    for row in numbers.chunks_exact(width.max(1)) {
        check_finite(row)?;
        let largest = row.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
        let scale = largest / f32::from(most);
        let inverse = inverse(scale);
        quantised.extend(row.iter().map(|x| (x * inverse).round_ties_even() as i8));
        scales.push(scale);
    }
    Ok((quantised, scales))
}

/// Numbers that are too small for it are zero.
fn inverse(scale: f32) -> f32 {
    if scale >= f32::MIN_POSITIVE { 1.0 / scale } else { 0.0 }
}

/// The states of the tokens, each with a scale and a zero point of its own.
struct Tokens {
    numbers: Vec<u8>,
    zero_points: Vec<u8>,
    scales: Vec<f32>,
}

impl Tokens {
    fn new(states: &[f32], width: usize) -> Self {
        let rows = states.len() / width;
        let mut tokens = Self {
            numbers: Vec::with_capacity(states.len()),
            zero_points: Vec::with_capacity(rows),
            scales: Vec::with_capacity(rows),
        };
        for state in states.chunks_exact(width) {
            tokens.push(state);
        }
        tokens
    }

    fn push(&mut self, state: &[f32]) {
        let (low, high) = MinMax::new(state).dispatch();
        // Zero has to be among the numbers that can be told exactly.
        let (low, high) = (low.min(0.0), high.max(0.0));
        let scale = high / 255.0 - low / 255.0;
        // What is not finite stays so, and is found in the end; it must not become a number that looks right.
        let finite = state.iter().sum::<f32>().is_finite() && scale.is_finite();
        let inverse = if finite { inverse(scale) } else { 0.0 };
        let zero_point = (-low * inverse).round_ties_even() as u8;
        if inverse > 0.0 {
            self.numbers.extend_init(|into| {
                Quantize::new(state, &mut into[..state.len()], inverse, zero_point).dispatch()
            });
        } else {
            self.numbers.extend(std::iter::repeat_n(0, state.len()));
        }
        self.zero_points.push(zero_point);
        self.scales.push(if finite { scale } else { f32::NAN });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 that look random and are the same on every run.
    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn both(weight: &[f32], bias: &[f32], states: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let apply = |precision| Linear::new(weight, bias.to_vec(), precision).unwrap().apply(states).unwrap();
        (apply(Precision::Float), apply(Precision::Int8))
    }

    #[test]
    fn both_precisions_give_about_the_same_numbers() {
        // Sizes that are and are not multiples of what the processor multiplies at once.
        for (inputs, outputs, rows) in [(1, 1, 1), (3, 5, 2), (32, 96, 17), (384, 130, 7), (1500, 64, 3)] {
            let (weight, bias) = (numbers(inputs * outputs, 1), numbers(outputs, 2));
            let (float, int8) = both(&weight, &bias, &numbers(inputs * rows, 3));
            let bound = 0.012 * (inputs as f32).sqrt();
            for (float, int8) in float.iter().zip(&int8) {
                assert!((float - int8).abs() < bound, "{inputs}×{outputs}: {float} {int8}");
            }
        }
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        for sign in [1.0, -1.0] {
            let (float, int8) = both(&[sign; 3 * 2048], &[0.0; 3], &[1.0; 2 * 2048]);
            assert!(float.iter().all(|x| (x - sign * 2048.0).abs() < 0.1), "{float:?}");
            assert!(int8.iter().all(|x| (x - sign * 2048.0).abs() < 0.1), "{int8:?}");
        }
    }

    #[test]
    fn numbers_that_are_no_numbers_do_not_turn_into_some() {
        let weight = numbers(8 * 4, 1);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut states = numbers(16, 2);
            states[9] = bad;
            let (_, int8) = both(&weight, &[0.0; 4], &states);
            assert!(
                int8[..4].iter().all(|x| x.is_finite()) && int8[4..].iter().all(|x| x.is_nan()),
                "{int8:?}"
            );
            let mut weight = weight.clone();
            weight[5] = bad;
            assert!(Linear::new(&weight, vec![0.0; 4], Precision::Int8).is_err());
        }
    }

    #[test]
    fn zeros_and_tiny_numbers_are_zero() {
        for number in [0.0, 1e-44, -1e-44] {
            let (_, int8) = both(&[number; 8], &[2.5, -1.0], &[number; 8]);
            assert_eq!(int8, [2.5, -1.0, 2.5, -1.0]);
        }
        let (_, int8) = both(&[0.0; 8], &[0.5, 0.0], &numbers(4, 1));
        assert_eq!(int8, [0.5, 0.0]);
    }
}
