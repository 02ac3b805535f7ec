//! Where a consumer has come in its sources.

use semel_core::{ConsumerNumber, Positions};
use serde_json::Value;
use sqlx::SqliteConnection;

pub(crate) async fn read(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    source: &str,
) -> sqlx::Result<Positions> {
    let rows: Vec<(String, String)> =
        sqlx::query_as(include_str!("../sql/positions.sql")).bind(consumer.0).bind(source).fetch_all(conn).await?;
    Ok(rows.into_iter().collect())
}

pub(crate) async fn save(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    source: &str,
    positions: &Positions,
) -> sqlx::Result<()> {
    let pairs: Value =
        positions.iter().map(|(unit, position)| Value::from(vec![unit.as_str(), position.as_str()])).collect();
    sqlx::query(include_str!("../sql/save_positions.sql"))
        .bind(consumer.0)
        .bind(source)
        .bind(pairs.to_string())
        .execute(conn)
        .await?;
    Ok(())
}
