//! Checks the header `Host` of requests against the names of this server.
//!
//! A web page can make its own name resolve to this machine and then send requests as if it came from
//! here (DNS rebinding). The browser sends the page's name in `Host`, so names that are not configured are
//! refused. A literal address cannot be made to resolve to anything else and is always accepted.

use std::net::{IpAddr, SocketAddr};

use axum::http::{Request, Version, header, uri::Authority};

/// The accepted host names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHosts {
    /// In lower case; `*.example.com` matches every subdomain, and `*` every name.
    names: Vec<String>,
}

impl AllowedHosts {
    /// `configured` is a list of names, separated by commas. If it is `None`, the host of `listen`, the
    /// address that the server listens on, is accepted. `localhost` and literal addresses are always
    /// accepted.
    pub fn new(configured: Option<&str>, listen: &str) -> Self {
        let mut names = vec!["localhost".to_owned()];
        match configured {
            Some(list) => {
                names.extend(list.split(',').map(|name| host_name(name.trim()).to_ascii_lowercase()))
            }
            None => names.push(host_name(listen).to_ascii_lowercase()),
        }
        names.retain(|name| !name.is_empty());
        Self { names }
    }

    /// Whether a request may be handled.
    pub(crate) fn allow<B>(&self, request: &Request<B>) -> bool {
        // HTTP/2 has an authority instead of `Host`, and HTTP/1 may have both. Only HTTP/1.0 requests may lack
        // both, which no browser sends.
        let headers = request.headers().get_all(header::HOST);
        headers.iter().count() <= 1
            && request.uri().authority().is_none_or(|authority| self.allows_authority(authority.as_str()))
            && headers.iter().all(|host| self.allows_authority(host.to_str().unwrap_or("?")))
    }

    /// Whether a request has to say which host it is for, and does not. HTTP/1.1 requires it.
    pub(crate) fn is_missing<B>(request: &Request<B>) -> bool {
        request.version() == Version::HTTP_11
            && request.uri().authority().is_none()
            && !request.headers().contains_key(header::HOST)
    }

    /// Whether `host` or `host:port` is accepted. What browsers never send, such as a user name before the
    /// host, is not.
    fn allows_authority(&self, authority: &str) -> bool {
        let Ok(parsed) = authority.parse::<Authority>() else { return false };
        let host = parsed.host();
        let port = authority.strip_prefix(host).unwrap_or("@");
        let is_port = port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
        (port.is_empty() || is_port) && self.allows(host.trim_start_matches('[').trim_end_matches(']'))
    }

    fn allows(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        host.parse::<IpAddr>().is_ok()
            || host.ends_with(".localhost")
            || self.names.iter().any(|name| match name.strip_prefix('*') {
                Some("") => true,
                Some(suffix) => host.ends_with(suffix) && host.len() > suffix.len(),
                None => *name == host,
            })
    }
}

/// Whether a server that listens on this address can be reached only from this machine.
pub fn is_loopback(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

/// Returns the host of `host:port`, without the brackets of an IPv6 address.
pub(crate) fn host_name(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(configured: Option<&str>, listen: &str, host: &str, expected: bool) {
        let request = Request::builder().uri("/").header(header::HOST, host).body(()).unwrap();
        let hosts = AllowedHosts::new(configured, listen);
        assert_eq!(hosts.allow(&request), expected, "{configured:?} {listen} {host}");
    }

    #[test]
    fn without_configuration_only_addresses_localhost_and_the_listening_host_are_accepted() {
        check(None, "127.0.0.1:4400", "127.0.0.1:4400", true);
        check(None, "127.0.0.1:4400", "localhost:4400", true);
        check(None, "127.0.0.1:4400", "LOCALHOST", true);
        check(None, "127.0.0.1:4400", "[::1]:4400", true);
        check(None, "127.0.0.1:4400", "evil.example.com", false);
        check(None, "127.0.0.1:4400", "127.0.0.1.evil.example.com", false);
        check(None, "127.0.0.1:4400", "localhost:80@evil.example.com", false);
        check(None, "127.0.0.1:4400", "[::1].evil.example.com", false);
        check(None, "127.0.0.1:4400", "[127.0.0.1]evil", false);
        check(None, "emergent.internal:4400", "emergent.internal:4400", true);
        check(None, "0.0.0.0:4400", "192.168.1.7:4400", true);
        check(None, "0.0.0.0:4400", "emergent:4400", false);
    }

    #[test]
    fn configured_names_are_accepted() {
        check(Some("agents.example.com, emergent"), "0.0.0.0:80", "agents.example.com", true);
        check(Some("agents.example.com, emergent"), "0.0.0.0:80", "Emergent:4400", true);
        check(Some("*.example.com"), "0.0.0.0:80", "a.b.example.com", true);
        check(Some("*.example.com"), "0.0.0.0:80", "example.com", false);
        check(Some("*.example.com"), "0.0.0.0:80", "evilexample.com", false);
        check(Some("*"), "0.0.0.0:80", "anything", true);
    }
}
