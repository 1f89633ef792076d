//! The resources a client subscribes to: one by one in a legacy session, all at once in a modern
//! `subscriptions/listen`.

use futures_util::{StreamExt, stream, stream::BoxStream};
use serde_json::Value;
use tokio::sync::watch;

use super::{Fault, Host, SubscribedResources, session::Session};

/// The parameter in which a modern client lists them.
pub(super) const REQUEST_FIELD: &str = "resourceSubscriptions";
/// Each subscribed resource is read again whenever something changes.
const MAX_RESOURCES: usize = 20;

fn is_offered<H: Host + ?Sized>(host: &H) -> bool {
    host.server_info().capabilities["resources"]["subscribe"] == true
}

fn limit_reached() -> Fault {
    Fault::LimitReached { why: format!("at most {MAX_RESOURCES} resources can be subscribed to at once") }
}

pub(super) async fn add<H: Host + ?Sized>(
    host: &H,
    caller: &H::Caller,
    session: &Session,
    uri: &str,
) -> Result<(), Fault> {
    if !is_offered(host) {
        return Err(Fault::MethodNotFound);
    }
    let mark = host.subscribe(caller, uri).await?;
    let mut full = false;
    session.subscribed.send_if_modified(|all| {
        full = all.len() >= MAX_RESOURCES && !all.contains_key(uri);
        // A repeated subscription keeps the fingerprint of the first one.
        let new = !full && !all.contains_key(uri);
        if new {
            all.insert(uri.to_owned(), mark);
        }
        new
    });
    if full { Err(limit_reached()) } else { Ok(()) }
}

pub(super) fn remove<H: Host + ?Sized>(host: &H, session: &Session, uri: &str) -> Result<(), Fault> {
    if !is_offered(host) {
        return Err(Fault::MethodNotFound);
    }
    session.subscribed.send_if_modified(|all| all.remove(uri).is_some());
    Ok(())
}

/// Returns the resources that a modern client lists; none if the host supports no subscriptions.
pub(super) async fn from_request<H: Host + ?Sized>(
    host: &H,
    caller: &H::Caller,
    requested: &Value,
) -> Result<SubscribedResources, Fault> {
    let named = match &requested[REQUEST_FIELD] {
        Value::Array(named) if is_offered(host) => named,
        _ => return Ok(SubscribedResources::new()),
    };
    if named.len() > MAX_RESOURCES {
        return Err(limit_reached());
    }
    let mut all = SubscribedResources::new();
    for uri in named {
        let wrong =
            || Fault::invalid(format!("`params.notifications.{REQUEST_FIELD}` must be a list of URIs"));
        let uri = uri.as_str().ok_or_else(wrong)?;
        all.insert(uri.to_owned(), host.subscribe(caller, uri).await?);
    }
    Ok(all)
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
    let (keep, of) = watch::channel(subscribed);
    // The sender is kept as long as the stream, because dropping it would end the updates.
    let updates = host.updates(caller, of);
    updates
        .inspect(move |_| {
            let _kept = &keep;
        })
        .boxed()
}
