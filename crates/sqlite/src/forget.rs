//! Forgetting one message, so that it can be processed again (law 28).

use semel_core::{Forgotten, Reason};
use serde_json::Value;
use sqlx::{Row, SqliteConnection};

/// Inside an open transaction.
pub(crate) async fn forget(conn: &mut SqliteConnection, consumer: &str, id: &str) -> sqlx::Result<Forgotten> {
    let reasons: Value = Reason::ALL.into_iter().filter(|reason| reason.claims()).map(Reason::as_str).collect();
    let found = sqlx::query(include_str!("../sql/forget_look.sql"))
        .bind(consumer)
        .bind(id)
        .bind(reasons.to_string())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(found) = found else { return Ok(Forgotten::Unknown) };
    let is = |column: &str| found.try_get::<bool, _>(column);
    if !is("claimed")? {
        return Ok(Forgotten::Unknown);
    }
    if is("waits")? {
        return Ok(Forgotten::Waits);
    }
    if is("dead")? {
        return Ok(Forgotten::Dead);
    }
    let number: i32 = found.try_get("number")?;
    sqlx::query(include_str!("../sql/forget.sql")).bind(number).bind(id).execute(conn).await?;
    Ok(Forgotten::Done)
}
