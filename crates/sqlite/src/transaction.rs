//! sqlx's own count of open transactions. Through it a handler's nested `begin` becomes a savepoint; with a BEGIN of our own beside it the
//! handler's `commit` would end the outer transaction. `TransactionManager` is not meant for users of sqlx, so it is named here alone; the
//! test `a_nested_begin_is_a_savepoint` notices when it changes.

use sqlx::sqlite::SqliteTransactionManager as Manager;
use sqlx::{Connection, SqlStr, SqliteConnection};
use sqlx_core::transaction::TransactionManager;

/// Takes the write lock at once: a transaction that began by reading could not wait for it (SQLITE_BUSY_SNAPSHOT).
pub(crate) async fn begin(conn: &mut SqliteConnection) -> sqlx::Result<()> {
    Manager::begin(conn, Some(SqlStr::from_static("BEGIN IMMEDIATE"))).await
}

/// A transaction that only reads, and sees one state of the database.
pub(crate) async fn begin_reading(conn: &mut SqliteConnection) -> sqlx::Result<()> {
    Manager::begin(conn, Some(SqlStr::from_static("BEGIN"))).await
}

pub(crate) async fn commit(conn: &mut SqliteConnection) -> sqlx::Result<()> {
    Manager::commit(conn).await
}

/// Rolls back whatever is nested in it, too.
pub(crate) async fn rollback(conn: &mut SqliteConnection) -> sqlx::Result<()> {
    while depth(conn).await? > 0 {
        Manager::rollback(conn).await?;
    }
    Ok(())
}

/// How many transactions are open, savepoints included. The rollback of a nested transaction that was just dropped may still be on its way
/// to SQLite's thread: the number is read again behind it before it counts.
pub(crate) async fn depth(conn: &mut SqliteConnection) -> sqlx::Result<usize> {
    let depth = Manager::get_transaction_depth(conn);
    if depth <= 1 {
        return Ok(depth);
    }
    conn.ping().await?;
    Ok(Manager::get_transaction_depth(conn))
}
