//! Finds the evidence of questions in the project, so that a file with evidence that no search can find is refused
//! before anything is measured.

use std::collections::{HashMap, HashSet};

use emergent_domain::text::counted;
use emergent_wire::{document::ChunkView, object::ObjectView};
use uuid::Uuid;

use super::questions::{Evidence, Question};
use crate::{
    client::Client,
    commands::{
        encode,
        resolve::{DOCUMENTS, resolve_id},
    },
    error::{Error, Result},
};

/// How much missing evidence an error names.
const MAX_SHOWN: usize = 5;

/// An object or a passage that is evidence.
#[derive(Clone)]
struct FoundEvidence {
    id: Uuid,
    /// The type of an object; `None` for a passage.
    type_: Option<String>,
}

/// Returns the ids of the evidence of each question. What is listed twice, such as an object by its id and by its key,
/// is there once. Evidence that the project does not have, or that the search leaves out, is an error.
pub(super) async fn resolve(client: &Client, questions: &[Question]) -> Result<Vec<HashSet<Uuid>>> {
    let mut lookup = Lookup { client, found: HashMap::new(), documents: HashMap::new() };
    let (mut resolved, mut missing) = (Vec::with_capacity(questions.len()), Vec::new());
    for question in questions {
        let mut ids = HashSet::new();
        for (evidence, location) in question.located_evidence() {
            let found = lookup.find(evidence).await.map_err(|error| at_evidence(&location, error))?;
            let Some(FoundEvidence { id, type_ }) = found else {
                missing.push(format!("`{evidence}` of {location}"));
                continue;
            };
            if let Some(reason) = type_.and_then(|type_| question.why_not_found(&type_)) {
                return Err(Error::Usage(format!("{location}: `evidence`: `{evidence}` {reason}")));
            }
            ids.insert(id);
        }
        resolved.push(ids);
    }
    if missing.is_empty() { Ok(resolved) } else { Err(not_there(missing)) }
}

fn not_there(mut missing: Vec<String>) -> Error {
    let more = missing.len().saturating_sub(MAX_SHOWN);
    missing.truncate(MAX_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Error::Usage(format!(
        "this project does not have the evidence {}{more}; import it first, or choose its project with --project",
        missing.join(", ")
    ))
}

/// The error for a passage that a document of the project does not have.
fn no_such_chunk(document: &str, index: usize, count: usize) -> Error {
    Error::Usage(format!(
        "`{document}` has no passage {index}: it has {}, numbered from 0",
        counted(count, "passage")
    ))
}

/// Adds where the evidence is in the file, if a name is not found or not unique.
fn at_evidence(location: &str, error: Error) -> Error {
    match error {
        Error::Usage(reason) => Error::Usage(format!("{location}: `evidence`: {reason}")),
        other => other,
    }
}

/// Looks up evidence, and each object and document once.
struct Lookup<'a> {
    client: &'a Client,
    found: HashMap<Evidence, Option<FoundEvidence>>,
    /// The ids of the passages of each document, in their order. The title or id is the key.
    documents: HashMap<String, Vec<Uuid>>,
}

impl Lookup<'_> {
    async fn find(&mut self, evidence: &Evidence) -> Result<Option<FoundEvidence>> {
        if let Some(found) = self.found.get(evidence) {
            return Ok(found.clone());
        }
        let found = match evidence {
            Evidence::Id(id) => self.object_by_id(*id).await?,
            Evidence::Key { type_, key } => self.object_by_key(type_, key).await?,
            Evidence::Chunk { document, index } => self.chunk(document, *index).await?,
        };
        self.found.insert(evidence.clone(), found.clone());
        Ok(found)
    }

    async fn object_by_id(&self, id: Uuid) -> Result<Option<FoundEvidence>> {
        let object: ObjectView = match self.client.get(&format!("/api/graph/objects/{id}")).await {
            Ok(response) => response.data().await?,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(FoundEvidence { id, type_: Some(object.type_) }))
    }

    async fn object_by_key(&self, type_: &str, key: &str) -> Result<Option<FoundEvidence>> {
        let path = format!("/api/graph/objects?type={}&key={}&limit=1", encode(type_), encode(key));
        let objects: Vec<ObjectView> = self.client.get(&path).await?.data().await?;
        let found = |object: ObjectView| FoundEvidence { id: object.id, type_: Some(object.type_) };
        Ok(objects.into_iter().next().map(found))
    }

    async fn chunk(&mut self, document: &str, index: usize) -> Result<Option<FoundEvidence>> {
        let chunks = match self.documents.remove(document) {
            Some(chunks) => chunks,
            None => self.chunks_of(document).await?,
        };
        let (id, count) = (chunks.get(index).copied(), chunks.len());
        self.documents.insert(document.to_owned(), chunks);
        match id {
            None if count > 0 => Err(no_such_chunk(document, index, count)),
            id => Ok(id.map(|id| FoundEvidence { id, type_: None })),
        }
    }

    /// The ids of all passages of a document; none if the project does not have it.
    async fn chunks_of(&self, document: &str) -> Result<Vec<Uuid>> {
        let id = resolve_id(self.client, &DOCUMENTS, document).await?;
        let path = format!("/api/documents/{}/chunks", encode(&id));
        match self.client.get_all_pages::<ChunkView>(&path).await {
            Ok(chunks) => Ok(chunks.into_iter().map(|chunk| chunk.id).collect()),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
