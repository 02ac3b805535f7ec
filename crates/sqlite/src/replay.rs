//! Putting a dead letter back to work (law 28).

use crate::{dead_letter, inbox, row};
use semel_core::{ConsumerNumber, Reason, Replayed, Timestamp, Waiting};
use sqlx::{Row, SqliteConnection};
use std::time::Duration;

struct Letter {
    consumer: ConsumerNumber,
    reason: Reason,
    id: Option<String>,
}

impl Letter {
    /// Whether the claim of `id` is this letter's own.
    fn claims(&self, id: &str) -> bool {
        self.reason.claims() && self.id.as_deref() == Some(id)
    }
}

/// Inside an open transaction. Whatever it answers but `Waits`, nothing was changed.
pub(crate) async fn replay(
    conn: &mut SqliteConnection,
    number: i64,
    waiting: &Waiting,
    replaces: Option<i64>,
) -> sqlx::Result<Replayed> {
    let Some(letter) = letter(conn, number).await? else {
        return Ok(Replayed::Gone);
    };
    if !claim(conn, letter.consumer, waiting).await? && !letter.claims(&waiting.id) {
        // Somebody has the claim: it passes on only where that message is itself a dead letter, and is given up by name.
        let Some(number) = replaces else { return Ok(Replayed::Claimed) };
        match self::letter(conn, number).await? {
            Some(other) if other.consumer == letter.consumer && other.claims(&waiting.id) => {}
            _ => return Ok(Replayed::Claimed),
        }
        remove(conn, number).await?;
        sqlx::query(include_str!("../sql/take_claim.sql"))
            .bind(letter.consumer.0)
            .bind(&waiting.id)
            .bind(row::stored(waiting.fingerprint))
            .bind(waiting.fingerprint.version)
            .bind(waiting.time.map(Timestamp::as_millis))
            .execute(&mut *conn)
            .await?;
    }
    let due_now = Waiting { delay: Duration::ZERO, ..waiting.clone() };
    inbox::insert(conn, letter.consumer, &[due_now]).await?;
    remove(conn, number).await?;
    if let Some(id) = letter.id.filter(|id| *id != waiting.id) {
        dead_letter::let_go(conn, letter.consumer, &id).await?;
    }
    Ok(Replayed::Waits)
}

async fn letter(conn: &mut SqliteConnection, number: i64) -> sqlx::Result<Option<Letter>> {
    let row = sqlx::query(include_str!("../sql/dead_letter_key.sql")).bind(number).fetch_optional(conn).await?;
    row.map(|row| {
        Ok(Letter {
            consumer: ConsumerNumber(row.try_get("consumer")?),
            reason: dead_letter::reason(&row)?,
            id: row.try_get("message_id")?,
        })
    })
    .transpose()
}

/// Whether the id had no claim before.
async fn claim(conn: &mut SqliteConnection, consumer: ConsumerNumber, waiting: &Waiting) -> sqlx::Result<bool> {
    let done = sqlx::query(include_str!("../sql/claim_one.sql"))
        .bind(consumer.0)
        .bind(&waiting.id)
        .bind(row::stored(waiting.fingerprint))
        .bind(waiting.fingerprint.version)
        .bind(waiting.time.map(Timestamp::as_millis))
        .execute(conn)
        .await?;
    Ok(done.rows_affected() == 1)
}

async fn remove(conn: &mut SqliteConnection, number: i64) -> sqlx::Result<()> {
    sqlx::query(include_str!("../sql/delete_dead_letter.sql")).bind(number).execute(conn).await?;
    Ok(())
}
