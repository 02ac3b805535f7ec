//! The fingerprint that tells a conflict from a duplicate (law 10).

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt;

/// A 128-bit digest of what the producer said, with the version of the rule that made it.
///
/// Two fingerprints of different versions, or one without a digest, cannot be compared, and count as equal: a changed rule must not turn
/// every redelivery into a conflict.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// 0: none. 1: kind and body. Above: kind and chosen values, where the number stands for the choice.
    pub version: i16,
    /// The first 16 bytes of a SHA-256.
    pub digest: [u8; 16],
}

impl Fingerprint {
    /// No fingerprint: matches every other.
    pub const NONE: Fingerprint = Fingerprint { version: 0, digest: [0; 16] };

    /// Whether a message with this fingerprint may be a repeat of one that was stored with `other`.
    pub fn matches(self, other: Fingerprint) -> bool {
        self.version == 0 || self.version != other.version || self.digest == other.digest
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}:", self.version)?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a fingerprint is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FingerprintOf {
    /// The producer's kind and the bytes of the body.
    #[default]
    Body,
    /// The producer's kind and the values at these JSON pointers: for producers that serialise anew on every retry.
    Values(Vec<String>),
    /// Nothing: the same id is always the same message.
    Nothing,
}

const BODY: i16 = 1;

impl FingerprintOf {
    /// The fingerprint of one message. `json` is the parsed body, where it was parsed.
    pub fn of(&self, kind: Option<&str>, body: &[u8], json: Option<&Value>) -> Fingerprint {
        match self {
            FingerprintOf::Nothing => Fingerprint::NONE,
            FingerprintOf::Body => {
                let mut hash = starting_with(kind);
                hash.update(body);
                Fingerprint { version: BODY, digest: digest(hash) }
            }
            FingerprintOf::Values(pointers) => {
                let mut hash = starting_with(kind);
                for pointer in pointers {
                    let value = json.and_then(|json| json.pointer(pointer)).map(Value::to_string).unwrap_or_default();
                    field(&mut hash, value.as_bytes());
                }
                Fingerprint { version: version_of(pointers), digest: digest(hash) }
            }
        }
    }
}

/// The digest of a whole body of which only the beginning is kept; fed piece by piece.
#[derive(Default)]
pub struct BodyDigest(Sha256);

impl BodyDigest {
    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The digest of all pieces.
    pub fn finish(self) -> [u8; 16] {
        digest(self.0)
    }
}

fn starting_with(kind: Option<&str>) -> Sha256 {
    let mut hash = Sha256::new();
    field(&mut hash, kind.unwrap_or_default().as_bytes());
    hash
}

/// Length first, so that ("ab", "c") and ("a", "bc") differ.
fn field(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_be_bytes());
    hash.update(bytes);
}

fn digest(hash: Sha256) -> [u8; 16] {
    let whole = hash.finalize();
    std::array::from_fn(|i| whole[i])
}

/// Another choice of values is another version: fingerprints of the two are never compared.
fn version_of(pointers: &[String]) -> i16 {
    let mut hash = Sha256::new();
    pointers.iter().for_each(|pointer| field(&mut hash, pointer.as_bytes()));
    let bytes = digest(hash);
    i16::from_be_bytes([bytes[0], bytes[1]]).unsigned_abs().clamp(2, i16::MAX as u16) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_amount_is_another_fingerprint_and_another_rule_is_not_comparable() {
        let of = |body: &str| FingerprintOf::Body.of(Some("pay"), body.as_bytes(), None);
        assert!(of("{\"amount\":1}").matches(of("{\"amount\":1}")));
        assert!(!of("{\"amount\":1}").matches(of("{\"amount\":2}")));
        assert!(!of("x").matches(FingerprintOf::Body.of(Some("refund"), b"x", None)), "the kind counts");
        assert!(of("x").matches(Fingerprint::NONE) && Fingerprint::NONE.matches(of("x")));

        let values = |pointers: &[&str], json: Value| {
            FingerprintOf::Values(pointers.iter().map(|p| (*p).to_owned()).collect()).of(None, b"", Some(&json))
        };
        let one = serde_json::json!({ "amount": 1, "retry": 1 });
        let again = serde_json::json!({ "retry": 2, "amount": 1 });
        assert!(values(&["/amount"], one.clone()).matches(values(&["/amount"], again.clone())));
        assert!(!values(&["/retry"], one.clone()).matches(values(&["/retry"], again)));
        assert!(values(&["/amount"], one.clone()).matches(values(&["/retry"], one)), "other rule, other version");
    }
}
