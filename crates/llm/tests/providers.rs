//! Each embedding provider against a local server with its wire format.

mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use emergent_llm::{Credentials, EmbedTask, Embedder, Error, embedder};
use serde_json::{Value, json};
use support::{Provider, Reply, ok, status};

/// The configuration of one provider, and its format of vectors.
struct Dialect {
    spec: &'static str,
    credentials: fn(String) -> Credentials,
    answer: fn(&[[f32; 2]]) -> Value,
}

const DIALECTS: [Dialect; 3] = [
    Dialect {
        spec: "google/gemini-embedding-001",
        credentials: |url| Credentials {
            gemini_api_key: Some("key-1".into()),
            google_base_url: Some(format!("{url}/v1beta/")),
            ..Default::default()
        },
        answer: |vectors| json!({ "embeddings": vectors.iter().map(|v| json!({ "values": v })).collect::<Vec<_>>() }),
    },
    Dialect {
        spec: "openai/text-embedding-3-small",
        credentials: |url| Credentials {
            openai_api_key: Some("key-1".into()),
            openai_base_url: Some(format!("{url}/v1")),
            ..Default::default()
        },
        // The order is reversed, since only `index` is guaranteed.
        answer: |vectors| {
            let item = |(index, v): (usize, &[f32; 2])| json!({ "object": "embedding", "index": index, "embedding": v });
            json!({ "data": vectors.iter().enumerate().rev().map(item).collect::<Vec<_>>() })
        },
    },
    Dialect {
        spec: "ollama/nomic-embed-text",
        credentials: |url| Credentials { ollama_host: Some(url), ..Default::default() },
        answer: |vectors| json!({ "model": "nomic-embed-text", "embeddings": vectors }),
    },
];

impl Dialect {
    fn embedder(&self, provider: &Provider) -> Arc<dyn Embedder> {
        embedder(&self.spec.parse().unwrap(), &(self.credentials)(provider.url.clone())).unwrap().unwrap()
    }

    /// Embeds two texts with these replies. Returns the outcome and the number of requests.
    async fn embeds(
        &self,
        replies: impl IntoIterator<Item = Reply>,
    ) -> (Result<Vec<Vec<f32>>, Error>, usize) {
        let provider = Provider::replying(replies).await;
        let texts = ["first".to_owned(), "second".to_owned()];
        let result = self.embedder(&provider).embed(&texts, EmbedTask::Document).await;
        (result, provider.asked().len())
    }

    fn good(&self) -> Reply {
        ok((self.answer)(&[[3.0, 4.0], [0.0, -2.0]]))
    }
}

const GOOD: [[f32; 2]; 2] = [[0.6, 0.8], [0.0, -1.0]];

#[tokio::test]
async fn vectors_come_in_the_order_of_the_texts_and_have_length_one() {
    for dialect in DIALECTS {
        let (result, asked) = dialect.embeds([dialect.good()]).await;
        assert_eq!(result.unwrap(), GOOD, "{}", dialect.spec);
        assert_eq!(asked, 1);
    }
}

#[tokio::test]
async fn the_size_is_learned_from_the_first_answer_and_kept() {
    for dialect in DIALECTS {
        let other = json!({ "embeddings": [[1.0]], "data": [{ "index": 0, "embedding": [1.0] }] });
        let other = if dialect.spec.starts_with("google") {
            json!({ "embeddings": [{ "values": [1.0] }] })
        } else {
            other
        };
        let provider = Provider::replying([ok((dialect.answer)(&[[1.0, 0.0]])), ok(other)]).await;
        let embedder = dialect.embedder(&provider);
        let texts = ["text".to_owned()];
        assert_eq!((embedder.model(), embedder.dims()), (dialect.spec, None));
        embedder.embed(&texts, EmbedTask::Document).await.unwrap();
        assert_eq!(embedder.dims(), Some(2));
        let error = embedder.embed(&texts, EmbedTask::Document).await.unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_limit_is_waited_out_as_long_as_the_provider_says() {
    for dialect in DIALECTS {
        let busy = Reply { headers: "retry-after: 1\r\n", ..status(429, r#"{"error":"slow down"}"#) };
        let start = Instant::now();
        let (result, asked) = dialect.embeds([busy, dialect.good()]).await;
        assert_eq!(result.unwrap(), GOOD, "{}", dialect.spec);
        assert_eq!(asked, 2);
        assert!(start.elapsed() >= Duration::from_secs(1));
    }
}

#[tokio::test]
async fn a_failure_of_the_provider_is_tried_again() {
    for dialect in DIALECTS {
        let (result, asked) = dialect.embeds([status(500, "oops"), status(503, ""), dialect.good()]).await;
        assert_eq!(result.unwrap(), GOOD, "{}", dialect.spec);
        assert_eq!(asked, 3);
    }
}

#[tokio::test]
async fn a_refused_key_is_not_tried_again() {
    for dialect in DIALECTS {
        let refused = status(401, r#"{"error":{"message":"bad key"}}"#);
        let (result, asked) = dialect.embeds([refused, dialect.good()]).await;
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Auth { .. }), "{error}");
        assert!(error.to_string().contains("bad key") && error.to_string().contains(dialect.spec));
        assert_eq!(asked, 1);
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_not_tried_again() {
    for dialect in DIALECTS {
        let bad = [
            "{\"embeddings\": [".to_owned(),
            "{}".to_owned(),
            (dialect.answer)(&[[1.0, 0.0]]).to_string(),
            (dialect.answer)(&[[1.0, 0.0], [0.0, 0.0]]).to_string(),
        ];
        for body in bad {
            let (result, asked) = dialect.embeds([ok(&body), dialect.good()]).await;
            assert!(matches!(result, Err(Error::Malformed { .. })), "{}: {body}", dialect.spec);
            assert_eq!(asked, 1);
        }
    }
}

#[tokio::test]
async fn a_long_list_is_sent_in_batches_and_a_blank_text_as_something() {
    for dialect in DIALECTS {
        let provider = Provider::replying([]).await;
        let batch = dialect.embedder(&provider).max_batch();
        let replies = [ok((dialect.answer)(&vec![[1.0, 0.0]; batch])), ok((dialect.answer)(&[[0.0, 1.0]]))];
        let provider = Provider::replying(replies).await;
        let texts = vec![String::new(); batch + 1];
        let vectors = dialect.embedder(&provider).embed(&texts, EmbedTask::Document).await.unwrap();
        assert_eq!(vectors.len(), batch + 1);
        assert_eq!(vectors[batch], [0.0, 1.0]);
        assert!(!provider.asked()[1].body.to_string().contains(r#""""#));
    }
}

#[tokio::test]
async fn no_texts_need_no_request() {
    for dialect in DIALECTS {
        let provider = Provider::replying([]).await;
        assert!(dialect.embedder(&provider).embed(&[], EmbedTask::Query).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_provider_that_is_not_there_is_named_with_its_address() {
    let creds = Credentials { ollama_host: Some("127.0.0.1:9".into()), ..Default::default() };
    let embedder = embedder(&"ollama/m".parse().unwrap(), &creds).unwrap().unwrap();
    let error = embedder.embed(&["text".into()], EmbedTask::Query).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(
        error.to_string().contains("`ollama/m`") && error.to_string().contains("http://127.0.0.1:9"),
        "{error}"
    );
}

#[tokio::test]
async fn each_provider_is_asked_in_its_own_words() {
    let [google, openai, ollama] = DIALECTS;
    check(google, "POST /v1beta/models/gemini-embedding-001:batchEmbedContents", "x-goog-api-key: key-1", |task| {
        let kind = if task == EmbedTask::Query { "RETRIEVAL_QUERY" } else { "RETRIEVAL_DOCUMENT" };
        let content = json!({ "parts": [{ "text": "text" }] });
        json!({ "requests": [{ "model": "models/gemini-embedding-001", "content": content, "taskType": kind }] })
    })
    .await;
    check(
        openai,
        "POST /v1/embeddings",
        "authorization: bearer key-1",
        |_| json!({ "model": "text-embedding-3-small", "input": ["text"], "encoding_format": "float" }),
    )
    .await;
    check(
        ollama,
        "POST /api/embed",
        "content-type: application/json",
        |_| json!({ "model": "nomic-embed-text", "input": ["text"] }),
    )
    .await;
}

async fn check(dialect: Dialect, line: &str, header: &str, body: fn(EmbedTask) -> Value) {
    for task in [EmbedTask::Document, EmbedTask::Query] {
        let provider = Provider::replying([ok((dialect.answer)(&[[1.0, 0.0]]))]).await;
        dialect.embedder(&provider).embed(&["text".into()], task).await.unwrap();
        let asked = &provider.asked()[0];
        assert!(asked.head.starts_with(&format!("{line} ")) && asked.head.contains(header), "{}", asked.head);
        assert_eq!(asked.body, body(task));
    }
}

#[test]
fn a_missing_key_names_the_setting() {
    let message = |spec: &str| match embedder(&spec.parse().unwrap(), &Credentials::default()) {
        Err(Error::Config(message)) => message,
        _ => panic!("`{spec}` needs a key"),
    };
    assert!(message("google/gemini-embedding-001").contains("`GEMINI_API_KEY`"));
    assert!(message("openai/text-embedding-3-small").contains("`OPENAI_API_KEY`"));
}

#[test]
fn a_server_of_ones_own_needs_no_key_and_providers_with_tls_can_be_set_up() {
    let creds =
        Credentials { openai_base_url: Some("https://models.example/v1".into()), ..Default::default() };
    assert!(embedder(&"openai/bge-m3".parse().unwrap(), &creds).unwrap().is_some());
    assert!(embedder(&"off".parse().unwrap(), &creds).unwrap().is_none());
}
