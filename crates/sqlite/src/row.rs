//! Small readings that several rows share.

use semel_core::{Fingerprint, Timestamp};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use std::time::Duration;

/// As stored where a fingerprint may be missing: null for none (law 10).
pub(crate) fn stored(fingerprint: Fingerprint) -> Option<Vec<u8>> {
    (fingerprint.version != 0).then(|| fingerprint.digest.to_vec())
}

/// The columns `fingerprint` and `fingerprint_version`.
pub(crate) fn fingerprint(row: &SqliteRow) -> sqlx::Result<Fingerprint> {
    let digest: Option<Vec<u8>> = row.try_get("fingerprint")?;
    let version: i16 = row.try_get("fingerprint_version")?;
    match (version, digest) {
        (0, _) | (_, None) => Ok(Fingerprint::NONE),
        (version, Some(digest)) => Ok(Fingerprint { version, digest: sixteen(digest)? }),
    }
}

pub(crate) fn sixteen(bytes: Vec<u8>) -> sqlx::Result<[u8; 16]> {
    <[u8; 16]>::try_from(bytes).map_err(|bytes| unreadable(format!("a digest of {} bytes", bytes.len())))
}

pub(crate) fn time(row: &SqliteRow, column: &str) -> sqlx::Result<Option<Timestamp>> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp::from_millis))
}

/// Milliseconds, far enough from the ends that an instant can be added.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

pub(crate) fn duration(millis: i64) -> Duration {
    Duration::from_millis(millis.max(0).unsigned_abs())
}

/// SQLite stores U+0000, but its functions and its shell read only up to it; PostgreSQL does not store it at all. The envelope has it.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(crate) fn unreadable(what: String) -> sqlx::Error {
    sqlx::Error::Decode(what.into())
}
