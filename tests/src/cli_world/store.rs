//! The store as an outsider sees it: with plain SQL over sqlx.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::postgres::{PgRow, Postgres};
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Row, SqliteConnection, ValueRef};
use tokio::sync::Mutex;

use crate::postgres::{TempDatabase, database};

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    Sqlite,
    /// A database on a server.
    Postgres,
}

/// A store that belongs to one test.
#[derive(Debug)]
pub struct Store(Place);

#[derive(Debug)]
enum Place {
    Sqlite(PathBuf),
    /// The connection that questions share, once there was one: dozens of questions would make dozens.
    Postgres(TempDatabase, Mutex<Option<PgConnection>>),
}

impl Store {
    pub(super) fn sqlite(path: PathBuf) -> Self {
        Self(Place::Sqlite(path))
    }

    pub(super) async fn postgresql() -> Option<Self> {
        database().await.map(|database| Self(Place::Postgres(database, Mutex::default())))
    }

    /// Which it is.
    pub fn kind(&self) -> Kind {
        match self.0 {
            Place::Sqlite(_) => Kind::Sqlite,
            Place::Postgres(..) => Kind::Postgres,
        }
    }

    /// As `store` in the configuration takes it.
    pub fn address(&self) -> String {
        match &self.0 {
            Place::Sqlite(path) => format!("sqlite:{}", path.display()),
            Place::Postgres(database, _) => database.url(),
        }
    }

    /// Run statements. A name that begins with `semel.` is a table of semel's on either store.
    ///
    /// # Panics
    ///
    /// If the database refuses them.
    pub async fn execute(&self, sql: &str) {
        match &self.0 {
            Place::Sqlite(_) => {
                let mut connection = self.connect_sqlite().await;
                let sql = in_sqlite(sql);
                let done = sqlx::raw_sql(AssertSqlSafe(&*sql)).execute(&mut connection).await;
                done.unwrap_or_else(|error| panic!("{sql}: {error}"));
                connection.close().await.expect("an SQLite file closes");
            }
            Place::Postgres(database, shared) => {
                let mut shared = shared.lock().await;
                let connection = connected(&mut shared, database).await;
                let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await;
                done.unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        }
    }

    /// The rows of a query as text, `|` between the columns, as `sqlite3` and `psql -A` print them.
    ///
    /// # Panics
    ///
    /// If the database refuses the query.
    pub async fn rows(&self, sql: &str) -> Vec<String> {
        match &self.0 {
            Place::Sqlite(path) => sqlite_rows(path, &in_sqlite(sql)).await,
            Place::Postgres(database, shared) => {
                let mut shared = shared.lock().await;
                let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(connected(&mut shared, database).await).await;
                rows.unwrap_or_else(|error| panic!("{sql}: {error}")).iter().map(postgres_text).collect()
            }
        }
    }

    /// The only value of a query.
    ///
    /// # Panics
    ///
    /// If there is not exactly one row.
    pub async fn value(&self, sql: &str) -> String {
        let mut rows = self.rows(sql).await;
        assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
        rows.remove(0)
    }

    /// The number that a query counts.
    ///
    /// # Panics
    ///
    /// If it is none.
    pub async fn count(&self, sql: &str) -> u64 {
        let value = self.value(sql).await;
        value.parse().unwrap_or_else(|_| panic!("{sql}: {value}"))
    }

    /// A connection to the SQLite file. Close it: a file that is open changes how it behaves for others.
    ///
    /// # Panics
    ///
    /// If it does not open, or is another store.
    pub async fn connect_sqlite(&self) -> SqliteConnection {
        let Place::Sqlite(path) = &self.0 else { panic!("not an SQLite file") };
        connect(path).await
    }

    /// A connection of its own to the PostgreSQL database.
    ///
    /// # Panics
    ///
    /// If it does not answer, or is another store.
    pub async fn connect_postgres(&self) -> PgConnection {
        PgConnection::connect(&self.database().url()).await.expect("PostgreSQL answers")
    }

    /// The PostgreSQL database.
    ///
    /// # Panics
    ///
    /// If it is another store.
    pub fn database(&self) -> &TempDatabase {
        match &self.0 {
            Place::Postgres(database, _) => database,
            Place::Sqlite(_) => panic!("not a PostgreSQL database"),
        }
    }
}

async fn connected<'c>(shared: &'c mut Option<PgConnection>, database: &TempDatabase) -> &'c mut PgConnection {
    if shared.is_none() {
        *shared = Some(PgConnection::connect(&database.url()).await.expect("PostgreSQL answers"));
    }
    shared.as_mut().expect("a connection")
}

/// The rows of a query on an SQLite file, as [`Store::rows`] gives them.
///
/// # Panics
///
/// If the file does not open, or the database refuses the query.
pub async fn sqlite_rows(path: &Path, sql: &str) -> Vec<String> {
    let mut connection = connect(path).await;
    let rows = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut connection).await;
    let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let texts = rows.iter().map(sqlite_text).collect();
    connection.close().await.expect("an SQLite file closes");
    texts
}

/// As another program would open it: not created, no pragma set but for patience.
async fn connect(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::from_secs(10));
    options.connect().await.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// On PostgreSQL semel's tables have a schema of their own, on SQLite a prefix.
fn in_sqlite(sql: &str) -> String {
    sql.replace("semel.", "semel_")
}

fn postgres_text(row: &PgRow) -> String {
    let column = |at: usize| {
        let value = row.try_get_raw(at).expect("a column");
        // The simple protocol answers every type as text.
        if value.is_null() {
            String::new()
        } else {
            <&str as sqlx::Decode<'_, Postgres>>::decode(value).expect("text").to_owned()
        }
    };
    (0..row.len()).map(column).collect::<Vec<_>>().join("|")
}

fn sqlite_text(row: &SqliteRow) -> String {
    let column = |at: usize| row.try_get_unchecked::<Option<String>, _>(at).expect("text").unwrap_or_default();
    (0..row.len()).map(column).collect::<Vec<_>>().join("|")
}
