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

/// Ends the open transaction without a trace and opens another with a text of ours, in one round trip. The depth stays 1.
pub(crate) async fn begin_anew(conn: &mut PgConnection, text: &str) -> sqlx::Result<()> {
    debug_assert_eq!(depth(conn), 1);
    sqlx::raw_sql(AssertSqlSafe(format!("ROLLBACK; {text}"))).execute(conn).await.map(drop)
}

/// Proves that the open transaction is number `number` and not aborted, commits it, and opens another one, in one round
/// trip: PostgreSQL stops at the first statement that fails. The depth stays 1. A failed proof is [`NOT_OURS`], or 25P02 in
/// an aborted transaction.
pub(crate) async fn end(conn: &mut PgConnection, number: u64) -> sqlx::Result<()> {
    debug_assert_eq!(depth(conn), 1);
    let text = format!("select semel.prove('{number}'); COMMIT; {BEGIN}");
    sqlx::raw_sql(AssertSqlSafe(text)).execute(conn).await.map(drop)
}

/// What `semel.prove` raises in another transaction than the one that holds the claim.
pub(crate) const NOT_OURS: &str = "SM001";
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

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
