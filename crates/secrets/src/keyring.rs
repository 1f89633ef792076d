//! Keys and encryption: AES-256-GCM with a random nonce. The project and the name are
//! authenticated, so a row that is copied elsewhere cannot be decrypted.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};
use emergent_domain::ids::ProjectId;
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest,
    rand::{SecureRandom, SystemRandom},
};
use zeroize::Zeroizing;

use crate::{Error, Result, Secret, SecretName};

const KEY_LEN: usize = 32;
/// The known text that [`Key::proof`] encrypts.
const PROOF_TEXT: &[u8] = b"emergent knows this key";

/// Accepts a missing `=` at the end, which is easily lost when a key is copied.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A key and its public id.
#[derive(Clone)]
pub(crate) struct Key {
    id: String,
    bytes: Zeroizing<[u8; KEY_LEN]>,
}

/// An ordered list of keys. The first one encrypts, and all of them decrypt. The type has no
/// `Debug`, and its bytes are wiped when it is dropped.
#[derive(Clone)]
pub struct Keyring(Vec<Key>);

/// The stored form of a value: `nonce || ciphertext || tag`, and the id of the key.
pub(crate) struct SealedValue {
    pub key: String,
    pub bytes: Vec<u8>,
}

/// Why a stored value cannot be decrypted.
pub(crate) enum UnsealError {
    /// The keyring does not contain the key of the value.
    NoSuchKey,
    /// The value was modified, belongs to another project or name, or was encrypted with another key.
    NotAuthentic,
}

impl Keyring {
    /// Parses keys of 32 bytes in base64, separated by commas or whitespace. The error does not
    /// contain them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let encoded_keys =
            text.split(|c: char| c == ',' || c.is_whitespace()).filter(|encoded_key| !encoded_key.is_empty());
        let keys: Vec<Key> = encoded_keys
            .enumerate()
            .map(|(index, encoded_key)| {
                let bytes = LENIENT_BASE64.decode(encoded_key).map(Zeroizing::new).ok();
                let bytes = bytes.and_then(|bytes| <[u8; KEY_LEN]>::try_from(&bytes[..]).ok());
                bytes.map(|bytes| Key::new(Zeroizing::new(bytes))).ok_or_else(|| {
                    format!(
                        "key {} is not 32 bytes in base64; create one with `openssl rand -base64 32`",
                        index + 1
                    )
                })
            })
            .collect::<Result<_, String>>()?;
        if keys.is_empty() {
            return Err("it contains no key; create one with `openssl rand -base64 32`".to_owned());
        }
        Ok(Self(keys))
    }

    /// Creates a keyring with one random key.
    pub fn generate() -> Result<Self> {
        let mut bytes = Zeroizing::new([0; KEY_LEN]);
        SystemRandom::new().fill(&mut *bytes).map_err(|_| Error::RandomUnavailable)?;
        Ok(Self(vec![Key::new(bytes)]))
    }

    /// Returns a keyring with the first key of this one, followed by all keys of another.
    pub(crate) fn prepended_to(&self, other: &Keyring) -> Self {
        Self(self.0.iter().take(1).chain(&other.0).cloned().collect())
    }

    /// Returns a keyring with the keys of this one, followed by those of another that are not in it.
    pub fn merged_with(&self, other: &Keyring) -> Self {
        let added = other.0.iter().filter(|key| self.get(&key.id).is_none());
        Self(self.0.iter().chain(added).cloned().collect())
    }

    /// Returns those of these key ids that the keyring does not contain.
    pub fn missing_keys<'a>(&self, ids: &'a [String]) -> Vec<&'a str> {
        ids.iter().map(String::as_str).filter(|id| self.get(id).is_none()).collect()
    }

    /// Returns the keys that satisfy a condition, in the same order.
    pub(crate) fn filtered(&self, keep: impl Fn(&Key) -> bool) -> Self {
        Self(self.0.iter().filter(|key| keep(key)).cloned().collect())
    }

    /// Returns the text that [`Keyring::parse`] reads.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.iter().map(|key| BASE64_STANDARD.encode(*key.bytes) + "\n").collect())
    }

    pub(crate) fn keys(&self) -> &[Key] {
        &self.0
    }

    /// Finds a key by its id.
    pub(crate) fn get(&self, id: &str) -> Option<&Key> {
        self.0.iter().find(|key| key.id == id)
    }

    /// Decrypts the value of a secret.
    pub(crate) fn unseal(
        &self,
        project: ProjectId,
        name: &SecretName,
        sealed: &SealedValue,
    ) -> Result<Secret, UnsealError> {
        let key = self.get(&sealed.key).ok_or(UnsealError::NoSuchKey)?;
        let plain =
            key.unseal(&associated_data(project, name), &sealed.bytes).ok_or(UnsealError::NotAuthentic)?;
        let text = std::str::from_utf8(&plain).map_err(|_| UnsealError::NotAuthentic)?;
        Ok(Secret::new(text.to_owned()))
    }
}

impl Key {
    fn new(bytes: Zeroizing<[u8; KEY_LEN]>) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"emergent key");
        context.update(&*bytes);
        let digest = context.finish();
        let id = digest.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { id, bytes }
    }

    /// Returns the id of the key, which reveals nothing about the key.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Encrypts the value of a secret for this project and name.
    pub(crate) fn seal(&self, project: ProjectId, name: &SecretName, value: &Secret) -> Result<SealedValue> {
        let bytes = self.seal_bytes(&associated_data(project, name), value.expose().as_bytes())?;
        Ok(SealedValue { key: self.id.clone(), bytes })
    }

    /// Encrypts a fixed text with this key. The result is stored with the id, and proves later that
    /// a key is the same.
    pub(crate) fn proof(&self) -> Result<Vec<u8>> {
        self.seal_bytes(PROOF_TEXT, PROOF_TEXT)
    }

    /// Whether a stored proof was made with this key.
    pub(crate) fn proves(&self, proof: &[u8]) -> bool {
        self.unseal(PROOF_TEXT, proof).is_some_and(|plain| &plain[..] == PROOF_TEXT)
    }

    /// Encrypts `plain`, and authenticates `associated` with it.
    fn seal_bytes(&self, associated: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| Error::RandomUnavailable)?;
        let mut sealed = plain.to_vec();
        let key = self.cipher().ok_or(Error::RandomUnavailable)?;
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(associated), &mut sealed)
            .map_err(|_| Error::RandomUnavailable)?;
        Ok([&nonce, sealed.as_slice()].concat())
    }

    /// Decrypts `sealed`; `None` if it was not encrypted with this key and this associated data.
    fn unseal(&self, associated: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut text = Zeroizing::new(text.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.cipher()?.open_in_place(nonce, Aad::from(associated), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }

    /// The cipher is created for each use, so that keys are stored only where they are wiped.
    fn cipher(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM, &*self.bytes).ok().map(LessSafeKey::new)
    }
}

/// Returns the authenticated data of an encrypted value. An id has a fixed length, so two different
/// pairs never have the same bytes.
fn associated_data(project: ProjectId, name: &SecretName) -> Vec<u8> {
    [project.0.as_bytes().as_slice(), &[0], name.as_str().as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> SecretName {
        text.parse().unwrap()
    }

    #[test]
    fn a_value_is_decrypted_only_for_its_own_project_and_name() {
        let ring = Keyring::generate().unwrap();
        let (project, value) = (ProjectId::new(), Secret::new("hunter2-hunter2".to_owned()));
        let sealed = ring.keys()[0].seal(project, &name("A"), &value).unwrap();
        assert!(ring.unseal(project, &name("A"), &sealed).is_ok_and(|opened| opened == value));
        let again = ring.keys()[0].seal(project, &name("A"), &value).unwrap();
        assert_ne!(sealed.bytes, again.bytes, "equal values have different ciphertexts");

        for (project, name) in [(ProjectId::new(), name("A")), (project, name("B")), (project, name("AA"))] {
            assert!(matches!(ring.unseal(project, &name, &sealed), Err(UnsealError::NotAuthentic)));
        }
        for index in 0..sealed.bytes.len() {
            let mut bytes = sealed.bytes.clone();
            bytes[index] ^= 1;
            let changed = SealedValue { bytes, key: sealed.key.clone() };
            assert!(ring.unseal(project, &name("A"), &changed).is_err(), "byte {index}");
        }
        let short = SealedValue { bytes: sealed.bytes[..11].to_vec(), key: sealed.key.clone() };
        assert!(ring.unseal(project, &name("A"), &short).is_err());
    }

    #[test]
    fn another_key_decrypts_nothing() {
        let (ring, other) = (Keyring::generate().unwrap(), Keyring::generate().unwrap());
        let (project, value) = (ProjectId::new(), Secret::new("hunter2-hunter2".to_owned()));
        let sealed = ring.keys()[0].seal(project, &name("A"), &value).unwrap();
        assert!(matches!(other.unseal(project, &name("A"), &sealed), Err(UnsealError::NoSuchKey)));
        let forged = SealedValue { key: other.keys()[0].id().to_owned(), ..sealed };
        assert!(matches!(other.unseal(project, &name("A"), &forged), Err(UnsealError::NotAuthentic)));
        let both = other.prepended_to(&ring);
        assert!(both.keys()[1].proves(&ring.keys()[0].proof().unwrap()));
        assert!(!both.keys()[0].proves(&ring.keys()[0].proof().unwrap()));
    }

    #[test]
    fn written_keys_can_be_parsed_and_an_error_does_not_contain_the_key() {
        let ring = Keyring::generate().unwrap().prepended_to(&Keyring::generate().unwrap());
        let text = ring.to_text();
        let ids = |ring: &Keyring| ring.keys().iter().map(|key| key.id().to_owned()).collect::<Vec<_>>();
        assert_eq!(ids(&Keyring::parse(&text).unwrap()), ids(&ring));
        let by_comma = text.trim().replace('\n', ",").replace('=', "");
        assert_eq!(ids(&Keyring::parse(&by_comma).unwrap()), ids(&ring));
        for bad in ["", " , ", "c2hvcnQ=", "no base64 at all!", &text[..20]] {
            let refused = Keyring::parse(bad).err().unwrap();
            assert!(bad.trim().len() < 4 || !refused.contains(bad), "{refused}");
        }
    }
}
