//! Threads on which a computation stays by itself.
//!
//! The matrix products divide their work among the threads of the pool that they are called in. Several calls are
//! computed at the same time instead, each with up to 32 texts on one thread: that is the same throughput, and a query
//! costs no more processor time than its own.

use parking_lot::Mutex;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::BoxedError;

/// Pools of one thread each. There are as many as computations ran at the same time.
#[derive(Default)]
pub struct Threads {
    idle: Mutex<Vec<ThreadPool>>,
}

impl Threads {
    /// Runs `job` on a thread that does nothing else meanwhile, and waits for it.
    pub fn run<T: Send>(&self, job: impl FnOnce() -> Result<T, BoxedError> + Send) -> Result<T, BoxedError> {
        let idle = self.idle.lock().pop();
        let pool = match idle {
            Some(pool) => pool,
            None => {
                ThreadPoolBuilder::new().num_threads(1).thread_name(|_| "sentence-model".into()).build()?
            }
        };
        let result = pool.install(job);
        self.idle.lock().push(pool);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_one_thread_which_the_next_job_uses_again() {
        let threads = Threads::default();
        let run = || threads.run(|| Ok((rayon::current_num_threads(), std::thread::current().id()))).unwrap();
        let (count, first) = run();
        assert_eq!(count, 1);
        assert_eq!(run().1, first);
        let (_, nested) = threads.run(|| Ok(((), run().1))).unwrap();
        assert_ne!(nested, first);
    }

    #[test]
    fn an_error_is_returned() {
        let failed: Result<(), _> = Threads::default().run(|| Err("broken".into()));
        assert_eq!(failed.unwrap_err().to_string(), "broken");
    }
}
