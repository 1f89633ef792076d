//! The resources a client subscribes to: one by one in a legacy session, all at once in a modern
//! `subscriptions/listen`.

use futures_util::{StreamExt, stream, stream::BoxStream};
use serde_json::Value;
use tokio::sync::watch;

use super::{Fault, Host, SubscribedResources, session::Session};

/// The parameter in which a modern client lists the resources.
pub(super) const REQUEST_FIELD: &str = "resourceSubscriptions";
/// The maximum number of subscribed resources: each of them is read again whenever something changes.
const MAX_RESOURCES: usize = 20;

/// Whether the host supports subscriptions to resources.
fn is_offered<H: Host + ?Sized>(host: &H) -> bool {
    host.server_info().capabilities["resources"]["subscribe"] == true
}

fn limit_reached() -> Fault {
    Fault::LimitReached { why: format!("at most {MAX_RESOURCES} resources can be subscribed to at once") }
}

/// Subscribes a legacy session to a resource.
pub(super) async fn add<H: Host + ?Sized>(
    host: &H,
    caller: &H::Caller,
    session: &Session,
    uri: &str,
) -> Result<(), Fault> {
    if !is_offered(host) {
        return Err(Fault::MethodNotFound);
    }
    let fingerprint = host.subscribe(caller, uri).await?;
    let mut limit_exceeded = false;
    session.subscribed.send_if_modified(|subscribed| {
        limit_exceeded = subscribed.len() >= MAX_RESOURCES && !subscribed.contains_key(uri);
        // A repeated subscription keeps the fingerprint of the first one.
        let is_new = !limit_exceeded && !subscribed.contains_key(uri);
        if is_new {
            subscribed.insert(uri.to_owned(), fingerprint);
        }
        is_new
    });
    if limit_exceeded { Err(limit_reached()) } else { Ok(()) }
}

/// Ends the subscription of a legacy session to a resource.
pub(super) fn remove<H: Host + ?Sized>(host: &H, session: &Session, uri: &str) -> Result<(), Fault> {
    if !is_offered(host) {
        return Err(Fault::MethodNotFound);
    }
    session.subscribed.send_if_modified(|subscribed| subscribed.remove(uri).is_some());
    Ok(())
}

/// Returns the resources that a modern client lists; none if the host supports no subscriptions.
pub(super) async fn from_request<H: Host + ?Sized>(
    host: &H,
    caller: &H::Caller,
    requested: &Value,
) -> Result<SubscribedResources, Fault> {
    let uris = match &requested[REQUEST_FIELD] {
        Value::Array(uris) if is_offered(host) => uris,
        _ => return Ok(SubscribedResources::new()),
    };
    if uris.len() > MAX_RESOURCES {
        return Err(limit_reached());
    }
    let mut subscribed = SubscribedResources::new();
    for uri in uris {
        let not_uris =
            || Fault::invalid(format!("`params.notifications.{REQUEST_FIELD}` must be a list of URIs"));
        let uri = uri.as_str().ok_or_else(not_uris)?;
        subscribed.insert(uri.to_owned(), host.subscribe(caller, uri).await?);
    }
    Ok(subscribed)
}

/// Streams the updates of a fixed set of subscribed resources.
pub(super) fn updates<H: Host + ?Sized>(
    host: &H,
    caller: &H::Caller,
    subscribed: SubscribedResources,
) -> BoxStream<'static, String> {
    if subscribed.is_empty() {
        return stream::empty().boxed();
    }
    let (sender, receiver) = watch::channel(subscribed);
    // The stream owns the sender, because dropping the sender would end the updates.
    let updates = host.updates(caller, receiver);
    updates
        .inspect(move |_| {
            let _owned = &sender;
        })
        .boxed()
}
