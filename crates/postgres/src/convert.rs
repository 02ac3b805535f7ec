//! Between core's types and what PostgreSQL takes.

use semel_core::{BodyDigest, Fingerprint, Timestamp};
use std::time::Duration;

/// A little less than what `timestamptz` can hold, 4713 BC to 294276 AD: at its very ends the way over floating point
/// would leave it.
const MILLIS_MIN: i64 = -210_860_000_000_000;
const MILLIS_MAX: i64 = 9_224_000_000_000_000;
/// A thousand years: beyond it an interval could leave what `timestamptz` can hold.
const DURATION_MAX: i64 = 1000 * 366 * 24 * 3600 * 1000;
/// Longer references are shortened: a b-tree takes no entry of more than a third of a page.
const REFERENCE_LENGTH_MAX: usize = 512;

/// Milliseconds for a `timestamptz`. A time that no `timestamptz` can hold becomes the nearest that can: a foreign
/// property must not make a message unstorable. The envelope keeps the exact one.
pub(crate) fn millis(time: Timestamp) -> i64 {
    time.as_millis().clamp(MILLIS_MIN, MILLIS_MAX)
}

/// Milliseconds of a duration, at most a thousand years.
pub(crate) fn duration_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).min(DURATION_MAX)
}

/// A duration from milliseconds; a negative one is over.
pub(crate) fn duration(millis: i64) -> Duration {
    Duration::from_millis(millis.max(0).unsigned_abs())
}

/// A limit as PostgreSQL's settings take it: whole milliseconds, never 0, which would mean none.
pub(crate) fn setting(limit: Duration) -> i64 {
    duration_millis(limit).clamp(1, i64::from(i32::MAX))
}

/// Attempts and crashes: far from the limit.
pub(crate) fn count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The bytes of a fingerprint where there is one.
pub(crate) fn digest(fingerprint: &Fingerprint) -> Option<&[u8]> {
    (fingerprint.version != 0).then_some(&fingerprint.digest[..])
}

/// A fingerprint as it was stored. One whose bytes are none of ours matches everything.
pub(crate) fn fingerprint(version: i16, digest: &[u8]) -> Fingerprint {
    match <[u8; 16]>::try_from(digest) {
        Ok(digest) if version != 0 => Fingerprint { version, digest },
        _ => Fingerprint::NONE,
    }
}

/// A text that PostgreSQL takes: U+0000 becomes U+FFFD. For columns that people read; the envelope keeps what really
/// came.
pub(crate) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// What names a message among the dead letters, in the form that the index takes.
pub(crate) fn reference(text: &str) -> String {
    let text = clean(text);
    if text.len() <= REFERENCE_LENGTH_MAX {
        return text;
    }
    let mut whole = BodyDigest::default();
    whole.update(text.as_bytes());
    let hex: String = whole.finish().iter().map(|byte| format!("{byte:02x}")).collect();
    let end = (0..=REFERENCE_LENGTH_MAX - hex.len() - '…'.len_utf8()).rev().find(|end| text.is_char_boundary(*end));
    format!("{}…{hex}", &text[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_references_stay_apart() {
        let (one, two) = (format!("{}1", "ä".repeat(400)), format!("{}2", "ä".repeat(400)));
        assert!(reference(&one).len() <= REFERENCE_LENGTH_MAX && reference(&one) != reference(&two));
        assert_eq!(reference("a\0b"), "a\u{fffd}b");
    }

    #[test]
    fn no_limit_becomes_none() {
        assert_eq!(setting(Duration::ZERO), 1);
        assert_eq!(setting(Duration::MAX), i64::from(i32::MAX));
    }

    #[test]
    fn foreign_fingerprints_match_everything() {
        assert_eq!(fingerprint(0, &[1; 16]), Fingerprint::NONE);
        assert_eq!(fingerprint(1, b"short"), Fingerprint::NONE);
        assert_eq!(fingerprint(1, &[7; 16]), Fingerprint { version: 1, digest: [7; 16] });
    }
}
