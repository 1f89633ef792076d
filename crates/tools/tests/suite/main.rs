//! The tests of this crate that use its public interface. They are one program, because linking
//! one program per file took longer than running the tests.

mod entities;
mod extract;
mod guard;
mod isolation;
mod keys_at;
mod knowledge;
mod pool;
mod remote;
mod runs;
mod support;
