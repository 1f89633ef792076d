//! The cookie of a browser's session. It is sent to this server only (`SameSite=Strict`), and scripts cannot
//! read it (`HttpOnly`).

use axum::http::{HeaderMap, HeaderValue, header};
use emergent_domain::browser_session::MAX_LIFETIME;

/// The name over HTTP. Browsers do not separate the cookies of a host by port.
const NAME: &str = "emergent_session";
/// The name over HTTPS. The prefix makes browsers refuse the cookie from anybody but this host over HTTPS, so
/// that nobody else can log a person in as somebody else.
const SECURE_NAME: &str = "__Host-emergent_session";

/// Returns the secret of the session in the cookies of a request. A server with TLS accepts only the name for
/// HTTPS.
pub(crate) fn read(headers: &HeaderMap, is_tls: bool) -> Option<&str> {
    let find = |name: &str| {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    find(SECURE_NAME).or_else(|| if is_tls { None } else { find(NAME) })
}

/// Returns the value of `Set-Cookie` that stores a session. The server decides when the session ends; the browser
/// forgets the cookie when no session can be valid any longer.
pub(crate) fn set(secret: &str, is_secure: bool) -> Option<HeaderValue> {
    let (name, secure) = if is_secure { (SECURE_NAME, "; Secure") } else { (NAME, "") };
    let max_age = MAX_LIFETIME.as_secs();
    let cookie = format!("{name}={secret}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&cookie).ok()
}

/// Returns the values of `Set-Cookie` that remove the cookie under both names.
pub(crate) fn remove() -> [HeaderValue; 2] {
    [
        HeaderValue::from_static("emergent_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"),
        HeaderValue::from_static(
            "__Host-emergent_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure",
        ),
    ]
}

/// Whether the browser reached this server over HTTPS: directly, or through a proxy as its page says.
pub(crate) fn is_https(headers: &HeaderMap, is_tls: bool) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok()).unwrap_or_default();
    is_tls || origin.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cookies: &[&'static str], is_tls: bool, expected: Option<&str>) {
        let values = cookies.iter().map(|value| (header::COOKIE, HeaderValue::from_static(value)));
        assert_eq!(read(&HeaderMap::from_iter(values), is_tls), expected, "{cookies:?} {is_tls}");
    }

    #[test]
    fn the_cookie_is_found_among_others_and_under_the_name_of_its_scheme() {
        check(&["a=b; emergent_session=ems_x; c=d"], false, Some("ems_x"));
        check(&["emergent_session=ems_x"], true, None);
        check(&["emergent_session=ems_x; __Host-emergent_session=ems_y"], true, Some("ems_y"));
        check(&["emergent_session=ems_x; __Host-emergent_session=ems_y"], false, Some("ems_y"));
        check(&["xemergent_session=ems_x", "emergent_session"], false, None);
        assert!(set("ems_x", true).unwrap().to_str().unwrap().ends_with("; Secure"));
    }
}
