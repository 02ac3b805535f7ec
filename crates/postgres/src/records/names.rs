//! Consumers' names and their numbers (law 2).

use super::Answer;
use crate::convert::duration_millis;
use crate::error::store_error;
use crate::schema;
use semel_core::{ConsumerNumber, StoreError, Trouble};
use sqlx::postgres::PgConnection;
use std::time::Duration;

const DOING: &str = "register a consumer";

pub(super) async fn number(conn: &mut PgConnection, name: &str) -> Answer<Option<ConsumerNumber>> {
    let number = sqlx::query_scalar(include_str!("../../sql/consumer.sql")).bind(name).fetch_optional(conn).await;
    Ok(number.map_err(|error| store_error("look up a consumer", error))?.map(ConsumerNumber))
}

/// Each statement commits by itself, so nothing is locked while others register too. Registering again writes nothing.
pub(super) async fn register(conn: &mut PgConnection, name: &str, window: Option<Duration>) -> Answer<ConsumerNumber> {
    let window = window.map(duration_millis);
    let (version, found, stored): (Option<i32>, Option<i32>, Option<i64>) =
        sqlx::query_as(include_str!("../../sql/register_look.sql"))
            .bind(name)
            .fetch_one(&mut *conn)
            .await
            .map_err(|error| store_error(DOING, error))?;
    schema::check_version(version.unwrap_or(0))?;
    let number = match found {
        Some(number) => ConsumerNumber(number),
        None => insert(conn, name, window).await?,
    };
    if window.is_some() && window != stored {
        let query = sqlx::query(include_str!("../../sql/register_window.sql")).bind(number.0).bind(window);
        query.execute(conn).await.map_err(|error| store_error("store a consumer's window", error))?;
    }
    Ok(number)
}

async fn insert(conn: &mut PgConnection, name: &str, window: Option<i64>) -> Answer<ConsumerNumber> {
    let inserted: Option<i32> = sqlx::query_scalar(include_str!("../../sql/register.sql"))
        .bind(name)
        .bind(window)
        .fetch_optional(&mut *conn)
        .await
        .map_err(|error| store_error(DOING, error))?;
    match inserted {
        Some(number) => Ok(ConsumerNumber(number)),
        // Another process was first, and has committed: names are never removed.
        None => number(conn, name).await?.ok_or_else(|| {
            StoreError::new(Trouble::Rerun, format!("the consumer {name:?} was removed while it was registered"))
        }),
    }
}
