//! Forgetting what is older than the window (laws 24 to 26).

use semel_core::{ConsumerNumber, SweptStep, Timestamp};
use sqlx::SqliteConnection;

/// Inside an open transaction. The floor and the deletion are one transaction: with one writer nobody can see the one without the other, and
/// a crash leaves both or neither.
pub(crate) async fn step(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    before: Timestamp,
    rows: u32,
) -> sqlx::Result<SweptStep> {
    let page = |sql| sqlx::query(sql).bind(consumer.0).bind(before.as_millis()).bind(rows);
    page(include_str!("../sql/sweep_floor.sql")).execute(&mut *conn).await?;
    let deleted = page(include_str!("../sql/sweep_delete.sql")).execute(&mut *conn).await?.rows_affected();
    Ok(SweptStep { deleted, more: rows > 0 && deleted == u64::from(rows) })
}

pub(crate) async fn floor(conn: &mut SqliteConnection, consumer: ConsumerNumber) -> sqlx::Result<Option<Timestamp>> {
    let floor: Option<i64> =
        sqlx::query_scalar(include_str!("../sql/floor.sql")).bind(consumer.0).fetch_optional(conn).await?;
    Ok(floor.map(Timestamp::from_millis))
}
