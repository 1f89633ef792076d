//! `/api/chat`: conversations with agents. Every answer is a run.

mod conversations;
mod export;
mod messages;
mod stream;

use emergent_domain::token::Scope::ChatUse;

use crate::{access::Routes, endpoint::routes, extract::BodyLimits, idempotency::streamed};

pub(super) fn routes() -> Routes {
    Routes::new()
        .starts_work(ChatUse, routes!(stream::send), streamed)
        .scoped(ChatUse, routes!(conversations::list))
        .scoped(ChatUse, routes!(conversations::create))
        .scoped(ChatUse, routes!(conversations::get))
        .scoped(ChatUse, routes!(conversations::rename))
        .scoped(ChatUse, routes!(conversations::delete))
        .scoped(ChatUse, routes!(messages::list))
        .scoped(ChatUse, routes!(stream::follow))
        .scoped(ChatUse, routes!(conversations::stop))
        .scoped(ChatUse, routes!(export::export))
        .limit_bodies(BodyLimits::SMALL)
}
