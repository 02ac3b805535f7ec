//! One connection, and the transaction of a message on it.

use crate::error::{self, Place};
use crate::guard::{Broken, Guard};
use crate::{attempts, claim, dead_letter, inbox, schema, transaction};
use semel_core::{Claimed, Claims, ConsumerNumber, Lane, StoreError, Timestamp, Trouble, Writes, Written};
use sqlx::SqliteConnection;
use std::sync::Arc;
use std::time::Duration;

/// A connection to the file. Dropped, it stops what runs on it and closes, and SQLite rolls back.
#[derive(Debug)]
pub struct SqliteLane {
    pub(crate) conn: SqliteConnection,
    pub(crate) place: Arc<Place>,
    pub(crate) guard: Arc<Guard>,
    /// Whose messages the open transaction claimed.
    pub(crate) consumer: Option<ConsumerNumber>,
}

impl Drop for SqliteLane {
    fn drop(&mut self) {
        self.guard.leave();
    }
}

impl Lane for SqliteLane {
    type Conn = SqliteConnection;

    /// `wait` has no use here: with one writer there is no twin in flight, only the turn to be waited for (`busy_timeout`).
    async fn begin(&mut self, claims: &Claims<'_>) -> Result<Claimed, StoreError> {
        self.consumer = Some(claims.consumer);
        let begun = self.open(Some(claims.time_limit)).await;
        self.told(begun).await?;
        if claims.keys.is_empty() {
            return Ok(Claimed::default());
        }
        let claimed = claim::claim(&mut self.conn, claims.consumer, claims.keys).await;
        let vanished = || StoreError::new(Trouble::Rerun, "a claim vanished while it was read");
        self.told(claimed).await?.ok_or_else(vanished)
    }

    fn conn(&mut self) -> &mut SqliteConnection {
        &mut self.conn
    }

    async fn commit(&mut self, writes: &Writes) -> Result<Written, StoreError> {
        self.guard.handled();
        let proved = !semel_core::planted("no-proof");
        if proved {
            self.unbroken()?;
        }
        let written = self.write(writes).await;
        let written = self.told(written).await?;
        if proved {
            self.prove().await?;
        }
        self.end().await?;
        Ok(written)
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        self.guard.handled();
        if self.guard.broken().is_some() {
            // SQLite's transaction is over and sqlx still counts it: there must be one to roll back. Refused where a handler began one.
            let _ = sqlx::raw_sql("BEGIN").execute(&mut self.conn).await;
        }
        let ended = transaction::rollback(&mut self.conn).await;
        self.told(ended).await?;
        self.guard.free();
        Ok(())
    }

    /// SQLite's clock is this machine's.
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

impl SqliteLane {
    /// Opens a transaction in which no COMMIT but that of [`end`](Self::end) goes through.
    pub(crate) async fn open(&mut self, time_limit: Option<Duration>) -> sqlx::Result<()> {
        transaction::begin(&mut self.conn).await?;
        self.guard.open(time_limit);
        Ok(())
    }

    async fn write(&mut self, writes: &Writes) -> sqlx::Result<Written> {
        let mut written = Written::default();
        let Some(consumer) = self.consumer else { return Ok(written) };
        let Writes { waiting, retried, finished, dead, closed } = writes;
        if !waiting.is_empty() {
            inbox::insert(&mut self.conn, consumer, waiting).await?;
        }
        for retried in retried {
            inbox::retry(&mut self.conn, consumer, retried).await?;
        }
        if !finished.is_empty() {
            inbox::finish(&mut self.conn, consumer, finished).await?;
        }
        for letter in dead {
            written.dead_seen_before.push(dead_letter::insert(&mut self.conn, consumer, letter).await?);
        }
        if !closed.is_empty() {
            attempts::close(&mut self.conn, consumer, closed).await?;
        }
        Ok(written)
    }

    /// That this very transaction lives and holds its claim (law 11): it was begun here, and since then nobody rolled it back or committed
    /// it, for the hooks would know.
    async fn prove(&mut self) -> Result<(), StoreError> {
        match transaction::depth(&mut self.conn).await.map_err(|error| self.place.error(error))? {
            0 => {
                return Err(hid(
                    "the handler ended the transaction itself: its work is undone; semel commits after the handler",
                ));
            }
            1 => {}
            // sqlx would release the inner savepoint and answer Ok, with nothing committed.
            _ => return Err(hid("the handler left a nested transaction open: commit it, or drop it to undo it")),
        }
        self.unbroken()
    }

    pub(crate) fn unbroken(&self) -> Result<(), StoreError> {
        match self.guard.broken() {
            None => Ok(()),
            Some(Broken::Commit) => Err(hid(
                "the handler ended the transaction itself (COMMIT): its work is undone; semel commits after the handler",
            )),
            Some(Broken::Rollback) => Err(hid(
                "the handler hid a database error: the transaction was rolled back while it ran (a ROLLBACK, an `or rollback` clause, \
                 a full disk, an interrupt); return the error instead",
            )),
        }
    }

    /// Commits. The commit hook looks once more, at the moment of the commit itself.
    pub(crate) async fn end(&mut self) -> Result<(), StoreError> {
        self.guard.ending();
        let ended = transaction::commit(&mut self.conn).await;
        if let Err(error) = ended {
            // A full disk rolls back by itself, and so does the hook that refuses a COMMIT: only that one answers with a constraint.
            if error::code(&error).is_some_and(|code| code & 0xff == error::CONSTRAINT) {
                self.unbroken()?;
            }
            if error::code(&error) == Some(error::CONSTRAINT_FOREIGNKEY) {
                let message =
                    "rows were left that refer to missing ones (a deferred foreign key): nothing was committed";
                return Err(StoreError {
                    trouble: Trouble::Other,
                    message: message.to_owned(),
                    source: Some(Box::new(error)),
                });
            }
            return Err(self.place.error(error));
        }
        self.guard.free();
        Ok(())
    }

    /// Puts a driver's error into words. "No such table" has no code of its own, so it is looked up: are semel's tables those that this
    /// program knows?
    pub(crate) async fn told<T>(&mut self, result: sqlx::Result<T>) -> Result<T, StoreError> {
        let error = match result {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if error::code(&error) == Some(error::ERROR)
            && let Ok(Err(told)) = schema::check(&mut self.conn).await
        {
            return Err(StoreError { source: Some(Box::new(error)), ..told });
        }
        let schema = error::code(&error) == Some(error::ERROR);
        let told = self.place.error(error);
        // The version is right and the tables are not: only a person can help.
        Err(if schema { StoreError { trouble: Trouble::Schema, ..told } } else { told })
    }
}

fn hid(message: &str) -> StoreError {
    StoreError::new(Trouble::Other, message)
}
