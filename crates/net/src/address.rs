//! Checks that outgoing requests reach public addresses only, so that the author of a manifest or of an MCP
//! server's URL gets no access to this machine or its private network. An address is checked after its host
//! name is resolved, and again on each redirect.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

/// A connection tries at most this many addresses of a host. Whoever controls a name can give it thousands.
const MAX_ADDRESSES: usize = 16;

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
        None => Ok(addresses.into_iter().take(MAX_ADDRESSES).collect()),
    }
}

/// Finds the addresses of a host name.
pub(crate) type Lookup = Arc<dyn Fn(String) -> LookupFuture + Send + Sync>;
pub(crate) type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Asks the operating system.
fn system_lookup(host: String) -> LookupFuture {
    Box::pin(async move { Ok(tokio::net::lookup_host((host.as_str(), 0)).await?.collect()) })
}

/// A DNS resolver that returns only public addresses, unless the operator allows private ones. The client connects to
/// what it returns, and asks nobody again: a name that gets another address after the check leads nowhere else.
pub(crate) struct PublicResolver {
    allow_private: bool,
    lookup: Lookup,
}

impl PublicResolver {
    pub(crate) fn new(allow_private: bool) -> Self {
        Self::with_lookup(allow_private, Arc::new(system_lookup))
    }

    pub(crate) fn with_lookup(allow_private: bool, lookup: Lookup) -> Self {
        Self { allow_private, lookup }
    }
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        let host = name.as_str().to_owned();
        let lookup = (self.lookup)(host.clone());
        Box::pin(async move {
            let resolved = match lookup.await {
                Ok(addresses) => addresses,
                Err(error) if allow_private => return Err(error.into()),
                Err(_) => Vec::new(),
            };
            let is_allowed = |address: &SocketAddr| allow_private || is_public(address.ip());
            let allowed: Vec<_> = resolved.into_iter().filter(is_allowed).take(MAX_ADDRESSES).collect();
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
    // Only 2000::/3 is assigned. In it, 2001:db8::/32 and 3fff::/20 are for documentation. 2001::/23 is for protocols
    // and benchmarks, and its beginning (Teredo) contains an IPv4 address, which whoever controls the host name can
    // choose.
    let special = match segments[0] {
        0x2001 => segments[1] < 0x200 || segments[1] == 0xdb8,
        0x3fff => segments[1] < 0x1000,
        _ => false,
    };
    (0x2000..0x4000).contains(&segments[0]) && !special
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Mutex};

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
        for (kind, addresses) in [
            ("this machine", &["127.0.0.1", "127.9.9.9", "::1"][..]),
            ("any address of this machine", &["0.0.0.0", "0.1.2.3", "::"]),
            ("private", &["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd12::1"]),
            ("link-local", &["169.254.169.254", "fe80::1", "febf::1"]),
            ("site-local", &["fec0::1"]),
            ("behind the NAT of a provider", &["100.64.0.1", "100.127.255.255"]),
            ("multicast", &["224.0.0.1", "239.255.255.255", "ff02::1"]),
            ("reserved", &["240.0.0.1", "255.255.255.255", "4000::1", "5f00::1"]),
            (
                "protocols and benchmarks",
                &["192.0.0.1", "198.18.0.1", "198.19.0.1", "2001:2::1", "2001:1ff::1"],
            ),
            ("documentation", &["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff:fff::1"]),
            ("relays of 6to4", &["192.88.99.1", "::ffff:192.88.99.1"]),
            (
                "mapped IPv4",
                &["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0.0.0.0"],
            ),
            ("translated IPv4", &["::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8"]),
            ("compatible IPv4", &["::7f00:1", "::10.0.0.1"]),
            ("NAT64", &["64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b::100.64.0.1", "64:ff9b:1::8.8.8.8"]),
            ("6to4", &["2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::"]),
            ("Teredo", &["2001:0:53aa:64c::1", "2001::1"]),
        ] {
            for ip in addresses {
                assert!(!is_public(ip.parse().unwrap()), "{ip} ({kind})");
            }
        }
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "192.88.98.1",
            "100.63.255.255",
            "100.128.0.1",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "3fff:1000::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    /// A resolver whose name has these addresses, one list for each time that somebody asks.
    fn answers(lists: &[&[&str]]) -> PublicResolver {
        let parse = |list: &&[&str]| -> Vec<SocketAddr> {
            list.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect()
        };
        let lists = Mutex::new(lists.iter().map(parse).collect::<VecDeque<_>>());
        let next = move |_: String| -> LookupFuture {
            let list = lists.lock().unwrap().pop_front();
            Box::pin(async move { list.ok_or_else(|| io::Error::other("asked once more")) })
        };
        PublicResolver::with_lookup(false, Arc::new(next))
    }

    async fn resolved(resolver: &PublicResolver) -> Result<Vec<String>, String> {
        let name: Name = "example.test".parse().unwrap();
        let found = resolver.resolve(name).await.map_err(|error| error.to_string())?;
        Ok(found.map(|address| address.ip().to_string()).collect())
    }

    #[tokio::test]
    async fn a_name_leads_only_to_its_public_addresses_each_time_it_is_asked_for() {
        let resolver = answers(&[
            &["8.8.8.8"],
            &["127.0.0.1"],
            &["10.0.0.1", "1.1.1.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1"],
            &["0.0.0.0", "::"],
            &[],
        ]);
        assert_eq!(resolved(&resolver).await.unwrap(), ["8.8.8.8"]);
        let rebound = resolved(&resolver).await.unwrap_err();
        assert!(rebound.contains("not a public address") && !rebound.contains("127.0.0.1"), "{rebound}");
        assert_eq!(resolved(&resolver).await.unwrap(), ["1.1.1.1"]);
        for _ in ["only private", "none", "an error"] {
            assert_eq!(resolved(&resolver).await.unwrap_err(), rebound, "nobody learns which of them it was");
        }
    }

    #[tokio::test]
    async fn a_name_with_very_many_addresses_is_tried_at_a_few() {
        let all: Vec<String> = (0..5_000).map(|n| format!("8.8.{}.{}", n / 250, n % 250)).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_eq!(resolved(&answers(&[&all])).await.unwrap().len(), MAX_ADDRESSES);
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
