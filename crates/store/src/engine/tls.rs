//! TLS for connections to PostgreSQL, as the parameters of the database URL request it.
//!
//! `sslmode=require`, `verify-ca` and `verify-full` mean the same here: the server's certificate must be
//! valid for its name, and signed by a root certificate of the system or of the file `sslrootcert`.

use emergent_net::{
    percent,
    tls::{self, Roots},
};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A URL for the driver, and the TLS settings of its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub url: String,
    /// The trusted root certificates; `None` is a connection without TLS.
    pub tls: Option<Roots>,
}

/// Parses `sslmode` and `sslrootcert`. The returned URL has no `sslrootcert`, and an `sslmode` that the
/// driver understands.
pub(crate) fn parse_tls_options(url: &str) -> TlsOptions {
    let Some((base, query)) = url.split_once('?') else {
        return TlsOptions { url: url.to_owned(), tls: None };
    };
    let mut mode = "prefer".to_owned();
    let mut roots = Roots::System;
    let mut driver_parameters = Vec::new();
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("sslmode", value)) => mode = value.to_owned(),
            Some(("sslrootcert", "system")) => roots = Roots::System,
            Some(("sslrootcert", file)) => roots = Roots::File(percent::decode_lossy(file)),
            _ => driver_parameters.push(parameter),
        }
    }
    let is_required = matches!(mode.as_str(), "require" | "verify-ca" | "verify-full");
    // Other values are passed on: the driver accepts or rejects them.
    let mode = if is_required { "require" } else { &mode };
    let sslmode = format!("sslmode={mode}");
    driver_parameters.push(&sslmode);
    TlsOptions { url: format!("{base}?{}", driver_parameters.join("&")), tls: is_required.then_some(roots) }
}

/// A TLS connector that trusts these root certificates.
pub(crate) fn connector(roots: &Roots) -> Result<MakeRustlsConnect, tls::Error> {
    Ok(MakeRustlsConnect::new(tls::client_config(roots)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_options(url: &str, expected: &str, tls: Option<Roots>) {
        assert_eq!(parse_tls_options(url), TlsOptions { url: expected.to_owned(), tls });
    }

    #[test]
    fn tls_is_used_when_the_url_requires_it() {
        assert_options("postgres://h/d", "postgres://h/d", None);
        assert_options("postgres://h/d?sslmode=disable", "postgres://h/d?sslmode=disable", None);
        assert_options("postgres://h/d?a=b", "postgres://h/d?a=b&sslmode=prefer", None);
        for mode in ["require", "verify-ca", "verify-full"] {
            assert_options(
                &format!("postgres://h/d?sslmode={mode}&a=b"),
                "postgres://h/d?a=b&sslmode=require",
                Some(Roots::System),
            );
        }
        assert_options(
            "postgres://h/d?sslrootcert=%2Fetc%2Fmy+ca.pem&sslmode=require",
            "postgres://h/d?sslmode=require",
            Some(Roots::File("/etc/my+ca.pem".to_owned())),
        );
        assert_options("postgres://h/d?sslmode=odd", "postgres://h/d?sslmode=odd", None);
    }
}
