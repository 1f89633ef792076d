//! The listener: connections in, requests to the router.
//!
//! A connection costs a file and memory before anybody has shown a token, so each one has a
//! deadline for every phase (the TLS handshake, the request's header, each part of a body, idling,
//! each write), and their number is limited per address and in all (`connections`).

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
    http::{Request, Response},
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
    body::{BusyBody, TimedBody},
    connections::{Admission, Connection, Connections},
    tls::TlsAcceptor,
};
pub use self::{connections::ConnectionLimits, tls::TlsFiles};

/// The deadlines of a connection.
mod deadlines {
    use std::time::Duration;

    pub const TLS_HANDSHAKE: Duration = Duration::from_secs(10);
    /// From the first byte of a request to the end of its header.
    pub const HEADER: Duration = Duration::from_secs(10);
    /// Between two parts of a request's body.
    pub const BODY_PART: Duration = Duration::from_secs(20);
    /// Between two requests on one connection, and before the first.
    pub const IDLE: Duration = Duration::from_secs(75);
    /// A write that the other side does not take.
    pub const WRITE: Duration = Duration::from_secs(60);
}

const MAX_HEADER_BYTES: usize = 64 << 10;
/// Requests at once on one HTTP/2 connection.
const MAX_HTTP2_STREAMS: u32 = 128;

/// Who is at the other end of the connection: an extension of each request.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub address: IpAddr,
    /// Nearly all connections are taken. This one is from the part that is kept for health checks and
    /// operators, so it may serve nobody else.
    pub reserved: bool,
}

pub struct ServerOptions {
    pub limits: ConnectionLimits,
    pub tls: Option<TlsFiles>,
}

/// Serves connections until `stop` is true; then lets requests that have begun end. The caller decides
/// how long it waits for them.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServerOptions,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let connections = Connections::new(options.limits);
    let acceptor = options.tls.map(TlsAcceptor::load).transpose()?;
    let server = Arc::new(Server { router, connections, acceptor, protocol: protocol() });
    let mut tasks = JoinSet::new();
    let of_connections = stop.clone();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            Some(_) = tasks.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    tasks.spawn(Arc::clone(&server).run(stream, from, of_connections.clone()));
                }
                Err(error) => wait_after(&error).await,
            },
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
    Ok(())
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // The sender is gone only when the process ends.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A client that is gone before it was accepted is nothing to wait for. When there are no files or no
/// memory left, trying again at once would only burn the processor.
async fn wait_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        return;
    }
    warn!(%error, "cannot accept connections");
    time::sleep(Duration::from_millis(200)).await;
}

fn protocol() -> auto::Builder<TokioExecutor> {
    let mut protocol = auto::Builder::new(TokioExecutor::new());
    protocol
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines::HEADER)
        .max_buf_size(MAX_HEADER_BYTES);
    protocol
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_HTTP2_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .keep_alive_interval(deadlines::BODY_PART)
        .keep_alive_timeout(deadlines::BODY_PART);
    protocol
}

struct Server {
    router: Router,
    connections: Connections,
    acceptor: Option<TlsAcceptor>,
    protocol: auto::Builder<TokioExecutor>,
}

impl Server {
    async fn run(self: Arc<Self>, stream: TcpStream, from: SocketAddr, stop: watch::Receiver<bool>) {
        // An IPv4 client of an IPv6 socket is one client, however it is written.
        let address = from.ip().to_canonical();
        let connection = match self.connections.admit(address) {
            Admission::Admitted(connection) => connection,
            Admission::Refused => {
                debug!(%address, "a connection was refused: the limit is reached");
                return;
            }
        };
        // Answers are small: waiting to fill a packet would only cost time.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(deadlines::WRITE));
        let Some(acceptor) = &self.acceptor else {
            return self.run_http(Box::pin(stream), connection, stop).await;
        };
        let handshake = acceptor.current().accept(Box::pin(stream));
        match time::timeout(deadlines::TLS_HANDSHAKE, handshake).await {
            Ok(Ok(stream)) => self.run_http(stream, connection, stop).await,
            Ok(Err(error)) => debug!(%address, %error, "a TLS handshake failed"),
            Err(_) => debug!(%address, "a TLS handshake took too long"),
        }
    }

    async fn run_http<S>(&self, stream: S, connection: Connection, mut stop: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let peer = Peer { address: connection.address(), reserved: connection.is_reserved() };
        let service = service_fn(|request: Request<Incoming>| {
            let busy = connection.begin_request();
            let mut request = request.map(|body| Body::new(TimedBody::new(body, deadlines::BODY_PART)));
            request.extensions_mut().insert(peer);
            let router = self.router.clone();
            async move {
                let Ok(response) = router.oneshot(request).await;
                Ok::<Response<Body>, Infallible>(response.map(|body| Body::new(BusyBody::new(body, busy))))
            }
        });
        let mut http = std::pin::pin!(self.protocol.serve_connection(TokioIo::new(stream), service));
        let mut ending = false;
        loop {
            tokio::select! {
                ended = http.as_mut() => {
                    if let Err(error) = ended {
                        debug!(address = %peer.address, %error, "a connection ended with an error");
                    }
                    return;
                }
                () = stopped(&mut stop), if !ending => {
                    ending = true;
                    http.as_mut().graceful_shutdown();
                }
                () = connection.unneeded(deadlines::IDLE) => {
                    // Whatever was being read when the room was needed for somebody else is lost, as it
                    // is when a server closes an idle connection: clients send it again.
                    return;
                }
            }
        }
    }
}
