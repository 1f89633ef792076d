//! A small fake provider: it sends one prepared reply per request and logs the requests.

// Each test that includes this module uses only a part of it.
#![allow(dead_code)]

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

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
    pub body: Body,
}

pub enum Body {
    Whole(String),
    /// Sent in HTTP chunks, so that the client can distinguish an end from a broken connection.
    Steps(Vec<Step>),
}

/// What a provider does while it responds.
pub enum Step {
    /// One HTTP chunk in its own write.
    Send(Vec<u8>),
    Pause(Duration),
    /// Closes the connection half way.
    HangUp,
}

pub fn ok(body: impl ToString) -> Reply {
    status(200, body)
}

pub fn status(status: u16, body: impl ToString) -> Reply {
    Reply { status, headers: "", body: Body::Whole(body.to_string()) }
}

/// A stream that is sent in these steps and then ends properly.
pub fn streamed(steps: impl IntoIterator<Item = Step>) -> Reply {
    let headers = "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n";
    Reply { status: 200, headers, body: Body::Steps(steps.into_iter().collect()) }
}

/// Splits `text` into chunks of `size` bytes at arbitrary positions.
pub fn pieces(text: &str, size: usize) -> Vec<Step> {
    text.as_bytes().chunks(size).map(|piece| Step::Send(piece.to_vec())).collect()
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
                let _ = write(&mut stream, reply).await;
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

/// Fails if the client has disconnected, which a client may do.
async fn write(stream: &mut TcpStream, reply: Reply) -> io::Result<()> {
    let Reply { status, headers, body } = reply;
    let head = format!("HTTP/1.1 {status} Reason\r\nconnection: close\r\n{headers}");
    match body {
        Body::Whole(body) => {
            let text = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(text.as_bytes()).await?;
        }
        Body::Steps(steps) => {
            stream.set_nodelay(true)?;
            stream.write_all(format!("{head}\r\n").as_bytes()).await?;
            for step in steps {
                match step {
                    Step::Send(bytes) => {
                        let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat();
                        stream.write_all(&chunk).await?;
                    }
                    Step::Pause(time) => tokio::time::sleep(time).await,
                    Step::HangUp => return Ok(()),
                }
            }
            stream.write_all(b"0\r\n\r\n").await?;
        }
    }
    stream.shutdown().await
}
