//! `emergent health`: asks a server whether it is ready. It needs no token, so that a container can run it.

use std::time::Duration;

use serde_json::json;

use crate::{
    client::{self, ServerFlags},
    commands::login_link,
    config::{Settings, StoreFlags},
    datadir,
    error::{Error, Result},
    output,
};

/// How long the server may take to answer.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

pub async fn run(server: &ServerFlags, store: &StoreFlags, as_json: bool) -> Result<()> {
    let address = match &server.server {
        Some(address) => client::base_url(address)?,
        None => local_address(&Settings::load(store, None)?),
    };
    let response = client::http_client(&address)?
        .get(format!("{address}/ready"))
        .timeout(HEALTH_TIMEOUT)
        .send()
        .await
        .map_err(|source| Error::Unreachable { server: address.clone(), source: Box::new(source) })?;
    let status = response.status();
    if !status.is_success() {
        return Err(Error::Usage(format!("the server at `{address}` is not ready: it answers {status}")));
    }
    if as_json {
        return output::print_json(&json!({ "server": address, "ready": true }));
    }
    output::print_line(&format!("{address} is ready"))
}

/// The address of the server on the data folder, or else the one that a server with these settings listens on.
fn local_address(settings: &Settings) -> String {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let configured = || format!("{scheme}://{}", settings.listen);
    let address =
        datadir::running_server(&settings.data_dir).map_or_else(configured, |server| server.address);
    login_link::browser_address(&address)
}
