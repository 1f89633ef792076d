//! Says which texts a search cannot find by meaning yet.

use emergent_domain::text::counted;
use serde::Deserialize;

use crate::{client::Client, hints, output};

/// The shown part of the progress of embedding.
#[derive(Deserialize)]
struct Progress {
    pending: i64,
}

/// Says on standard error that texts wait for their vectors, where no server embeds them.
pub async fn warn_of_pending_embeddings(client: &Client) {
    if !client.is_sole_driver() {
        return;
    }
    let Ok(response) = client.get("/api/graph/embeddings").await else { return };
    let Ok(Progress { pending: pending @ 1.. }) = response.data().await else { return };
    let (verb, object) = if pending == 1 { ("is", "it") } else { ("are", "them") };
    output::print_notice(&format!(
        "{} {verb} not embedded yet; `{}` embeds {object}",
        counted(pending, "text"),
        hints::local_command("serve")
    ));
}
