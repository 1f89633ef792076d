//! `emergent health`: asks a server whether it is ready. It needs no token, so that a container can run it.

use std::{path::PathBuf, time::Duration};

use serde_json::json;

use crate::{
    client::{self, Certificates, ServerFlags},
    commands::login_link,
    config::{Settings, StoreFlags},
    datadir,
    error::{Error, Result},
    output,
};

/// How long the server may take to answer.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

pub async fn run(server: &ServerFlags, store: &StoreFlags, as_json: bool) -> Result<()> {
    let settings = Settings::load(store, None)?;
    // A server that is named is checked as by every other command: its certificate is accepted without a check only if
    // it is the server of the data folder.
    let (address, folder_without_server, certificates) = match &server.server {
        Some(address) => {
            let address = client::base_url(address)?;
            let certificates = client::certificates_for(&address, &settings);
            (address, None, certificates)
        }
        None => {
            let (address, folder) = local_address(&settings);
            (address, folder, Certificates::AnyOnLoopback)
        }
    };
    let response = client::http_client(&address, certificates)?
        .get(format!("{address}/ready"))
        .timeout(HEALTH_TIMEOUT)
        .send()
        .await
        .map_err(|source| Error::unreachable(&address, source))?;
    let status = response.status();
    if !status.is_success() {
        return Err(Error::Usage(format!("the server at `{address}` is not ready: it answers {status}")));
    }
    if as_json {
        return output::print_json(&json!({ "server": address, "ready": true }));
    }
    if let Some(folder) = folder_without_server {
        output::print_notice(&format!(
            "No server uses the data folder `{}`. This is the one that listens at the address of the settings.",
            folder.display()
        ));
    }
    output::print_line(&format!("{address} is ready"))
}

/// The address of the server on the data folder, or else the one that a server with these settings listens on, with the
/// folder, which is that of no running server then.
fn local_address(settings: &Settings) -> (String, Option<PathBuf>) {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let (address, folder_without_server) = match datadir::running_server(&settings.data_dir) {
        Some(server) => (server.address, None),
        None => (format!("{scheme}://{}", settings.listen), Some(settings.data_dir.clone())),
    };
    (login_link::browser_address(&address), folder_without_server)
}
