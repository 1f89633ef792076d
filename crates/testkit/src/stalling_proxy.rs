//! A proxy in front of a PostgreSQL server that can stop forwarding, as if the server hung.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// The proxy. Its connections end with the runtime of the test.
pub struct StallingProxy {
    address: SocketAddr,
    url: String,
    stalled: watch::Sender<bool>,
}

impl StallingProxy {
    /// Forwards connections to the server of a database URL with a host and a port.
    pub async fn start(url: &str) -> Self {
        let (_, rest) = url.split_once("://").expect("a URL");
        let (authority, _) = rest.split_once('/').expect("a database");
        let target = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let url = url.replacen(&target, &address.to_string(), 1);
        let (stalled, state) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&target).await else { continue };
                let (client_read, client_write) = client.into_split();
                let (server_read, server_write) = server.into_split();
                tokio::spawn(forward(client_read, server_write, state.clone()));
                tokio::spawn(forward(server_read, client_write, state.clone()));
            }
        });
        Self { address, url, stalled }
    }

    /// The URL of the same database through the proxy.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops forwarding, or continues.
    pub fn stall(&self, stalled: bool) {
        self.stalled.send_replace(stalled);
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut stalled: watch::Receiver<bool>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let resumed = stalled.wait_for(|stalled| !*stalled).await.is_ok();
        if !resumed || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
