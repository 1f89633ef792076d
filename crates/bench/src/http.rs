//! A minimal HTTP/1.1 client with a persistent connection, so that the measurements are about the
//! server.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

pub struct Http {
    stream: BufReader<TcpStream>,
    address: String,
    token: String,
    body: Vec<u8>,
    next_cursor: Option<String>,
}

impl Http {
    pub fn connect(address: &str, token: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        Self {
            stream: BufReader::with_capacity(1 << 20, stream),
            address: address.to_owned(),
            token: token.to_owned(),
            body: Vec::new(),
            next_cursor: None,
        }
    }

    pub fn get(&mut self, path: &str) -> &[u8] {
        self.send("GET", path, "", "")
    }

    /// Gets a page of a list, and the cursor of the next one.
    pub fn page(&mut self, path: &str) -> (&[u8], Option<String>) {
        self.send("GET", path, "", "");
        (&self.body, self.next_cursor.clone())
    }

    pub fn post(&mut self, path: &str, body: &str) -> &[u8] {
        self.send("POST", path, "", body)
    }

    /// Posts with additional headers, each with its line break.
    pub fn post_with(&mut self, path: &str, headers: &str, body: &str) -> &[u8] {
        self.send("POST", path, headers, body)
    }

    fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) -> &[u8] {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            self.address,
            self.token,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
        let (status, length) = self.head();
        match length {
            Some(length) => {
                self.body.resize(length, 0);
                self.stream.read_exact(&mut self.body).expect("the whole body");
            }
            None => self.chunks(),
        }
        assert!(
            (200..300).contains(&status),
            "{method} {path}: {status} {}",
            String::from_utf8_lossy(&self.body)
        );
        &self.body
    }

    fn head(&mut self) -> (u16, Option<usize>) {
        let (mut status, mut length, mut line) = (0, None, String::new());
        self.next_cursor = None;
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("a header");
            let text = line.trim_end();
            if text.is_empty() {
                return (status, length);
            }
            if let Some(rest) = text.strip_prefix("HTTP/1.1 ") {
                status = rest[..3].parse().expect("a status");
            } else if let Some((name, value)) = text.split_once(':') {
                if name.eq_ignore_ascii_case("content-length") {
                    length = Some(value.trim().parse().expect("a length"));
                } else if name.eq_ignore_ascii_case("x-next-cursor") {
                    self.next_cursor = Some(value.trim().to_owned());
                }
            }
        }
    }

    fn chunks(&mut self) {
        self.body.clear();
        let mut line = String::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("a chunk's size");
            let size = usize::from_str_radix(line.trim(), 16).expect("a chunk's size");
            let start = self.body.len();
            self.body.resize(start + size, 0);
            self.stream.read_exact(&mut self.body[start..]).expect("a chunk");
            line.clear();
            self.stream.read_line(&mut line).expect("a chunk's end");
            if size == 0 {
                return;
            }
        }
    }
}
