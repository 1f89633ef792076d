//! Checks whether a server could listen on the address of the settings, and says who does if it cannot.

use std::time::Duration;

use emergent_domain::foreign_json;
use serde_json::Value;

use super::{Finding, ok_finding, problem_finding, warning_finding};
use crate::{
    client::{self, Certificates},
    commands::login_link,
    config::Settings,
    error::unusable_address,
    hints,
};

/// How long the program that has the address may take to say what it is.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

pub async fn check(settings: &Settings) -> Finding {
    let listen = &settings.listen;
    match std::net::TcpListener::bind(listen) {
        Ok(_) => ok_finding("address", format!("{listen} is free for a server")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let user = match version_of_server(listen).await {
                Some(version) => format!("an Emergent server of another data folder (version {version})"),
                None => "another program".to_owned(),
            };
            let command = hints::local_command("serve --listen ADDRESS");
            warning_finding(
                "address",
                format!("{listen} is in use by {user}; `{command}` chooses another address"),
            )
        }
        Err(error) => problem_finding(
            "address",
            format!(
                "a server could not listen on {listen}: {}",
                match error.kind() {
                    std::io::ErrorKind::InvalidInput => unusable_address(listen),
                    _ => error.to_string(),
                }
            ),
            "correct EMERGENT_LISTEN, or `listen` in emergent.toml",
        ),
    }
}

/// The version of the Emergent server at an address; `None` if something else has it. No token is sent.
async fn version_of_server(listen: &str) -> Option<String> {
    for scheme in ["http", "https"] {
        let server = login_link::browser_address(&format!("{scheme}://{listen}"));
        let client = client::http_client(&server, Certificates::AnyOnLoopback).ok()?;
        let request = client.get(format!("{server}/health")).timeout(PROBE_TIMEOUT).send();
        let Ok(response) = request.await else { continue };
        let Ok(body) = response.text().await else { continue };
        let Ok(health) = foreign_json::from_str::<Value>(&body) else { continue };
        if let Some(version) = health["data"]["version"].as_str() {
            return Some(version.to_owned());
        }
    }
    None
}
