//! Who may save or resume what starts agents without a request, and who may read it.

use emergent_domain::{author::Author, token::Scope};
use emergent_store::{Tx, tokens};

use crate::{Error, Result};

/// Whether an author may learn which agents and triggers there are.
pub(super) fn may_read_triggers(tx: &mut Tx<'_>, author: Author) -> Result<bool> {
    Ok(match author {
        Author::System => true,
        Author::Run { .. } => false,
        Author::Token { id } => {
            tokens::get(tx, id)?.is_some_and(|token| token.scopes.contains(&Scope::AgentsRead))
        }
    })
}

/// Refuses an author that could not start agents itself. A trigger goes on starting them, also when the token that saved
/// it is gone. `what` is what the author asked for, as the beginning of a sentence.
pub(super) fn check_may_start(tx: &mut Tx<'_>, author: Author, what: &'static str) -> Result<()> {
    let may_start = match author {
        Author::System => true,
        Author::Run { .. } => false,
        Author::Token { id } => {
            tokens::get(tx, id)?.is_some_and(|token| token.scopes.contains(&Scope::AgentsInvoke))
        }
    };
    if may_start { Ok(()) } else { Err(Error::MayNotStart { what }) }
}
