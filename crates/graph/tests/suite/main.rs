//! The tests of this crate that use its public interface. They are one program, because linking
//! one program per file took longer than running the tests.

mod as_of;
mod browser_sessions;
mod cleanup;
mod cleanup_bounds;
mod cursors;
mod documents;
mod embedding;
mod feed;
mod filters;
mod history;
mod housekeeping;
mod hubs;
mod large_documents;
mod large_objects;
mod merge;
mod object_parts;
mod objects;
mod pack_compilation;
mod packs;
mod relationships;
mod revert;
mod revert_batches;
mod revert_sources;
mod revert_stories;
mod search;
mod statistics;
mod support;
mod task_links;
mod task_rights;
mod tasks;
mod tokens;
mod transfer;
mod traverse;
mod validation;
mod worker;
