//! Runs a parser on many inputs, and says what is wrong with the first that fails.

use std::{
    env, fs,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::{input, targets::Target};

/// How many cases an ordinary test runs.
const DEFAULT_CASES: u32 = 200;
/// An ordinary test ends after this time even if it has run fewer cases.
const DEFAULT_TIME: Duration = Duration::from_secs(4);
/// How many cases share a seed when the time decides.
const BATCH: u32 = 200;
/// The time for one input of the largest size. Without optimisation everything is slower.
const MAX_TIME: Duration =
    if cfg!(debug_assertions) { Duration::from_secs(10) } else { Duration::from_secs(2) };
/// A busy machine makes everything slow now and then: only an input that is slow each time fails.
const ATTEMPTS: usize = 3;
/// After this time a parser hangs. The test cannot stop it, so it ends the process.
const HANG: Duration = Duration::from_secs(90);

/// How long a parser is tested.
enum Extent {
    Cases(u32),
    Time(Duration),
}

fn extent() -> Extent {
    if let Some(seconds) = number("FUZZ_SECONDS") {
        return Extent::Time(Duration::from_secs(seconds));
    }
    Extent::Cases(
        number("PROPTEST_CASES").map_or(DEFAULT_CASES, |cases| u32::try_from(cases).unwrap_or(u32::MAX)),
    )
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{text}`")))
}

/// Runs a parser on as many inputs as the environment says.
pub fn check(target: &Target) {
    let seed = number("SEED").unwrap_or_else(|| u64::from(std::process::id()) ^ 0x5eed_0000);
    let (started, watchdog) = (Instant::now(), Watchdog::start(target.name));
    let strategy = input::inputs(target);
    let is_set = env::var("PROPTEST_CASES").is_ok();
    let mut total = 0_u64;
    loop {
        let batch_seed = seed.wrapping_add(total);
        let cases = match extent() {
            Extent::Cases(cases) => BATCH.min(cases.saturating_sub(u32::try_from(total).unwrap_or(u32::MAX))),
            Extent::Time(_) => BATCH,
        };
        let config =
            Config { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, rng(batch_seed));
        if let Err(error) = runner.run(&strategy, |bytes| case(target, &watchdog, &bytes)) {
            panic!("{}, SEED={batch_seed}: {error}", target.name);
        }
        total += u64::from(cases);
        let is_done = match extent() {
            Extent::Cases(cases) => {
                total >= u64::from(cases) || (!is_set && started.elapsed() > DEFAULT_TIME)
            }
            Extent::Time(time) => started.elapsed() >= time,
        };
        if is_done {
            break;
        }
    }
    println!("fuzz {}: {total} cases in {:.0?}, SEED={seed}", target.name, started.elapsed());
}

fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn case(target: &Target, watchdog: &Watchdog, bytes: &[u8]) -> Result<(), TestCaseError> {
    let began = Instant::now();
    let parse = |bytes: &[u8]| {
        watchdog.begin(bytes);
        let output = (target.parse)(bytes);
        watchdog.end();
        output
    };
    examine(target, bytes, MAX_TIME, || began.elapsed(), parse).map_err(TestCaseError::fail)
}

/// Says what is wrong with what a parser does with an input, if anything is. `clock` measures how long the parser
/// takes, which may be real time or time of the processor.
pub fn check_input(
    target: &Target,
    bytes: &[u8],
    max_time: Duration,
    clock: impl Fn() -> Duration,
) -> Result<(), String> {
    examine(target, bytes, max_time, clock, target.parse)
}

fn examine(
    target: &Target,
    bytes: &[u8],
    max_time: Duration,
    clock: impl Fn() -> Duration,
    parse: impl Fn(&[u8]) -> Result<String, String>,
) -> Result<(), String> {
    let mut fastest = Duration::MAX;
    let mut first = None;
    for attempt in 0..ATTEMPTS {
        let started = clock();
        let output = parse(bytes)?;
        fastest = fastest.min(clock().saturating_sub(started));
        let limit = (target.max_output)(bytes.len());
        if output.len() > limit {
            let length = output.len();
            return Err(format!("{} bytes became {length}, the limit is {limit}", bytes.len()));
        }
        match &first {
            Some(first) if *first != output => return Err("the same input had another output".to_owned()),
            _ => first = Some(output),
        }
        // The second attempt also shows that the result is the same.
        if attempt > 0 && fastest < max_time {
            return Ok(());
        }
    }
    Err(format!("{} bytes took {fastest:?} or more each time", bytes.len()))
}

/// Ends the process when a case does not end, and leaves its input in a file.
struct Watchdog(Arc<Mutex<Option<Case>>>);

/// When a case began, and its input.
type Case = (Instant, Vec<u8>);

impl Watchdog {
    fn start(name: &'static str) -> Self {
        let current = Arc::new(Mutex::new(None::<Case>));
        let watched = Arc::downgrade(&current);
        thread::spawn(move || {
            while let Some(current) = watched.upgrade() {
                let hanging = current.lock().expect("no panic while locked").clone();
                if let Some((_, bytes)) = hanging.filter(|(since, _)| since.elapsed() > HANG) {
                    let file = env::temp_dir().join(format!("fuzz-{name}-hangs"));
                    let _ = fs::write(&file, bytes);
                    eprintln!(
                        "fuzz {name}: an input did not end within {HANG:?}; it is in {}",
                        file.display()
                    );
                    std::process::abort();
                }
                drop(current);
                thread::sleep(Duration::from_millis(500));
            }
        });
        Self(current)
    }

    fn begin(&self, bytes: &[u8]) {
        *self.0.lock().expect("no panic while locked") = Some((Instant::now(), bytes.to_vec()));
    }

    fn end(&self) {
        *self.0.lock().expect("no panic while locked") = None;
    }
}
