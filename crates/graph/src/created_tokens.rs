//! The tokens that a token created. The audit log says who created a token, also for those from before this
//! could be asked.

use std::collections::BTreeSet;

use emergent_domain::{
    ids::{ProjectId, TokenId},
    token::Token,
};
use emergent_store::{Tx, tokens as rows};

use crate::{Graph, error::Result};

/// A token that is created meanwhile is found in the next round. A revoked token cannot create any, so there are
/// at most a few.
const MAX_ROUNDS: usize = 10;
/// How many tokens one transaction revokes.
const BATCH: usize = 200;

impl Graph {
    /// Lists the tokens that a token created, those that these created, and so on, in the order of their ids. If a
    /// project is given, only its tokens.
    pub async fn list_created_tokens(
        &self,
        project: Option<ProjectId>,
        creator: TokenId,
    ) -> Result<Vec<Token>> {
        let read = move |tx: &mut Tx<'_>| {
            let (mut known, mut found) = (BTreeSet::from([creator]), Vec::new());
            let mut creators = vec![creator];
            while !creators.is_empty() {
                let created = rows::list_created_by(tx, &creators)?;
                let new: Vec<Token> = created.into_iter().filter(|token| known.insert(token.id)).collect();
                creators = new.iter().map(|token| token.id).collect();
                found.extend(new);
            }
            found.retain(|token| project.is_none() || token.project == project);
            found.sort_by_key(|token| token.id);
            Ok::<_, emergent_store::Error>(found)
        };
        Ok(self.db().read(read).await?)
    }

    /// Revokes the tokens of [`Graph::list_created_tokens`] that are valid, and returns all of them. The caller has
    /// revoked the token that created them. If the server stops in between, repeating the call continues.
    pub async fn revoke_created_tokens(
        &self,
        project: Option<ProjectId>,
        creator: TokenId,
    ) -> Result<Vec<Token>> {
        let mut created = self.list_created_tokens(project, creator).await?;
        for _ in 0..MAX_ROUNDS {
            let open: Vec<TokenId> =
                created.iter().filter(|token| token.revoked_at.is_none()).map(|token| token.id).collect();
            if open.is_empty() {
                break;
            }
            for batch in open.chunks(BATCH) {
                self.revoke_tokens(batch.to_vec()).await?;
            }
            created = self.list_created_tokens(project, creator).await?;
        }
        Ok(created)
    }
}
