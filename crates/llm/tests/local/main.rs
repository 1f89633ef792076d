//! Sentence models from a directory, compared with vectors that independent code computed.

mod int8;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use emergent_llm::{Credentials, EmbedTask, Embedder, EmbedderSpec, Error, Precision, embedder};
use serde_json::{Value, json};

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny-bert")
}

fn load(dir: &Path) -> Result<Arc<dyn Embedder>, Error> {
    load_with(dir, Precision::Float)
}

fn load_with(dir: &Path, precision: Precision) -> Result<Arc<dyn Embedder>, Error> {
    embedder(&EmbedderSpec::Local(dir.into(), precision), &Credentials::default()).map(Option::unwrap)
}

/// A copy of the tiny model that a test may change.
fn copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("1_Pooling")).unwrap();
    for file in fs::read_dir(tiny()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        fs::copy(&file, dir.path().join(file.file_name().unwrap())).unwrap();
    }
    fs::copy(tiny().join("1_Pooling/config.json"), dir.path().join("1_Pooling/config.json")).unwrap();
    dir
}

fn edit(path: PathBuf, change: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// Checks that the vectors are those that `expected.json` has for this pooling.
async fn check(dir: &Path, pooling: &str) {
    let expected: Value = serde_json::from_slice(&fs::read(tiny().join("expected.json")).unwrap()).unwrap();
    let texts: Vec<String> = serde_json::from_value(expected["texts"].clone()).unwrap();
    let expected: Vec<Vec<f32>> = serde_json::from_value(expected[pooling].clone()).unwrap();
    let vectors = load(dir).unwrap().embed(&texts, EmbedTask::Document).await.unwrap();
    assert_eq!(vectors.len(), expected.len());
    for ((text, is), expected) in texts.iter().zip(&vectors).zip(&expected) {
        let off = is.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(is.len() == expected.len() && off < 2e-6, "{pooling}, {text:?}: off by {off}");
    }
}

#[tokio::test]
async fn vectors_are_those_of_the_reference() {
    check(&tiny(), "mean").await;
}

#[tokio::test]
async fn pooling_follows_the_directory() {
    for (pooling, mode) in [("cls", "pooling_mode_cls_token"), ("max", "pooling_mode_max_tokens")] {
        let dir = copy();
        edit(dir.path().join("1_Pooling/config.json"), |config| *config = json!({ mode: true }));
        check(dir.path(), pooling).await;
    }
}

#[tokio::test]
async fn a_vocabulary_file_does_for_a_tokenizer_file() {
    let dir = copy();
    fs::remove_file(dir.path().join("tokenizer.json")).unwrap();
    check(dir.path(), "mean").await;
}

#[tokio::test]
async fn a_text_has_the_same_vector_alone_and_in_company() {
    let model = load(&tiny()).unwrap();
    let texts: Vec<String> = (0..200).map(|n| "the agent reads a graph ".repeat(n % 5)).collect();
    let together = model.embed(&texts, EmbedTask::Query).await.unwrap();
    for at in [0, 3, 77, 199] {
        let alone = model.embed(&texts[at..=at], EmbedTask::Query).await.unwrap();
        let off = alone[0].iter().zip(&together[at]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off < 1e-6, "text {at} is off by {off}");
    }
}

#[tokio::test]
async fn prompts_of_the_model_are_put_before_the_text() {
    let dir = copy();
    fs::write(dir.path().join("config_sentence_transformers.json"), r#"{"prompts":{"query":"the agent "}}"#)
        .unwrap();
    let (plain, prompted) = (load(&tiny()).unwrap(), load(dir.path()).unwrap());
    let long = plain.embed(&["the agent reads".into()], EmbedTask::Query).await.unwrap();
    assert_eq!(prompted.embed(&["reads".into()], EmbedTask::Query).await.unwrap(), long);
    assert_ne!(prompted.embed(&["reads".into()], EmbedTask::Document).await.unwrap(), long);
}

#[test]
fn the_name_tells_the_directory_and_the_weights() {
    let model = load(&tiny()).unwrap();
    assert_eq!(model.dims(), Some(32));
    assert!(model.model().starts_with("local/tiny-bert@"), "{}", model.model());
}

#[test]
fn what_cannot_be_computed_is_refused_by_name() {
    let refused = |file: &str, change: fn(&mut Value), expected: &str| {
        let dir = copy();
        edit(dir.path().join(file), change);
        let error = load(dir.path()).err().expect(expected);
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(matches!(error, Error::Local { .. }) && cause.contains(expected), "{cause}");
    };
    refused("config.json", |v| v["model_type"] = json!("mpnet"), "`mpnet`");
    refused("config.json", |v| v["hidden_act"] = json!("silu"), "`silu`");
    refused("config.json", |v| v["num_attention_heads"] = json!(5), "5 attention heads");
    refused("config.json", |v| v["hidden_size"] = json!(64), "instead of [");
    refused("config.json", |v| v["num_hidden_layers"] = json!(3), "`encoder.layer.2.");
    refused("modules.json", |v| v[1]["type"] = json!("sentence_transformers.models.Dense"), "`Dense`");
    refused("tokenizer.json", |v| v["model"]["type"] = json!("Unigram"), "`Unigram`");
    refused("tokenizer.json", |v| v["model"]["unk_token"] = json!("[NONE]"), "`[NONE]`");
    refused("tokenizer.json", |v| v["normalizer"] = json!("invented"), "`tokenizer.json`");
    refused("tokenizer.json", |v| v["post_processor"] = json!(null), "tokens around a text");
}

#[test]
fn a_directory_without_a_model_says_which_file_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let error = load(dir.path()).err().unwrap();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("`config.json` is missing"));
}

/// Runs with a real model if `EMERGENT_TEST_SENTENCE_MODEL` names its directory
/// (`scripts/sentence-model.sh` downloads one).
#[tokio::test]
async fn a_real_model_understands_paraphrases() {
    let Some(dir) = std::env::var_os("EMERGENT_TEST_SENTENCE_MODEL") else {
        eprintln!("skipped: set EMERGENT_TEST_SENTENCE_MODEL to a sentence-transformers directory");
        return;
    };
    let model = load(Path::new(&dir)).unwrap();
    let texts = ["How do I fix my car?", "automobile repair instructions", "a recipe for apple pie"];
    let vectors = model.embed(&texts.map(String::from), EmbedTask::Document).await.unwrap();
    let likeness = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(x, y)| x * y).sum::<f32>();
    assert!(likeness(0, 1) > likeness(0, 2) + 0.2, "{} {}", likeness(0, 1), likeness(0, 2));
}
