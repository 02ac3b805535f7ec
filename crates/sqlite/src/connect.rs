//! Opening a connection, and making sure that it keeps what it commits (law 6).

use crate::error::{self, Place};
use crate::guard::Guard;
use crate::lane::SqliteLane;
use semel_core::{StoreError, Trouble};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The oldest SQLite that has `jsonb_each`, with which arrays are read twice as fast. sqlx brings a newer one, unless another crate of the
/// program holds it back.
const VERSION_MIN: (u32, u32) = (3, 51);
/// The switch to WAL cannot wait for other connections by itself: it is tried again after this long.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// The path as SQLite must see it: absolute, so that it is neither an address nor dependent on the current directory.
pub(crate) fn path(path: &Path) -> Result<PathBuf, String> {
    let Some(text) = path.to_str() else {
        return Err(format!("SQLite cannot open {}: its path is not UTF-8", path.display()));
    };
    if text.is_empty() {
        return Err("the store has no path: name a file, e.g. sqlite:tea-shop.db".to_owned());
    }
    // An address may hold a key: it is not repeated.
    if text == ":memory:" || text.starts_with("file:") {
        return Err(
            "a database in memory or behind a `file:` address is no place for claims, which must outlive this \
                    process: name a file by its path"
                .to_owned(),
        );
    }
    if text.starts_with("sqlite:") {
        return Err("here the path alone is wanted, without `sqlite:`".to_owned());
    }
    if text.contains('\0') {
        return Err("a path cannot hold U+0000".to_owned());
    }
    std::path::absolute(path)
        .map_err(|error| format!("the current directory cannot be read, so {text} is nowhere: {error}"))
}

pub(crate) fn options(place: &Place, foreign_keys: bool) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(&place.path)
        .create_if_missing(true)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(place.busy_timeout)
        .foreign_keys(foreign_keys)
        .thread_name(|number| format!("semel-sqlite-{number}"))
        .disable_statement_logging()
}

pub(crate) async fn connect(place: Arc<Place>, options: SqliteConnectOptions) -> Result<SqliteLane, StoreError> {
    error::look(&place.path).map_err(|sentence| StoreError::new(Trouble::Other, sentence))?;
    let mut conn = options.connect().await.map_err(|error| place.error(error))?;
    version(&mut conn, &place).await?;
    write_ahead(&mut conn, &place).await?;
    let guard = Guard::install(&mut conn).await.map_err(|error| place.error(error))?;
    tracing::debug!(path = %place, "opened");
    Ok(SqliteLane { conn, place, guard, consumer: None })
}

async fn version(conn: &mut SqliteConnection, place: &Place) -> Result<(), StoreError> {
    let version: String =
        sqlx::query_scalar("select sqlite_version()").fetch_one(conn).await.map_err(|error| place.error(error))?;
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or_default());
    let found = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if found < VERSION_MIN {
        let (major, minor) = VERSION_MIN;
        let message = format!(
            "this program is built with SQLite {version}, semel needs {major}.{minor}: update `libsqlite3-sys`"
        );
        return Err(StoreError::new(Trouble::Other, message));
    }
    Ok(())
}

/// Switches the file to WAL, which it stays. Several processes may do so at once on a new file: SQLite then answers BUSY at once to some, to
/// avoid a deadlock (3 of 2,000 without the second try, ten at a time).
async fn write_ahead(conn: &mut SqliteConnection, place: &Place) -> Result<(), StoreError> {
    let patience = Instant::now() + place.busy_timeout;
    loop {
        let answer = sqlx::query_scalar::<_, String>("pragma journal_mode = wal").fetch_one(&mut *conn).await;
        match answer {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(StoreError::new(
                    Trouble::Other,
                    format!(
                        "{place} cannot keep a write-ahead log (journal_mode says `{mode}`, not `wal`): \
                         put it on a local disk that this user may write"
                    ),
                ));
            }
            Err(error)
                if error::code(&error).is_some_and(|code| code & 0xff == error::BUSY) && Instant::now() < patience =>
            {
                sleep(TRY_AGAIN).await;
            }
            Err(error) => return Err(place.error(error)),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// The VFS `unix-dotfile` has no shared memory, as some network file systems do not: SQLite then stays in its old mode without an error.
    #[tokio::test]
    async fn where_there_is_no_wal_it_does_not_start() {
        let directory = tempfile::tempdir().unwrap();
        let place = Arc::new(Place { path: directory.path().join("shop.db"), busy_timeout: Duration::ZERO });
        let error = connect(place.clone(), options(&place, true).vfs("unix-dotfile")).await.unwrap_err();
        assert_eq!(error.trouble, Trouble::Other);
        assert!(error.message.contains("journal_mode says `delete`"), "{error}");
    }
}
