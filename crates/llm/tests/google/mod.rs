//! A small fake of Google: one prepared reply per request, in pieces of any size, and a log of the
//! requests. Token requests and model requests may go to the same server.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::yield_now,
};

pub struct Google {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone, Debug)]
pub struct Asked {
    /// `POST /path`
    pub line: String,
    /// One line per header, in the order received.
    pub headers: String,
    pub body: String,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

pub struct Reply {
    pub status: u16,
    pub kind: &'static str,
    pub pieces: Vec<Vec<u8>>,
    /// The connection breaks instead of ending.
    pub broken: bool,
}

pub fn json(status: u16, body: impl ToString) -> Reply {
    Reply {
        status,
        kind: "application/json; charset=UTF-8",
        pieces: vec![body.to_string().into()],
        broken: false,
    }
}

/// An event stream that arrives `size` bytes at a time.
pub fn stream(text: &str, size: usize) -> Reply {
    let pieces = text.as_bytes().chunks(size).map(<[u8]>::to_vec).collect();
    Reply { status: 200, kind: "text/event-stream", pieces, broken: false }
}

/// Each chunk as an event.
pub fn events(chunks: &[Value], separator: &str) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}{separator}")).collect()
}

impl Google {
    pub async fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(vec![]));
        let replies = Arc::new(Mutex::new(replies.into_iter().collect::<VecDeque<_>>()));
        let log = asked.clone();
        tokio::spawn(async move {
            // Connections are served concurrently, so that an unused connection of a client blocks nobody.
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, log.clone(), replies.clone()));
            }
        });
        Self { url, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut socket: TcpStream, log: Arc<Mutex<Vec<Asked>>>, replies: Arc<Mutex<VecDeque<Reply>>>) {
    socket.set_nodelay(true).unwrap();
    let Some(request) = read(&mut socket).await else { return };
    let reply = {
        let mut log = log.lock().unwrap();
        log.push(request);
        replies.lock().unwrap().pop_front()
    };
    // A request without a prepared reply finds the connection closed.
    if let Some(reply) = reply {
        write(&mut socket, reply).await;
    }
}

/// Returns `None` if the client disconnected before it sent a request.
async fn read(socket: &mut TcpStream) -> Option<Asked> {
    let mut bytes = vec![];
    loop {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let (line, headers) = head.split_once("\r\n").unwrap();
        let line = line.trim_end_matches(" HTTP/1.1").to_owned();
        let asked = Asked { line, headers: headers.replace("\r\n", "\n"), body: body.to_owned() };
        let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
        if body.len() >= length {
            return Some(asked);
        }
    }
}

async fn write(socket: &mut TcpStream, reply: Reply) {
    let Reply { status, kind, pieces, broken } = reply;
    let head = format!(
        "HTTP/1.1 {status} Reason\r\nconnection: close\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let mut whole = vec![head.into_bytes()];
    whole.extend(pieces.into_iter().map(|piece| {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend(piece);
        chunk.extend(b"\r\n");
        chunk
    }));
    if !broken {
        whole.push(b"0\r\n\r\n".to_vec());
    }
    for bytes in whole {
        // A client that already has its error does not wait for the rest.
        if socket.write_all(&bytes).await.is_err() {
            return;
        }
        yield_now().await;
    }
    let _ = socket.shutdown().await;
}
