//! The knowledge graph: validates writes and performs what follows from them, such as new versions,
//! changes in the feed, text indexes and queued embeddings. It also contains search, traversal,
//! documents, import and export. The SQL is in `store`, HTTP in `api`.
//!
//! Every write exists twice. A function over a transaction, such as `objects::create`, serves
//! callers whose own rows must commit together with it. A method of [`Graph`] runs the same
//! function in a transaction of its own.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use emergent_domain::{ids::ProjectId, time::Clock};
use emergent_llm::Embedder;
use emergent_store::Db;
use hashlink::LruCache;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::documents::TextExtractor;

pub use work_pool::{Turn, WorkPool};

pub mod actor;
pub mod arrangement;
mod audit;
mod browser_sessions;
mod bulk;
pub mod cleanup;
mod created_tokens;
pub mod documents;
pub mod embedding;
pub mod error;
pub mod feed;
mod health;
pub mod housekeeping;
pub mod judged_names;
mod linked_search;
pub mod merge;
mod object_names;
pub mod object_refs;
pub mod objects;
pub mod packs;
pub mod project_stream;
pub mod projects;
pub mod relationships;
pub mod revert;
pub mod search;
pub mod sources;
pub mod subgraph;
mod tasks;
pub mod tokens;
pub mod transfer;
pub mod traverse;
pub mod types;
pub mod validation;
mod withheld;
mod work_pool;
pub mod worker;

pub use actor::{Actor, WriteContext};
pub use browser_sessions::{Credential, StartedSession};
pub use error::{Error, Result};
pub use objects::UpsertOutcome;
pub use packs::StoredPack;
pub use relationships::RelationshipFilter;
pub use subgraph::{CreatedSubgraph, EdgeEnd, NewSubgraph, NewSubgraphEdge};
pub use validation::MayBePending;

/// The number of projects whose compiled packs are cached.
const MAX_COMPILED_PACKS: usize = 1_000;
const MAX_QUERY_VECTORS: usize = 64;
/// How long a request waits until its values can be validated.
const MAX_VALIDATION_WAIT: Duration = Duration::from_secs(20);
/// How long a large request waits until it can be parsed.
const MAX_PARSING_WAIT: Duration = Duration::from_secs(30);
/// How many previews are made at once.
const MAX_PREVIEWS: usize = 4;
/// How long a preview waits for those that came before.
const MAX_PREVIEW_WAIT: Duration = Duration::from_secs(30);
/// How long an upload waits until its document can be read.
const MAX_DOCUMENT_WAIT: Duration = Duration::from_secs(120);

/// A handle to the graphs of all projects. Clones share their state.
#[derive(Clone)]
pub struct Graph(Arc<Inner>);

struct Inner {
    db: Db,
    clock: Clock,
    embedder: Option<Arc<dyn Embedder>>,
    /// The configured value that replaces the embedder's.
    min_similarity: OnceLock<f64>,
    /// Like `min_similarity`, for passages of documents.
    min_passage_similarity: OnceLock<f64>,
    validation: validation::ValidationState,
    validation_pool: WorkPool,
    /// The parsing of large requests.
    parsing_pool: WorkPool,
    /// Large documents, from their extraction until they are written.
    document_pool: WorkPool,
    /// The extraction of small documents.
    extraction_pool: WorkPool,
    /// Previews of changes that touch much.
    preview_pool: WorkPool,
    extractor: TextExtractor,
    /// The vectors of the most recent queries. Clients request further pages and refine queries, and a
    /// provider is slow.
    queries: Mutex<LruCache<String, Arc<[f32]>>>,
    project_streams: project_stream::ProjectStreams,
}

impl Graph {
    /// Without an embedder, nothing is queued for embedding and searches use text only.
    pub fn new(db: Db, clock: Clock, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self(Arc::new(Inner {
            db,
            clock,
            embedder,
            min_similarity: OnceLock::new(),
            min_passage_similarity: OnceLock::new(),
            validation: validation::ValidationState::new(MAX_COMPILED_PACKS),
            parsing_pool: WorkPool::new("large requests are being parsed", 2, MAX_PARSING_WAIT),
            validation_pool: WorkPool::new("large values are being validated", 2, MAX_VALIDATION_WAIT),
            document_pool: WorkPool::new("large documents are being ingested", 2, MAX_DOCUMENT_WAIT),
            extraction_pool: WorkPool::new("documents are being read", 2, MAX_DOCUMENT_WAIT),
            preview_pool: WorkPool::new("previews are being made", MAX_PREVIEWS, MAX_PREVIEW_WAIT),
            extractor: TextExtractor::default(),
            queries: Mutex::new(LruCache::new(MAX_QUERY_VECTORS)),
            project_streams: project_stream::ProjectStreams::default(),
        }))
    }

    /// Extracts the text of documents with this program from now on, instead of a thread of this process.
    pub fn set_extraction_program(&self, program: std::path::PathBuf) {
        self.0.extractor.set_program(program);
    }

    /// Runs work on a large input, such as parsing it, on a blocking thread: one at a time for each project, and
    /// for all tokens that span projects and name none.
    pub async fn run_on_large_input<T: Send + 'static>(
        &self,
        project: Option<ProjectId>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.0.parsing_pool.run(project.unwrap_or(ProjectId(Uuid::nil())), work).await
    }

    /// Waits until this project may make a preview of a change that touches much. All that it would change is in memory
    /// until the turn is dropped, so a project has one turn at a time.
    pub async fn preview_turn(&self, project: ProjectId) -> Result<Turn> {
        self.0.preview_pool.turn(project).await
    }

    pub fn db(&self) -> &Db {
        &self.0.db
    }

    pub(crate) fn project_streams(&self) -> &project_stream::ProjectStreams {
        &self.0.project_streams
    }

    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub fn embedder(&self) -> Option<&Arc<dyn Embedder>> {
        self.0.embedder.as_ref()
    }
}
