//! Waiting messages.

use super::Answer;
use crate::error::store_error;
use crate::{convert, envelope};
use semel_core::{ConsumerNumber, Timestamp, Waiting};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use std::time::Duration;

pub(super) async fn due(conn: &mut PgConnection, consumer: ConsumerNumber, max: usize) -> Answer<Vec<Waiting>> {
    let query =
        sqlx::query(include_str!("../../sql/due.sql")).bind(consumer.0).bind(i64::try_from(max).unwrap_or(i64::MAX));
    let rows = query.fetch_all(conn).await.map_err(|error| store_error("read what is due", error))?;
    rows.iter().map(waiting).collect()
}

fn waiting(row: &PgRow) -> Answer<Waiting> {
    let columns = || -> sqlx::Result<Waiting> {
        let digest: Option<Vec<u8>> = row.try_get("fingerprint")?;
        Ok(Waiting {
            id: row.try_get("message_id")?,
            kind: row.try_get("kind")?,
            key: row.try_get("key")?,
            time: row.try_get::<Option<i64>, _>("message_time")?.map(Timestamp::from_millis),
            fingerprint: convert::fingerprint(row.try_get("fingerprint_version")?, &digest.unwrap_or_default()),
            attempts: u32::try_from(row.try_get::<i32, _>("attempts")?).unwrap_or_default(),
            holds: row.try_get("holds")?,
            delay: Duration::ZERO,
            error: row.try_get("error")?,
            instance: row.try_get("instance")?,
            envelope: Default::default(),
        })
    };
    let waiting = columns().map_err(|error| store_error("read a waiting message", error))?;
    Ok(Waiting { envelope: envelope::read(row)?, ..waiting })
}

pub(super) async fn next_due(conn: &mut PgConnection, consumer: ConsumerNumber) -> Answer<Option<Duration>> {
    let query = sqlx::query_scalar(include_str!("../../sql/next_due.sql")).bind(consumer.0);
    let left: Option<i64> =
        query.fetch_optional(conn).await.map_err(|error| store_error("read what is due next", error))?;
    Ok(left.map(convert::duration))
}

pub(super) async fn held_keys(conn: &mut PgConnection, consumer: ConsumerNumber, keys: &[&str]) -> Answer<Vec<String>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let query = sqlx::query_scalar(include_str!("../../sql/held_keys.sql")).bind(consumer.0).bind(keys);
    query.fetch_all(conn).await.map_err(|error| store_error("read which keys are held", error))
}
