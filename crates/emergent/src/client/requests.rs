//! Requests that few commands send.

use axum::http;
use serde::Serialize;

use super::{Client, Transport, json_content, transport::ApiResponse};
use crate::{
    error::{Error, Result},
    output,
};

impl Client {
    /// Posts a request that starts work. Sent again with the same key, it starts nothing more.
    pub async fn post_once(
        &self,
        path: &str,
        body: &impl Serialize,
        key: Option<&str>,
    ) -> Result<ApiResponse> {
        let mut headers = Vec::new();
        if let Some(key) = key {
            let value = http::HeaderValue::from_str(key).map_err(|_| {
                Error::Usage("--idempotency-key must have 1 to 255 printable ASCII characters".to_owned())
            })?;
            headers.push((http::HeaderName::from_static("idempotency-key"), value));
        }
        let content = json_content(body)?;
        let json = Some("application/json");
        let response = self.send_request(http::Method::POST, path, json, &headers, content).await?;
        let response = self.check_status(response).await?;
        if response.is_replayed() {
            output::print_notice("This request was sent before with the same key: nothing more was started.");
        }
        Ok(response)
    }

    /// The address of the server; `None` when the data folder is open in this process.
    pub fn server_url(&self) -> Option<&str> {
        match &self.transport {
            Transport::Http { base, .. } => Some(base),
            Transport::InProcess(..) => None,
        }
    }
}
