//! Quantised vectors, small enough to scan all of them: one bit per component to find candidates, one byte
//! per component to order the candidates.
//!
//! Each vector is multiplied by the same random rotation, which spreads its information evenly over the
//! components. Only then is the sign of a component worth a whole bit, whatever model made the vector.
//! The mean of all vectors is subtracted before the signs are taken, since what all vectors share
//! distinguishes none of them. A query has four bits per component. Its product with a row of signs is
//! four times `AND` and a population count. Scaled by the quantisation error of the row, that is an unbiased
//! estimate of the true product (the method of RaBitQ, Gao and Long, 2024).
//!
//! This module knows neither projects nor databases. Scores are approximate: the caller requests a few more
//! rows than it needs and compares those exactly.

/// At least this many candidates are compared by bytes.
const MIN_RESCORED: usize = 1_500;
/// At least this many candidates for each requested row.
const RESCORED_PER_HIT: usize = 32;
/// At least this share of all vectors, since the error of the signs does not depend on their number.
const RESCORED_FRACTION: usize = 40;
/// The mean of fewer vectors is not used.
const MIN_FOR_CENTRE: usize = 256;
const QUERY_BITS: usize = 4;
const NO_POSITION: u32 = u32::MAX;

pub(super) struct Quantised {
    dims: usize,
    /// The number of words of signs per vector.
    words: usize,
    rotation: Rotation,
    /// The mean of the rotated vectors, and their number when it was computed.
    centre: Vec<f32>,
    centred_at: usize,
    /// The position of a row's vector, by the row number within its project.
    positions: Vec<u32>,
    rows: Vec<u32>,
    scales: Vec<Scale>,
    signs: Vec<u64>,
    codes: Vec<i8>,
}

/// The factors that turn integers back into products.
#[derive(Clone, Copy)]
struct Scale {
    /// The factor of the bytes.
    code: f32,
    /// The factor of the signs.
    sign: f32,
    /// How many signs are set.
    ones: f32,
}

impl Quantised {
    pub(super) fn new(dims: usize) -> Self {
        Self {
            dims,
            words: dims.div_ceil(64),
            rotation: Rotation::new(dims),
            centre: vec![0.0; dims],
            centred_at: 0,
            positions: Vec::new(),
            rows: Vec::new(),
            scales: Vec::new(),
            signs: Vec::new(),
            codes: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Reserves exactly this much: doubling would waste a third of the memory.
    pub(super) fn reserve(&mut self, more: usize) {
        self.rows.reserve_exact(more);
        self.scales.reserve_exact(more);
        self.signs.reserve_exact(more * self.words);
        self.codes.reserve_exact(more * self.dims);
    }

    /// Adds or replaces the vector of a row. A vector of another length, or of length zero, counts as no
    /// vector.
    pub(super) fn put(&mut self, row: u32, vector: &[f32]) {
        let Some(position) = self.store(row, vector) else { return self.remove(row) };
        self.update_signs(position);
        if self.len() >= MIN_FOR_CENTRE && self.len() >= 2 * self.centred_at {
            self.recentre();
        }
    }

    /// As [`Quantised::put`], for many vectors, which are found only after the next [`Quantised::recentre`].
    pub(super) fn load(&mut self, row: u32, vector: &[f32]) {
        self.store(row, vector);
    }

    /// Stores the bytes of a vector and returns their position.
    fn store(&mut self, row: u32, vector: &[f32]) -> Option<usize> {
        let turned = self.rotate(vector)?;
        let position = self.position(row).unwrap_or_else(|| self.add(row));
        let largest = turned.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let code = largest / 127.0;
        for (kept, number) in self.codes[position * self.dims..].iter_mut().zip(&turned) {
            *kept = (number / code).round() as i8;
        }
        self.scales[position].code = code;
        Some(position)
    }

    pub(super) fn remove(&mut self, row: u32) {
        let Some(position) = self.position(row) else { return };
        let last = self.len() - 1;
        let (dims, words) = (self.dims, self.words);
        self.codes.copy_within(last * dims.., position * dims);
        self.codes.truncate(last * dims);
        self.signs.copy_within(last * words.., position * words);
        self.signs.truncate(last * words);
        self.scales.swap_remove(position);
        self.rows.swap_remove(position);
        self.positions[row as usize] = NO_POSITION;
        if let Some(moved) = self.rows.get(position) {
            self.positions[*moved as usize] = position as u32;
        }
    }

    /// Computes the mean and all signs again, after a load and whenever the number of vectors has doubled.
    pub(super) fn recentre(&mut self) {
        self.centre.fill(0.0);
        if self.len() >= MIN_FOR_CENTRE {
            for (codes, scale) in self.codes.chunks_exact(self.dims).zip(&self.scales) {
                for (sum, code) in self.centre.iter_mut().zip(codes) {
                    *sum += f32::from(*code) * scale.code;
                }
            }
            let count = self.len() as f32;
            self.centre.iter_mut().for_each(|sum| *sum /= count);
            self.centred_at = self.len();
        }
        (0..self.len()).for_each(|position| self.update_signs(position));
    }

    /// The best `limit` rows for a query with their approximate cosines, the best first. `among` restricts
    /// the search to some rows.
    pub(super) fn search(&self, query: &[f32], limit: usize, among: Option<&[u32]>) -> Vec<(u32, f32)> {
        let Some(query) = self.rotate(query) else { return Vec::new() };
        let closer = (limit * RESCORED_PER_HIT).max(MIN_RESCORED).max(self.len() / RESCORED_FRACTION);
        let positions = match among {
            Some(rows) => {
                let positions: Vec<u32> =
                    rows.iter().filter_map(|row| self.position(*row)).map(|at| at as u32).collect();
                if positions.len() > closer {
                    self.candidates(&query, Some(&positions), closer)
                } else {
                    positions
                }
            }
            None if self.len() > closer => self.candidates(&query, None, closer),
            None => (0..self.len() as u32).collect(),
        };
        let mut scored = self.rescore(&query, &positions);
        let better = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if scored.len() > limit {
            scored.select_nth_unstable_by(limit, better);
            scored.truncate(limit);
        }
        scored.sort_unstable_by(better);
        scored
    }

    /// Compares signs: the positions of the `count` best vectors, in memory order.
    fn candidates(&self, query: &[f32], among: Option<&[u32]>, count: usize) -> Vec<u32> {
        let query = SignQuery::new(query, self.words);
        let mut best = TopK::new(count);
        match among {
            None => fast::scan(&query, &self.signs, &self.scales, &mut best),
            Some(positions) => {
                positions
                    .iter()
                    .for_each(|position| best.offer(self.estimate(&query, *position as usize), *position));
            }
        }
        best.into_positions()
    }

    fn estimate(&self, query: &SignQuery, position: usize) -> f32 {
        let signs = &self.signs[position * self.words..(position + 1) * self.words];
        query.estimate(signs, &self.scales[position])
    }

    /// Compares bytes: the approximate cosine of each position.
    fn rescore(&self, query: &[f32], positions: &[u32]) -> Vec<(u32, f32)> {
        // Twelve bits keep the error of the query below that of the bytes, and the sums below 31 bits.
        let largest = query.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let step = largest / (i32::MAX as f32 / 127.0 / self.dims as f32).min(4095.0);
        let query: Vec<i16> = query.iter().map(|number| (number / step).round() as i16).collect();
        let mut dots = vec![0; positions.len()];
        fast::dots(&query, &self.codes, positions, &mut dots);
        let cosine = |(position, dot): (&u32, i32)| {
            let position = *position as usize;
            (self.rows[position], dot as f32 * step * self.scales[position].code)
        };
        positions.iter().zip(dots).map(cosine).collect()
    }

    fn position(&self, row: u32) -> Option<usize> {
        self.positions
            .get(row as usize)
            .filter(|position| **position != NO_POSITION)
            .map(|position| *position as usize)
    }

    fn add(&mut self, row: u32) -> usize {
        if self.rows.len() == self.rows.capacity() {
            self.reserve(self.rows.len() / 8 + 64);
        }
        let position = self.len();
        if self.positions.len() <= row as usize {
            self.positions.resize(row as usize + 1, NO_POSITION);
        }
        self.positions[row as usize] = position as u32;
        self.rows.push(row);
        self.scales.push(Scale { code: 0.0, sign: 0.0, ones: 0.0 });
        self.signs.resize((position + 1) * self.words, 0);
        self.codes.resize((position + 1) * self.dims, 0);
        position
    }

    /// Computes the signs of the vector at a position.
    fn update_signs(&mut self, position: usize) {
        let codes = &self.codes[position * self.dims..(position + 1) * self.dims];
        let signs = &mut self.signs[position * self.words..(position + 1) * self.words];
        let scale = &mut self.scales[position];
        let (mut sum, mut squares) = (0.0_f32, 0.0_f32);
        for ((word, codes), centre) in signs.iter_mut().zip(codes.chunks(64)).zip(self.centre.chunks(64)) {
            let mut bits = 0;
            for (bit, (code, centre)) in codes.iter().zip(centre).enumerate() {
                let rest = f32::from(*code) * scale.code - centre;
                bits |= u64::from(rest > 0.0) << bit;
                sum += rest.abs();
                squares += rest * rest;
            }
            *word = bits;
        }
        scale.ones = signs.iter().map(|word| word.count_ones()).sum::<u32>() as f32;
        scale.sign = if sum > 0.0 { squares / sum } else { 0.0 };
    }

    /// The rotated vector of length one; `None` for a vector of another length or of length zero.
    fn rotate(&self, vector: &[f32]) -> Option<Vec<f32>> {
        if vector.len() != self.dims {
            return None;
        }
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        if !(length.is_finite() && length > 0.0) {
            return None;
        }
        let mut turned: Vec<f32> = vector.iter().map(|number| number / length).collect();
        self.rotation.apply(&mut turned);
        Some(turned)
    }
}

/// The `count` best of many estimates. Most are worse than the worst one kept and cost one comparison.
struct TopK {
    count: usize,
    /// The score that an estimate has to reach, from the last time the list was shortened.
    threshold: f32,
    candidates: Vec<(f32, u32)>,
}

impl TopK {
    fn new(count: usize) -> Self {
        Self { count, threshold: f32::NEG_INFINITY, candidates: Vec::with_capacity(2 * count) }
    }

    #[inline(always)]
    fn offer(&mut self, score: f32, position: u32) {
        if score >= self.threshold {
            self.insert(score, position);
        }
    }

    #[inline(never)]
    fn insert(&mut self, score: f32, position: u32) {
        if self.candidates.len() == self.candidates.capacity() {
            self.prune();
        }
        self.candidates.push((score, position));
    }

    /// Retains only the best; of equal ones the first, so that a query always returns the same rows.
    fn prune(&mut self) {
        if let Some(worst) = self.count.checked_sub(1)
            && self.candidates.len() > self.count
        {
            self.candidates.select_nth_unstable_by(worst, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            self.threshold = self.candidates[worst].0;
        }
        self.candidates.truncate(self.count);
    }

    fn into_positions(mut self) -> Vec<u32> {
        self.prune();
        let mut positions: Vec<u32> = self.candidates.iter().map(|(_, position)| *position).collect();
        positions.sort_unstable();
        positions
    }
}

/// A query as bit planes: component `i` is `low + step × Σ 2^j × bit i of plane j`.
struct SignQuery {
    planes: Vec<[u64; QUERY_BITS]>,
    low: f32,
    step: f32,
    sum: f32,
}

impl SignQuery {
    fn new(query: &[f32], words: usize) -> Self {
        let low = query.iter().copied().fold(f32::INFINITY, f32::min);
        let high = query.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let levels = ((1 << QUERY_BITS) - 1) as f32;
        let step = ((high - low) / levels).max(f32::MIN_POSITIVE);
        let mut planes = vec![[0_u64; QUERY_BITS]; words];
        let mut sum = 0.0;
        for (at, number) in query.iter().enumerate() {
            let level = ((number - low) / step).round().clamp(0.0, levels) as u64;
            sum += low + step * level as f32;
            for (bit, plane) in planes[at / 64].iter_mut().enumerate() {
                *plane |= (level >> bit & 1) << (at % 64);
            }
        }
        Self { planes, low, step, sum }
    }

    /// The product with the vector of these signs, without a term that is the same for all vectors.
    #[inline(always)]
    fn estimate(&self, signs: &[u64], scale: &Scale) -> f32 {
        // Each plane has its own sum; with one sum, each addition would wait for the one before.
        let mut counts = [0_u32; QUERY_BITS];
        for (signs, planes) in signs.iter().zip(&self.planes) {
            for (count, plane) in counts.iter_mut().zip(planes) {
                *count += (signs & plane).count_ones();
            }
        }
        let weighed: u32 = counts.iter().enumerate().map(|(bit, count)| count << bit).sum();
        self.dot_product(weighed, scale)
    }

    /// The product from the weighted counts of the planes.
    #[inline(always)]
    fn dot_product(&self, weighed: u32, scale: &Scale) -> f32 {
        let set = self.low * scale.ones + self.step * weighed as f32;
        scale.sign * (2.0 * set - self.sum)
    }
}

/// The two inner loops, compiled a second time for processors that count bits, or multiply many numbers, in
/// one instruction. The code is the same; only the instructions that the compiler may use differ. The one
/// exception counts all planes of a word at once, which no compiler finds by itself.
#[cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "only a check at run time shows that the processor has the features of a `target_feature` function"
    )
)]
mod fast {
    use super::{QUERY_BITS, Scale, SignQuery, TopK};

    pub(super) fn scan(query: &SignQuery, signs: &[u64], scales: &[Scale], best: &mut TopK) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vpopcntdq") {
            // SAFETY: the processor has the instructions that the function was compiled for.
            return unsafe { scan_avx512(query, signs, scales, best) };
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { scan_popcnt(query, signs, scales, best) };
        }
        scan_any(query, signs, scales, best);
    }

    /// The products of a query with the codes at some positions.
    pub(super) fn dots(query: &[i16], codes: &[i8], positions: &[u32], into: &mut [i32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { dots_avx2(query, codes, positions, into) };
        }
        dots_any(query, codes, positions, into);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512vl,avx512vpopcntdq")]
    fn scan_avx512(query: &SignQuery, signs: &[u64], scales: &[Scale], best: &mut TopK) {
        use std::arch::x86_64::{
            _mm_add_epi64, _mm_cvtsi128_si64, _mm_unpackhi_epi64, _mm256_add_epi64, _mm256_and_si256,
            _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_popcnt_epi64, _mm256_set_epi64x,
            _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_sllv_epi64,
        };
        let four =
            |[a, b, c, d]: [u64; QUERY_BITS]| _mm256_set_epi64x(d as i64, c as i64, b as i64, a as i64);
        let weights = four([0, 1, 2, 3]);
        let each = signs.chunks_exact(query.planes.len()).zip(scales);
        for (position, (signs, scale)) in each.enumerate() {
            let mut counts = _mm256_setzero_si256();
            for (signs, planes) in signs.iter().zip(&query.planes) {
                let both = _mm256_and_si256(_mm256_set1_epi64x(*signs as i64), four(*planes));
                counts = _mm256_add_epi64(counts, _mm256_popcnt_epi64(both));
            }
            let counts = _mm256_sllv_epi64(counts, weights);
            let two = _mm_add_epi64(_mm256_castsi256_si128(counts), _mm256_extracti128_si256::<1>(counts));
            let weighed = _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
            best.offer(query.dot_product(weighed as u32, scale), position as u32);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    fn scan_popcnt(query: &SignQuery, signs: &[u64], scales: &[Scale], best: &mut TopK) {
        scan_any(query, signs, scales, best);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn dots_avx2(query: &[i16], codes: &[i8], positions: &[u32], into: &mut [i32]) {
        dots_any(query, codes, positions, into);
    }

    #[inline(always)]
    fn scan_any(query: &SignQuery, signs: &[u64], scales: &[Scale], best: &mut TopK) {
        let each = signs.chunks_exact(query.planes.len()).zip(scales);
        for (position, (signs, scale)) in each.enumerate() {
            best.offer(query.estimate(signs, scale), position as u32);
        }
    }

    #[inline(always)]
    fn dots_any(query: &[i16], codes: &[i8], positions: &[u32], into: &mut [i32]) {
        for (position, into) in positions.iter().zip(into) {
            let codes = &codes[*position as usize * query.len()..][..query.len()];
            *into = query.iter().zip(codes).map(|(number, code)| i32::from(*number) * i32::from(*code)).sum();
        }
    }
}

/// A fixed random rotation that is fast to apply: random sign flips, then a Hadamard transform of the first
/// and of the last part.
struct Rotation {
    flips: Vec<Vec<f32>>,
    /// The largest power of two within the length.
    part: usize,
}

impl Rotation {
    fn new(dims: usize) -> Self {
        // The rotation is the same for every index, so it is not stored.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut flip = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if state >> 63 == 0 { 1.0 } else { -1.0 }
        };
        let flips = (0..3).map(|_| (0..dims).map(|_| flip()).collect()).collect();
        Self { flips, part: if dims == 0 { 0 } else { 1 << dims.ilog2() } }
    }

    fn apply(&self, vector: &mut [f32]) {
        let rest = vector.len() - self.part;
        for (round, flips) in self.flips.iter().enumerate() {
            vector.iter_mut().zip(flips).for_each(|(number, flip)| *number *= flip);
            let start = if round % 2 == 0 { 0 } else { rest };
            hadamard(&mut vector[start..start + self.part]);
        }
    }
}

fn hadamard(numbers: &mut [f32]) {
    // The steps within eight components come first, in a form that stays in registers.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator that needs no crate and gives the same numbers everywhere (SplitMix64).
    struct Dice(u64);

    impl Dice {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        }

        /// Nearly normal.
        fn normal(&mut self) -> f32 {
            (0..4).map(|_| (self.next() >> 40) as f32 / (1_u64 << 24) as f32).sum::<f32>() - 2.0
        }

        fn normals(&mut self, count: usize) -> Vec<f32> {
            (0..count).map(|_| self.normal()).collect()
        }
    }

    fn unit(mut vector: Vec<f32>) -> Vec<f32> {
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.iter_mut().for_each(|x| *x /= length);
        vector
    }

    fn dot(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// The share of the true best ten that are among the `asked` this index gives.
    fn recall(vectors: &[Vec<f32>], queries: &[Vec<f32>]) -> f64 {
        let mut index = Quantised::new(vectors[0].len());
        vectors.iter().zip(0..).for_each(|(vector, row)| index.load(row, vector));
        index.recentre();
        let mut found = 0;
        for query in queries {
            let mut exact: Vec<(f32, u32)> =
                vectors.iter().zip(0..).map(|(v, row)| (dot(v, query), row)).collect();
            exact.select_nth_unstable_by(10, |a, b| b.0.total_cmp(&a.0));
            let near = index.search(query, 25, None);
            found += exact[..10].iter().filter(|(_, row)| near.iter().any(|(one, _)| one == row)).count();
        }
        found as f64 / (queries.len() * 10) as f64
    }

    #[test]
    fn clustered_vectors_are_found_nearly_always() {
        let mut dice = Dice(1);
        let clusters: Vec<Vec<f32>> = (0..100).map(|_| dice.normals(96)).collect();
        let mut make = || {
            let cluster = &clusters[(dice.next() % 100) as usize];
            unit(cluster.iter().map(|x| x + 0.6 * dice.normal()).collect())
        };
        let (vectors, queries): (Vec<_>, Vec<_>) =
            ((0..20_000).map(|_| make()).collect(), (0..20).map(|_| make()).collect());
        let recall = recall(&vectors, &queries);
        assert!(recall >= 0.98, "{recall}");
    }

    #[test]
    fn sparse_vectors_with_a_common_part_are_found_nearly_always() {
        // As the built-in embedder makes them: a few positions for each word, and words that
        // nearly every text has.
        let mut dice = Dice(2);
        let mut make = || {
            let mut vector = vec![0.0; 384];
            for word in 0..5 + dice.next() % 40 {
                let word = if word % 3 == 0 { dice.next() % 20 } else { dice.next() % 3_000 };
                let mut hash = Dice(word);
                for _ in 0..3 {
                    let at = (hash.next() % 384) as usize;
                    vector[at] += if hash.next().is_multiple_of(2) { 1.0 } else { -1.0 };
                }
            }
            vector[0] += 0.001;
            unit(vector)
        };
        let (vectors, queries): (Vec<_>, Vec<_>) =
            ((0..8_000).map(|_| make()).collect(), (0..20).map(|_| make()).collect());
        let recall = recall(&vectors, &queries);
        assert!(recall >= 0.98, "{recall}");
    }

    #[test]
    fn scores_are_close_to_the_cosine_at_any_length() {
        let mut dice = Dice(3);
        for dims in [1, 2, 3, 26, 64, 65, 384, 1536] {
            let mut index = Quantised::new(dims);
            let vectors: Vec<Vec<f32>> = (0..20).map(|_| dice.normals(dims)).collect();
            vectors.iter().zip(0..).for_each(|(vector, row)| index.put(row, vector));
            let query = dice.normals(dims);
            let found = index.search(&query, 20, None);
            assert_eq!(found.len(), 20);
            for (row, score) in found {
                let vector = &vectors[row as usize];
                let cosine = dot(vector, &query) / (dot(vector, vector) * dot(&query, &query)).sqrt();
                assert!((score - cosine).abs() < 0.01, "{dims}: {score} {cosine}");
            }
        }
    }

    #[test]
    fn a_scan_finds_what_the_estimates_say_on_any_processor() {
        let mut dice = Dice(5);
        for dims in [1, 64, 65, 100, 384] {
            let mut index = Quantised::new(dims);
            (0..3_000).for_each(|row| index.load(row, &dice.normals(dims)));
            index.recentre();
            let query = index.rotate(&dice.normals(dims)).unwrap();
            let signs = SignQuery::new(&query, index.words);
            let mut all: Vec<(f32, u32)> =
                (0..3_000).map(|position| (index.estimate(&signs, position as usize), position)).collect();
            all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            for count in [1, 10, 700, 1_600] {
                let mut expected: Vec<u32> = all[..count].iter().map(|(_, position)| *position).collect();
                expected.sort_unstable();
                assert_eq!(index.candidates(&query, None, count), expected, "{dims} {count}");
                let everywhere: Vec<u32> = (0..3_000).rev().collect();
                assert_eq!(index.candidates(&query, Some(&everywhere), count), expected, "{dims} {count}");
            }
        }
    }

    #[test]
    fn vectors_come_and_go() {
        let mut dice = Dice(4);
        let mut index = Quantised::new(8);
        let mut kept: std::collections::BTreeMap<u32, Vec<f32>> = Default::default();
        for _ in 0..3_000 {
            let row = (dice.next() % 700) as u32;
            if dice.next().is_multiple_of(3) {
                index.remove(row);
                kept.remove(&row);
            } else {
                let vector = unit(dice.normals(8));
                index.put(row, &vector);
                kept.insert(row, vector);
            }
        }
        assert_eq!(index.len(), kept.len());
        let rows: Vec<u32> = index.search(&[1.0; 8], 700, None).into_iter().map(|(row, _)| row).collect();
        assert_eq!(rows.len(), kept.len());
        assert!(rows.iter().all(|row| kept.contains_key(row)));
        let some: Vec<u32> = (0..700).step_by(7).collect();
        let among = index.search(&[1.0; 8], 700, Some(&some));
        assert_eq!(among.len(), some.iter().filter(|row| kept.contains_key(row)).count());
        // A vector of length zero is not stored.
        let row = *kept.keys().next().unwrap();
        index.put(row, &[0.0; 8]);
        index.put(row + 10_000, &[1.0; 7]);
        assert_eq!(index.len(), kept.len() - 1);
    }
}
