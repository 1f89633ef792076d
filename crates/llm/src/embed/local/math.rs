//! The arithmetic of the network that is not a dense layer, with the vector instructions of the processor.

use rten_simd::{SimdOp, SimdUnaryOp};
use rten_vecmath::{ApproxGelu, Gelu, Normalize, NormalizeOptions, Softmax, Sum, SumSquareSub};

pub fn add(to: &mut [f32], other: &[f32]) {
    to.iter_mut().zip(other).for_each(|(x, y)| *x += y);
}

pub fn softmax(row: &mut [f32]) {
    Softmax::new_mut(row).dispatch();
}

/// Moves and scales the numbers so that their mean is 0 and their variance 1, and then each by its `gain` and `bias`.
pub fn layer_norm(state: &mut [f32], gain: &[f32], bias: &[f32], epsilon: f32) {
    let size = state.len() as f32;
    let mean = Sum::new(state).dispatch() / size;
    let variance = SumSquareSub::new(state, mean).dispatch() / size;
    let options = NormalizeOptions {
        pre_scale_bias: mean,
        scale: 1.0 / (variance + epsilon).sqrt(),
        element_scale: Some(gain),
        bias: 0.0,
        element_bias: Some(bias),
    };
    Normalize::new_mut(state, options).dispatch();
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
            Self::Gelu => Gelu {}.map_mut(numbers),
            Self::GeluTanh => ApproxGelu {}.map_mut(numbers),
            Self::Relu => numbers.iter_mut().for_each(|x| *x = x.max(0.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_layer_norm_has_mean_and_variance_before_gain_and_bias() {
        let mut state = [1.0, 2.0, 3.0, 6.0];
        layer_norm(&mut state, &[1.0, 1.0, 1.0, 2.0], &[0.0, 0.0, 0.0, 1.0], 0.0);
        for (is, expected) in state.iter().zip([-1.069_045, -0.534_522_5, 0.0, 4.207_135]) {
            assert!((is - expected).abs() < 1e-5, "{state:?}");
        }
    }
}
