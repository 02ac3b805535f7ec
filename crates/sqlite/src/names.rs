//! Consumers' names and numbers (law 2).

use crate::row::millis;
use semel_core::ConsumerNumber;
use sqlx::SqliteConnection;
use std::time::Duration;

pub(crate) async fn find(
    conn: &mut SqliteConnection,
    name: &str,
) -> sqlx::Result<Option<(ConsumerNumber, Option<i64>)>> {
    let found: Option<(i32, Option<i64>)> =
        sqlx::query_as(include_str!("../sql/consumer.sql")).bind(name).fetch_optional(conn).await?;
    Ok(found.map(|(number, window)| (ConsumerNumber(number), window)))
}

/// Writes only what is new. One statement is one transaction: two processes that register at once agree on the number.
pub(crate) async fn register(
    conn: &mut SqliteConnection,
    name: &str,
    window: Option<Duration>,
) -> sqlx::Result<ConsumerNumber> {
    let window = window.map(millis);
    if let Some((number, stored)) = find(conn, name).await?
        && (window.is_none() || window == stored)
    {
        return Ok(number);
    }
    sqlx::query(include_str!("../sql/register.sql")).bind(name).bind(window).execute(&mut *conn).await?;
    find(conn, name).await?.map(|(number, _)| number).ok_or(sqlx::Error::RowNotFound)
}
