//! The objects that were found in a document.

use emergent_domain::{
    cursor::{Page, ResultPage},
    document::DocumentObject,
    ids::{ChunkId, DocumentId, ProjectId},
};
use emergent_store::{document_objects, documents};

use crate::{Error, Graph, error::Result};

impl Graph {
    /// Lists the live objects that have chunks of a document as their sources, newest first; with `chunk`, only those
    /// that were found in this chunk.
    pub async fn document_objects(
        &self,
        project: ProjectId,
        id: DocumentId,
        chunk: Option<ChunkId>,
        page: Page,
    ) -> Result<ResultPage<DocumentObject>> {
        self.db()
            .snapshot(move |tx| {
                documents::get(tx, project, id)?.ok_or_else(|| Error::not_found("document", id))?;
                Ok(document_objects::list(tx, project, id, chunk, &page)?)
            })
            .await
    }
}
