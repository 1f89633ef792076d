//! Writes that cost much: a schema and a value that are expensive together, large documents, a PDF that needs
//! far more memory than it has bytes, and a disk that is full. Another project writes on meanwhile.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

use crate::{
    bystander::{Bystander, peak_memory},
    common::{Api, Home, eventually},
    project_token,
};

const GRAPH: &[&str] = &["graph:read", "graph:write"];
/// The largest memory of the server during these attacks, which need less than others.
const MAX_MEMORY: u64 = 700 << 20;

async fn assign_pack(api: &Api, schema: Value) {
    let pack = json!({ "name": "bomb", "version": "1.0.0", "objectTypeSchemas": { "Bomb": schema } });
    let made = api.post("/api/template-packs", &pack).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let id = made.data()["id"].as_str().expect("an id").to_owned();
    api.post(&format!("/api/template-packs/{id}/assign"), &json!({})).await.data();
}

fn numbered(count: usize) -> Map<String, Value> {
    (0..count).map(|n| (format!("k{n}"), json!(1))).collect()
}

/// A pack of 46 KB and an object of 1 MB: each of the rules reports each of the properties.
async fn validation_bomb(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", GRAPH).await;
    let rules: Vec<Value> = (0..1_500).map(|_| json!({ "additionalProperties": false })).collect();
    assign_pack(&attacker, json!({ "allOf": rules })).await;
    let bystander = Bystander::start(&server).await;
    let bomb = json!({ "type": "Bomb", "properties": numbered(80_000) });
    for _ in 0..2 {
        let attacks = (0..4).map(|_| attacker.post("/api/graph/objects", &bomb));
        for refused in futures_util::future::join_all(attacks).await {
            assert_eq!((refused.status, refused.code()), (400, "invalid"), "{}", refused.body);
            let text = refused.body.to_string();
            assert!(text.len() < 5_000 && text.contains("steps") && text.contains("`bomb`"), "{text}");
        }
    }
    // The same on the way of an update: only the merged properties are too expensive.
    let small = json!({ "type": "Note", "properties": numbered(40_000) });
    let id = attacker.post("/api/graph/objects", &small).await.data()["id"].as_str().unwrap().to_owned();
    let change = json!({ "type": "Bomb", "properties": { "more": 1 } });
    let refused = attacker.patch(&format!("/api/graph/objects/{id}"), &change).await;
    assert_eq!((refused.status, refused.code()), (400, "invalid"), "{}", refused.body);
    tokio::time::sleep(Duration::from_millis(500)).await;
    bystander.assert_served(&server).await;
    assert!(peak_memory(&server) < MAX_MEMORY, "{} MB", peak_memory(&server) >> 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_validation_bomb_is_refused_and_hinders_nobody() {
    validation_bomb(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_validation_bomb_is_refused_and_hinders_nobody_on_postgres() {
    validation_bomb(Home::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patterns_that_would_fill_the_memory_are_not_compiled() {
    let home = Home::sqlite();
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", GRAPH).await;
    let patterns: Map<String, Value> = (0..2_500).map(|n| (format!("^a{{900}}{n}$"), json!(true))).collect();
    let schema = json!({ "patternProperties": patterns });
    let pack = json!({ "name": "bomb", "version": "1.0.0", "objectTypeSchemas": { "Bomb": schema } });
    let refused = attacker.post("/api/template-packs", &pack).await;
    assert_eq!((refused.status, refused.code()), (400, "invalid"), "{}", refused.body);
    assert!(peak_memory(&server) < MAX_MEMORY / 2);
}

/// A text of this many bytes, with many different words.
fn text(bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 100);
    let mut n: u64 = 1;
    while text.len() < bytes {
        n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("kettle{} sings word{} of tea. ", n >> 48, (n >> 32) & 0xFFF));
        if text.len().is_multiple_of(31) {
            text.push_str("\n\n");
        }
    }
    text
}

async fn upload(api: &Api, title: &str, mime: &str, content: Vec<u8>) -> (u16, Value) {
    let boundary = "boundary-of-the-upload";
    let mut body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{title}\"\r\n\
         Content-Type: {mime}\r\n\r\n"
    )
    .into_bytes();
    body.extend(content);
    body.extend(format!("\r\n--{boundary}--\r\n").bytes());
    let request = api
        .request(Method::POST, "/api/documents")
        .header("content-type", format!("multipart/form-data; boundary={boundary}"))
        .timeout(Duration::from_secs(120))
        .body(body);
    match request.send().await {
        Ok(answer) => (answer.status().as_u16(), answer.json().await.unwrap_or_default()),
        Err(_) => (0, Value::Null),
    }
}

async fn large_documents(home: Home) {
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", GRAPH).await;
    let bystander = Bystander::start(&server).await;
    let uploads: Vec<_> = (0..3)
        .map(|n| {
            let (api, content) = (attacker.clone(), format!("number {n}. {}", text(6 << 20).repeat(5)));
            tokio::spawn(async move { upload(&api, "large.txt", "text/plain", content.into_bytes()).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let listed = attacker.get("/api/documents").await.data();
    for document in listed.as_array().expect("documents") {
        let id = document["id"].as_str().expect("an id");
        let chunks = attacker.all(&format!("/api/documents/{id}/chunks?")).await;
        assert_eq!(chunks.len() as u64, document["chunkCount"].as_u64().unwrap(), "all of it or nothing");
    }
    if listed.as_array().is_some_and(Vec::is_empty) {
        let found =
            attacker.post("/api/documents/search", &json!({ "query": "kettle", "mode": "text" })).await;
        assert!(!found.data().to_string().contains("sings"), "no chunk of an unfinished document is found");
    }
    bystander.assert_served(&server).await;
    assert!(peak_memory(&server) < MAX_MEMORY, "{} MB", peak_memory(&server) >> 20);

    // The server dies in the middle. After its restart nothing of the documents is there, and the same
    // content can be uploaded.
    server.kill();
    uploads.iter().for_each(JoinHandle::abort);
    let server = home.start().await;
    let admin = server.api.in_project("attacker");
    for document in admin.get("/api/documents").await.data().as_array().expect("documents") {
        assert!(document["chunkCount"].as_u64().unwrap() > 1_000, "only whole documents: {document}");
    }
    let (status, body) = upload(&admin, "small.txt", "text/plain", text(1 << 19).into_bytes()).await;
    assert_eq!(status, 201, "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_documents_hinder_nobody_and_are_never_seen_in_part() {
    large_documents(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_documents_hinder_nobody_and_are_never_seen_in_part_on_postgres() {
    large_documents(Home::postgres().await).await;
}

fn pdf(objects: impl IntoIterator<Item = String>) -> Vec<u8> {
    let mut pdf = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for body in objects {
        offsets.push(pdf.len());
        pdf.extend(format!("{} 0 obj\n{body}\nendobj\n", offsets.len()).bytes());
    }
    let start = pdf.len();
    pdf.extend(format!("xref\n0 {}\n0000000000 65535 f \n", offsets.len() + 1).bytes());
    for offset in &offsets {
        pdf.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    let end = format!("trailer\n<</Root 1 0 R/Size {}>>\nstartxref\n{start}\n%%EOF\n", offsets.len() + 1);
    pdf.extend(end.bytes());
    pdf
}

/// The first objects of a PDF with one page, which says that tea is ready.
fn page() -> Vec<String> {
    let content = "BT /F1 12 Tf 10 100 Td (Tea is ready.) Tj ET";
    vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>"
            .to_owned(),
        format!("<</Length {}>>\nstream\n{content}\nendstream", content.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
    ]
}

/// A PDF whose objects need many times more memory than they have bytes.
fn pdf_bomb(bytes: usize) -> Vec<u8> {
    let lists = format!("[{}]", "<<>>".repeat(2_000));
    let count = bytes / lists.len();
    pdf(page().into_iter().chain(std::iter::repeat_n(lists, count)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pdf_that_needs_much_memory_does_not_take_that_of_the_server() {
    let home = Home::sqlite();
    let server = home.start().await;
    let attacker = project_token(&server, "attacker", GRAPH).await;
    let bystander = Bystander::start(&server).await;
    let bomb = pdf_bomb(48 << 20);
    let (status, body) =
        tokio::time::timeout(Duration::from_secs(90), upload(&attacker, "bomb.pdf", "application/pdf", bomb))
            .await
            .expect("an answer");
    assert_eq!(status, 400, "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("content"), "{body}");
    bystander.assert_served(&server).await;
    assert!(peak_memory(&server) < MAX_MEMORY, "{} MB", peak_memory(&server) >> 20);
    // A PDF that can be read still is, by the same way.
    let (status, body) = upload(&attacker, "readable.pdf", "application/pdf", pdf(page())).await;
    assert_eq!((status, body["data"]["chunkCount"].as_u64()), (201, Some(1)), "{body}");
}

/// Limits the size of the files that the server writes, or takes the limit away.
#[cfg(target_os = "linux")]
fn limit_files(server: &crate::common::Server, bytes: Option<u64>) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let pid = Pid::from_raw(server.launched.id() as i32).expect("a process");
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(pid), Resource::Fsize, limit).expect("a limit");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_as_such_and_writes_resume_by_themselves() {
    let home = Home::sqlite();
    let server = home.start().await;
    let size = |name: &str| std::fs::metadata(home.data().join(name)).map_or(0, |file| file.len());
    limit_files(&server, Some(size("emergent.db").max(size("emergent.db-wal")) + (64 << 10)));
    let large = json!({ "type": "Note", "properties": { "text": "word ".repeat(100_000) } });
    let write = || async {
        let answer =
            server.api.request(Method::POST, "/api/graph/objects").json(&large).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.json::<Value>().await.unwrap()["error"]["code"].clone())
    };
    assert_eq!(write().await, (507, json!("storage_full")));
    let not_ready = || async {
        write().await;
        let answer = server.api.request(Method::GET, "/ready").send().await.unwrap();
        answer.status() == 503 && answer.text().await.unwrap().contains("storage_full")
    };
    eventually("`/ready` fails with the reason", Duration::from_secs(5), not_ready).await;
    assert_eq!(server.api.get("/api/graph/objects").await.status, 200, "reads go on");
    let log = server.launched.log();
    assert!(log.contains("emergent.db") && log.contains("full"), "{log}");

    limit_files(&server, None);
    let written = || async { write().await.0 == 201 };
    eventually("writes resume", Duration::from_secs(5), written).await;
    let ready = || async { server.api.request(Method::GET, "/ready").send().await.unwrap().status() == 200 };
    eventually("`/ready` succeeds", Duration::from_secs(5), ready).await;
}
