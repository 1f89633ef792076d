//! The HTTP server: accepts connections and passes their requests to the router.
//!
//! A connection costs a file and memory before any token is checked, so each one has a deadline for every
//! phase (the TLS handshake, the request's header, each part of a body, idling, each write), and their number
//! is limited per address and in total (`connections`).
//!
//! On HTTP/1 each write has a deadline. On HTTP/2 the client decides how much of each response it accepts, so a
//! response that is not accepted has a deadline of its own: the connection is then closed.

mod body;
mod connections;
mod tls;

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{Request, Response, Version},
};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time,
};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;
use tracing::{debug, warn};

use self::{
    body::{BusyBody, TimedBody, WatchedBody},
    connections::{Admission, Connection, Connections},
    tls::TlsAcceptor,
};
pub use self::{connections::ConnectionLimits, tls::TlsFiles};

/// The deadlines of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    pub tls_handshake: Duration,
    /// From the first byte of a request to the end of its header, and from the start of a connection to the end
    /// of the first header.
    pub header: Duration,
    /// Between two parts of a request's body.
    pub body_part: Duration,
    /// Between two requests on one connection.
    pub idle: Duration,
    /// While the client does not read what is written.
    pub write: Duration,
    /// From the decision to close a connection until it is closed. Other responses can end meanwhile.
    pub close: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            tls_handshake: Duration::from_secs(10),
            header: Duration::from_secs(10),
            body_part: Duration::from_secs(20),
            idle: Duration::from_secs(75),
            write: Duration::from_secs(60),
            close: Duration::from_secs(10),
        }
    }
}

const MAX_HEADER_BYTES: usize = 64 << 10;
/// The pause after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(200);
/// The maximum number of concurrent requests on one HTTP/2 connection.
const MAX_HTTP2_STREAMS: u32 = 128;
/// The maximum number of bytes of one response that wait in the HTTP/2 connection.
const MAX_HTTP2_SEND_BUFFER: usize = 64 << 10;

/// The client of a connection. It is an extension of each request.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub address: IpAddr,
    /// True if nearly all connections are in use, and this one belongs to the part that is reserved for
    /// health checks and operators.
    pub reserved: bool,
}

/// The settings of [`serve`].
pub struct ServerOptions {
    pub limits: ConnectionLimits,
    /// `None` means plain HTTP.
    pub tls: Option<TlsFiles>,
    pub deadlines: Deadlines,
}

/// Checks that the certificate and the key can be used, before anybody is told that the server listens.
pub fn check_tls(files: &TlsFiles) -> Result<(), emergent_net::tls::Error> {
    tls::read_config(files).map(drop)
}

/// Serves connections until `stop` is true, and then waits for the requests in progress. The caller limits
/// how long.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServerOptions,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let connections = Connections::new(options.limits);
    let is_tls = options.tls.is_some();
    let acceptor = options.tls.map(TlsAcceptor::load).transpose()?;
    let deadlines = options.deadlines;
    let protocol = protocol(is_tls, &deadlines);
    let server = Arc::new(Server { router, connections, acceptor, protocol, deadlines });
    let mut tasks = JoinSet::new();
    let connection_stop = stop.clone();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            Some(_) = tasks.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    tasks.spawn(Arc::clone(&server).run(stream, from, connection_stop.clone()));
                }
                Err(error) => handle_accept_error(&error).await,
            },
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
    Ok(())
}

/// Resolves at this time; never, if there is none.
async fn sleep_until(deadline: Option<time::Instant>) {
    match deadline {
        Some(deadline) => time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Resolves when `stop` is true.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender is dropped only when the process ends.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Ignores clients that disconnected before they were accepted. After other errors, such as too many open
/// files, it pauses, because a retry at once would fail as well.
async fn handle_accept_error(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        return;
    }
    warn!(%error, "cannot accept connections");
    time::sleep(ACCEPT_RETRY_DELAY).await;
}

/// Returns the settings of HTTP/1 and HTTP/2.
/// Without TLS only HTTP/1 is spoken. Browsers do not use HTTP/2 then, and a client of HTTP/2 decides for how
/// long unread responses stay in memory.
fn protocol(is_tls: bool, deadlines: &Deadlines) -> auto::Builder<TokioExecutor> {
    let mut protocol = auto::Builder::new(TokioExecutor::new());
    protocol
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.header)
        .max_buf_size(MAX_HEADER_BYTES);
    protocol
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_HTTP2_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .max_send_buf_size(MAX_HTTP2_SEND_BUFFER)
        .keep_alive_interval(deadlines.body_part)
        .keep_alive_timeout(deadlines.body_part);
    if is_tls { protocol } else { protocol.http1_only() }
}

struct Server {
    router: Router,
    connections: Connections,
    acceptor: Option<TlsAcceptor>,
    protocol: auto::Builder<TokioExecutor>,
    deadlines: Deadlines,
}

impl Server {
    /// Serves one connection, after its TLS handshake if there is one.
    async fn run(self: Arc<Self>, stream: TcpStream, from: SocketAddr, stop: watch::Receiver<bool>) {
        // An IPv4 address that is mapped into IPv6 is the same client as the plain address.
        let address = from.ip().to_canonical();
        let connection = match self.connections.admit(address) {
            Admission::Admitted(connection) => connection,
            Admission::Refused => {
                debug!(%address, "a connection was refused: the limit is reached");
                return;
            }
        };
        // Most responses are small, so waiting for more data to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.deadlines.write));
        let Some(acceptor) = &self.acceptor else {
            return self.run_http(Box::pin(stream), connection, stop).await;
        };
        let handshake = acceptor.current().accept(Box::pin(stream));
        match time::timeout(self.deadlines.tls_handshake, handshake).await {
            Ok(Ok(stream)) => self.run_http(stream, connection, stop).await,
            Ok(Err(error)) => debug!(%address, %error, "a TLS handshake failed"),
            Err(_) => debug!(%address, "a TLS handshake took too long"),
        }
    }

    /// Serves the requests of one connection until it is closed.
    async fn run_http<S>(&self, stream: S, connection: Connection, mut stop: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let peer = Peer { address: connection.address(), reserved: connection.is_reserved() };
        let deadlines = self.deadlines;
        let service = service_fn(|request: Request<Incoming>| {
            let busy = connection.begin_request();
            let is_http2 = request.version() == Version::HTTP_2;
            let mut request = request.map(|body| Body::new(TimedBody::new(body, deadlines.body_part)));
            request.extensions_mut().insert(peer);
            let router = self.router.clone();
            async move {
                let Ok(response) = router.oneshot(request).await;
                let wrap = |body| match is_http2 {
                    true => Body::new(WatchedBody::new(body, busy)),
                    false => Body::new(BusyBody::new(body, busy)),
                };
                Ok::<Response<Body>, Infallible>(response.map(wrap))
            }
        });
        let mut http = std::pin::pin!(self.protocol.serve_connection(TokioIo::new(stream), service));
        let mut shutting_down = false;
        let mut close_at = None;
        loop {
            tokio::select! {
                ended = http.as_mut() => {
                    if let Err(error) = ended {
                        debug!(address = %peer.address, %error, "a connection ended with an error");
                    }
                    return;
                }
                () = stopped(&mut stop), if !shutting_down => {
                    shutting_down = true;
                    http.as_mut().graceful_shutdown();
                }
                () = connection.stalled(deadlines.write), if close_at.is_none() => {
                    debug!(address = %peer.address, "a connection does not accept a response and is closed");
                    http.as_mut().graceful_shutdown();
                    close_at = Some(time::Instant::now() + deadlines.close);
                }
                () = sleep_until(close_at) => return,
                () = connection.unneeded(deadlines.header, deadlines.idle) => {
                    // A request that is arriving at this moment is lost, as whenever a server closes an idle
                    // connection. Clients send it again.
                    return;
                }
            }
        }
    }
}
