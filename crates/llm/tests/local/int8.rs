//! Whole numbers of eight bits instead of floats: about the same vectors, and no surprise with strange weights.

use super::*;

const TENSOR: &str = "encoder.layer.0.output.dense.weight";

fn texts() -> Vec<String> {
    let words = "the agent reads graph a long text that goes on and far beyond what model can read at once";
    let words: Vec<&str> = words.split(' ').collect();
    (0..60)
        .map(|n| (0..n % 13).map(|at| words[(n * 7 + at * 3) % words.len()]).collect::<Vec<_>>().join(" "))
        .collect()
}

async fn embed(dir: &Path, precision: Precision, texts: &[String]) -> Vec<Vec<f32>> {
    load_with(dir, precision).unwrap().embed(texts, EmbedTask::Document).await.unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// A copy of the tiny model in which `change` may alter the numbers of one tensor.
fn with_weights(tensor: &str, change: impl Fn(usize, f32) -> f32) -> tempfile::TempDir {
    let dir = copy();
    let path = dir.path().join("model.safetensors");
    let mut bytes = fs::read(&path).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let metadata: Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let offset = |at: usize| metadata[tensor]["data_offsets"][at].as_u64().unwrap() as usize;
    let numbers = &mut bytes[8 + header..][offset(0)..offset(1)];
    for (at, number) in numbers.chunks_exact_mut(4).enumerate() {
        let changed = change(at, f32::from_le_bytes((&*number).try_into().unwrap()));
        number.copy_from_slice(&changed.to_le_bytes());
    }
    fs::write(path, bytes).unwrap();
    dir
}

#[tokio::test]
async fn vectors_of_both_precisions_are_nearly_equal() {
    let texts = texts();
    let (float, int8) =
        (embed(&tiny(), Precision::Float, &texts).await, embed(&tiny(), Precision::Int8, &texts).await);
    for ((text, float), int8) in texts.iter().zip(&float).zip(&int8) {
        assert!(cosine(float, int8) > 0.99, "{text:?}: {}", cosine(float, int8));
        assert!((cosine(int8, int8) - 1.0).abs() < 1e-5);
    }
}

#[tokio::test]
async fn a_vector_does_not_depend_on_the_other_texts_of_its_call() {
    let texts = texts();
    let together = embed(&tiny(), Precision::Int8, &texts).await;
    for at in [0, 1, 12, 59] {
        let alone = embed(&tiny(), Precision::Int8, &texts[at..=at]).await;
        let off = alone[0].iter().zip(&together[at]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 1e-6, "text {at} is off by {off}");
    }
}

#[tokio::test]
async fn the_shortest_and_the_longest_text_have_vectors() {
    let texts = ["".into(), "a".into(), "the agent reads ".repeat(100_000)];
    let (float, int8) =
        (embed(&tiny(), Precision::Float, &texts).await, embed(&tiny(), Precision::Int8, &texts).await);
    for (float, int8) in float.iter().zip(&int8) {
        assert!(cosine(float, int8) > 0.99, "{}", cosine(float, int8));
    }
}

#[test]
fn both_precisions_have_the_same_name_because_their_vectors_are_comparable() {
    let name = |precision| load_with(&tiny(), precision).unwrap().model().to_owned();
    assert_eq!(name(Precision::Int8), name(Precision::Float));
}

#[test]
fn weights_that_are_no_numbers_are_refused_by_name() {
    let tensors = [
        TENSOR,
        "encoder.layer.1.attention.self.query.weight",
        "encoder.layer.1.attention.self.key.weight",
        "encoder.layer.0.attention.self.value.weight",
        "embeddings.word_embeddings.weight",
    ];
    for tensor in tensors {
        for bad in [f32::NAN, f32::INFINITY] {
            let dir = with_weights(tensor, |at, number| if at == 77 { bad } else { number });
            let error = load_with(dir.path(), Precision::Int8).err().expect(tensor);
            let cause = std::error::Error::source(&error).unwrap().to_string();
            let name = tensor.strip_suffix(".weight").unwrap();
            assert!(cause.contains(name) && cause.contains("not finite"), "{cause}");
        }
    }
}

#[tokio::test]
async fn strange_weights_give_a_vector_or_an_error() {
    let strange: [fn(usize, f32) -> f32; 5] = [
        |_, _| 0.0,
        |_, _| 1e-44,
        |_, number| number * 1e37,
        |at, _| if at % 2 == 0 { f32::MAX } else { f32::MIN },
        |at, number| if at < 32 { 0.0 } else { number },
    ];
    let texts = texts();
    let tensors = [
        TENSOR,
        "encoder.layer.0.attention.self.key.weight",
        "embeddings.word_embeddings.weight",
        "encoder.layer.1.output.LayerNorm.weight",
    ];
    for tensor in tensors {
        for change in strange {
            let model = load_with(with_weights(tensor, change).path(), Precision::Int8).unwrap();
            if let Ok(vectors) = model.embed(&texts, EmbedTask::Document).await {
                assert!(vectors.iter().all(|vector| (cosine(vector, vector) - 1.0).abs() < 1e-4));
            }
        }
    }
}

/// Runs with a real model if `EMERGENT_TEST_SENTENCE_MODEL` names its directory.
#[tokio::test]
async fn a_real_model_has_nearly_the_same_vectors_in_both_precisions() {
    let Some(dir) = std::env::var_os("EMERGENT_TEST_SENTENCE_MODEL") else {
        eprintln!("skipped: set EMERGENT_TEST_SENTENCE_MODEL to a sentence-transformers directory");
        return;
    };
    let text = "The coordinator assigns each task to the agent whose definition fits it best. Who founded the \
                Bank of England in 1694? How do I fix my car, and where is the spare key? A recipe for apple pie.";
    let words: Vec<&str> = text.split(' ').collect();
    let texts: Vec<String> =
        (0..24).map(|at| words[at..(at + 1 + at * at % 17).min(words.len())].join(" ")).collect();
    let (float, int8) = (
        embed(Path::new(&dir), Precision::Float, &texts).await,
        embed(Path::new(&dir), Precision::Int8, &texts).await,
    );
    let lowest = float.iter().zip(&int8).map(|(a, b)| cosine(a, b)).fold(1.0, f32::min);
    println!("lowest cosine: {lowest}");
    assert!(lowest > 0.99, "{lowest}");
}
