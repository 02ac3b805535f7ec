//! What a commit stores beside the handler's work: one statement a sort, over arrays, and none for a sort that is
//! empty.

use crate::convert::{self, clean, count, digest, duration_millis, millis, reference};
use crate::envelope::Columns;
use crate::error::store_error;
use semel_core::{ConsumerNumber, DeadLetter, Reason, Retried, StoreError, VARIANTS_MAX, Waiting, Writes, Written};
use sqlx::postgres::PgConnection;
use std::collections::HashSet;

pub(crate) async fn write(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    writes: &Writes,
) -> Result<Written, StoreError> {
    let Writes { waiting, retried, finished, dead, closed } = writes;
    let mut written = Written::default();
    if !waiting.is_empty() {
        wait(conn, consumer, waiting).await.map_err(|error| store_error("store a waiting message", error))?;
    }
    if !retried.is_empty() {
        retry(conn, consumer, retried).await.map_err(|error| store_error("store the next try of a message", error))?;
    }
    if !finished.is_empty() {
        let query = sqlx::query(include_str!("../sql/finish.sql")).bind(consumer.0).bind(finished);
        query.execute(&mut *conn).await.map_err(|error| store_error("take a message out of the inbox", error))?;
    }
    if !closed.is_empty() {
        let query = sqlx::query(include_str!("../sql/close_attempts.sql")).bind(consumer.0).bind(closed);
        query.execute(&mut *conn).await.map_err(|error| store_error("close an attempt", error))?;
    }
    if !dead.is_empty() {
        written.dead_seen_before =
            bury(conn, consumer, dead).await.map_err(|error| store_error("store a dead letter", error))?;
    }
    Ok(written)
}

/// Also used by a replay.
pub(crate) async fn wait(conn: &mut PgConnection, consumer: ConsumerNumber, waiting: &[Waiting]) -> sqlx::Result<()> {
    let columns = Columns::from_iter(waiting.iter().map(|w| &w.envelope));
    sqlx::query(include_str!("../sql/wait.sql"))
        .bind(consumer.0)
        .bind(waiting.iter().map(|w| &*w.id).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| &*w.kind).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| w.key.as_deref()).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| w.time.map(millis)).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| digest(&w.fingerprint)).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| w.fingerprint.version).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| count(w.attempts)).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| w.holds).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| duration_millis(w.delay)).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| clean(&w.error)).collect::<Vec<_>>())
        .bind(waiting.iter().map(|w| &*w.instance).collect::<Vec<_>>())
        .bind(columns.properties)
        .bind(columns.headers)
        .bind(columns.body)
        .bind(columns.body_length)
        .bind(columns.body_digest)
        .execute(conn)
        .await?;
    Ok(())
}

async fn retry(conn: &mut PgConnection, consumer: ConsumerNumber, retried: &[Retried]) -> sqlx::Result<()> {
    sqlx::query(include_str!("../sql/retry.sql"))
        .bind(consumer.0)
        .bind(retried.iter().map(|r| &*r.id).collect::<Vec<_>>())
        .bind(retried.iter().map(|r| count(r.attempts)).collect::<Vec<_>>())
        .bind(retried.iter().map(|r| duration_millis(r.delay)).collect::<Vec<_>>())
        .bind(retried.iter().map(|r| clean(&r.error)).collect::<Vec<_>>())
        .execute(conn)
        .await?;
    Ok(())
}

/// Whether each had been there before, in order. Usually one statement; letters of one message and reason go one after
/// the other, for each must see the one before: the same again is counted, another variant takes room.
async fn bury(conn: &mut PgConnection, consumer: ConsumerNumber, letters: &[DeadLetter]) -> sqlx::Result<Vec<bool>> {
    let mut before = vec![false; letters.len()];
    let mut left: Vec<(usize, Letter<'_>)> = letters.iter().map(Letter::of).enumerate().collect();
    while !left.is_empty() {
        let mut met = HashSet::new();
        let (round, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, letter)| met.insert(letter.key()));
        left = later;
        let letters: Vec<&Letter<'_>> = round.iter().map(|(_, letter)| letter).collect();
        for ((place, _), seen) in round.iter().zip(bury_round(conn, consumer, &letters).await?) {
            before[*place] = seen;
        }
    }
    Ok(before)
}

struct Letter<'a> {
    letter: &'a DeadLetter,
    reference: String,
}

impl<'a> Letter<'a> {
    fn of(letter: &'a DeadLetter) -> Self {
        Letter { letter, reference: reference(letter.reference()) }
    }

    /// What may stand only once in a statement. An empty reference names no message: there the fingerprint alone tells.
    fn key(&self) -> (Reason, String, Option<[u8; 16]>) {
        let print = self.reference.is_empty().then_some(self.letter.fingerprint.digest);
        (self.letter.reason, self.reference.clone(), print)
    }
}

async fn bury_round(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    letters: &[&Letter<'_>],
) -> sqlx::Result<Vec<bool>> {
    let columns = Columns::from_iter(letters.iter().map(|l| &l.letter.envelope));
    let all = || letters.iter().map(|l| l.letter);
    sqlx::query_scalar(include_str!("../sql/bury.sql"))
        .bind(consumer.0)
        .bind(VARIANTS_MAX)
        .bind(all().map(|l| l.reason.as_str()).collect::<Vec<_>>())
        .bind(letters.iter().map(|l| &*l.reference).collect::<Vec<_>>())
        .bind(all().map(|l| l.id.as_deref().map(clean)).collect::<Vec<_>>())
        .bind(all().map(|l| clean(&l.kind)).collect::<Vec<_>>())
        .bind(all().map(|l| l.key.as_deref().map(clean)).collect::<Vec<_>>())
        .bind(all().map(|l| l.time.map(convert::millis)).collect::<Vec<_>>())
        .bind(all().map(|l| &l.fingerprint.digest[..]).collect::<Vec<_>>())
        .bind(all().map(|l| l.fingerprint.version).collect::<Vec<_>>())
        .bind(all().map(|l| clean(&l.error)).collect::<Vec<_>>())
        .bind(all().map(|l| count(l.attempts)).collect::<Vec<_>>())
        .bind(columns.properties)
        .bind(columns.headers)
        .bind(columns.body)
        .bind(columns.body_length)
        .bind(columns.body_digest)
        .fetch_all(conn)
        .await
}
