//! Protects logins of browsers from other web pages (CSRF). A request with a cookie that changes something has to
//! come from a page of this server: `Sec-Fetch-Site: same-origin` says so, and for browsers that do not send it, an
//! `Origin` that equals the host of the request. `SameSite=Strict` is not enough, because pages of other ports of
//! the same host are of the same site. `Sec-Fetch-Site: none`, which browsers send for what a person typed,
//! is refused too: nobody types a POST.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, Uri, header},
};

use crate::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What the headers of a request say about the page that sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// A page of this server.
    SameOrigin,
    /// Another page, or one that cannot be told.
    Other,
    /// No browser that sends these headers.
    NotSaid,
}

/// Refuses a request with a cookie that changes something, unless a page of this server sent it.
pub(crate) fn check_with_cookie(request: &Request, is_tls: bool) -> Result<(), ApiError> {
    if request.method().is_safe() {
        return Ok(());
    }
    match sender(request.headers(), request.uri(), is_tls) {
        Sender::SameOrigin => Ok(()),
        Sender::Other | Sender::NotSaid => Err(ApiError::cross_origin()),
    }
}

/// Refuses a login that a page of another server sent. Programs send neither header and may log in.
pub(crate) fn check_login(headers: &HeaderMap, uri: &Uri, is_tls: bool) -> Result<(), ApiError> {
    match sender(headers, uri, is_tls) {
        Sender::SameOrigin | Sender::NotSaid => Ok(()),
        Sender::Other => Err(ApiError::cross_origin()),
    }
}

fn sender(headers: &HeaderMap, uri: &Uri, is_tls: bool) -> Sender {
    let one = |name: HeaderName| {
        let mut values = headers.get_all(name).iter();
        let first = values.next().map(|value| value.to_str().unwrap_or("?"));
        if values.next().is_some() { Some("?") } else { first }
    };
    if let Some(site) = one(SEC_FETCH_SITE) {
        return if site == "same-origin" { Sender::SameOrigin } else { Sender::Other };
    }
    let Some(origin) = one(header::ORIGIN) else { return Sender::NotSaid };
    // HTTP/2 has an authority instead of `Host`.
    let host = uri.authority().map(|authority| authority.as_str()).or_else(|| one(header::HOST));
    let is_same = host.is_some_and(|host| match origin.split_once("://") {
        // A page that was loaded without TLS may come from anybody on the way.
        Some(("http", _)) if is_tls => false,
        Some(("http" | "https", authority)) => authority.eq_ignore_ascii_case(host),
        _ => false,
    });
    if is_same { Sender::SameOrigin } else { Sender::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[(&'static str, &'static str)], expected: Sender) {
        let mut request = Request::builder().uri("/api/tokens").header("host", "127.0.0.1:4400");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        assert_eq!(sender(request.headers(), request.uri(), false), expected, "{headers:?}");
    }

    #[test]
    fn only_pages_of_the_same_origin_are_trusted() {
        check(&[("sec-fetch-site", "same-origin")], Sender::SameOrigin);
        for other in ["same-site", "cross-site", "none", "", "SAME-ORIGIN"] {
            check(&[("sec-fetch-site", other)], Sender::Other);
        }
        check(&[("sec-fetch-site", "cross-site"), ("origin", "http://127.0.0.1:4400")], Sender::Other);
        check(&[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], Sender::Other);
        check(&[("origin", "http://127.0.0.1:4400")], Sender::SameOrigin);
        check(&[("origin", "https://127.0.0.1:4400")], Sender::SameOrigin);
        for other in [
            "http://127.0.0.1:3000",
            "http://localhost:4400",
            "null",
            "127.0.0.1:4400",
            "file://127.0.0.1:4400",
        ] {
            check(&[("origin", other)], Sender::Other);
        }
        check(&[], Sender::NotSaid);
    }
}
