//! TLS to PostgreSQL. The URL asks for it, and the certificate is then always verified.
//!
//! `sslmode=require`, `verify-ca` and `verify-full` mean the same here: the server's certificate
//! must be valid for its name, by the system's roots or by those in the file of `sslrootcert`.

use emergent_net::{
    percent,
    tls::{self, Roots},
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A URL without the TLS parameters, and the TLS settings they ask for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub url: String,
    /// `None` is a connection without encryption.
    pub tls: Option<Roots>,
}

/// Removes `sslmode` and `sslrootcert` from the parameters of a URL.
pub(crate) fn parse_tls_options(url: &str) -> TlsOptions {
    let Some((base, query)) = url.split_once('?') else {
        return TlsOptions { url: url.to_owned(), tls: None };
    };
    let mut mode = "prefer".to_owned();
    let mut roots = Roots::System;
    let mut rest = Vec::new();
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("sslmode", value)) => mode = value.to_owned(),
            Some(("sslrootcert", "system")) => roots = Roots::System,
            Some(("sslrootcert", file)) => roots = Roots::File(percent::decode_lossy(file)),
            _ => rest.push(parameter),
        }
    }
    let is_required = matches!(mode.as_str(), "require" | "verify-ca" | "verify-full");
    // The driver accepts or rejects any other value.
    let mode = if is_required { "require" } else { &mode };
    let sslmode = format!("sslmode={mode}");
    rest.push(&sslmode);
    TlsOptions { url: format!("{base}?{}", rest.join("&")), tls: is_required.then_some(roots) }
}

pub(crate) fn connector(roots: &Roots) -> Result<MakeRustlsConnect, tls::Error> {
    Ok(MakeRustlsConnect::new(tls::client_config(roots)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str, tls: Option<Roots>) {
        assert_eq!(parse_tls_options(url), TlsOptions { url: expected.to_owned(), tls });
    }

    #[test]
    fn encryption_is_what_the_url_asks_for() {
        check("postgres://h/d", "postgres://h/d", None);
        check("postgres://h/d?sslmode=disable", "postgres://h/d?sslmode=disable", None);
        check("postgres://h/d?a=b", "postgres://h/d?a=b&sslmode=prefer", None);
        for mode in ["require", "verify-ca", "verify-full"] {
            check(
                &format!("postgres://h/d?sslmode={mode}&a=b"),
                "postgres://h/d?a=b&sslmode=require",
                Some(Roots::System),
            );
        }
        check(
            "postgres://h/d?sslrootcert=%2Fetc%2Fmy+ca.pem&sslmode=require",
            "postgres://h/d?sslmode=require",
            Some(Roots::File("/etc/my+ca.pem".to_owned())),
        );
        check("postgres://h/d?sslmode=odd", "postgres://h/d?sslmode=odd", None);
    }
}
