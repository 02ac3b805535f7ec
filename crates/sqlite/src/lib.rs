//! The SQLite store of semel: claims and business data in one embedded file.
//!
//! ```no_run
//! # fn main() -> Result<(), semel_core::StoreError> {
//! let store = semel_sqlite::Sqlite::open("tea-shop.db")?;
//! # Ok(()) }
//! ```
//!
//! # What it does to the file
//!
//! * Its tables begin with `semel_`; [`Records::migrate`](semel_core::Records::migrate) makes them, [`SCHEMA`] is their text.
//! * The file is switched to WAL, and stays so; every transaction is on the disk before a message is acknowledged (`synchronous = FULL`).
//!   Where `journal_mode` does not answer `wal` the store does not start (law 6).
//! * There is one writer at a time. Transactions open with `BEGIN IMMEDIATE`, so a handler never sees `SQLITE_BUSY`; other processes may
//!   use the file at the same time, and wait their turn.
//!
//! # What a handler is lent
//!
//! A [`sqlx::SqliteConnection`] inside the open transaction. A nested `begin` is a savepoint. A `COMMIT` of the handler's own is refused by
//! SQLite's commit hook, and every rollback is noticed, so that a message is acknowledged only where its own claim was committed (law 11).
//! A statement that fails and whose error the handler swallows is undone by SQLite alone, and the transaction goes on, as SQLite does.
//! Foreign keys are enforced, as everywhere in sqlx; see [`Sqlite::foreign_keys`]. The hooks are the connection's: a handler that sets a
//! commit, rollback or progress hook of its own (`lock_handle`) takes this protection away.
//!
//! # What a message costs
//!
//! Each statement is a trip to SQLite's thread, 5 to 10 µs. A batch takes three of semel's (`BEGIN IMMEDIATE`, the claim, `COMMIT`) and one
//! more where some of its ids are known; the proof of law 11 takes none. [`handler::SqlHandler`] takes one to show the batch, and one for
//! each text of its author's.

mod attempts;
mod claim;
mod connect;
mod dead_letter;
mod envelope;
mod error;
mod explain;
mod forget;
mod guard;
pub mod handler;
mod inbox;
mod lane;
mod names;
mod positions;
mod records;
mod replay;
mod row;
mod schema;
mod status;
mod store;
mod sweep;
mod transaction;

pub use lane::SqliteLane;
pub use schema::SCHEMA;
pub use store::Sqlite;
