//! Measures a sentence model in both precisions: `cargo run --release -p emergent-llm --example local_speed DIR`
//!
//! Prints the processor time of a query by its number of tokens, the throughput of long lists of texts, the time and
//! memory of loading, and how near the vectors of both precisions are. Other work on the machine makes the times longer;
//! the shortest of several runs is printed.

use std::{
    env, fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use emergent_llm::{Credentials, EmbedTask, Embedder, EmbedderSpec, Precision, embedder};
use rustix::time::{ClockId, clock_gettime};

const TEXT: &str = "The coordinator assigns each task to the agent whose definition fits it best, \
and keeps the task in the queue while its blockers are open. When an agent finishes, the session \
records the result, closes the task and looks for tasks that have become available. Failed tasks \
are retried a few times before a person is asked to decide about them.";
const RUNS: usize = 15;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir: PathBuf = env::args_os().nth(1).ok_or("name the directory of a sentence model")?.into();
    // Other texts to compare the vectors of, one on each line.
    let more = env::args_os().nth(2).map(fs::read_to_string).transpose()?;
    let texts: Vec<String> = match &more {
        Some(lines) => lines.lines().map(str::to_owned).collect(),
        None => sample_texts(),
    };

    println!("{:28} {:>12} {:>12}", "", "float", "int8");
    let before = memory();
    let (float, float_load) = load(&dir, Precision::Float)?;
    let with_float = memory();
    let (int8, int8_load) = load(&dir, Precision::Int8)?;
    let with_int8 = memory();
    row("load, processor time", float_load, int8_load);
    let size = |from: u64, to: u64| format!("{} MB", to.saturating_sub(from) / 1000);
    println!("{:28} {:>12} {:>12}", "memory", size(before, with_float), size(with_float, with_int8));

    for tokens in [8, 16, 32, 128] {
        // Each of these words is one token of the models' vocabulary, and two more are around the text.
        let words: Vec<&str> =
            "the agent reads a graph of words ".split_whitespace().cycle().take(tokens - 2).collect();
        let query = [words.join(" ")];
        row(
            &format!("query of {tokens} tokens"),
            fastest(&*float, &query, EmbedTask::Query).await?,
            fastest(&*int8, &query, EmbedTask::Query).await?,
        );
    }
    let many = vec![TEXT.to_owned(); 32];
    let (slow, fast) = (
        fastest(&*float, &many, EmbedTask::Document).await?,
        fastest(&*int8, &many, EmbedTask::Document).await?,
    );
    row("1,000 texts of 60 words", slow * 1000 / 32, fast * 1000 / 32);

    let mut cosines = Vec::new();
    for texts in texts.chunks(32) {
        let float = float.embed(texts, EmbedTask::Document).await?;
        let int8 = int8.embed(texts, EmbedTask::Document).await?;
        cosines
            .extend(float.iter().zip(&int8).map(|(a, b)| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>()));
    }
    cosines.sort_by(f32::total_cmp);
    let mean = cosines.iter().sum::<f32>() / cosines.len() as f32;
    println!("cosine of both over {} texts: lowest {:.4}, mean {mean:.4}", cosines.len(), cosines[0]);
    Ok(())
}

fn load(dir: &PathBuf, precision: Precision) -> Result<(Arc<dyn Embedder>, Duration), emergent_llm::Error> {
    let start = processor_time();
    let model = embedder(&EmbedderSpec::Local(dir.into(), precision), &Credentials::default())?;
    Ok((model.expect("not off"), processor_time() - start))
}

/// The processor time of the whole process for the texts, the shortest of some runs.
async fn fastest(
    model: &dyn Embedder,
    texts: &[String],
    task: EmbedTask,
) -> Result<Duration, emergent_llm::Error> {
    let mut fastest = Duration::MAX;
    let begin = Instant::now();
    for _ in 0..RUNS * 10 {
        let start = processor_time();
        model.embed(texts, task).await?;
        fastest = fastest.min(processor_time() - start);
        if begin.elapsed() > Duration::from_secs(10) {
            break;
        }
    }
    Ok(fastest)
}

/// Parts of a text of each length, in three spellings.
fn sample_texts() -> Vec<String> {
    let words: Vec<&str> = TEXT.split_whitespace().collect();
    let starts = (0..words.len()).flat_map(|from| [3, 10, 30].map(|length| (from, length)));
    let parts = starts.map(|(from, length)| {
        words.iter().cycle().skip(from).take(length).copied().collect::<Vec<_>>().join(" ")
    });
    parts.flat_map(|text| [text.to_uppercase(), text.replace('e', "3"), text]).collect()
}

fn row(label: &str, float: Duration, int8: Duration) {
    let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    println!("{label:28} {:>12} {:>12}", ms(float), ms(int8));
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The kilobytes of this process that are in memory; 0 where the system does not say.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
