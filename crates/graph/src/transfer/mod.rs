//! Import and export of whole graphs as NDJSON.
//!
//! ```json
//! {"kind":"object","type":"Person","key":"ada","status":null,"labels":["a"],"properties":{"name":"Ada"}}
//! {"kind":"relationship","type":"knows","from":{"type":"Person","key":"ada"},"to":{"id":"…"},"weight":0.5}
//! ```

mod batch;
mod export;
mod import;
mod line;
mod split;

pub use batch::{BatchOutcome, Counts, OnError};
pub use import::{ImportOptions, ImportProgress};
pub use line::LineError;
