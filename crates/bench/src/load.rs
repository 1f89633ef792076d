//! Many clients at once, each of which sends its next request when it has the answer to the last one.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How long the clients work before anything is measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// What clients measured.
pub struct Load {
    pub requests_per_second: f64,
    /// The time of each request, in milliseconds.
    pub times: Vec<f64>,
}

/// Lets clients work for this time. `connect` is called in the thread of each of them, with its number, and returns what
/// sends one request and reads its answer.
pub fn measure<C, W>(clients: usize, time: Duration, connect: C) -> Load
where
    C: Fn(usize) -> W + Send + Sync + 'static,
    W: FnMut(),
{
    let (is_measured, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (connect, all) = (Arc::new(connect), Arc::new(Mutex::new(Vec::new())));
    let threads: Vec<_> = (0..clients)
        .map(|number| {
            let (is_measured, stop) = (Arc::clone(&is_measured), Arc::clone(&stop));
            let (connect, all) = (Arc::clone(&connect), Arc::clone(&all));
            std::thread::spawn(move || {
                let (mut request, mut times) = (connect(number), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    request();
                    if is_measured.load(Ordering::Relaxed) {
                        times.push(start.elapsed().as_secs_f64() * 1e3);
                    }
                }
                all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut times);
            })
        })
        .collect();
    std::thread::sleep(WARM_UP);
    let start = Instant::now();
    is_measured.store(true, Ordering::Relaxed);
    std::thread::sleep(time);
    is_measured.store(false, Ordering::Relaxed);
    let seconds = start.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("a client"));
    let times = std::mem::take(&mut *all.lock().unwrap_or_else(PoisonError::into_inner));
    Load { requests_per_second: times.len() as f64 / seconds, times }
}
