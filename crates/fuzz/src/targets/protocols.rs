//! Event streams and MCP messages.

use std::sync::Arc;

use async_trait::async_trait;
use emergent_mcp::{
    client::RemoteTool,
    message::Message,
    server::{
        CallOutcome, Fault, Host, HostCall, JsonFields, ListKind, ReplyBody, Server, ServerInfo, ToolList,
    },
};
use emergent_net::sse::{Decoder, Event};
use futures_util::{StreamExt, stream, stream::BoxStream};
use reqwest::header::HeaderMap;
use serde_json::{json, value::RawValue};

use super::{Target, owned, proportional, shown};

/// The most bytes of an event that the decoder may keep.
const MAX_EVENT_BYTES: usize = 16 << 10;

pub const SSE: Target = Target {
    name: "sse",
    samples: || {
        owned(&[
            "event: message\nid: 7\ndata: {\"a\":1}\ndata: more\n\nretry: 3000\n: comment\n\n",
            "\u{feff}data: x\r\n\r\ndata\r\rdata:y\n\n",
        ])
    },
    tokens: &[
        "\n", "\r", "\r\n", "\n\n", ":", ": ", "data", "data: ", "event: ", "id: ", "retry: ", "\0",
        "\u{feff}", "\u{2028}",
    ],
    parse: |bytes| {
        let whole = decode(&[bytes]);
        // The events do not depend on how the network cuts the stream.
        let size = usize::from(bytes.first().copied().unwrap_or(0)) % 7 + 1;
        let in_pieces = decode(&bytes.chunks(size).collect::<Vec<_>>());
        if let (Ok(whole), Ok(in_pieces)) = (&whole, &in_pieces)
            && whole != in_pieces
        {
            return Err(format!("in pieces of {size}: {in_pieces:?}, in one piece: {whole:?}"));
        }
        if whole.is_err() != in_pieces.is_err() {
            return Err(format!("in pieces of {size} it is too large, or in one piece, not both"));
        }
        Ok(shown(&whole))
    },
    max_output: proportional,
};

fn decode(pieces: &[&[u8]]) -> Result<Vec<Event>, &'static str> {
    let mut decoder = Decoder::new(MAX_EVENT_BYTES);
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(decoder.push(piece).map_err(|_| "too large")?);
    }
    Ok(events)
}

const MCP_SAMPLES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"x","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"search","arguments":{"q":"x"},"_meta":{"progressToken":"p"}}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"c","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"no","data":{"a":[1,null]}}}"#,
    r#"{"jsonrpc":"2.0","id":4,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"n"}}"#,
    r#"{"name":"create_issue","title":"t","description":"d","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true},"execution":{"taskSupport":"required"}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"emergent://x"}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"prompts/get","params":{"name":"p","arguments":{"a":"b"}}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"logging/setLevel","params":{"level":"debug"}}"#,
    r#"{"jsonrpc":"2.0","id":8,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}}"#,
];

pub const MCP: Target = Target {
    name: "mcp",
    samples: || owned(MCP_SAMPLES),
    tokens: &[
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "null",
        "true",
        "-1",
        "1e999",
        "1.5",
        "\"id\":",
        "\"id\":null",
        "\"method\":\"ping\"",
        "\"params\":[]",
        "\"params\":{}",
        "\"jsonrpc\":\"2.0\"",
        "\"_meta\":{}",
        "\"result\":{}",
        "\"error\":{}",
        "\\u0000",
        "\\ud800",
        "\"progressToken\":1",
        "\"method\":\"tools/call\"",
        "\"method\":\"subscriptions/listen\"",
        "\"method\":\"resources/subscribe\"",
        "\"method\":\"server/discover\"",
        "\u{feff}",
        "\"io.modelcontextprotocol/clientCapabilities\":{}",
        "99999999999999999999",
    ],
    parse: |bytes| {
        let message = Message::parse(bytes);
        let mut output = match &message {
            Ok(message) => format!("ok {:?} {message:?}", message.kind()),
            Err(error) => format!("error {error:?}"),
        };
        if let Ok(text) = serde_json::from_slice::<Box<RawValue>>(bytes) {
            output += &shown(&RemoteTool::parse(text));
        }
        Ok(output + &reply_to(bytes))
    },
    max_output: |input| (64 << 10) + 64 * input,
};

/// What a server replies to a body. Streams are not read.
fn reply_to(body: &[u8]) -> String {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    }
    let capabilities = json!({ "tools": { "listChanged": true } });
    let about =
        ServerInfo { server: json!({ "name": "small", "version": "1" }), capabilities, instructions: None };
    let server = Server::new(Arc::new(SmallHost(about)));
    let reply = RUNTIME.with(|runtime| runtime.block_on(server.post(&(), &HeaderMap::new(), body)));
    let body = match &reply.body {
        ReplyBody::Empty => String::new(),
        ReplyBody::Json(text) => String::from_utf8_lossy(text).into_owned(),
        ReplyBody::Events(_) | ReplyBody::Changes(_) => "a stream".to_owned(),
    };
    format!(" {} {body}", reply.status)
}

/// A host that answers everything at once, with what it was asked for.
struct SmallHost(ServerInfo);

fn echo(name: &str) -> Result<JsonFields, Fault> {
    JsonFields::from_object(&json!({ "content": [name] }))
}

#[async_trait]
impl Host for SmallHost {
    type Caller = ();

    fn server_info(&self) -> &ServerInfo {
        &self.0
    }

    async fn tools(&self, _: &()) -> Result<Arc<ToolList>, Fault> {
        Ok(Arc::default())
    }

    async fn call(&self, call: HostCall<()>) -> Result<CallOutcome, Fault> {
        Ok(CallOutcome::Done(JsonFields::from_object(
            &json!({ "content": [call.name, call.arguments, call.answers] }),
        )?))
    }

    async fn prompts(&self, _: &()) -> Result<JsonFields, Fault> {
        echo("prompts")
    }

    async fn prompt(&self, call: HostCall<()>) -> Result<CallOutcome, Fault> {
        Ok(CallOutcome::Done(echo(&call.name)?))
    }

    async fn resources(&self, _: &(), cursor: Option<&str>) -> Result<JsonFields, Fault> {
        echo(cursor.unwrap_or_default())
    }

    async fn templates(&self, _: &()) -> Result<JsonFields, Fault> {
        echo("templates")
    }

    async fn read(&self, _: &(), uri: &str) -> Result<JsonFields, Fault> {
        Err(Fault::ResourceNotFound { uri: uri.to_owned() })
    }

    fn changes(&self, _: &()) -> BoxStream<'static, ListKind> {
        stream::empty().boxed()
    }
}
