//! The published suite for stores, on PostgreSQL.

use semel_contracts::store::{Differences, Fixture};
use semel_postgres::Postgres;
use semel_tests::postgres::{TempDatabase, database};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// To make a database and to drop it takes longer than most checks: so they are emptied and used again.
struct OnPostgres {
    free: Arc<Mutex<Vec<TempDatabase>>>,
}

/// A database, and a connection to it that the store knows nothing of.
struct Database {
    conn: tokio::sync::Mutex<PgConnection>,
    url: String,
    temporary: Option<TempDatabase>,
    free: Arc<Mutex<Vec<TempDatabase>>>,
}

impl Drop for Database {
    fn drop(&mut self) {
        self.free.lock().expect("no panic").extend(self.temporary.take());
    }
}

/// Ends whoever is left from the last check. Deadlocks are found after 1 s, where another time is not allowed.
const EMPTY: &str = "
    select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid();
    drop schema if exists semel cascade;
    drop schema public cascade;
    create schema public;
    do $$ begin
        execute format('alter database %I set deadlock_timeout = 50', current_database());
    exception when insufficient_privilege then null; end $$;
";

impl Fixture for OnPostgres {
    type Store = Postgres;
    type Database = Database;
    type Error = sqlx::Error;

    const DIFFERENCES: Differences = Differences {
        swallowed_error_poisons: true,
        prevents_raw_commit: false,
        writes_in_parallel: true,
        locks_rows: true,
        defers_constraints: true,
    };

    async fn database(&self) -> Database {
        let used = self.free.lock().expect("no panic").pop();
        let temporary = match used {
            Some(used) => used,
            None => database().await.expect("the server was there when the test began"),
        };
        let url = temporary.url();
        let mut conn = PgConnection::connect(&url).await.expect("connect");
        sqlx::raw_sql(EMPTY).execute(&mut conn).await.expect("empty the database");
        Database { conn: conn.into(), url, temporary: Some(temporary), free: self.free.clone() }
    }

    fn store(&self, database: &Database, lanes: usize) -> Postgres {
        Postgres::new(&database.url).expect("a URL").lanes_max(lanes)
    }

    async fn execute(conn: &mut PgConnection, sql: &str) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)
    }

    async fn write(conn: &mut PgConnection, v: &str) -> sqlx::Result<()> {
        sqlx::query("insert into effects (v) values ($1)").bind(v).execute(conn).await.map(drop)
    }

    async fn leak(conn: &mut PgConnection) -> sqlx::Result<()> {
        std::mem::forget(conn.begin().await?);
        Ok(())
    }

    async fn read(database: &Database, sql: &str) -> Vec<String> {
        let mut conn = database.conn.lock().await;
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut *conn).await.expect("read")
    }

    async fn age(database: &Database, by: Duration) {
        let mut conn = database.conn.lock().await;
        let sql = "update semel.claim set claimed_at = claimed_at - $1 * interval '1 millisecond'";
        sqlx::query(sql).bind(i64::try_from(by.as_millis()).expect("short")).execute(&mut *conn).await.expect("age");
    }

    async fn open_transactions(database: &Database) -> Option<u64> {
        let mut conn = database.conn.lock().await;
        let sql = "select count(*) from pg_stat_activity
            where datname = current_database() and xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'";
        let open: i64 = sqlx::query_scalar(sql).fetch_one(&mut *conn).await.expect("pg_stat_activity");
        u64::try_from(open).ok()
    }

    async fn fake_newer_schema(database: &Database) -> bool {
        let mut conn = database.conn.lock().await;
        sqlx::query("insert into semel.migration (version) values (1000)").execute(&mut *conn).await.is_ok()
    }
}

/// On the server at `SEMEL_TEST_POSTGRES`; without one it is skipped, with a line that says so.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_passes_the_contract_of_stores() {
    if database().await.is_none() {
        return;
    }
    semel_contracts::store::run(&OnPostgres { free: Arc::default() }).await;
}
