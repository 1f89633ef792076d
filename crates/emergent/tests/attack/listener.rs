//! The listener: names it answers to, TLS, and the modes of the files it keeps.

use std::{path::Path, time::Duration};

use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::{Home, TOKEN, eventually, failed, json_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_nobody_gave_the_server_is_refused() {
    let home = Home::sqlite().with("EMERGENT_ALLOWED_HOSTS", "agents.example.com");
    let server = home.start().await;
    for (host, expected) in
        [("evil.example.com", 421), ("agents.example.com", 200), ("localhost:4400", 200), ("127.0.0.1", 200)]
    {
        let request = server.api.request(Method::GET, "/api/projects").header("host", host);
        assert_eq!(request.send().await.unwrap().status(), expected, "{host}");
    }
    let refused = server.api.request(Method::GET, "/api/projects").header("host", "evil.example.com:8080");
    let answer = refused.send().await.unwrap().text().await.unwrap();
    assert!(
        answer.contains("not known by `evil.example.com:8080`, the name in the header `Host`"),
        "{answer}"
    );
    let probe = server.api.request(Method::GET, "/health").header("host", "10-0-0-7.pods.cluster");
    assert_eq!(probe.send().await.unwrap().status(), 200, "probes call it by any name");
}

#[test]
fn a_name_that_no_request_can_have_stops_the_start() {
    let home = Home::sqlite().with("EMERGENT_ALLOWED_HOSTS", "https://agents.example.com");
    let told = failed(&home.run(&["serve", "--listen", "127.0.0.1:0"]));
    assert!(
        told.contains("EMERGENT_ALLOWED_HOSTS") && told.contains("`https://agents.example.com` has a scheme"),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_http_1_1_that_names_no_host_is_refused() {
    let server = Home::sqlite().start().await;
    let address = server.url().strip_prefix("http://").expect("HTTP").to_owned();
    for (version, expected) in [("1.1", "HTTP/1.1 400"), ("1.0", "HTTP/1.0 200")] {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        let head = format!(
            "GET /api/projects HTTP/{version}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(expected), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_certificate_only_tls_is_spoken_and_commands_still_find_the_server() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attack/tls");
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let home = Home::sqlite()
        .with("EMERGENT_TLS_CERT", certificate.to_str().unwrap())
        .with("EMERGENT_TLS_KEY", key.to_str().unwrap());
    let server = home.start().await;
    let address = server.url().strip_prefix("https://").expect("TLS").to_owned();
    let root = reqwest::Certificate::from_pem(&std::fs::read(&certificate).unwrap()).unwrap();
    emergent_net::tls::install_crypto_provider();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap();
    let answer = client.get(format!("https://{address}/api/projects")).bearer_auth(TOKEN).send().await;
    assert_eq!(answer.unwrap().status(), 200);
    let plain =
        reqwest::Client::builder().no_proxy().build().unwrap().get(format!("http://{address}/health"));
    assert!(plain.send().await.is_err(), "nothing is answered in the clear");
    let listed = tokio::task::spawn_blocking(move || home.run(&["project", "list", "--json"])).await.unwrap();
    assert!(json_of(listed).to_string().contains("default"));
    // Without the data folder, its certificate has to be trusted: somebody else may listen on this machine.
    let url = format!("https://{address}");
    let list = |home: &Home| home.run(&["project", "list", "--json", "--server", &url, "--token", TOKEN]);
    let (other, trusting) =
        (Home::sqlite(), Home::sqlite().with("SSL_CERT_FILE", certificate.to_str().unwrap()));
    let refused = failed(&list(&other));
    assert!(refused.contains("SSL_CERT_FILE") && !refused.contains("is it running"), "{refused}");
    assert!(json_of(list(&trusting)).to_string().contains("default"));
    let health = |home: &Home| home.run(&["health", "--server", &url]);
    let refused = failed(&health(&other));
    assert!(refused.contains("SSL_CERT_FILE"), "it is checked like by every other command: {refused}");
    assert!(health(&trusting).status.success());
    let missing = Home::sqlite().with("SSL_CERT_FILE", "nofile.pem").with("SSL_CERT_DIR", "");
    let refused = failed(&health(&missing));
    assert!(
        refused.contains("`SSL_CERT_FILE` cannot be used") && refused.contains("`nofile.pem`"),
        "{refused}"
    );
    assert!(!refused.contains("does not answer"), "{refused}");
    let with_folder =
        Home::sqlite().with("SSL_CERT_FILE", "nofile.pem").with("SSL_CERT_DIR", folder.to_str().unwrap());
    let answered = health(&with_folder);
    let told = String::from_utf8_lossy(&answered.stderr).into_owned();
    assert!(answered.status.success(), "the folder has the certificate: {told}");
    assert!(told.contains("SSL_CERT_FILE is not used") && told.contains("`nofile.pem`"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_of_an_authority_is_refused_with_what_to_do() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attack/tls");
    // A certificate as `openssl req -x509` makes it if nothing else is said.
    let (certificate, key) = (folder.join("authority.pem"), folder.join("authority-key.pem"));
    let home = Home::sqlite()
        .with("EMERGENT_TLS_CERT", certificate.to_str().unwrap())
        .with("EMERGENT_TLS_KEY", key.to_str().unwrap());
    let server = home.start().await;
    let other = Home::sqlite().with("SSL_CERT_FILE", certificate.to_str().unwrap());
    let refused = failed(&other.run(&["project", "list", "--server", server.url(), "--token", TOKEN]));
    assert!(refused.contains("basicConstraints=CA:FALSE") && refused.contains("authority"), "{refused}");
    assert!(!refused.contains("if an authority of your own signed it"), "{refused}");
}

/// How long the server may go on with a certificate after its files were changed.
const RELOAD_TIME: Duration = Duration::from_secs(10);

/// Whether a client that trusts only this certificate gets an answer over a new connection.
async fn is_trusted(url: &str, certificate: &Path) -> bool {
    let root = reqwest::Certificate::from_pem(&std::fs::read(certificate).unwrap()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap();
    let answer = client.get(format!("{url}/api/projects")).bearer_auth(TOKEN).send().await;
    answer.is_ok_and(|answer| answer.status() == 200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_used_without_a_restart_and_an_unusable_one_is_not() {
    emergent_net::tls::install_crypto_provider();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attack/tls");
    let (old, renewed) = (folder.join("cert.pem"), folder.join("renewed.pem"));
    let home = Home::sqlite();
    let (certificate, key) = (home.folder().join("certificate.pem"), home.folder().join("key.pem"));
    // The content is written, and not the file copied, so that the time of the change is that of the writing.
    let replace =
        |file: &Path, content: &Path| std::fs::write(file, std::fs::read(content).unwrap()).unwrap();
    replace(&certificate, &old);
    replace(&key, &folder.join("key.pem"));
    let home = home
        .with("EMERGENT_TLS_CERT", certificate.to_str().unwrap())
        .with("EMERGENT_TLS_KEY", key.to_str().unwrap());
    let server = home.start().await;
    let url = server.url();
    let warnings = || server.launched.log().matches("the changed certificate cannot be used").count();
    assert!(is_trusted(url, &old).await && !is_trusted(url, &renewed).await);

    // The key of another certificate, and then files that are none: each is refused at the next check of the files.
    let make_mismatch = || replace(&key, &folder.join("renewed-key.pem"));
    let make_garbage = || {
        for file in [&certificate, &key] {
            std::fs::write(file, "this is neither a certificate nor a key").unwrap();
        }
    };
    for (change, name) in
        [(&make_mismatch as &dyn Fn(), "a mismatched pair"), (&make_garbage as &dyn Fn(), "garbage")]
    {
        let before = warnings();
        change();
        eventually(&format!("the log warns of {name}"), RELOAD_TIME, async || {
            assert!(is_trusted(url, &old).await, "{name}: the previous certificate stays in use");
            warnings() > before
        })
        .await;
    }

    replace(&certificate, &renewed);
    replace(&key, &folder.join("renewed-key.pem"));
    eventually("the renewed certificate is used", RELOAD_TIME, async || is_trusted(url, &renewed).await)
        .await;
    assert!(!is_trusted(url, &old).await, "the old one is used no more");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_owner_reads_the_data_folder() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::sqlite().without_token();
    let server = home.start().await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.data()), 0o700);
    for file in std::fs::read_dir(home.data()).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with("emergent.db") {
            assert_eq!(mode(&file.path()), 0o600, "{file:?}");
        }
    }
    drop(server);
}
