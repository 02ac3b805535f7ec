//! Everything known of one message id.

use crate::{dead_letter, row};
use semel_core::{ConsumerNumber, Explained, ExplainedClaim, ExplainedWaiting, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

/// Only consumers that know something of it. Inside a transaction, so that a message is not seen in two places.
pub(crate) async fn explain(
    conn: &mut SqliteConnection,
    consumer: Option<&str>,
    id: &str,
) -> sqlx::Result<Vec<Explained>> {
    let consumers: Vec<(i32, String)> =
        sqlx::query_as(include_str!("../sql/consumers.sql")).bind(consumer).fetch_all(&mut *conn).await?;
    let mut known = Vec::new();
    for (number, name) in consumers {
        let one = |sql| sqlx::query(sql).bind(number).bind(id);
        let claim = one(include_str!("../sql/explain_claim.sql")).fetch_optional(&mut *conn).await?;
        let waiting = one(include_str!("../sql/explain_waiting.sql")).fetch_optional(&mut *conn).await?;
        let dead = dead_letter::of(conn, ConsumerNumber(number), &name, id).await?;
        if claim.is_none() && waiting.is_none() && dead.is_empty() {
            continue;
        }
        known.push(Explained {
            consumer: name,
            claim: claim.as_ref().map(read_claim).transpose()?,
            waiting: waiting.as_ref().map(read_waiting).transpose()?,
            dead,
        });
    }
    Ok(known)
}

fn read_claim(row: &SqliteRow) -> sqlx::Result<ExplainedClaim> {
    Ok(ExplainedClaim {
        claimed_at: Timestamp::from_millis(row.try_get("claimed_at")?),
        fingerprint: row::fingerprint(row)?,
        time: row::time(row, "message_time")?,
    })
}

fn read_waiting(row: &SqliteRow) -> sqlx::Result<ExplainedWaiting> {
    Ok(ExplainedWaiting {
        kind: row.try_get("kind")?,
        key: row.try_get("key")?,
        attempts: row.try_get("attempts")?,
        due_at: Timestamp::from_millis(row.try_get("due_at")?),
        error: row.try_get("error")?,
        since: Timestamp::from_millis(row.try_get("since")?),
    })
}
