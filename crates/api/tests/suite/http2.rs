//! Clients of HTTP/2 that do not read, or do not send what they began.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Router, body::Body, routing::get};
use emergent_api::server::{self, ConnectionLimits, Deadlines, ServerOptions, TlsFiles};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

fn tls_files() -> TlsFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../emergent/tests/attack/tls");
    TlsFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") }
}

/// Starts a server with short deadlines. It stops when the sender is dropped with the test.
async fn start() -> (SocketAddr, watch::Sender<bool>) {
    emergent_net::tls::install_crypto_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/large", get(async || Body::from(vec![b'x'; 4 << 20])))
        .route("/small", get(async || "small"));
    let short = Duration::from_secs(2);
    let options = ServerOptions {
        limits: ConnectionLimits { total: 100, per_address: 50 },
        tls: Some(tls_files()),
        deadlines: Deadlines { header: short, write: short, close: short, ..Deadlines::default() },
    };
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(server::serve(listener, router, options, stopping));
    (address, stop)
}

async fn connect(address: SocketAddr) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls_files().certificate).unwrap()).unwrap();
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn request(path: &str) -> axum::http::Request<()> {
    axum::http::Request::get(format!("https://localhost{path}")).body(()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_that_is_not_read_ends_its_connection_and_one_that_is_read_does_not() {
    let (address, _stop) = start().await;
    // The unread response must not use up what all responses of the connection may send together.
    let mut builder = h2::client::Builder::new();
    builder.initial_connection_window_size(1 << 20);
    let (mut client, connection) =
        builder.handshake::<_, axum::body::Bytes>(connect(address).await).await.unwrap();
    let closed = tokio::spawn(connection);
    let (unread, _) = client.send_request(request("/large"), true).unwrap();
    let unread = unread.await.unwrap();
    client = client.ready().await.unwrap();
    let (other, _) = client.send_request(request("/small"), true).unwrap();
    let mut other = other.await.unwrap().into_body();
    assert_eq!(other.data().await.unwrap().unwrap(), "small");
    let started = Instant::now();
    let ended = tokio::time::timeout(Duration::from_secs(20), closed).await;
    assert!(ended.is_ok(), "the connection is closed");
    assert!(started.elapsed() < Duration::from_secs(12), "{:?}", started.elapsed());
    drop(unread);

    // A client that reads slowly, but reads, receives everything.
    let (mut client, connection) = h2::client::handshake(connect(address).await).await.unwrap();
    tokio::spawn(connection);
    let (slow, _) = client.send_request(request("/large"), true).unwrap();
    let (mut body, mut received) = (slow.await.unwrap().into_body(), 0);
    while let Some(part) = body.data().await {
        let part = part.expect("the response goes on");
        received += part.len();
        body.flow_control().release_capacity(part.len()).unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(received, 4 << 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_preface_has_a_deadline() {
    let (address, _stop) = start().await;
    let mut stream = connect(address).await;
    stream.write_all(b"PRI * HTTP/2").await.unwrap();
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the connection is closed");
}
