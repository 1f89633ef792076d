//! A provider in miniature: answers one prepared reply per request and keeps what it was asked.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub struct Provider {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone, Debug)]
pub struct Asked {
    /// `POST /path`, then the headers in lower case.
    pub head: String,
    pub body: Value,
}

pub struct Reply {
    pub status: u16,
    pub headers: &'static str,
    pub body: String,
}

pub fn ok(body: impl ToString) -> Reply {
    status(200, body)
}

pub fn status(status: u16, body: impl ToString) -> Reply {
    Reply { status, headers: "", body: body.to_string() }
}

impl Provider {
    pub async fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(vec![]));
        let replies: Vec<Reply> = replies.into_iter().collect();
        let log = asked.clone();
        tokio::spawn(async move {
            for reply in replies {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read(&mut stream).await;
                log.lock().unwrap().push(request);
                write(&mut stream, reply).await;
            }
        });
        Self { url, asked }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn read(stream: &mut TcpStream) -> Asked {
    let mut bytes = vec![];
    loop {
        stream.read_buf(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let (line, headers) = head.split_once("\r\n").unwrap();
        let headers = headers.to_lowercase();
        let length = headers.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            let head = format!("{line}\n{}", headers.replace("\r\n", "\n"));
            return Asked { head, body: serde_json::from_str(body).unwrap() };
        }
    }
}

async fn write(stream: &mut TcpStream, reply: Reply) {
    let Reply { status, headers, body } = reply;
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} Reason\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}
