//! Which names a request may call this server by (the header `Host`).
//!
//! A web page can make its own name resolve to this machine and then send requests as if it came from
//! here (DNS rebinding). The browser names that page in `Host`, so a name that nobody gave this server is
//! refused. A literal address cannot be made to resolve to anything else and is always accepted.

use std::net::{IpAddr, SocketAddr};

use axum::http::{Request, header};

/// The names that are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHosts {
    /// In lower case; `*.example.com` stands for every name below, and `*` for every name.
    names: Vec<String>,
}

impl AllowedHosts {
    /// `configured` has names separated by commas. Without it, the names of this machine itself are
    /// accepted, and the host of the address that the server listens on.
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

    pub(crate) fn allow<B>(&self, request: &Request<B>) -> bool {
        // HTTP/2 has no `Host`, but an authority.
        let authority = request.uri().authority().map(|authority| authority.as_str());
        let header = request.headers().get(header::HOST).map(|value| value.to_str().unwrap_or("?"));
        match authority.or(header) {
            Some(host) => self.allows(host_name(host)),
            // Only HTTP/1.0 goes without. No browser does.
            None => true,
        }
    }

    fn allows(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        host.parse::<IpAddr>().is_ok()
            || host.ends_with(".localhost")
            || self.names.iter().any(|name| match name.strip_prefix('*') {
                Some("") => true,
                Some(below) => host.ends_with(below) && host.len() > below.len(),
                None => *name == host,
            })
    }
}

/// Whether only programs on this machine can reach a server that listens here.
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
    fn a_name_that_nobody_gave_this_server_is_refused() {
        check(None, "127.0.0.1:4400", "127.0.0.1:4400", true);
        check(None, "127.0.0.1:4400", "localhost:4400", true);
        check(None, "127.0.0.1:4400", "LOCALHOST", true);
        check(None, "127.0.0.1:4400", "[::1]:4400", true);
        check(None, "127.0.0.1:4400", "evil.example.com", false);
        check(None, "127.0.0.1:4400", "127.0.0.1.evil.example.com", false);
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
