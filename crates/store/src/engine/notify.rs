//! Wake-ups between servers. One connection listens for other servers and notifies them of commits of
//! this one. It notifies after the commit, with many wake-ups in one `NOTIFY`: inside a transaction,
//! `NOTIFY` would make every commit of the database wait for the one before and its fsync.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use emergent_net::backoff::Backoff;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::wake::Wake;

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(6_400));

/// The wake-ups that other servers have to be notified of.
pub(crate) struct Notifier {
    /// Identifies notifications of this server, which it ignores: its own waiters are woken already.
    origin: String,
    waiting: Mutex<BTreeSet<String>>,
    /// The channels that are being sent. They are sent again if the connection is lost meanwhile.
    sending: Mutex<BTreeSet<String>>,
    pending: Notify,
}

impl Default for Notifier {
    fn default() -> Self {
        let origin = uuid::Uuid::now_v7().simple().to_string();
        Self { origin, waiting: Mutex::default(), sending: Mutex::default(), pending: Notify::new() }
    }
}

impl Notifier {
    pub(crate) fn notify(&self, channels: &[String]) {
        if channels.is_empty() {
            return;
        }
        self.waiting.lock().extend(channels.iter().cloned());
        self.pending.notify_one();
    }

    /// The channels that a notification wakes on this server.
    fn channel_from<'a>(&self, payload: &'a str) -> Option<&'a str> {
        match payload.split_once(' ') {
            Some((origin, _)) if origin == self.origin => None,
            Some((_, channel)) => Some(channel),
            None => Some(payload),
        }
    }

    /// Runs until the connection fails.
    async fn send_loop(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let unsaid: Vec<String> = std::mem::take(&mut *self.sending.lock()).into_iter().collect();
        self.notify(&unsaid);
        loop {
            self.pending.notified().await;
            let channels = std::mem::take(&mut *self.waiting.lock());
            let said: Vec<String> =
                channels.iter().map(|channel| format!("{} {channel}", self.origin)).collect();
            *self.sending.lock() = channels;
            let sql = "SELECT pg_notify('emergent', said) FROM unnest($1::text[]) AS said";
            client.execute(sql, &[&said]).await?;
            self.sending.lock().clear();
        }
    }
}

/// Runs until it is aborted. After a lost connection all waiters are woken, since notifications may have
/// been missed.
pub(crate) async fn run<T>(config: Config, tls: T, wake: Arc<Wake>, announcer: Arc<Notifier>)
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let mut failures = 0_u32;
    loop {
        if let Ok((client, connection)) = config.connect(tls.clone()).await {
            failures = 0;
            serve_connection(client, connection, &wake, &announcer).await;
        }
        failures = failures.saturating_add(1);
        wake.notify_all();
        tokio::time::sleep(BACKOFF.delay(failures)).await;
    }
}

async fn serve_connection<S, T>(
    client: Client,
    mut connection: Connection<S, T>,
    wake: &Wake,
    announcer: &Notifier,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let messages = async {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(note) = message
                && let Some(channel) = announcer.channel_from(note.payload())
            {
                wake.notify(channel);
            }
        }
    };
    let speak = async {
        client.batch_execute("LISTEN emergent").await?;
        wake.notify_all();
        announcer.send_loop(&client).await
    };
    // When either fails, the caller opens another connection.
    tokio::select! { () = messages => {}, _ = speak => {} }
}
