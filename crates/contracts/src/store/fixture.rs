//! What a store's author writes so that the suite can run on the store.

use semel_core::Store;
use std::future::Future;
use std::time::Duration;

/// What handlers are lent by the store of a fixture.
pub type Conn<F> = <<F as Fixture>::Store as Store>::Conn;

/// A way to databases on which the suite may do what it likes.
///
/// The SQL that the suite sends is plain: `create table`, `insert`, `update`, `select`, `commit`, `rollback`, `begin`, `savepoint`, with text
/// and whole numbers. Its tables are made by the suite itself, as a setup of [`Records::migrate`](semel_core::Records::migrate).
pub trait Fixture: Send + Sync + 'static {
    /// The store.
    type Store: Store;
    /// One database. Dropping it may remove it.
    type Database: Send + Sync + 'static;
    /// The driver's error, e.g. `sqlx::Error`.
    type Error: std::error::Error + Send + Sync + 'static;

    /// What this store does otherwise than others.
    const DIFFERENCES: Differences;

    /// A new, empty database.
    fn database(&self) -> impl Future<Output = Self::Database> + Send;

    /// A store on `database` that opens at most `lanes` lanes at once, or fewer where it cannot do so many.
    fn store(&self, database: &Self::Database, lanes: usize) -> Self::Store;

    /// Sends SQL text through a handler's connection: one statement or several, as they stand, and no prepared ones, as a handler's author would
    /// who thinks that a `COMMIT` is a good idea.
    fn execute(conn: &mut Conn<Self>, sql: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Writes an effect in the way that the store recommends: `insert into effects (v) values (?)`, with `v` bound.
    fn write(conn: &mut Conn<Self>, v: &str) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Begins a nested transaction in the driver's way and forgets it: neither committed nor rolled back, e.g.
    /// `std::mem::forget(conn.begin().await?)`.
    fn leak(conn: &mut Conn<Self>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// The rows of a query with one column of text, asked on a connection of its own that has nothing to do with the store.
    fn read(database: &Self::Database, sql: &str) -> impl Future<Output = Vec<String>> + Send;

    /// Makes every claim older: moves `claimed_at` of all claims back by this much, behind the store's back.
    fn age(database: &Self::Database, by: Duration) -> impl Future<Output = ()> + Send;

    /// How many connections are inside a transaction at this moment, as far as the database can tell. `None`: it cannot.
    fn open_transactions(_database: &Self::Database) -> impl Future<Output = Option<u64>> + Send {
        std::future::ready(None)
    }

    /// Makes the database look as if a newer semel had migrated it. `false`: this fixture cannot.
    fn fake_newer_schema(_database: &Self::Database) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }
}

/// What stores may do differently without breaking a law. Each one is the database's nature; the suite expects exactly what is said here, so
/// that a store cannot excuse a fault with it.
#[derive(Debug, Clone, Copy)]
pub struct Differences {
    /// A statement that fails ends the whole transaction, also where the handler swallows the error: PostgreSQL. Elsewhere only the statement
    /// is undone, and the transaction is good: SQLite.
    pub swallowed_error_poisons: bool,
    /// A `COMMIT` that a handler sends as text is stopped before it commits: SQLite, by its commit hook. Elsewhere it commits claim and
    /// effects together and is found out before the real end: then a second copy is a duplicate.
    pub prevents_raw_commit: bool,
    /// Two transactions that write different rows can be open at once.
    pub writes_in_parallel: bool,
    /// Transactions that write the same row wait for each other, and two that wait crosswise are a deadlock, which the database ends. Means
    /// nothing where writes are not in parallel.
    pub locks_rows: bool,
    /// A foreign key that is `deferrable initially deferred` is looked at in COMMIT.
    pub defers_constraints: bool,
}
