//! Checks the header `Host` of requests against the names of this server.
//!
//! A web page can make its own name resolve to this machine and then send requests as if it came from
//! here (DNS rebinding). The browser sends the page's name in `Host`, so names that are not configured are
//! refused. A literal address cannot be made to resolve to anything else and is always accepted.

use std::net::{IpAddr, SocketAddr};

use axum::http::{Request, Version, header, uri::Authority};

/// The longest name that is quoted to a caller who is not authenticated: the longest of a host, with a port.
const MAX_QUOTED_NAME: usize = 260;

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

    /// Checks a list of names, separated by commas. A name that no `Host` header can have would be ignored, and its clients
    /// refused. The error names the entry and says what is wrong with it.
    pub fn check_names(configured: &str) -> Result<(), String> {
        configured.split(',').map(str::trim).filter(|name| !name.is_empty()).try_for_each(check_name)
    }

    /// The name of a refused request, for its answer; `None` if it is not written like a host.
    pub(crate) fn refused_name<'r, B>(&self, request: &'r Request<B>) -> Option<&'r str> {
        let authority = request.uri().authority().map(Authority::as_str);
        let headers = request.headers().get_all(header::HOST).iter().filter_map(|host| host.to_str().ok());
        let name = authority.into_iter().chain(headers).find(|name| !self.allows_authority(name))?;
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.:[]".contains(&b);
        (name.len() <= MAX_QUOTED_NAME && name.bytes().all(is_plain)).then_some(name)
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

/// What is wrong with one configured name.
fn check_name(entry: &str) -> Result<(), String> {
    let wrong = |what: &str| {
        Err(format!("`{entry}` {what}; write names alone, such as `agents.example.com` or `*.example.com`"))
    };
    if entry.contains("://") {
        return wrong("has a scheme");
    }
    if entry.contains('/') {
        return wrong("has a path");
    }
    if entry.contains(char::is_whitespace) {
        return wrong("has a space: commas separate names");
    }
    if !entry.is_ascii() {
        return wrong("has letters that no browser sends, which write such a name as `xn--…`");
    }
    let port = match entry.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(_, port)| port),
        None => entry.find(':').map_or("", |at| &entry[at..]),
    };
    if !port.is_empty()
        && !port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
    {
        return wrong("has more after the name than a port");
    }
    let name = host_name(entry);
    let plain = name.strip_prefix('*').unwrap_or(name);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    // Between brackets is an address, which is accepted anyway.
    if !entry.starts_with('[') && !plain.bytes().all(is_plain) {
        return wrong("is not the name of a host");
    }
    Ok(())
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
    fn a_name_that_no_request_can_have_is_refused_with_the_reason() {
        for good in [
            "agents.example.com, emergent",
            "*.example.com",
            "*",
            "emergent:4400",
            "a_b,",
            "[::1]:80",
            "10.0.0.1",
        ] {
            assert_eq!(AllowedHosts::check_names(good), Ok(()), "{good}");
        }
        for (wrong, reason) in [
            ("https://agents.example.com", "`https://agents.example.com` has a scheme; write names alone"),
            ("emergent,agents.example.com/app", "`agents.example.com/app` has a path"),
            ("a.example.com b.example.com", "has a space: commas separate names"),
            ("bücher.example", "`xn--…`"),
            ("agents.example.com:http", "more after the name than a port"),
            ("agents.*.example.com", "is not the name of a host"),
            ("me@example.com", "is not the name of a host"),
        ] {
            let told = AllowedHosts::check_names(wrong).unwrap_err();
            assert!(told.contains(reason), "{wrong}: {told}");
        }
    }

    #[test]
    fn a_refused_name_is_quoted_if_it_is_written_like_a_host() {
        let quoted = |host: &str| {
            let request = Request::builder().uri("/").header(header::HOST, host).body(()).unwrap();
            AllowedHosts::new(None, "127.0.0.1:4400").refused_name(&request).map(str::to_owned)
        };
        assert_eq!(quoted("evil.example.com:80").as_deref(), Some("evil.example.com:80"));
        assert_eq!(quoted("<script>"), None);
        assert_eq!(quoted(&"a".repeat(300)), None);
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
