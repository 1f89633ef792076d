//! Wakes between the servers of one PostgreSQL database. Each server has one connection that receives the
//! wakes of other servers and sends its own. Wakes are sent after the commit, several in one statement: a
//! `NOTIFY` inside a transaction would make each commit of the database wait for the fsync of the previous.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use emergent_net::backoff::Backoff;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::{row_numbers::NumberPool, wake::Wake};

/// The delay before the next attempt to connect.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(6_400));
/// How long the database may take to answer before another connection is opened.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Collects the wakes of this server and sends them to the other servers.
pub(crate) struct Notifier {
    /// Identifies the notifications of this server. The server ignores them when it receives them, because
    /// its own waiters have already been woken.
    origin: String,
    /// The channels to send next.
    queued: Mutex<BTreeSet<String>>,
    /// The channels of the statement under way. They are sent again if the connection is lost meanwhile.
    sending: Mutex<BTreeSet<String>>,
    /// Signals that `queued` is not empty.
    has_queued: Notify,
}

impl Default for Notifier {
    fn default() -> Self {
        let origin = uuid::Uuid::now_v7().simple().to_string();
        Self { origin, queued: Mutex::default(), sending: Mutex::default(), has_queued: Notify::new() }
    }
}

impl Notifier {
    /// Queues wakes of these channels for the other servers.
    pub(crate) fn notify(&self, channels: &[String]) {
        if channels.is_empty() {
            return;
        }
        self.queued.lock().extend(channels.iter().cloned());
        self.has_queued.notify_one();
    }

    /// The channel that a notification wakes on this server; `None` if this server sent it. A payload is
    /// `<origin> <channel>`, or only a channel.
    fn channel_from<'a>(&self, payload: &'a str) -> Option<&'a str> {
        match payload.split_once(' ') {
            Some((origin, _)) if origin == self.origin => None,
            Some((_, channel)) => Some(channel),
            None => Some(payload),
        }
    }

    /// Sends queued channels until the connection fails.
    async fn send_loop(&self, client: &Client) -> Result<(), NoAnswer> {
        let unsent: Vec<String> = std::mem::take(&mut *self.sending.lock()).into_iter().collect();
        self.notify(&unsent);
        loop {
            self.has_queued.notified().await;
            let channels = std::mem::take(&mut *self.queued.lock());
            let payloads: Vec<String> =
                channels.iter().map(|channel| format!("{} {channel}", self.origin)).collect();
            *self.sending.lock() = channels;
            let sql = "SELECT pg_notify('emergent', said) FROM unnest($1::text[]) AS said";
            answered(client.execute(sql, &[&payloads])).await?;
            self.sending.lock().clear();
        }
    }
}

/// The connection failed, or the database did not answer in time.
struct NoAnswer;

/// Waits for an answer of the database.
async fn answered<T>(answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, NoAnswer> {
    match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) | Err(_) => Err(NoAnswer),
    }
}

/// Connects, and connects again whenever the connection is lost, until the task is aborted. Each time all
/// waiters are woken, because notifications may have been missed, and the row numbers are dropped, because another
/// database may have taken over: this connection notices it also when no other one is in use.
pub(crate) async fn run<T>(
    config: Config,
    tls: T,
    wake: Arc<Wake>,
    notifier: Arc<Notifier>,
    numbers: Arc<NumberPool>,
) where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let mut failures = 0_u32;
    loop {
        if let Ok((client, connection)) = answered(config.connect(tls.clone())).await {
            failures = 0;
            serve_connection(client, connection, &wake, &notifier).await;
        }
        failures = failures.saturating_add(1);
        numbers.clear();
        wake.notify_all();
        tokio::time::sleep(BACKOFF.delay(failures)).await;
    }
}

/// Receives and sends wakes until the connection fails.
async fn serve_connection<S, T>(
    client: Client,
    mut connection: Connection<S, T>,
    wake: &Wake,
    notifier: &Notifier,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let receive = async {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notification) = message
                && let Some(channel) = notifier.channel_from(notification.payload())
            {
                wake.notify(channel);
            }
        }
    };
    let listen_and_send = async {
        answered(client.batch_execute("LISTEN emergent")).await?;
        wake.notify_all();
        notifier.send_loop(&client).await
    };
    // When either fails, the caller opens another connection.
    tokio::select! { () = receive => {}, _ = listen_and_send => {} }
}
