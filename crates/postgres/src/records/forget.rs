//! Forgetting a message that is done, so that its next copy is processed (law 28).

use super::{Answer, names};
use crate::error::store_error;
use crate::lane::PostgresLane;
use crate::transaction;
use semel_core::{Forgotten, Reason};

pub(super) async fn forget(lane: &mut PostgresLane, consumer: &str, id: &str) -> Answer<Forgotten> {
    if consumer.contains('\0') || id.contains('\0') {
        return Ok(Forgotten::Unknown);
    }
    let Some(number) = names::number(&mut lane.conn, consumer).await? else { return Ok(Forgotten::Unknown) };
    forget_claim(lane, number.0, id).await.map_err(|error| store_error("forget a message", error))
}

async fn forget_claim(lane: &mut PostgresLane, consumer: i32, id: &str) -> sqlx::Result<Forgotten> {
    lane.open("; SET LOCAL lock_timeout = '5s'").await?;
    let conn = &mut lane.conn;
    let claim: Option<bool> = sqlx::query_scalar(include_str!("../../sql/forget_lock.sql"))
        .bind(consumer)
        .bind(id)
        .fetch_optional(&mut *conn)
        .await?;
    let reasons: Vec<&str> = Reason::ALL.into_iter().filter(|reason| reason.claims()).map(Reason::as_str).collect();
    let (waits, dead): (bool, bool) = sqlx::query_as(include_str!("../../sql/forget_state.sql"))
        .bind(consumer)
        .bind(id)
        .bind(reasons)
        .fetch_one(&mut *conn)
        .await?;
    let verdict = match (claim, waits, dead) {
        (None, ..) => Forgotten::Unknown,
        (Some(_), true, _) => Forgotten::Waits,
        (Some(_), false, true) => Forgotten::Dead,
        (Some(_), false, false) => Forgotten::Done,
    };
    if verdict != Forgotten::Done {
        transaction::rollback(conn).await?;
        return Ok(verdict);
    }
    sqlx::query(include_str!("../../sql/forget.sql")).bind(consumer).bind(id).execute(&mut *conn).await?;
    transaction::commit(conn).await?;
    Ok(verdict)
}
