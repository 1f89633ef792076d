//! `/a2a`: external agents for agents of others, over A2A 1.0. The protocol is in `emergent_surfaces::a2a`.
//!
//! The operations (`send`, `tasks`, `stream`) are the same for both bindings: `rpc` is JSON-RPC, and `http` is HTTP+JSON.

mod agent_call;
mod card;
mod deliver;
mod failure;
mod http;
mod push;
mod query;
mod rpc;
mod send;
mod stream;
mod tasks;

pub(crate) use failure::shape_error;

use emergent_domain::token::Scope::AgentsInvoke;
use emergent_surfaces::a2a::{
    MEDIA_TYPE,
    error::{HttpFailure, RpcFailureBody},
};

use crate::{access::Routes, endpoint::routes};

pub(super) fn routes() -> Routes {
    let cards = Routes::new().public(routes!(card::default_card)).public(routes!(card::agent_card));
    let rpc = Routes::new()
        .waits(AgentsInvoke, routes!(rpc::post))
        .with_errors::<RpcFailureBody>("application/json")
        .layer(failure::in_shape_of_jsonrpc);
    let http = Routes::new()
        .waits(AgentsInvoke, routes!(http::send))
        .waits(AgentsInvoke, routes!(http::send_streaming))
        .scoped(AgentsInvoke, routes!(http::list))
        .scoped(AgentsInvoke, routes!(http::get_task, http::post_task))
        .scoped(AgentsInvoke, routes!(http::extended_card))
        .scoped(AgentsInvoke, routes!(http::list_push_configs, http::create_push_config))
        .scoped(AgentsInvoke, routes!(http::get_push_config, http::delete_push_config))
        .with_errors::<HttpFailure>(MEDIA_TYPE)
        .with_second_type(MEDIA_TYPE, failure::JSON)
        .layer(failure::in_shape_of_http);
    cards.merge(rpc).merge(http)
}
