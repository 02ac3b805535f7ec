//! The Store contract. Core says what must be true; a store says it in SQL.

use crate::claim::{Claimed, Claims};
use crate::dead_letter::DeadLetter;
use crate::inbox::{Retried, Waiting};
use crate::records::Records;
use crate::time::Timestamp;
use std::error::Error as StdError;
use std::future::Future;

/// A database that holds claims beside the business data.
///
/// [`Postgres`] and [`Sqlite`] are semel's; others can be written against this trait and proved with the suite in `semel-contracts`.
///
/// [`Postgres`]: https://docs.rs/semel-postgres
/// [`Sqlite`]: https://docs.rs/semel-sqlite
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a semel store",
    label = "not a store",
    note = "`Tx<'_, Postgres>` means `semel::Postgres`, not `sqlx::Postgres`: check the `use` lines"
)]
pub trait Store: Sized + Send + Sync + 'static {
    /// What handlers are lent, e.g. `sqlx::PgConnection`. It must offer no way to end the outer transaction by type.
    type Conn: Send + 'static;
    /// One connection.
    type Lane: Lane<Conn = Self::Conn>;

    /// Opens one connection, outside any pool: its lane owns it.
    fn connect(&self) -> impl Future<Output = Result<Self::Lane, StoreError>> + Send;

    /// How many lanes may be open at once; SQLite says 1.
    fn lanes_max(&self) -> usize;

    /// Reads an error that a *handler* returned: its chain may hold the driver's error. By code, never by text (law 3).
    fn trouble(error: &(dyn StdError + 'static)) -> Trouble;
}

/// One connection, owned by whoever drives it.
///
/// Core's side of the contract: after an `Err`, or when one of these futures was dropped before its end, the lane is dropped and never used
/// again. The store's side: **dropping a lane, at any moment, closes its connection** (never hands it back to a pool), and so rolls back.
pub trait Lane: Records + Send + 'static {
    /// What handlers are lent.
    type Conn: Send + 'static;

    /// Opens a transaction and claims, as its first statement (law 1). `Busy` when a twin holds a claim for too long (law 8).
    fn begin(&mut self, claims: &Claims<'_>) -> impl Future<Output = Result<Claimed, StoreError>> + Send;

    /// Only between `begin` and `commit` or `rollback`.
    fn conn(&mut self) -> &mut Self::Conn;

    /// Stores the writes, proves that this very transaction still lives and holds its claim (law 11), and commits.
    /// `Unreachable` means that the outcome is unknown (law 7).
    fn commit(&mut self, writes: &Writes) -> impl Future<Output = Result<Written, StoreError>> + Send;

    /// Ends the transaction without a trace.
    fn rollback(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The database's clock now (law 23), by the offset that was learned when this lane connected. No round trip.
    fn now(&self) -> Timestamp;
}

/// Everything core wants stored by the same commit.
#[derive(Debug, Default)]
pub struct Writes {
    /// Messages that were claimed in this transaction and wait from now on.
    pub waiting: Vec<Waiting>,
    /// Waiting messages that failed and go on waiting.
    pub retried: Vec<Retried>,
    /// Ids of waiting messages that are done, or became dead letters: they leave the inbox, and their claim is stamped anew (law 25).
    pub finished: Vec<String>,
    /// Dead letters, after everything else.
    pub dead: Vec<DeadLetter>,
    /// Ids whose open attempt is over.
    pub closed: Vec<String>,
}

impl Writes {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let Writes { waiting, retried, finished, dead, closed } = self;
        waiting.is_empty() && retried.is_empty() && finished.is_empty() && dead.is_empty() && closed.is_empty()
    }
}

/// What a commit learned while writing.
#[derive(Debug, Default)]
pub struct Written {
    /// For each dead letter of the writes, in order: whether the same one had been there before.
    pub dead_seen_before: Vec<bool>,
}

/// What core must know about an error; the store decides, core acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Deadlock, serialization failure: run the whole body again, not an attempt (law 3).
    Rerun,
    /// A twin holds the claim (law 8), or a lock was not to be had in time.
    Busy,
    /// Nothing reaches the store: no attempt is counted (law 14).
    Unreachable,
    /// The schema is missing, or newer than this program (law 32): only a person can help.
    Schema,
    /// Everything else.
    Other,
}

/// An error of a store.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// What core makes of it.
    pub trouble: Trouble,
    /// What happened, and what to do next. No password, no payload.
    pub message: String,
    /// The driver's error.
    pub source: Option<Box<dyn StdError + Send + Sync>>,
}

impl StoreError {
    /// An error with a sentence and no source.
    pub fn new(trouble: Trouble, message: impl Into<String>) -> Self {
        StoreError { trouble, message: message.into(), source: None }
    }
}
