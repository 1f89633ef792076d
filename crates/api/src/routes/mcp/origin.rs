//! Checks which web pages may send requests. Browsers name the page in `Origin`; programs send none. A
//! page whose host name was made to resolve to this machine (DNS rebinding) must be refused. A host is
//! therefore trusted only if that is impossible: a name of this machine itself, or a literal address.

use std::net::IpAddr;

use axum::http::{HeaderMap, header};

use crate::{ApiError, hosts::host_name};

/// Refuses a request that a web page of another machine sent.
pub(super) fn check(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name| headers.get(name).map(|value: &axum::http::HeaderValue| value.to_str().unwrap_or("?"));
    let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
    if is_trusted(origin, text(header::HOST).unwrap_or_default()) {
        return Ok(());
    }
    let origin: String = origin.chars().take(200).collect();
    Err(ApiError::forbidden(format!(
        "web pages of `{origin}` may not send requests; only pages of this machine may"
    )))
}

/// Whether requests of pages with this origin are accepted; `host` is the header `Host`.
fn is_trusted(origin: &str, host: &str) -> bool {
    let Some((_, authority)) = origin.split_once("://") else { return false };
    let name = host_name(authority);
    let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let is_own_address = authority.eq_ignore_ascii_case(host) && name.parse::<IpAddr>().is_ok();
    is_loopback || is_own_address || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_machine_or_of_a_literal_address_are_trusted() {
        let check =
            |origin, host, expected| assert_eq!(is_trusted(origin, host), expected, "{origin} {host}");
        check("http://127.0.0.1:4400", "127.0.0.1:4400", true);
        check("http://localhost:6274", "127.0.0.1:4400", true);
        check("http://[::1]:4400", "[::1]:4400", true);
        check("http://192.168.1.7:4400", "192.168.1.7:4400", true);
        check("http://192.168.1.8", "192.168.1.7:4400", false);
        check("http://evil.example.com", "evil.example.com", false);
        check("http://localhost.evil.example.com", "localhost.evil.example.com", false);
        check("http://127.0.0.1.evil.example.com", "127.0.0.1:4400", false);
        check("null", "127.0.0.1:4400", false);
    }
}
