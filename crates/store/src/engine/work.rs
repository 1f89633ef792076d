//! The closures of transactions, with the types of their results erased. The engines run hundreds of
//! different closures: if they were generic over them, the tasks, waits and retries around a closure would
//! be compiled again for each of them, which took a large part of every build.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::{
    error::{Error, Result},
    tx::Tx,
};

/// Where the caller of a transaction receives its result.
pub(crate) type Reply<T, E> = oneshot::Receiver<Result<T, E>>;

/// A read that sends its result to its caller.
pub(crate) type ReadWork = Box<dyn FnOnce(&mut Tx<'_>) + Send>;

/// A write transaction that may run more than once. It keeps the result of its last run for its caller.
pub(crate) trait WriteWork: Send {
    /// Runs the closure; true when it succeeded.
    fn run(&mut self, tx: &mut Tx<'_>) -> bool;
    /// Whether the caller was dropped, so that nobody waits for the result.
    fn is_abandoned(&self) -> bool;
    /// Sends the result of the last run to the caller.
    fn reply(self: Box<Self>);
    /// Sends this error to the caller, whatever the last run returned.
    fn fail(self: Box<Self>, error: Error);
}

/// Erases the types of a read.
pub(crate) fn read_work<T, E, F>(work: F) -> (ReadWork, Reply<T, E>)
where
    F: FnOnce(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let (sender, reply) = oneshot::channel();
    let work = move |tx: &mut Tx<'_>| {
        // A caller that was dropped needs no result.
        let _ = sender.send(work(tx));
    };
    (Box::new(work), reply)
}

/// Erases the types of a write transaction.
pub(crate) fn write_work<T, E, F>(work: F) -> (Box<dyn WriteWork>, Reply<T, E>)
where
    F: Fn(&mut Tx<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    let (sender, reply) = oneshot::channel();
    (Box::new(Write { work, result: Err(Error::Closed.into()), sender }), reply)
}

struct Write<T, E, F> {
    work: F,
    /// The result of the last run.
    result: Result<T, E>,
    sender: oneshot::Sender<Result<T, E>>,
}

impl<T, E, F> WriteWork for Write<T, E, F>
where
    F: Fn(&mut Tx<'_>) -> Result<T, E> + Send,
    T: Send,
    E: From<Error> + Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> bool {
        // What an earlier run returned, such as a claimed slot, is free for this one.
        self.result = Err(Error::Closed.into());
        let result = catch_unwind(AssertUnwindSafe(|| (self.work)(tx)))
            .unwrap_or_else(|panic| Err(panic_error(panic.as_ref()).into()));
        self.result = tx.final_result(result);
        self.result.is_ok()
    }

    fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }

    fn reply(self: Box<Self>) {
        // The write stays committed even if its caller was dropped.
        let _ = self.sender.send(self.result);
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.sender.send(Err(error.into()));
    }
}

/// The error for a caught panic, with its message.
pub(crate) fn panic_error(panic: &(dyn std::any::Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    Error::Panicked { message }
}
