//! `emergent login-link`: prints a link to the web UI of a running server that logs a browser in.

use emergent_wire::session::LoginCodeView;
use serde_json::json;

use crate::{
    client::{Client, Received},
    error::{Error, Result},
    hints, output,
};

pub async fn run(client: &Client, as_json: bool) -> Result<()> {
    let Some(server) = client.server_url() else {
        return Err(no_server());
    };
    let code: Received<LoginCodeView> = client.post("/api/session/codes", &json!({})).await?.data().await?;
    let link = format!("{}{}", browser_address(server), code.path);
    if as_json {
        return output::print_json(&json!({ "link": link, "expiresAt": code.expires_at }));
    }
    output::print_line(&link)?;
    output::print_notice(
        "Open it in a browser to use the web UI, logged in as the token of this command. It works once and for 10 minutes.",
    );
    Ok(())
}

/// The error of a command that needs a server.
pub fn no_server() -> Error {
    let start = hints::local_command("serve");
    Error::Usage(format!("no server runs on this data folder: start one with `{start}`"))
}

/// The address under which a browser on this machine reaches a server that may listen on every address.
pub fn browser_address(server: &str) -> String {
    server.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
}
