//! Dead letters: read and discarded.

use super::Answer;
use crate::error::store_error;
use crate::{convert, envelope};
use semel_core::{DeadFilter, DeadLetter, Discarded, Reason, StoreError, StoredDeadLetter, Timestamp, Trouble};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

pub(super) async fn read(
    conn: &mut PgConnection,
    filter: &DeadFilter,
    after: i64,
    max: usize,
) -> Answer<Vec<StoredDeadLetter>> {
    let DeadFilter { consumer, reason, reference, number } = filter;
    let rows = sqlx::query(include_str!("../../sql/dead_letters.sql"))
        .bind(consumer)
        .bind(reason.map(Reason::as_str))
        .bind(reference.as_deref().map(convert::reference))
        .bind(number)
        .bind(after)
        .bind(i64::try_from(max).unwrap_or(i64::MAX))
        .fetch_all(conn)
        .await
        .map_err(|error| store_error("read dead letters", error))?;
    rows.iter().map(stored).collect()
}

fn stored(row: &PgRow) -> Answer<StoredDeadLetter> {
    let reason: String = row.try_get("reason").map_err(failed)?;
    let reason = reason.parse().map_err(|error: String| {
        StoreError::new(
            Trouble::Schema,
            format!("a dead letter was written by a newer semel: {error}; use the newer program"),
        )
    })?;
    let columns = || -> sqlx::Result<StoredDeadLetter> {
        let instant = |name: &str| row.try_get::<i64, _>(name).map(Timestamp::from_millis);
        Ok(StoredDeadLetter {
            number: row.try_get("number")?,
            consumer: row.try_get("consumer")?,
            seen: u64::try_from(row.try_get::<i64, _>("seen")?).unwrap_or_default(),
            first_at: instant("first_at")?,
            last_at: instant("last_at")?,
            letter: DeadLetter {
                reason,
                id: row.try_get("message_id")?,
                kind: row.try_get("kind")?,
                key: row.try_get("key")?,
                time: row.try_get::<Option<i64>, _>("message_time")?.map(Timestamp::from_millis),
                fingerprint: convert::fingerprint(row.try_get("fingerprint_version")?, row.try_get("fingerprint")?),
                error: row.try_get("error")?,
                attempts: u32::try_from(row.try_get::<i32, _>("attempts")?).unwrap_or_default(),
                envelope: Default::default(),
            },
        })
    };
    let mut stored = columns().map_err(failed)?;
    stored.letter.envelope = envelope::read(row)?;
    Ok(stored)
}

fn failed(error: sqlx::Error) -> StoreError {
    store_error("read a dead letter", error)
}

pub(super) async fn discard(conn: &mut PgConnection, number: i64) -> Answer<Discarded> {
    let query = sqlx::query_scalar(include_str!("../../sql/discard.sql")).bind(number);
    let gone: i64 = query.fetch_one(conn).await.map_err(|error| store_error("discard a dead letter", error))?;
    Ok(if gone == 0 { Discarded::Unknown } else { Discarded::Done })
}
