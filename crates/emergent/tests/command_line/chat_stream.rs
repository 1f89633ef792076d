//! `emergent chat` with connections that are lost. A small server in this process plays the answers.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread::JoinHandle,
};

use serde_json::{Value, json};

use crate::common::{Home, command_output, failed};

const ID: &str = "0198c0de-0000-7000-8000-0000deadbeef";

/// What the server does with one connection.
enum Reply {
    /// Frames with their ids; then the connection is cut in the middle of the body.
    Cut(Vec<(&'static str, Value)>),
    /// Frames, and half of another one; then the body ends.
    End(Vec<(&'static str, Value)>),
    Status(&'static str),
}

/// Answers one connection after the other, and returns the requests: the first line and `Last-Event-ID`.
fn play(replies: Vec<Reply>) -> (String, JoinHandle<Vec<(String, String)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let server = std::thread::spawn(move || {
        let answer = |reply| {
            let (mut stream, _) = listener.accept().expect("a connection");
            let request = read_request(&stream);
            write_reply(&mut stream, reply);
            request
        };
        replies.into_iter().map(answer).collect()
    });
    (address, server)
}

fn read_request(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut last_id, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).expect("a request");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "last-event-id" => last_id = value.to_owned(),
            "content-length" => length = value.parse().expect("a number"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (first.trim().trim_end_matches(" HTTP/1.1").to_owned(), last_id)
}

fn write_reply(stream: &mut TcpStream, reply: Reply) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    let text = |frames: &[(&str, Value)]| -> String {
        frames
            .iter()
            .map(|(id, frame)| match *id {
                "" => format!("data: {frame}\n\n"),
                id => format!("id: {id}\ndata: {frame}\n\n"),
            })
            .collect()
    };
    let sent = match reply {
        Reply::Status(status) => {
            format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        }
        Reply::End(frames) => format!("{head}\r\n{}id: half\ndata: {{\"type\":\"tok", text(&frames)),
        Reply::Cut(frames) => {
            let body = text(&frames);
            format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n", body.len())
        }
    };
    stream.write_all(sent.as_bytes()).expect("a reader");
}

fn meta() -> Value {
    json!({ "type": "meta", "conversationId": ID, "messageId": ID, "answerId": ID, "runId": ID, "queued": false,
        "title": "t", "passages": [] })
}

fn token(text: &str) -> Value {
    json!({ "type": "token", "step": 1, "text": text })
}

fn done() -> Value {
    let message = json!({ "id": ID, "conversationId": ID, "parentId": ID, "role": "assistant",
        "content": "one two three", "status": "completed", "author": { "type": "system" },
        "createdAt": "2026-01-01T00:00:00Z" });
    json!({ "type": "done", "status": "completed", "message": message })
}

/// Sends a message as a line of a pipe, which shows the text as it is streamed.
fn chat(home: &Home, address: &str) -> std::process::Output {
    std::fs::write(home.folder().join("input"), "Hello\n").expect("a file");
    let mut command = home.command(&["chat", "--agent", "-", "--server", address, "--token", "t"]);
    command.stdin(std::fs::File::open(home.folder().join("input")).expect("a file"));
    crate::common::finish(command)
}

#[test]
fn after_a_lost_connection_no_text_is_lost_or_repeated() {
    let stream_failed = json!({ "type": "error", "error": { "code": "internal", "message": "busy" } });
    let (address, server) = play(vec![
        Reply::Cut(vec![("a.0", meta()), ("a.1", token("one "))]),
        Reply::Status("503 Service Unavailable"),
        Reply::End(vec![("a.2", token("two "))]),
        Reply::End(vec![("", stream_failed)]),
        Reply::End(vec![("a.3", token("three")), ("a.4", done())]),
    ]);
    let home = Home::sqlite();
    let shown = command_output(chat(&home, &address));
    assert!(shown.starts_with("one two three\n"), "{shown}");
    assert_eq!(shown.matches("one").count(), 1, "{shown}");
    let requests = server.join().expect("all connections");
    let follow = format!("GET /api/chat/conversations/{ID}/stream");
    let expected: Vec<(String, String)> = [
        ("POST /api/chat/stream", ""),
        (&follow, "a.1"),
        (&follow, "a.1"),
        (&follow, "a.2"),
        (&follow, "a.2"),
    ]
    .map(|(first, id)| (first.to_owned(), id.to_owned()))
    .to_vec();
    assert_eq!(requests, expected);
}

#[test]
fn a_connection_that_is_lost_before_the_first_frame_is_an_error_and_nothing_is_sent_again() {
    let (address, server) = play(vec![Reply::Cut(Vec::new())]);
    let home = Home::sqlite();
    let told = failed(&chat(&home, &address));
    assert!(
        told.contains("before the message was confirmed") && told.contains("conversation list"),
        "{told}"
    );
    assert_eq!(server.join().expect("one connection").len(), 1);
}
