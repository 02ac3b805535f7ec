//! The claim (law 1), and looking without claiming.

use crate::row;
use semel_core::{Claim, ClaimKey, Claimed, ConsumerNumber, Fingerprint};
use serde_json::Value;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Claims, inside an open transaction. `None`: a claim was there and is gone, although nobody else can write.
pub(crate) async fn claim(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    keys: &[ClaimKey<'_>],
) -> sqlx::Result<Option<Claimed>> {
    let (new, waiting): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.waiting.is_none());
    let mut answers = HashMap::with_capacity(keys.len());
    let mut keys_held = false;
    if !new.is_empty() {
        let fresh;
        (fresh, keys_held) = insert(conn, consumer, &new).await?;
        let old: Vec<_> = new.iter().copied().filter(|key| !fresh.contains(key.id)).collect();
        answers.extend(fresh.into_iter().map(|id| (id, Claim::Fresh)));
        if !old.is_empty() {
            let (stored, _) = stored(conn, consumer, &old).await?;
            for key in old {
                let Some(&before) = stored.get(key.id) else { return Ok(None) };
                answers.insert(key.id.to_owned(), verdict(key.fingerprint, before));
            }
        }
    }
    if !waiting.is_empty() {
        let (still, held) = waiting_still(conn, consumer, &waiting).await?;
        keys_held = held;
        answers.extend(still.into_iter().map(|id| (id, Claim::Fresh)));
    }
    // What is not answered yet is a waiting message that somebody else has taken or finished.
    let claims = keys.iter().map(|key| answers.get(key.id).copied().unwrap_or(Claim::Duplicate)).collect();
    Ok(Some(Claimed { claims, keys_held }))
}

/// What [`claim`] would answer, without writing.
pub(crate) async fn look(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    keys: &[ClaimKey<'_>],
) -> sqlx::Result<Claimed> {
    let (new, waiting): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.waiting.is_none());
    let (mut stored, mut still, mut keys_held) = (HashMap::new(), HashSet::new(), false);
    if !new.is_empty() {
        (stored, keys_held) = self::stored(conn, consumer, &new).await?;
    }
    if !waiting.is_empty() {
        (still, keys_held) = waiting_still(conn, consumer, &waiting).await?;
    }
    let look = |key: &ClaimKey<'_>| match (key.waiting, stored.get(key.id)) {
        (Some(_), _) if still.contains(key.id) => Claim::Fresh,
        (Some(_), _) => Claim::Duplicate,
        (None, Some(before)) => verdict(key.fingerprint, *before),
        (None, None) => Claim::Fresh,
    };
    Ok(Claimed { claims: keys.iter().map(look).collect(), keys_held })
}

fn verdict(now: Fingerprint, before: Fingerprint) -> Claim {
    if now.matches(before) { Claim::Duplicate } else { Claim::Conflict }
}

/// Inserts and answers the ids that had no claim.
async fn insert(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    keys: &[&ClaimKey<'_>],
) -> sqlx::Result<(HashSet<String>, bool)> {
    let mut digests = Vec::with_capacity(16 * keys.len());
    let mut numbers = String::with_capacity(28 * keys.len());
    for key in keys {
        let Fingerprint { version, digest } = key.fingerprint;
        digests.extend_from_slice(&digest);
        let written = match key.time {
            Some(time) => write!(numbers, "{version:8}{:20}", time.as_millis()),
            None => write!(numbers, "{version:8}{:20}", ""),
        };
        written.expect("writing to a string does not fail");
    }
    let rows = sqlx::query(include_str!("../sql/claim.sql"))
        .bind(consumer.0)
        .bind(ids(keys))
        .bind(digests)
        .bind(numbers.into_bytes())
        .fetch_all(conn)
        .await?;
    let (rows, keys_held) = last_apart(rows)?;
    Ok((ids_of(&rows)?, keys_held))
}

/// The fingerprints of claims that there are, and whether keys are held.
async fn stored(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    keys: &[&ClaimKey<'_>],
) -> sqlx::Result<(HashMap<String, Fingerprint>, bool)> {
    let rows =
        sqlx::query(include_str!("../sql/verdicts.sql")).bind(consumer.0).bind(ids(keys)).fetch_all(conn).await?;
    let (rows, keys_held) = last_apart(rows)?;
    let stored = rows.iter().map(|row| Ok((row.try_get("message_id")?, row::fingerprint(row)?)));
    Ok((stored.collect::<sqlx::Result<_>>()?, keys_held))
}

/// Which messages wait with just as many attempts, and whether keys are held. Under the write lock looking is locking.
async fn waiting_still(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    keys: &[&ClaimKey<'_>],
) -> sqlx::Result<(HashSet<String>, bool)> {
    let wanted: Value =
        keys.iter().map(|key| Value::from(vec![Value::from(key.id), Value::from(key.waiting)])).collect();
    let query = sqlx::query(include_str!("../sql/waiting_still.sql")).bind(consumer.0).bind(wanted.to_string());
    let (rows, keys_held) = last_apart(query.fetch_all(conn).await?)?;
    Ok((ids_of(&rows)?, keys_held))
}

/// The last row comes from a statement of its own, which says whether keys are held.
fn last_apart(mut rows: Vec<SqliteRow>) -> sqlx::Result<(Vec<SqliteRow>, bool)> {
    let last = rows.pop().ok_or(sqlx::Error::RowNotFound)?;
    Ok((rows, last.try_get(0)?))
}

fn ids_of(rows: &[SqliteRow]) -> sqlx::Result<HashSet<String>> {
    rows.iter().map(|row| row.try_get(0)).collect()
}

/// The ids as a JSON array.
fn ids(keys: &[&ClaimKey<'_>]) -> String {
    keys.iter().map(|key| key.id).collect::<Value>().to_string()
}
