//! One line a consumer.

use crate::{dead_letter, row};
use semel_core::{ConsumerStatus, Reason};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};
use std::collections::HashMap;

/// Inside a transaction, so that the counts fit each other.
pub(crate) async fn status(conn: &mut SqliteConnection) -> sqlx::Result<Vec<ConsumerStatus>> {
    let consumers = sqlx::query(include_str!("../sql/status.sql")).fetch_all(&mut *conn).await?;
    let mut dead: HashMap<i32, Vec<(Reason, u64)>> = HashMap::new();
    for row in sqlx::query(include_str!("../sql/status_dead.sql")).fetch_all(&mut *conn).await? {
        dead.entry(row.try_get("consumer")?).or_default().push((dead_letter::reason(&row)?, count(&row, "letters")?));
    }
    let mut positions: HashMap<i32, Vec<(String, String, String)>> = HashMap::new();
    for row in sqlx::query(include_str!("../sql/status_positions.sql")).fetch_all(&mut *conn).await? {
        let position = (row.try_get("source")?, row.try_get("unit")?, row.try_get("position")?);
        positions.entry(row.try_get("consumer")?).or_default().push(position);
    }
    let mut instances: HashMap<i32, Vec<_>> = HashMap::new();
    for row in sqlx::query(include_str!("../sql/status_instances.sql")).fetch_all(&mut *conn).await? {
        let instance = (row.try_get("id")?, row::duration(row.try_get("silent_ms")?));
        instances.entry(row.try_get("consumer")?).or_default().push(instance);
    }
    let line = |row: &SqliteRow| {
        let number: i32 = row.try_get("number")?;
        let mut dead = dead.remove(&number).unwrap_or_default();
        dead.sort_by_key(|(reason, _)| Reason::ALL.iter().position(|known| known == reason));
        Ok(ConsumerStatus {
            consumer: row.try_get("name")?,
            window: row.try_get::<Option<i64>, _>("window_ms")?.map(row::duration),
            claims: count(row, "claims")?,
            oldest_claim: row::time(row, "oldest_claim")?,
            waiting: count(row, "waiting")?,
            due: count(row, "due")?,
            dead,
            floor: row::time(row, "floor")?,
            positions: positions.remove(&number).unwrap_or_default(),
            instances: instances.remove(&number).unwrap_or_default(),
        })
    };
    consumers.iter().map(line).collect()
}

fn count(row: &SqliteRow, column: &str) -> sqlx::Result<u64> {
    Ok(row.try_get::<i64, _>(column)?.max(0).unsigned_abs())
}
