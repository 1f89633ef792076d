//! Checks that outgoing requests reach public addresses only, so that the author of a manifest or of an MCP
//! server's URL gets no access to this machine or its private network. An address is checked after its host
//! name is resolved, and again on each redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

/// Checks the scheme of a URL, and its host if that is a literal address. Host names pass: they are checked
/// when they are resolved.
pub fn check(url: &Url, allow_private: bool) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("`{}` addresses are not fetched", url.scheme()));
    }
    let host = url.host_str().unwrap_or_default();
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) if !allow_private && !is_public(ip) => Err(private_address_message(host)),
        _ => Ok(()),
    }
}

/// Reads a URL that a user gave, and checks it like [`check`].
pub fn parse(url: &str, allow_private: bool) -> Result<Url, String> {
    let url = Url::parse(url).map_err(|error| format!("is not a URL: {error}"))?;
    check(&url, allow_private)?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err("has no host".to_owned());
    }
    Ok(url)
}

/// The scheme, host and port of a URL, as a client that requests it understands them: `https://example.com`.
/// `None` if the text is not a URL.
pub fn origin(url: &str) -> Option<String> {
    Url::parse(url).ok().map(|url| url.origin().ascii_serialization())
}

/// The URL as a client requests it: with a path, without what is for the client alone (`#part`), and in the one
/// form that equal URLs have in common (`https://example.com/mcp`). `None` if the text is not a URL.
pub fn requested(url: &str) -> Option<String> {
    let mut url = Url::parse(url).ok()?;
    url.set_fragment(None);
    Some(url.into())
}

/// The text is the same for an unknown name and for a name with a private address. Two texts would reveal
/// which names exist in the private network.
fn private_address_message(host: &str) -> String {
    format!(
        "`{host}` is not found, or is not a public address; an operator can allow private addresses with \
         EMERGENT_ALLOW_PRIVATE_HOSTS=true"
    )
}

/// Resolves the host of a URL. Fails if any of its addresses is not public.
pub async fn resolve_public(url: &Url) -> Result<Vec<SocketAddr>, String> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(443);
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let resolved = tokio::net::lookup_host((name, port)).await;
    let addresses: Vec<_> = resolved.map_err(|_| private_address_message(host))?.collect();
    match addresses.iter().find(|address| !is_public(address.ip())) {
        // The error does not contain the address, which would reveal the private network.
        Some(_) => Err(private_address_message(host)),
        None => Ok(addresses),
    }
}

/// A DNS resolver that returns only public addresses, unless the operator allows private ones.
pub(crate) struct PublicResolver {
    pub(crate) allow_private: bool,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let resolved = match tokio::net::lookup_host((host.as_str(), 0)).await {
                Ok(addresses) => addresses.collect(),
                Err(error) if allow_private => return Err(error.into()),
                Err(_) => Vec::new(),
            };
            let allowed: Vec<_> =
                resolved.into_iter().filter(|address| allow_private || is_public(address.ip())).collect();
            if allowed.is_empty() {
                return Err(private_address_message(&host).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Whether an address belongs to the public internet: not private, loopback, link-local or reserved.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    // 100.64.0.0/10, which providers use behind their NAT.
    let carrier_nat = a == 100 && (64..128).contains(&b);
    // Addresses for protocols, the relays of 6to4, benchmarks and documentation.
    let special = (a == 192 && b == 0 && (c == 0 || c == 2))
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19))
        || (a == 198 && b == 51 && c == 100)
        || (a == 203 && b == 0 && c == 113);
    // From 224 to 239 are multicast addresses, from 240 on reserved ones.
    let unroutable = a == 0 || a >= 224 || carrier_nat || special;
    !(unroutable || ip.is_loopback() || ip.is_private() || ip.is_link_local())
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    // IPv4 addresses inside IPv6 ones: mapped (::ffff:0:0/96), NAT64 (64:ff9b::/96), 6to4 (2002::/16).
    let embedded_v4 = match segments {
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => Some((high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some((high, low)),
        [0x2002, high, low, ..] => Some((high, low)),
        _ => None,
    };
    if let Some((high, low)) = embedded_v4 {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    // Only 2000::/3 is assigned. In it, 2001:db8::/32 is for documentation, and 2001::/32 (Teredo) contains
    // an IPv4 address, which whoever controls the host name can choose.
    let special = segments[0] == 0x2001 && matches!(segments[1], 0 | 0xdb8);
    (0x2000..0x4000).contains(&segments[0]) && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_a_client_would_connect_to() {
        for (url, expected) in [
            ("https://Example.com/mcp?x=1", Some("https://example.com")),
            ("https://example.com:443/", Some("https://example.com")),
            ("http://127.0.0.1:8080/mcp", Some("http://127.0.0.1:8080")),
            ("https://evil.test\\.example.com/", Some("https://evil.test")),
            ("https://%65vil.test/", Some("https://evil.test")),
            ("not a URL", None),
        ] {
            assert_eq!(origin(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn equal_urls_are_requested_in_the_same_form_and_others_are_not() {
        for (url, expected) in [
            ("https://Example.com", Some("https://example.com/")),
            ("https://example.com:443/a/../mcp?x=1#part", Some("https://example.com/mcp?x=1")),
            ("https://example.com/a/%2e%2E/mcp", Some("https://example.com/mcp")),
            ("https://example.com/MCP/", Some("https://example.com/MCP/")),
            ("https://evil.test\\.example.com/", Some("https://evil.test/.example.com/")),
            ("not a URL", None),
        ] {
            assert_eq!(requested(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for ip in [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "2001:0:53aa:64c::1",
            "198.18.0.1",
            "192.88.99.1",
            "::ffff:192.88.99.1",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "::7f00:1",
            "2001:db8::1",
        ] {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "192.88.98.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
        ] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn unusual_spellings_of_a_private_address_and_other_schemes_are_refused() {
        for url in [
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::ffff:7f00:1]/",
            "http://127.1/",
            "file:///etc",
        ] {
            let parsed = Url::parse(url).unwrap();
            assert!(check(&parsed, false).is_err(), "{url}");
        }
        assert!(check(&Url::parse("http://127.0.0.1/").unwrap(), true).is_ok());
        assert!(check(&Url::parse("https://example.com/").unwrap(), false).is_ok());
    }
}
