//! The assertion of a service account: claims signed with its private key.

use std::time::{Duration, SystemTime};

use base64::{Engine, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use serde_json::{Value, json};

use super::SCOPE;

/// The audience of the claims. It is Google's address even if the request goes elsewhere.
const AUDIENCE: &str = "https://oauth2.googleapis.com/token";
/// The longest lifetime that Google accepts.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// Claims from the future are refused, and clocks differ a little.
const CLOCK_SKEW: Duration = Duration::from_secs(10);

pub struct Signer {
    keys: RsaKeyPair,
    email: String,
    key_id: Option<String>,
}

impl Signer {
    /// Parses the PEM text of a private key. The error says what is wrong with it and never quotes it.
    pub fn new(email: String, key_id: Option<String>, pem: &str) -> Result<Self, String> {
        Ok(Self { keys: keys(pem)?, email, key_id })
    }

    /// Returns a JWT that is exchanged for an access token.
    pub fn assertion(&self, now: SystemTime) -> Result<String, String> {
        let since_1970 = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let issued_at = since_1970.saturating_sub(CLOCK_SKEW);
        let mut header = json!({ "typ": "JWT", "alg": "RS256" });
        if let Some(key_id) = &self.key_id {
            header["kid"] = json!(key_id);
        }
        let claims = json!({
            "iss": self.email,
            "aud": AUDIENCE,
            "scope": SCOPE,
            "iat": issued_at.as_secs(),
            "exp": (issued_at + MAX_LIFETIME).as_secs(),
        });
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let mut signature = vec![0; self.keys.public().modulus_len()];
        self.keys
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .map_err(|_| "the private key could not sign".to_owned())?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn keys(pem: &str) -> Result<RsaKeyPair, String> {
    // Google writes PKCS#8; other tools convert it to the older form, which has its own label.
    for (label, is_pkcs8) in [("PRIVATE KEY", true), ("RSA PRIVATE KEY", false)] {
        let Some(body) = between(pem, &format!("-----BEGIN {label}-----"), &format!("-----END {label}-----"))
        else {
            continue;
        };
        let text: String = body.chars().filter(|c| !c.is_whitespace()).collect();
        let der = BASE64_STANDARD.decode(text).map_err(|_| "its private key is not base64")?;
        let keys = if is_pkcs8 { RsaKeyPair::from_pkcs8(&der) } else { RsaKeyPair::from_der(&der) };
        return keys.map_err(|error| format!("its private key cannot be used: {error}"));
    }
    Err("its private key is not PEM text".into())
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    let (body, _) = rest.split_once(end)?;
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(pem: &str) -> String {
        Signer::new("me".into(), None, pem).err().expect("a refusal")
    }

    #[test]
    fn what_is_wrong_with_a_key_is_said_without_quoting_it() {
        assert_eq!(refusal("c2VjcmV0"), "its private key is not PEM text");
        assert_eq!(
            refusal("-----BEGIN PRIVATE KEY-----\n?!\n-----END PRIVATE KEY-----"),
            "its private key is not base64"
        );
        let wrong = refusal("-----BEGIN PRIVATE KEY-----\nc2Vj\ncmV0\n-----END PRIVATE KEY-----");
        assert!(wrong.starts_with("its private key cannot be used") && !wrong.contains("c2Vj"), "{wrong}");
    }
}
