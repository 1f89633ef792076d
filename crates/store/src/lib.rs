//! Where everything is kept: one set of statements over two engines, SQLite embedded and
//! PostgreSQL with pgvector. The only place for SQL.

pub mod agents;
pub(crate) mod author;
pub mod db;
pub mod documents;
pub mod embedding_queue;
mod engine;
pub mod error;
pub mod events;
pub mod feed;
pub mod filter;
pub mod installed_products;
pub mod jobs;
pub mod leases;
pub mod mcp_servers;
pub mod mcp_tools;
mod migrate;
pub mod numbers;
pub mod objects;
pub mod overview;
pub mod packs;
mod page;
pub mod projects;
pub mod prompts;
pub mod relationships;
pub mod revert;
pub mod runs;
pub mod schedules;
pub mod search;
pub mod secrets;
pub mod sources;
pub mod tokens;
pub mod transfer;
pub mod transition;
pub mod triggers;
mod tx;
mod value;
pub mod wake;
pub mod walk;

pub use db::{Db, DbConfig};
pub use engine::Engine;
pub use error::{Error, Result};
pub use migrate::known_version;
pub use tx::Tx;
pub use value::{Column, Param, Row, json, json_strings};
