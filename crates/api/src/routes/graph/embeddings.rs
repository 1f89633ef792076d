//! The progress of embedding: how many objects and chunks have their vector.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    App,
    auth::InProject,
    response::{Envelope, Result, ok},
};

/// The progress of a project's embeddings.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EmbeddingProgress)]
pub(super) struct ProgressView {
    /// The number of objects and chunks that wait for their vector.
    pending: i64,
    done: i64,
    /// The model of the vectors; absent if there are none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The dimension of the vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    dims: Option<i64>,
}

/// Returns the progress of the project's embeddings.
#[utoipa::path(
    get, path = "/api/graph/embeddings", tag = "graph", operation_id = "getEmbeddingProgress",
    responses((status = 200, description = "The progress", body = Envelope<ProgressView>)),
)]
pub(super) async fn progress(State(app): State<App>, InProject(project): InProject) -> Result<ProgressView> {
    let progress = app.graph.embedding_progress(project).await?;
    ok(ProgressView {
        pending: progress.pending,
        done: progress.done,
        model: progress.model,
        dims: progress.dims,
    })
}
