//! All kinds of credentials, in the form that Google expects.

use std::{
    collections::HashMap,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use emergent_llm::{ChatSettings, Error, Gemini, Provider, VertexSettings};
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use serde_json::{Value, json};

use super::{KEY, ask, credentials_file, google::*, hello, service_account, token, vertex};

fn form(body: &str) -> HashMap<String, String> {
    let url = reqwest::Url::parse(&format!("http://form/?{body}")).unwrap();
    url.query_pairs().into_owned().collect()
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn verify(signed: &str, signature: &str) {
    let lines = KEY.lines().skip_while(|line| !line.starts_with("-----BEGIN")).skip(1);
    let base64: String = lines.take_while(|line| !line.starts_with("-----END")).collect();
    let keys = RsaKeyPair::from_pkcs8(&BASE64_STANDARD.decode(base64).unwrap()).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, keys.public_key().as_ref());
    public.verify(signed.as_bytes(), &BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
}

#[tokio::test]
async fn a_service_account_signs_for_its_token() {
    let google = Google::replying([token("token-1", 3599), hello()]).await;
    let (_dir, settings) = service_account(&google);
    let vertex = vertex(&google, &settings);
    assert_eq!(ask(&vertex).await.unwrap().text(), "Hello.");
    assert_eq!(vertex.name(), "vertex");

    let [exchange, chat] = &google.asked()[..] else { panic!("two requests") };
    assert_eq!(exchange.line, "POST /token");
    assert_eq!(exchange.header("content-type"), Some("application/x-www-form-urlencoded"));
    let form = form(&exchange.body);
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let (signed, signature) = form["assertion"].rsplit_once('.').unwrap();
    verify(signed, signature);
    let (header, claims) = signed.split_once('.').unwrap();
    assert_eq!(decoded(header), json!({ "typ": "JWT", "alg": "RS256", "kid": "key-id-1" }));
    let claims = decoded(claims);
    let issued_at = claims["iat"].as_u64().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(issued_at <= now && now < issued_at + 60);
    assert_eq!(
        claims,
        json!({
            "iss": "agent@p-1.iam.gserviceaccount.com",
            "aud": "https://oauth2.googleapis.com/token",
            "scope": "https://www.googleapis.com/auth/cloud-platform",
            "iat": issued_at,
            "exp": issued_at + 3600,
        })
    );

    assert_eq!(
        chat.line,
        "POST /v1beta1/projects/p-1/locations/global/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    );
    assert_eq!(chat.header("authorization"), Some("Bearer token-1"));
    assert_eq!((chat.header("x-goog-api-key"), chat.header("x-goog-user-project")), (None, None));
    assert_eq!(chat.json(), json!({ "contents": [{ "role": "user", "parts": [{ "text": "Hello" }] }] }));
}

#[tokio::test]
async fn a_person_who_signed_in_is_renewed_by_the_refresh_token() {
    let google = Google::replying([token("token-1", 3599), hello()]).await;
    let (_dir, mut settings) = credentials_file(json!({
        "type": "authorized_user", "client_id": "client-1", "client_secret": "s&c=ret", "refresh_token": "1//r",
        "quota_project_id": "billed", "token_uri": format!("{}/token", google.url),
    }));
    // The file has the form that gcloud writes.
    settings.gcloud_file = settings.credentials_file.take();
    settings.location = Some("europe-west4".into());
    ask(&vertex(&google, &settings)).await.unwrap();

    let [exchange, chat] = &google.asked()[..] else { panic!("two requests") };
    let expected = [
        ("grant_type", "refresh_token"),
        ("client_id", "client-1"),
        ("client_secret", "s&c=ret"),
        ("refresh_token", "1//r"),
    ];
    assert_eq!(form(&exchange.body), expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert!(chat.line.contains("/projects/billed/locations/europe-west4/"), "{}", chat.line);
    assert_eq!(chat.header("x-goog-user-project"), Some("billed"));
}

#[tokio::test]
async fn a_machine_in_google_cloud_asks_its_metadata_server_for_project_and_token() {
    let google = Google::replying([json(200, "p-2"), token("token-1", 3599), hello(), hello()]).await;
    let host = google.url.strip_prefix("http://").unwrap().to_owned();
    let missing = Some("/nowhere/application_default_credentials.json".into());
    let settings = VertexSettings { metadata_host: Some(host), gcloud_file: missing, ..Default::default() };
    let vertex = vertex(&google, &settings);
    ask(&vertex).await.unwrap();
    ask(&vertex).await.unwrap();

    let [project, token, chat, _] = &google.asked()[..] else { panic!("{:?}", google.asked()) };
    assert_eq!(project.line, "GET /computeMetadata/v1/project/project-id");
    assert_eq!(
        token.line,
        "GET /computeMetadata/v1/instance/service-accounts/default/token\
         ?scopes=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fcloud-platform"
    );
    for asked in [project, token] {
        assert_eq!(asked.header("metadata-flavor"), Some("Google"));
    }
    assert!(chat.line.contains("/projects/p-2/locations/global/"), "{}", chat.line);
    assert_eq!(chat.header("authorization"), Some("Bearer token-1"));
}

#[tokio::test]
async fn a_key_needs_no_project_and_no_token() {
    let google = Google::replying([hello()]).await;
    let chat = ChatSettings {
        base_url: Some(google.url.clone()),
        api_key: Some("key-1".into()),
        ..Default::default()
    };
    ask(&Gemini::vertex(&chat, &VertexSettings::default()).unwrap()).await.unwrap();
    let asked = &google.asked()[0];
    assert_eq!(
        asked.line,
        "POST /v1beta1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    );
    assert_eq!((asked.header("x-goog-api-key"), asked.header("authorization")), (Some("key-1"), None));
}

#[tokio::test]
async fn a_missing_project_names_the_setting() {
    let google = Google::replying([]).await;
    let (_dir, settings) = credentials_file(json!({
        "type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
    }));
    let error = ask(&vertex(&google, &settings)).await.unwrap_err();
    assert!(matches!(&error, Error::Config(text) if text.contains("`GOOGLE_CLOUD_PROJECT`")), "{error}");
}

#[test]
fn a_broken_file_shows_at_start_and_is_named() {
    let (dir, broken) = credentials_file(json!({ "type": "external_account" }));
    let absent = VertexSettings { credentials_file: Some(dir.path().join("absent")), ..Default::default() };
    for settings in [broken, absent] {
        let Err(Error::Config(text)) = Gemini::vertex(&ChatSettings::default(), &settings) else {
            panic!("cannot be used")
        };
        assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
    }
}
