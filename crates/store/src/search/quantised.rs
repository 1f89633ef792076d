//! An index of quantised vectors, small enough to scan all of them: one bit per component to find candidates,
//! one byte per component to order the candidates.
//!
//! Each vector is multiplied by the same random rotation, which spreads its information evenly over the
//! components. Only then is the sign of every component informative, for vectors of any model.
//! The mean of all vectors is subtracted before the signs are taken, since a part that all vectors have in
//! common does not distinguish them. A query has four bits per component. Its product with a row of signs is
//! four times `AND` and a population count. Scaled by the quantisation error of the row, that is an unbiased
//! estimate of the true product (the method of RaBitQ, Gao and Long, 2024).
//!
//! This module depends on neither projects nor databases. Scores are approximate: the caller requests a few
//! more rows than it needs and compares those exactly.

mod rotation;

use rotation::Rotation;

/// At least this many candidates are compared by bytes.
const MIN_RESCORED: usize = 1_500;
/// At least this many candidates for each requested row.
const RESCORED_PER_HIT: usize = 32;
/// At least one in this many of all vectors, since the error of the signs does not shrink with their number.
const RESCORED_FRACTION: usize = 40;
/// With fewer vectors, the mean is not subtracted.
const MIN_FOR_CENTRE: usize = 256;
/// The bits per component of a query.
const QUERY_BITS: usize = 4;
/// The most steps per component of a query that is compared with bytes: twelve bits.
const MAX_QUERY_STEPS: f32 = 4095.0;
/// The largest value of a byte code.
const MAX_CODE: f32 = 127.0;
/// Marks a row without a vector.
const NO_POSITION: u32 = u32::MAX;

/// The index. The vector at position `p` has row `rows[p]`, and its signs and codes start at `p * words` and
/// `p * dims`.
pub(super) struct Quantised {
    dims: usize,
    /// The number of 64-bit words of signs per vector.
    words: usize,
    rotation: Rotation,
    /// The mean of the rotated vectors.
    centre: Vec<f32>,
    /// The number of vectors when the mean was computed.
    centred_at: usize,
    /// The position of a row's vector, by the row number within its project.
    positions: Vec<u32>,
    /// The row of the vector at each position.
    rows: Vec<u32>,
    scales: Vec<Scale>,
    /// One bit per component: whether it is above the mean.
    signs: Vec<u64>,
    /// One byte per component of the rotated vector.
    codes: Vec<i8>,
}

/// The factors of one vector that turn integer products into estimates of the true product.
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

    /// Reserves memory for exactly `more` vectors: doubling would waste a third of the memory.
    pub(super) fn reserve(&mut self, more: usize) {
        self.rows.reserve_exact(more);
        self.scales.reserve_exact(more);
        self.signs.reserve_exact(more * self.words);
        self.codes.reserve_exact(more * self.dims);
    }

    /// Adds or replaces the vector of a row. A vector with another number of dimensions, or of length zero,
    /// removes the row.
    pub(super) fn put(&mut self, row: u32, vector: &[f32]) {
        let Some(position) = self.store(row, vector) else { return self.remove(row) };
        self.update_signs(position);
        if self.len() >= MIN_FOR_CENTRE && self.len() >= 2 * self.centred_at {
            self.recentre();
        }
    }

    /// As [`Quantised::put`], for loading many vectors: searches find them only after the next
    /// [`Quantised::recentre`].
    pub(super) fn load(&mut self, row: u32, vector: &[f32]) {
        self.store(row, vector);
    }

    /// Stores the codes of a vector and returns its position; `None` when the vector cannot be stored.
    fn store(&mut self, row: u32, vector: &[f32]) -> Option<usize> {
        let rotated = self.rotate(vector)?;
        let position = self.position(row).unwrap_or_else(|| self.add(row));
        let largest = rotated.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let code_scale = largest / MAX_CODE;
        for (code, number) in self.codes[position * self.dims..].iter_mut().zip(&rotated) {
            *code = (number / code_scale).round() as i8;
        }
        self.scales[position].code = code_scale;
        Some(position)
    }

    /// Removes the vector of a row. The last vector moves to its position.
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
        let candidate_count =
            (limit * RESCORED_PER_HIT).max(MIN_RESCORED).max(self.len() / RESCORED_FRACTION);
        let positions = match among {
            Some(rows) => {
                let positions: Vec<u32> = rows
                    .iter()
                    .filter_map(|row| self.position(*row))
                    .map(|position| position as u32)
                    .collect();
                if positions.len() > candidate_count {
                    self.candidates(&query, Some(&positions), candidate_count)
                } else {
                    positions
                }
            }
            None if self.len() > candidate_count => self.candidates(&query, None, candidate_count),
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

    /// Compares signs: the positions of the `count` best vectors, in ascending order. `among` restricts them
    /// to some positions.
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

    /// The estimated product with the vector at a position.
    fn estimate(&self, query: &SignQuery, position: usize) -> f32 {
        let signs = &self.signs[position * self.words..(position + 1) * self.words];
        query.estimate(signs, &self.scales[position])
    }

    /// Compares bytes: the row and the approximate cosine of each position.
    fn rescore(&self, query: &[f32], positions: &[u32]) -> Vec<(u32, f32)> {
        // With twelve bits the error of the query is below that of the codes. The sums must fit into 31 bits.
        let largest = query.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let step = largest / (i32::MAX as f32 / MAX_CODE / self.dims as f32).min(MAX_QUERY_STEPS);
        let query: Vec<i16> = query.iter().map(|number| (number / step).round() as i16).collect();
        let mut dots = vec![0; positions.len()];
        fast::dots(&query, &self.codes, positions, &mut dots);
        let cosine = |(position, dot): (&u32, i32)| {
            let position = *position as usize;
            (self.rows[position], dot as f32 * step * self.scales[position].code)
        };
        positions.iter().zip(dots).map(cosine).collect()
    }

    /// The position of the vector of a row; `None` when the row has no vector.
    fn position(&self, row: u32) -> Option<usize> {
        self.positions
            .get(row as usize)
            .filter(|position| **position != NO_POSITION)
            .map(|position| *position as usize)
    }

    /// Adds a position for the vector of a row.
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
                let centred = f32::from(*code) * scale.code - centre;
                bits |= u64::from(centred > 0.0) << bit;
                sum += centred.abs();
                squares += centred * centred;
            }
            *word = bits;
        }
        scale.ones = signs.iter().map(|word| word.count_ones()).sum::<u32>() as f32;
        scale.sign = if sum > 0.0 { squares / sum } else { 0.0 };
    }

    /// The vector, scaled to length one and rotated; `None` for a vector with another number of dimensions or
    /// of length zero.
    fn rotate(&self, vector: &[f32]) -> Option<Vec<f32>> {
        if vector.len() != self.dims {
            return None;
        }
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        if !(length.is_finite() && length > 0.0) {
            return None;
        }
        let mut rotated: Vec<f32> = vector.iter().map(|number| number / length).collect();
        self.rotation.apply(&mut rotated);
        Some(rotated)
    }
}

/// Collects the `count` best of many estimates. Most are below the threshold and cost one comparison.
struct TopK {
    count: usize,
    /// The score that an estimate has to reach: the worst of the best when the list was last pruned.
    threshold: f32,
    candidates: Vec<(f32, u32)>,
}

impl TopK {
    fn new(count: usize) -> Self {
        Self { count, threshold: f32::NEG_INFINITY, candidates: Vec::with_capacity(2 * count) }
    }

    /// Adds an estimate if it may be one of the best.
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

    /// Drops all but the best. Of equal ones the first stay, so that a query always returns the same rows.
    fn prune(&mut self) {
        if let Some(worst) = self.count.checked_sub(1)
            && self.candidates.len() > self.count
        {
            self.candidates.select_nth_unstable_by(worst, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            self.threshold = self.candidates[worst].0;
        }
        self.candidates.truncate(self.count);
    }

    /// The positions of the best, in ascending order.
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
    /// The sum of all components.
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
        for (component, number) in query.iter().enumerate() {
            let level = ((number - low) / step).round().clamp(0.0, levels) as u64;
            sum += low + step * level as f32;
            for (bit, plane) in planes[component / 64].iter_mut().enumerate() {
                *plane |= (level >> bit & 1) << (component % 64);
            }
        }
        Self { planes, low, step, sum }
    }

    /// The estimated product with the vector of these signs, without a term that is the same for all vectors.
    #[inline(always)]
    fn estimate(&self, signs: &[u64], scale: &Scale) -> f32 {
        // Each plane has its own sum; with one sum, each addition would wait for the one before.
        let mut counts = [0_u32; QUERY_BITS];
        for (signs, planes) in signs.iter().zip(&self.planes) {
            for (count, plane) in counts.iter_mut().zip(planes) {
                *count += (signs & plane).count_ones();
            }
        }
        let weighted: u32 = counts.iter().enumerate().map(|(bit, count)| count << bit).sum();
        self.dot_product(weighted, scale)
    }

    /// The product from the weighted sum of the plane counts. `product_of_set` is the part of the components
    /// whose sign is set; the others count negatively.
    #[inline(always)]
    fn dot_product(&self, weighted: u32, scale: &Scale) -> f32 {
        let product_of_set = self.low * scale.ones + self.step * weighted as f32;
        scale.sign * (2.0 * product_of_set - self.sum)
    }
}

/// The two inner loops, each also compiled for processors that count bits, or multiply many numbers, in one
/// instruction. The code is the same; only the instructions that the compiler may use differ. The exception
/// is `scan_avx512`, which counts all planes of a word at once; compilers do not generate that by themselves.
#[cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "only a check at run time shows that the processor has the features of a `target_feature` function"
    )
)]
mod fast {
    use super::{QUERY_BITS, Scale, SignQuery, TopK};

    /// Offers the estimate of every vector to `best`.
    pub(super) fn scan(query: &SignQuery, signs: &[u64], scales: &[Scale], best: &mut TopK) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512vpopcntdq") {
            // SAFETY: the processor has the instructions that the function was compiled for.
            return unsafe { scan_avx512(query, signs, scales, best) };
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has the instructions that the function was compiled for.
            return unsafe { scan_popcnt(query, signs, scales, best) };
        }
        scan_any(query, signs, scales, best);
    }

    /// Writes the products of a query with the codes at some positions to `products`.
    pub(super) fn dots(query: &[i16], codes: &[i8], positions: &[u32], products: &mut [i32]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the instructions that the function was compiled for.
            return unsafe { dots_avx2(query, codes, positions, products) };
        }
        dots_any(query, codes, positions, products);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512vl,avx512vpopcntdq")]
    fn scan_avx512(query: &SignQuery, signs: &[u64], scales: &[Scale], best: &mut TopK) {
        use std::arch::x86_64::{
            _mm_add_epi64, _mm_cvtsi128_si64, _mm_unpackhi_epi64, _mm256_add_epi64, _mm256_and_si256,
            _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_popcnt_epi64, _mm256_set_epi64x,
            _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_sllv_epi64,
        };
        let to_lanes =
            |[a, b, c, d]: [u64; QUERY_BITS]| _mm256_set_epi64x(d as i64, c as i64, b as i64, a as i64);
        let shifts = to_lanes([0, 1, 2, 3]);
        let vectors = signs.chunks_exact(query.planes.len()).zip(scales);
        for (position, (signs, scale)) in vectors.enumerate() {
            let mut counts = _mm256_setzero_si256();
            for (signs, planes) in signs.iter().zip(&query.planes) {
                let common = _mm256_and_si256(_mm256_set1_epi64x(*signs as i64), to_lanes(*planes));
                counts = _mm256_add_epi64(counts, _mm256_popcnt_epi64(common));
            }
            let counts = _mm256_sllv_epi64(counts, shifts);
            let halves = _mm_add_epi64(_mm256_castsi256_si128(counts), _mm256_extracti128_si256::<1>(counts));
            let weighted = _mm_cvtsi128_si64(_mm_add_epi64(halves, _mm_unpackhi_epi64(halves, halves)));
            best.offer(query.dot_product(weighted as u32, scale), position as u32);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    fn scan_popcnt(query: &SignQuery, signs: &[u64], scales: &[Scale], best: &mut TopK) {
        scan_any(query, signs, scales, best);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn dots_avx2(query: &[i16], codes: &[i8], positions: &[u32], products: &mut [i32]) {
        dots_any(query, codes, positions, products);
    }

    #[inline(always)]
    fn scan_any(query: &SignQuery, signs: &[u64], scales: &[Scale], best: &mut TopK) {
        let vectors = signs.chunks_exact(query.planes.len()).zip(scales);
        for (position, (signs, scale)) in vectors.enumerate() {
            best.offer(query.estimate(signs, scale), position as u32);
        }
    }

    #[inline(always)]
    fn dots_any(query: &[i16], codes: &[i8], positions: &[u32], products: &mut [i32]) {
        for (position, product) in positions.iter().zip(products) {
            let codes = &codes[*position as usize * query.len()..][..query.len()];
            *product =
                query.iter().zip(codes).map(|(number, code)| i32::from(*number) * i32::from(*code)).sum();
        }
    }
}

#[cfg(test)]
mod tests;
