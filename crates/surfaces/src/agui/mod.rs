//! AG-UI, the protocol between agents and user interfaces: a request is answered with the events of a run.
//!
//! A run that waits for a person ends the answer with an interrupt, and goes on with the request that resumes it. A run
//! that calls tools of its client ends the answer with these calls, and goes on with the request that has their results.
//! For the client these are two runs of one thread; here they are parts of one run.

pub mod event;
pub mod history;
pub mod interrupt;
pub mod request;
pub mod stream;
pub mod tools;
mod transcript;
#[cfg(test)]
mod verify;
