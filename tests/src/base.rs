//! A database of either kind, as the tests see it: from outside, by plain SQL, and without knowing what semel keeps there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, FromRow};
use tempfile::TempDir;

use crate::postgres::{self, TempDatabase};

/// Which kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file of its own.
    Sqlite,
    /// A database of its own on the shared server.
    Postgres,
}

/// A new, empty database that leaves with this value.
#[derive(Debug)]
pub enum Base {
    /// The file, and its directory.
    Sqlite(PathBuf, TempDir),
    /// The database.
    Postgres(TempDatabase),
}

impl Base {
    /// A new database. `None` where there is no server for it; a line has said so.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub async fn new(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Sqlite => {
                let directory = TempDir::new().expect("a directory for the database");
                Some(Base::Sqlite(directory.path().join("shop.db"), directory))
            }
            Kind::Postgres => postgres::database().await.map(Base::Postgres),
        }
    }

    /// Its address, as a configuration names it.
    pub fn url(&self) -> String {
        match self {
            Base::Sqlite(path, _) => format!("sqlite:{}", path.display()),
            Base::Postgres(database) => database.url(),
        }
    }

    /// The database behind PostgreSQL's address.
    ///
    /// # Panics
    ///
    /// If it is an SQLite file.
    pub fn postgres(&self) -> &TempDatabase {
        match self {
            Base::Postgres(database) => database,
            Base::Sqlite(path, _) => panic!("{} is no PostgreSQL database", path.display()),
        }
    }

    /// A connection. An SQLite file must be there already: semel makes it.
    ///
    /// # Errors
    ///
    /// Whatever sqlx says.
    pub async fn connect(&self) -> sqlx::Result<Connected> {
        match self {
            Base::Sqlite(path, _) => SqliteConnectOptions::new().filename(path).connect().await.map(Connected::Sqlite),
            Base::Postgres(database) => PgConnection::connect(&database.url()).await.map(Connected::Postgres),
        }
    }

    /// All rows of a query, on a connection of its own.
    ///
    /// # Errors
    ///
    /// Whatever sqlx says, also that there is no such table yet.
    pub async fn rows<T: FromEither>(&self, sql: &str) -> sqlx::Result<Vec<T>> {
        let mut connected = self.connect().await?;
        let rows = connected.rows(sql).await?;
        connected.close().await;
        Ok(rows)
    }

    /// The number (of 64 bits) that a query answers; 0 where it fails, as it does until the tables are there, and while
    /// the server is away.
    ///
    /// # Panics
    ///
    /// If the answer is no such number.
    pub async fn number(&self, sql: &str) -> i64 {
        match self.rows::<(i64,)>(sql).await {
            Ok(rows) => rows.first().map_or(0, |row| row.0),
            Err(error @ sqlx::Error::ColumnDecode { .. }) => panic!("{sql}: {error}"),
            Err(_) => 0,
        }
    }

    /// Run one or more statements, on a connection of their own.
    ///
    /// # Panics
    ///
    /// If they fail.
    pub async fn execute(&self, sql: &str) {
        let mut connected = self.connect().await.expect("a connection");
        connected.execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        connected.close().await;
    }

    /// Wait until no connection of semel's has anything at work: a server notices only after a while that a program is
    /// dead, and may still commit what it sent last.
    ///
    /// # Panics
    ///
    /// If that takes longer than three seconds.
    pub async fn wait_until_quiet(&self) {
        const QUIET: &str = "select 1::bigint where not exists (select from pg_stat_activity
            where datname = current_database() and application_name = 'semel' and state <> 'idle')";
        const PATIENCE: Duration = Duration::from_secs(3);
        match self {
            Base::Postgres(_) => drop(self.wait_for_number(QUIET, 1, PATIENCE).await),
            Base::Sqlite(path, _) => {
                let options = SqliteConnectOptions::new().filename(path).busy_timeout(PATIENCE);
                let mut connected = Connected::Sqlite(options.connect().await.expect("the file is there"));
                connected.execute("begin immediate; rollback").await.expect("nobody holds the lock");
                connected.close().await;
            }
        }
    }

    /// Look again and again until the number that a query answers is at least `least`, and return it.
    ///
    /// # Panics
    ///
    /// If `limit` passes before.
    pub async fn wait_for_number(&self, sql: &str, least: i64, limit: Duration) -> i64 {
        let since = Instant::now();
        loop {
            let number = self.number(sql).await;
            if number >= least {
                return number;
            }
            assert!(since.elapsed() < limit, "{sql} answers {number} after {limit:?}, and not {least}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A row that can come from both.
pub trait FromEither: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin {}
impl<T: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin> FromEither for T {}

/// A connection to a database of either kind.
#[derive(Debug)]
pub enum Connected {
    /// To an SQLite file.
    Sqlite(SqliteConnection),
    /// To PostgreSQL.
    Postgres(PgConnection),
}

impl Connected {
    /// All rows of a query.
    ///
    /// # Errors
    ///
    /// Whatever sqlx says.
    pub async fn rows<T: FromEither>(&mut self, sql: &str) -> sqlx::Result<Vec<T>> {
        match self {
            Connected::Sqlite(conn) => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(conn).await,
            Connected::Postgres(conn) => sqlx::query_as(AssertSqlSafe(sql)).fetch_all(conn).await,
        }
    }

    /// Run one or more statements.
    ///
    /// # Errors
    ///
    /// Whatever sqlx says.
    pub async fn execute(&mut self, sql: &str) -> sqlx::Result<()> {
        match self {
            Connected::Sqlite(conn) => sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop),
            Connected::Postgres(conn) => sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop),
        }
    }

    /// Close it and wait until it is closed. What fails here matters to nobody.
    pub async fn close(self) {
        let _ = match self {
            Connected::Sqlite(conn) => conn.close().await,
            Connected::Postgres(conn) => conn.close().await,
        };
    }
}
