//! The published suite for stores, on SQLite.

use semel_contracts::store::{Differences, Fixture};
use semel_sqlite::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

struct OnSqlite;

fn path(directory: &TempDir) -> PathBuf {
    directory.path().join("contract.db")
}

async fn connect(directory: &TempDir) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path(directory)).connect().await.expect("connect")
}

impl Fixture for OnSqlite {
    type Store = Sqlite;
    type Database = TempDir;
    type Error = sqlx::Error;

    const DIFFERENCES: Differences = Differences {
        swallowed_error_poisons: false,
        prevents_raw_commit: true,
        writes_in_parallel: false,
        locks_rows: false,
        defers_constraints: true,
    };

    async fn database(&self) -> TempDir {
        tempfile::tempdir().expect("a directory")
    }

    fn store(&self, directory: &TempDir, _lanes: usize) -> Sqlite {
        Sqlite::open(path(directory)).expect("a path")
    }

    async fn execute(conn: &mut SqliteConnection, sql: &str) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)
    }

    async fn write(conn: &mut SqliteConnection, v: &str) -> sqlx::Result<()> {
        sqlx::query("insert into effects (v) values ($1)").bind(v).execute(conn).await.map(drop)
    }

    async fn leak(conn: &mut SqliteConnection) -> sqlx::Result<()> {
        std::mem::forget(conn.begin().await?);
        Ok(())
    }

    async fn read(directory: &TempDir, sql: &str) -> Vec<String> {
        let mut conn = connect(directory).await;
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut conn).await.expect("read")
    }

    async fn age(directory: &TempDir, by: Duration) {
        let mut conn = connect(directory).await;
        let sql = "update semel_claim set claimed_at = claimed_at - $1";
        sqlx::query(sql).bind(i64::try_from(by.as_millis()).expect("short")).execute(&mut conn).await.expect("age");
    }

    /// One, or none: a checkpoint of this kind is busy while somebody writes, or reads what is not in the main file yet.
    async fn open_transactions(directory: &TempDir) -> Option<u64> {
        let options = SqliteConnectOptions::new().filename(path(directory)).busy_timeout(Duration::ZERO);
        let mut conn = options.connect().await.expect("connect");
        let busy: i64 = match sqlx::query_scalar("pragma wal_checkpoint(truncate)").fetch_one(&mut conn).await {
            Ok(busy) => busy,
            // The last connection of somebody else is closing, and cleans up.
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("5") => 1,
            Err(error) => panic!("checkpoint: {error}"),
        };
        u64::try_from(busy).ok()
    }

    async fn fake_newer_schema(directory: &TempDir) -> bool {
        let mut conn = connect(directory).await;
        sqlx::query("insert into semel_migration (version) values (1000)").execute(&mut conn).await.is_ok()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_passes_the_contract_of_stores() {
    semel_contracts::store::run(&OnSqlite).await;
}
