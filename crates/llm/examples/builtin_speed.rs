//! Measures the time that the built-in embedder needs for a text of 60 words: `cargo run --release -p
//! emergent-llm --example builtin_speed`

use std::time::Instant;

use emergent_llm::{Credentials, EmbedTask, EmbedderSpec, embedder};

const TEXT: &str = "The coordinator assigns each task to the agent whose definition fits it best, \
and keeps the task in the queue while its blockers are open. When an agent finishes, the session \
records the result, closes the task and looks for tasks that have become available. Failed tasks \
are retried a few times before a person is asked to decide about them.";

#[tokio::main]
async fn main() -> Result<(), emergent_llm::Error> {
    let embedder = embedder(&EmbedderSpec::Builtin, &Credentials::default())?.expect("not off");
    let texts = vec![TEXT.to_owned(); 10_000];
    embedder.embed(&texts[..100], EmbedTask::Document).await?;
    let start = Instant::now();
    embedder.embed(&texts, EmbedTask::Document).await?;
    let each = start.elapsed() / texts.len() as u32;
    println!("{}: {each:?} per text of {} words", embedder.model(), TEXT.split_whitespace().count());
    Ok(())
}
