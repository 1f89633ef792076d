//! The hits of a search by parent, and within a budget of tokens; the rules are in [`emergent_domain::arrangement`].

use emergent_domain::{
    arrangement::{self, GroupBy},
    document::Chunk,
    ids::{ObjectId, ProjectId},
    object::Object,
    query::SearchResult,
};
use emergent_store::{Tx, relationships as rows};

use crate::{Graph, error::Result};

impl Graph {
    /// Groups the objects that a search found by their parents, and drops what does not fit into the budget. An object
    /// without a parent is in a group with its children.
    pub async fn arrange_objects(
        &self,
        project: ProjectId,
        mut result: SearchResult<Object>,
        group: Option<GroupBy>,
        budget_tokens: Option<usize>,
    ) -> Result<SearchResult<Object>> {
        arrangement::check_budget(budget_tokens)?;
        if let Some(group) = group {
            group.check()?;
            let ids: Vec<ObjectId> = result.hits.iter().map(|hit| hit.item.id).collect();
            let read =
                move |tx: &mut Tx<'_>| rows::parents(tx, project, &ids, &group.relationship, group.direction);
            let parents = self.db().read(read).await?;
            arrangement::group_hits(&mut result, |object| {
                parents.get(&object.id).copied().unwrap_or(object.id).0
            });
        }
        if let Some(max_tokens) = budget_tokens {
            let bytes = |object: &Object| object.properties.as_str().len();
            arrangement::cut_to_budget(&mut result, max_tokens, bytes);
        }
        Ok(result)
    }
}

/// Groups the chunks that a search found by their documents, and drops what does not fit into the budget.
pub fn arrange_chunks(
    mut result: SearchResult<Chunk>,
    by_document: bool,
    budget_tokens: Option<usize>,
) -> Result<SearchResult<Chunk>> {
    arrangement::check_budget(budget_tokens)?;
    if by_document {
        arrangement::group_hits(&mut result, |chunk| chunk.document.0);
    }
    if let Some(max_tokens) = budget_tokens {
        arrangement::cut_to_budget(&mut result, max_tokens, |chunk| chunk.text.len());
    }
    Ok(result)
}
