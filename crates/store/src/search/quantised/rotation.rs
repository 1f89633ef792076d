//! The rotation that spreads the information of a vector evenly over its components.

const ROTATION_ROUNDS: usize = 3;

/// A fixed random rotation that is fast to apply: three rounds of random sign flips and a Hadamard transform,
/// alternately of the first and of the last `part` components.
pub(super) struct Rotation {
    /// The factors of each round, 1 or -1.
    flips: Vec<Vec<f32>>,
    /// The largest power of two that is at most the number of components.
    part: usize,
}

impl Rotation {
    pub(super) fn new(dims: usize) -> Self {
        // A generator with a fixed seed: the rotation is always the same, so it is not stored.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut flip = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if state >> 63 == 0 { 1.0 } else { -1.0 }
        };
        let flips = (0..ROTATION_ROUNDS).map(|_| (0..dims).map(|_| flip()).collect()).collect();
        Self { flips, part: if dims == 0 { 0 } else { 1 << dims.ilog2() } }
    }

    pub(super) fn apply(&self, vector: &mut [f32]) {
        let last_start = vector.len() - self.part;
        for (round, flips) in self.flips.iter().enumerate() {
            vector.iter_mut().zip(flips).for_each(|(number, flip)| *number *= flip);
            let start = if round % 2 == 0 { 0 } else { last_start };
            hadamard(&mut vector[start..start + self.part]);
        }
    }
}

/// The normalised Hadamard transform; the number of components is a power of two.
fn hadamard(numbers: &mut [f32]) {
    // The steps within eight components come first, in a form that the compiler keeps in registers.
    let mut half = 1;
    if numbers.len() >= 8 {
        numbers.as_chunks_mut::<8>().0.iter_mut().for_each(hadamard_8);
        half = 8;
    }
    while half < numbers.len() {
        for pair in numbers.chunks_exact_mut(2 * half) {
            let (left, right) = pair.split_at_mut(half);
            for (a, b) in left.iter_mut().zip(right) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (numbers.len() as f32).sqrt();
    numbers.iter_mut().for_each(|number| *number *= scale);
}

#[inline(always)]
fn hadamard_8(numbers: &mut [f32; 8]) {
    let [a, b, c, d, e, f, g, h] = *numbers;
    let (a, b, c, d, e, f, g, h) = (a + e, b + f, c + g, d + h, a - e, b - f, c - g, d - h);
    let (a, b, c, d, e, f, g, h) = (a + c, b + d, a - c, b - d, e + g, f + h, e - g, f - h);
    *numbers = [a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h];
}
