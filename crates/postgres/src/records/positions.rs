//! How far sources were read.

use super::Answer;
use crate::error::store_error;
use semel_core::{ConsumerNumber, Positions};
use sqlx::postgres::PgConnection;

pub(super) async fn read(conn: &mut PgConnection, consumer: ConsumerNumber, source: &str) -> Answer<Positions> {
    let query = sqlx::query_as(include_str!("../../sql/positions.sql")).bind(consumer.0).bind(source);
    let rows: Vec<(String, String)> =
        query.fetch_all(conn).await.map_err(|error| store_error("read positions", error))?;
    Ok(rows.into_iter().collect())
}

pub(super) async fn save(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    source: &str,
    positions: &Positions,
) -> Answer<()> {
    if positions.is_empty() {
        return Ok(());
    }
    // Sorted by unit, as maps are: two processes lock the rows in one order (law 4).
    let (units, places): (Vec<&str>, Vec<&str>) = positions.iter().map(|(unit, place)| (&**unit, &**place)).unzip();
    let query = sqlx::query(include_str!("../../sql/save_positions.sql"))
        .bind(consumer.0)
        .bind(source)
        .bind(units)
        .bind(places);
    query.execute(conn).await.map_err(|error| store_error("save positions", error))?;
    Ok(())
}
