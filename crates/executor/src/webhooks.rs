//! Delivers notices of the inbox to other systems, at least once. A delivery is a job: it is retried with growing
//! delays, and given up after [`rows::MAX_ATTEMPTS`] with the reason of the last failure.
//!
//! Each request is signed: `x-emergent-signature` is `sha256=` and the HMAC-SHA256 of `<timestamp>.<body>` in
//! hexadecimal digits, with the time of the attempt in `x-emergent-timestamp`, in seconds. The id in
//! `x-emergent-delivery` is the same for all attempts.

use std::time::Duration;

use emergent_domain::{
    ids::{JobId, ProjectId},
    inbox::Webhook,
    time::Timestamp,
};
use emergent_graph::worker::{ClaimedJob, JobOutcome, Worker};
use emergent_net::{address, errors, http};
use emergent_secrets::{Secret, SecretName, Secrets};
use emergent_store::{
    jobs::Job,
    webhooks::{self as rows, WebhookTarget},
};
use ring::hmac;
use serde_json::Value;
use tokio::sync::watch;
use tracing::debug;

use crate::{Executor, Result};

pub const DELIVERY_HEADER: &str = "x-emergent-delivery";
pub const TIMESTAMP_HEADER: &str = "x-emergent-timestamp";
pub const SIGNATURE_HEADER: &str = "x-emergent-signature";

/// How long one attempt may take.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);
/// How many deliveries to addresses of projects a server makes at once.
const CONCURRENCY: usize = 32;
/// How many of them are of one project, so that a receiver that does not answer delays nobody else.
const PER_PROJECT: usize = 2;
/// How many deliveries to the operator's address a server makes at once.
const SERVER_CONCURRENCY: usize = 8;

/// Where the operator of the server sends notices of all projects.
#[derive(Debug, Clone)]
pub struct ServerWebhook {
    pub url: String,
    pub secret: Secret,
}

/// What deliveries need besides the database.
#[derive(Clone)]
pub struct WebhookSettings {
    pub secrets: Secrets,
    pub server: Option<ServerWebhook>,
}

/// Checks the address of a webhook as far as possible without a request. The error completes a sentence that begins
/// with the name of the field.
pub fn check_url(url: &str, allow_private: bool) -> Result<(), String> {
    address::parse(url, allow_private).map(|_| ())
}

/// The value of the header with the signature.
pub fn sign(secret: &[u8], timestamp: i64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    context.update(timestamp.to_string().as_bytes());
    context.update(b".");
    context.update(body);
    let mut header = "sha256=".to_owned();
    for byte in context.sign().as_ref() {
        header.push_str(&format!("{byte:02x}"));
    }
    header
}

/// Where a notice is sent, and what signs it.
struct Destination {
    url: String,
    key: Vec<u8>,
    allow_private: bool,
}

impl Executor {
    /// Stores whether this server has an address for the notices of all projects. From then on, notices are written
    /// for it, on whichever server something happens.
    pub async fn set_server_webhook(&self, is_set: bool) -> Result<()> {
        let now = self.clock().now();
        Ok(self.db().write(move |tx| rows::set_server_webhook(tx, is_set, now)).await?)
    }

    /// How many notices are not delivered yet, how many were given up, and why the newest of these was.
    pub async fn count_webhook_deliveries(&self) -> Result<(i64, i64, Option<String>)> {
        Ok(self.db().read(rows::count_deliveries).await?)
    }

    /// Delivers notices until `stop` becomes true.
    pub async fn run_webhooks(&self, settings: WebhookSettings, stop: watch::Receiver<bool>) {
        let of_projects = Worker {
            concurrency: CONCURRENCY,
            per_project: Some(PER_PROJECT),
            ..Worker::for_outside_calls(rows::QUEUE)
        };
        let of_server =
            Worker { concurrency: SERVER_CONCURRENCY, ..Worker::for_outside_calls(rows::SERVER_QUEUE) };
        tokio::join!(
            self.deliver_queue(of_projects, settings.clone(), stop.clone()),
            self.deliver_queue(of_server, settings, stop)
        );
    }

    async fn deliver_queue(&self, worker: Worker, settings: WebhookSettings, stop: watch::Receiver<bool>) {
        let executor = self.clone();
        let handler = move |claimed: ClaimedJob| {
            let (executor, settings) = (executor.clone(), settings.clone());
            async move {
                executor.deliver_notice(&settings, &claimed.job).await?;
                Ok::<_, String>(JobOutcome::Done)
            }
        };
        worker.run(self.db().clone(), self.clock().clone(), stop, handler).await;
    }

    /// Makes one attempt. The error says why it failed, without the address, which may contain a key.
    async fn deliver_notice(&self, settings: &WebhookSettings, job: &Job) -> Result<(), String> {
        let (Some(project), Some((target, notice))) = (job.project, rows::read_job(job)) else {
            return Err("this version of the server cannot read the notice".to_owned());
        };
        let Some(destination) = self.destination(settings, project, target).await? else {
            debug!(job.id = %job.id, "the webhook of notice `{}` was removed", job.id);
            return Ok(());
        };
        let body = delivery_body(job.id, notice)?;
        send(&destination, job.id, body, self.clock().now()).await
    }

    /// Returns where a notice goes as the settings are now; `None` if nobody wants it any more.
    async fn destination(
        &self,
        settings: &WebhookSettings,
        project: ProjectId,
        target: WebhookTarget,
    ) -> Result<Option<Destination>, String> {
        let describe = |error: &dyn std::error::Error| errors::error_chain(error);
        if target == WebhookTarget::Server {
            if let Some(ServerWebhook { url, secret }) = &settings.server {
                // The operator named this address, so it may be a private one.
                let key = secret.expose().as_bytes().to_vec();
                return Ok(Some(Destination { url: url.clone(), key, allow_private: true }));
            }
            let is_wanted = self.db().read(rows::has_server_webhook).await;
            return match is_wanted.map_err(|error| describe(&error))? {
                true => {
                    Err("EMERGENT_WEBHOOK_URL is set on another server that shares the database, but not on \
                             this one: set it on all of them"
                        .to_owned())
                }
                false => Ok(None),
            };
        }
        let webhook = self.db().read(move |tx| rows::get_project_webhook(tx, project)).await;
        let Some(Webhook { url, secret }) = webhook.map_err(|error| describe(&error))? else {
            return Ok(None);
        };
        let name: SecretName =
            secret.parse().map_err(|_| format!("`{secret}` is not the name of a secret"))?;
        let key = settings.secrets.signing_key(project, &name, &url).await;
        let key = key.map_err(|error| format!("cannot sign the notice: {}", describe(&error)))?;
        let allow_private = self.settings().allow_private_hosts;
        Ok(Some(Destination { url, key: key.expose().as_bytes().to_vec(), allow_private }))
    }
}

/// The body of a delivery: the notice with the id of the delivery.
fn delivery_body(id: JobId, notice: Value) -> Result<Vec<u8>, String> {
    let Value::Object(mut notice) = notice else { return Err("the notice is not an object".to_owned()) };
    notice.insert("id".to_owned(), Value::from(id.to_string()));
    serde_json::to_vec(&notice).map_err(|error| error.to_string())
}

/// Sends a notice, signed.
async fn send(destination: &Destination, id: JobId, body: Vec<u8>, now: Timestamp) -> Result<(), String> {
    let timestamp = now.as_micros() / 1_000_000;
    let headers = [
        ("content-type", "application/json".to_owned()),
        (DELIVERY_HEADER, id.to_string()),
        (TIMESTAMP_HEADER, timestamp.to_string()),
        (SIGNATURE_HEADER, sign(&destination.key, timestamp, &body)),
    ];
    post(&destination.url, destination.allow_private, &headers, body).await
}

/// Sends a body to an address of another system. Succeeds if the response has a status of success; nothing else of it
/// is read. The error does not contain the address, which may contain a key.
pub async fn post(
    url: &str,
    allow_private: bool,
    headers: &[(&str, String)],
    body: Vec<u8>,
) -> Result<(), String> {
    let url = address::parse(url, allow_private)
        .map_err(|reason| format!("the address of the webhook {reason}"))?;
    let origin = url.origin().ascii_serialization();
    let mut request = http::public_client_without_redirects(allow_private)?
        .post(url)
        .timeout(DELIVERY_TIMEOUT)
        .header("user-agent", "emergent")
        .body(body);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let response = request.send().await.map_err(|error| {
        format!("{origin} could not be reached: {}", errors::error_chain(&error.without_url()))
    })?;
    match response.status() {
        status if status.is_success() => Ok(()),
        status if status.is_redirection() => Err(format!(
            "{origin} responded with {status}: redirects are not followed, name the final address"
        )),
        status => Err(format!("{origin} responded with {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_hmac_of_the_time_a_dot_and_the_body() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key
        assert_eq!(
            sign(b"key", 1_700_000_000, br#"{"a":1}"#),
            "sha256=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03"
        );
    }
}
