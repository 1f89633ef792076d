use super::*;

/// A random generator with the same numbers on every machine (SplitMix64).
struct TestRng(u64);

impl TestRng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A nearly normally distributed number.
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

/// The share of the ten truly nearest vectors that are among the 25 best hits of the index.
fn recall(vectors: &[Vec<f32>], queries: &[Vec<f32>]) -> f64 {
    let mut index = Quantised::new(vectors[0].len());
    vectors.iter().zip(0..).for_each(|(vector, row)| index.load(row, vector));
    index.recentre();
    let mut found_count = 0;
    for query in queries {
        let mut exact: Vec<(f32, u32)> =
            vectors.iter().zip(0..).map(|(v, row)| (dot(v, query), row)).collect();
        exact.select_nth_unstable_by(10, |a, b| b.0.total_cmp(&a.0));
        let hits = index.search(query, 25, None);
        found_count += exact[..10].iter().filter(|(_, row)| hits.iter().any(|(hit, _)| hit == row)).count();
    }
    found_count as f64 / (queries.len() * 10) as f64
}

#[test]
fn clustered_vectors_are_found_nearly_always() {
    let mut rng = TestRng(1);
    let clusters: Vec<Vec<f32>> = (0..100).map(|_| rng.normals(96)).collect();
    let mut make = || {
        let cluster = &clusters[(rng.next() % 100) as usize];
        unit(cluster.iter().map(|x| x + 0.6 * rng.normal()).collect())
    };
    let (vectors, queries): (Vec<_>, Vec<_>) =
        ((0..20_000).map(|_| make()).collect(), (0..20).map(|_| make()).collect());
    let recall = recall(&vectors, &queries);
    assert!(recall >= 0.98, "{recall}");
}

#[test]
fn sparse_vectors_with_a_common_part_are_found_nearly_always() {
    // Like the vectors of the built-in embedder: a few components for each word, and words that nearly
    // every text contains.
    let mut rng = TestRng(2);
    let mut make = || {
        let mut vector = vec![0.0; 384];
        for word in 0..5 + rng.next() % 40 {
            let word = if word % 3 == 0 { rng.next() % 20 } else { rng.next() % 3_000 };
            let mut hash = TestRng(word);
            for _ in 0..3 {
                let component = (hash.next() % 384) as usize;
                vector[component] += if hash.next().is_multiple_of(2) { 1.0 } else { -1.0 };
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
fn scores_are_close_to_the_cosine_for_any_number_of_dimensions() {
    let mut rng = TestRng(3);
    for dims in [1, 2, 3, 26, 64, 65, 384, 1536] {
        let mut index = Quantised::new(dims);
        let vectors: Vec<Vec<f32>> = (0..20).map(|_| rng.normals(dims)).collect();
        vectors.iter().zip(0..).for_each(|(vector, row)| index.put(row, vector));
        let query = rng.normals(dims);
        let hits = index.search(&query, 20, None);
        assert_eq!(hits.len(), 20);
        for (row, score) in hits {
            let vector = &vectors[row as usize];
            let cosine = dot(vector, &query) / (dot(vector, vector) * dot(&query, &query)).sqrt();
            assert!((score - cosine).abs() < 0.01, "{dims}: {score} {cosine}");
        }
    }
}

#[test]
fn a_scan_finds_the_best_estimates_on_any_processor() {
    let mut rng = TestRng(5);
    for dims in [1, 64, 65, 100, 384] {
        let mut index = Quantised::new(dims);
        (0..3_000).for_each(|row| index.load(row, &rng.normals(dims)));
        index.recentre();
        let query = index.rotate(&rng.normals(dims)).unwrap();
        let signs = SignQuery::new(&query, index.words);
        let mut estimates: Vec<(f32, u32)> =
            (0..3_000).map(|position| (index.estimate(&signs, position as usize), position)).collect();
        estimates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for count in [1, 10, 700, 1_600] {
            let mut expected: Vec<u32> = estimates[..count].iter().map(|(_, position)| *position).collect();
            expected.sort_unstable();
            assert_eq!(index.candidates(&query, None, count), expected, "{dims} {count}");
            let all_positions: Vec<u32> = (0..3_000).rev().collect();
            assert_eq!(index.candidates(&query, Some(&all_positions), count), expected, "{dims} {count}");
        }
    }
}

#[test]
fn vectors_can_be_added_replaced_and_removed() {
    let mut rng = TestRng(4);
    let mut index = Quantised::new(8);
    let mut expected: std::collections::BTreeMap<u32, Vec<f32>> = Default::default();
    for _ in 0..3_000 {
        let row = (rng.next() % 700) as u32;
        if rng.next().is_multiple_of(3) {
            index.remove(row);
            expected.remove(&row);
        } else {
            let vector = unit(rng.normals(8));
            index.put(row, &vector);
            expected.insert(row, vector);
        }
    }
    assert_eq!(index.len(), expected.len());
    let rows: Vec<u32> = index.search(&[1.0; 8], 700, None).into_iter().map(|(row, _)| row).collect();
    assert_eq!(rows.len(), expected.len());
    assert!(rows.iter().all(|row| expected.contains_key(row)));
    let some_rows: Vec<u32> = (0..700).step_by(7).collect();
    let hits = index.search(&[1.0; 8], 700, Some(&some_rows));
    assert_eq!(hits.len(), some_rows.iter().filter(|row| expected.contains_key(row)).count());
    // A vector of length zero or with another number of dimensions is not stored.
    let row = *expected.keys().next().unwrap();
    index.put(row, &[0.0; 8]);
    index.put(row + 10_000, &[1.0; 7]);
    assert_eq!(index.len(), expected.len() - 1);
}
