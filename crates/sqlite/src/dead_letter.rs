//! Dead letters: writing, reading, discarding.

use crate::envelope;
use crate::row::{self, without_nul};
use semel_core::{
    ConsumerNumber, DeadFilter, DeadLetter, Discarded, Reason, StoredDeadLetter, Timestamp, VARIANTS_MAX,
};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

/// Writes one letter, and answers whether it had been there before. One statement each: the number of variants must be counted between them.
pub(crate) async fn insert(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    letter: &DeadLetter,
) -> sqlx::Result<bool> {
    let envelope = &letter.envelope;
    sqlx::query_scalar(include_str!("../sql/insert_dead_letter.sql"))
        .bind(consumer.0)
        .bind(without_nul(letter.reference()))
        .bind(letter.reason.as_str())
        .bind(key_of(letter))
        .bind(letter.fingerprint.version)
        .bind(letter.id.as_deref().map(without_nul))
        .bind(without_nul(&letter.kind))
        .bind(letter.key.as_deref().map(without_nul))
        .bind(letter.time.map(Timestamp::as_millis))
        .bind(without_nul(&letter.error))
        .bind(letter.attempts)
        .bind(envelope::headers(envelope).to_string())
        .bind(envelope.body.as_slice())
        .bind(envelope::cut_length(envelope))
        .bind(envelope.cut.as_ref().map(|cut| cut.digest.to_vec()))
        .bind(envelope::properties(envelope).to_string())
        .bind(VARIANTS_MAX)
        .fetch_one(conn)
        .await
}

/// Part of the letter's key, so never null: zeros where there is no fingerprint.
fn key_of(letter: &DeadLetter) -> Vec<u8> {
    match letter.fingerprint.version {
        0 => vec![0; 16],
        _ => letter.fingerprint.digest.to_vec(),
    }
}

pub(crate) async fn list(
    conn: &mut SqliteConnection,
    filter: &DeadFilter,
    after: i64,
    max: usize,
) -> sqlx::Result<Vec<StoredDeadLetter>> {
    let rows = sqlx::query(include_str!("../sql/dead_letters.sql"))
        .bind(after)
        .bind(filter.consumer.as_deref())
        .bind(filter.reason.map(Reason::as_str))
        .bind(filter.reference.as_deref().map(without_nul))
        .bind(filter.number)
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .fetch_all(conn)
        .await?;
    rows.iter().map(read).collect()
}

/// Those of one consumer with this message id or these coordinates.
pub(crate) async fn of(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    name: &str,
    reference: &str,
) -> sqlx::Result<Vec<StoredDeadLetter>> {
    let rows = sqlx::query(include_str!("../sql/dead_letters_of.sql"))
        .bind(consumer.0)
        .bind(without_nul(reference))
        .bind(name)
        .fetch_all(conn)
        .await?;
    rows.iter().map(read).collect()
}

fn read(row: &SqliteRow) -> sqlx::Result<StoredDeadLetter> {
    let seen: i64 = row.try_get("seen")?;
    Ok(StoredDeadLetter {
        number: row.try_get("number")?,
        consumer: row.try_get("consumer")?,
        seen: seen.max(0).unsigned_abs(),
        first_at: Timestamp::from_millis(row.try_get("first_at")?),
        last_at: Timestamp::from_millis(row.try_get("last_at")?),
        letter: DeadLetter {
            reason: reason(row)?,
            id: row.try_get("message_id")?,
            kind: row.try_get("kind")?,
            key: row.try_get("key")?,
            time: row::time(row, "message_time")?,
            fingerprint: row::fingerprint(row)?,
            error: row.try_get("error")?,
            attempts: row.try_get("attempts")?,
            envelope: envelope::read(row)?,
        },
    })
}

pub(crate) fn reason(row: &SqliteRow) -> sqlx::Result<Reason> {
    row.try_get::<&str, _>("reason")?.parse().map_err(row::unreadable)
}

/// Inside an open transaction.
pub(crate) async fn discard(conn: &mut SqliteConnection, number: i64) -> sqlx::Result<Discarded> {
    let Some(letter) =
        sqlx::query(include_str!("../sql/dead_letter_key.sql")).bind(number).fetch_optional(&mut *conn).await?
    else {
        return Ok(Discarded::Unknown);
    };
    let consumer: i32 = letter.try_get("consumer")?;
    let id: Option<String> = letter.try_get("message_id")?;
    sqlx::query(include_str!("../sql/delete_dead_letter.sql")).bind(number).execute(&mut *conn).await?;
    if let Some(id) = id {
        let_go(conn, ConsumerNumber(consumer), &id).await?;
    }
    Ok(Discarded::Done)
}

/// Stamps the claim of a message anew, unless it still waits or is a dead letter (law 25).
pub(crate) async fn let_go(conn: &mut SqliteConnection, consumer: ConsumerNumber, id: &str) -> sqlx::Result<()> {
    sqlx::query(include_str!("../sql/let_go.sql")).bind(consumer.0).bind(id).execute(conn).await?;
    Ok(())
}
