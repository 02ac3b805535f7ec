//! A dead letter waits again: in one transaction, or not at all (law 28).

use super::Answer;
use crate::convert::{digest, millis};
use crate::error::store_error;
use crate::lane::PostgresLane;
use crate::{transaction, writes};
use semel_core::{ConsumerNumber, Reason, Replayed, Waiting};
use sqlx::postgres::PgConnection;
use std::time::Duration;

pub(super) async fn replay(
    lane: &mut PostgresLane,
    number: i64,
    waiting: &Waiting,
    replaces: Option<i64>,
) -> Answer<Replayed> {
    let failed = |error| store_error("replay a dead letter", error);
    lane.open("; SET LOCAL lock_timeout = '5s'").await.map_err(failed)?;
    let replayed = put_back(&mut lane.conn, number, waiting, replaces).await.map_err(failed)?;
    match replayed {
        Replayed::Waits => transaction::commit(&mut lane.conn).await.map_err(failed)?,
        Replayed::Gone | Replayed::Claimed => transaction::rollback(&mut lane.conn).await.map_err(failed)?,
    }
    Ok(replayed)
}

/// Whether it waits now; anything else is to be rolled back.
async fn put_back(
    conn: &mut PgConnection,
    number: i64,
    waiting: &Waiting,
    replaces: Option<i64>,
) -> sqlx::Result<Replayed> {
    // In the order of their numbers, so that two replays that name each other's letters cannot deadlock.
    let other_first = replaces.filter(|other| *other < number);
    let mut other = match other_first {
        Some(other) => Letter::lock(conn, other).await?,
        None => None,
    };
    let Some(letter) = Letter::lock(conn, number).await? else { return Ok(Replayed::Gone) };
    if let (None, Some(number)) = (other_first, replaces) {
        other = Letter::lock(conn, number).await?;
    }
    let consumer = letter.consumer;
    // Only the letter that has this id's claim may go for it.
    let other = other.filter(|other| other.consumer == consumer && other.owns(&waiting.id));
    if !letter.owns(&waiting.id) {
        let claimed = insert_claim(conn, consumer, waiting).await?;
        match other {
            Some(_) if waits(conn, consumer, &waiting.id).await? => return Ok(Replayed::Claimed),
            Some(_) if !claimed => stamp(conn, consumer, waiting).await?,
            None if !claimed => return Ok(Replayed::Claimed),
            _ => {}
        }
        if let (Some(_), Some(number)) = (&other, replaces) {
            remove(conn, number).await?;
        }
    } else if !insert_claim(conn, consumer, waiting).await? && waits(conn, consumer, &waiting.id).await? {
        return Ok(Replayed::Claimed);
    }
    let now = Waiting { delay: Duration::ZERO, ..waiting.clone() };
    writes::wait(conn, ConsumerNumber(consumer), std::slice::from_ref(&now)).await?;
    remove(conn, number).await?;
    if let Some(id) = letter.id.filter(|id| *id != waiting.id) {
        // Replayed under another id: what has the old one's claim is done with.
        sqlx::query(include_str!("../../sql/release_claim.sql")).bind(consumer).bind(id).execute(conn).await?;
    }
    Ok(Replayed::Waits)
}

struct Letter {
    consumer: i32,
    claims: bool,
    id: Option<String>,
}

impl Letter {
    async fn lock(conn: &mut PgConnection, number: i64) -> sqlx::Result<Option<Letter>> {
        let row: Option<(i32, String, Option<String>)> =
            sqlx::query_as(include_str!("../../sql/replay_lock.sql")).bind(number).fetch_optional(conn).await?;
        Ok(row.map(|(consumer, reason, id)| Letter {
            consumer,
            claims: reason.parse::<Reason>().is_ok_and(Reason::claims),
            id,
        }))
    }

    /// Whether the claim of this id is the letter's.
    fn owns(&self, id: &str) -> bool {
        self.claims && self.id.as_deref() == Some(id)
    }
}

/// Whether there was none.
async fn insert_claim(conn: &mut PgConnection, consumer: i32, waiting: &Waiting) -> sqlx::Result<bool> {
    let inserted = sqlx::query(include_str!("../../sql/replay_claim.sql"))
        .bind(consumer)
        .bind(&waiting.id)
        .bind(digest(&waiting.fingerprint))
        .bind(waiting.fingerprint.version)
        .bind(waiting.time.map(millis))
        .execute(conn)
        .await?;
    Ok(inserted.rows_affected() == 1)
}

async fn stamp(conn: &mut PgConnection, consumer: i32, waiting: &Waiting) -> sqlx::Result<()> {
    sqlx::query(include_str!("../../sql/replay_stamp.sql"))
        .bind(consumer)
        .bind(&waiting.id)
        .bind(digest(&waiting.fingerprint))
        .bind(waiting.fingerprint.version)
        .bind(waiting.time.map(millis))
        .execute(conn)
        .await?;
    Ok(())
}

async fn waits(conn: &mut PgConnection, consumer: i32, id: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar(include_str!("../../sql/waits.sql")).bind(consumer).bind(id).fetch_one(conn).await
}

async fn remove(conn: &mut PgConnection, number: i64) -> sqlx::Result<()> {
    sqlx::query(include_str!("../../sql/remove_dead_letter.sql")).bind(number).execute(conn).await?;
    Ok(())
}
