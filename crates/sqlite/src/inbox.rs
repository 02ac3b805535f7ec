//! Messages that wait.

use crate::envelope;
use crate::row::{self, millis};
use semel_core::{ConsumerNumber, Retried, Waiting};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use std::time::Duration;

pub(crate) async fn insert(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    waiting: &[Waiting],
) -> sqlx::Result<()> {
    let mut bodies = Vec::with_capacity(waiting.iter().map(|waiting| waiting.envelope.body.len()).sum());
    let rows: Value = waiting
        .iter()
        .map(|waiting| {
            let body_from = bodies.len();
            bodies.extend_from_slice(&waiting.envelope.body);
            columns(waiting, body_from)
        })
        .collect();
    sqlx::query(include_str!("../sql/insert_waiting.sql"))
        .bind(consumer.0)
        .bind(rows.to_string())
        .bind(bodies)
        .execute(conn)
        .await?;
    Ok(())
}

fn columns(waiting: &Waiting, body_from: usize) -> Value {
    let envelope = &waiting.envelope;
    json!({
        "id": waiting.id,
        "kind": waiting.kind,
        "key": waiting.key,
        "time": waiting.time.map(|time| time.as_millis()),
        "fingerprint": row::stored(waiting.fingerprint).map(|digest| hex(&digest)),
        "version": waiting.fingerprint.version,
        "attempts": waiting.attempts,
        "holds": waiting.holds,
        "delay": millis(waiting.delay),
        "error": row::without_nul(&waiting.error),
        "instance": waiting.instance,
        "headers": envelope::headers(envelope),
        "body_from": body_from,
        "body_kept": envelope.body.len(),
        "body_length": envelope::cut_length(envelope),
        "body_digest": envelope.cut.as_ref().map(|cut| hex(&cut.digest)),
        "properties": envelope::properties(envelope),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One statement a message: a message that failed is tried alone, so there is hardly ever a second, and joined to an array SQLite would
/// read the whole inbox.
pub(crate) async fn retry(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    retried: &Retried,
) -> sqlx::Result<()> {
    sqlx::query(include_str!("../sql/retry_waiting.sql"))
        .bind(consumer.0)
        .bind(&retried.id)
        .bind(retried.attempts)
        .bind(millis(retried.delay))
        .bind(row::without_nul(&retried.error))
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) async fn finish(conn: &mut SqliteConnection, consumer: ConsumerNumber, ids: &[String]) -> sqlx::Result<()> {
    sqlx::query(include_str!("../sql/finish_waiting.sql"))
        .bind(consumer.0)
        .bind(Value::from(ids).to_string())
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) async fn due(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    max: usize,
) -> sqlx::Result<Vec<Waiting>> {
    let rows = sqlx::query(include_str!("../sql/due.sql"))
        .bind(consumer.0)
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .fetch_all(conn)
        .await?;
    rows.iter().map(read).collect()
}

fn read(row: &SqliteRow) -> sqlx::Result<Waiting> {
    Ok(Waiting {
        id: row.try_get("message_id")?,
        kind: row.try_get("kind")?,
        key: row.try_get("key")?,
        time: row::time(row, "message_time")?,
        fingerprint: row::fingerprint(row)?,
        attempts: row.try_get("attempts")?,
        holds: row.try_get("holds")?,
        delay: row::duration(row.try_get("delay_ms")?),
        error: row.try_get("error")?,
        instance: row.try_get("instance")?,
        envelope: envelope::read(row)?,
    })
}

pub(crate) async fn next_due(conn: &mut SqliteConnection, consumer: ConsumerNumber) -> sqlx::Result<Option<Duration>> {
    let silent: Option<i64> =
        sqlx::query_scalar(include_str!("../sql/next_due.sql")).bind(consumer.0).fetch_optional(conn).await?;
    Ok(silent.map(row::duration))
}

pub(crate) async fn held_keys(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    keys: &[&str],
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar(include_str!("../sql/held_keys.sql"))
        .bind(consumer.0)
        .bind(Value::from(keys).to_string())
        .fetch_all(conn)
        .await
}
