//! sqlx's depth counter, which `sqlx` does not re-export: a nested `begin` of the handler is a savepoint only while
//! sqlx knows that a transaction is open. A raw BEGIN would let that `begin()…commit()` commit the outer transaction.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Database, Postgres, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

type Manager = <Postgres as Database>::TransactionManager;

/// Opens a transaction with a text of ours: one simple query, one round trip.
pub(crate) async fn begin(conn: &mut PgConnection, text: String) -> sqlx::Result<()> {
    Manager::begin(conn, Some(AssertSqlSafe(text).into_sql_str())).await
}

/// 1: the outer transaction alone.
pub(crate) fn depth(conn: &PgConnection) -> usize {
    Manager::get_transaction_depth(conn)
}

/// Only at depth 1: deeper, sqlx would release a savepoint and answer Ok.
pub(crate) async fn commit(conn: &mut PgConnection) -> sqlx::Result<()> {
    debug_assert_eq!(depth(conn), 1);
    Manager::commit(conn).await
}

/// Rolls back everything, also what a handler left nested.
pub(crate) async fn rollback(conn: &mut PgConnection) -> sqlx::Result<()> {
    while depth(conn) > 0 {
        Manager::rollback(conn).await?;
    }
    Ok(())
}
