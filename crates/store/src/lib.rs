//! The store: the persistence layer over two engines, embedded SQLite and PostgreSQL with pgvector. Most
//! statements are the same for both. No other crate contains SQL.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

pub mod agents;
pub mod audit;
pub(crate) mod author;
pub mod backup;
pub mod budget;
mod claimable;
mod columns;
pub mod counts;
pub mod db;
mod deletion;
pub mod documents;
pub mod embedding_queue;
mod engine;
pub mod error;
pub mod feed;
pub mod filter;
pub mod health;
pub mod installed_products;
pub mod jobs;
pub mod lease_keeper;
pub mod leases;
mod limits;
pub mod mcp_servers;
pub mod mcp_tools;
mod migrate;
pub mod objects;
pub mod packs;
mod page;
pub mod project_counts;
pub mod projects;
pub mod prompts;
pub mod purge;
pub mod relationships;
pub mod requester;
pub mod retention;
pub mod revert;
mod row;
pub mod row_numbers;
pub mod runs;
pub mod schedules;
pub mod search;
pub mod secret_bindings;
pub mod secrets;
pub mod sources;
pub mod storage_health;
pub mod tasks;
pub mod tokens;
pub mod transfer;
pub mod transition;
pub mod traversal;
pub mod triggers;
mod tx;
mod value;
pub mod wake;
pub mod workflows;

pub use db::{Db, DbConfig};
pub use engine::Engine;
pub use error::{Error, Result};
pub use limits::TimeLimits;
pub use migrate::latest_version;
pub use storage_health::{StorageFault, StorageProblem};
pub use tx::Tx;
pub use value::{Column, Param, Row, json, json_strings};
