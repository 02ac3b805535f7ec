//! Retention: what is old enough goes, and the floor rises before it does (laws 24–26).

use super::Answer;
use crate::convert::duration_millis;
use crate::error::store_error;
use semel_core::{ConsumerNumber, SweptStep, Timestamp};
use sqlx::postgres::PgConnection;
use std::time::Duration;

const DOING: &str = "sweep old claims";

/// Two transactions of one statement each: whoever claims an id anew, because its claim has gone, finds the floor that
/// covers it.
pub(super) async fn step(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    window: Duration,
    rows: u32,
) -> Answer<SweptStep> {
    let window = duration_millis(window);
    let old: Option<Vec<String>> = sqlx::query_scalar(include_str!("../../sql/sweep_look.sql"))
        .bind(consumer.0)
        .bind(window)
        .bind(i64::from(rows))
        .fetch_one(&mut *conn)
        .await
        .map_err(|error| store_error(DOING, error))?;
    let Some(old) = old else { return Ok(SweptStep::default()) };
    let deleted =
        sqlx::query(include_str!("../../sql/sweep.sql")).bind(consumer.0).bind(window).bind(&old).execute(conn).await;
    let deleted = deleted.map_err(|error| store_error(DOING, error))?.rows_affected();
    Ok(SweptStep { deleted, more: old.len() as u64 == u64::from(rows) })
}

pub(super) async fn floor(conn: &mut PgConnection, consumer: ConsumerNumber) -> Answer<Option<Timestamp>> {
    let query = sqlx::query_scalar(include_str!("../../sql/floor.sql")).bind(consumer.0);
    let millis: Option<i64> = query.fetch_optional(conn).await.map_err(|error| store_error("read the floor", error))?;
    Ok(millis.map(Timestamp::from_millis))
}
