//! What a session is, and what semel makes of it.

use crate::error::store_error;
use semel_core::{StoreError, Timestamp, Trouble};
use sqlx::Row;
use sqlx::postgres::PgConnection;
use std::time::Instant;

/// The oldest server that semel works with: `pg_current_xact_id_if_assigned`, which the proof before COMMIT needs, came
/// with it.
const SERVER_MIN: i32 = 130_000;

/// Settings of the session. Anew after a RESET ALL.
pub(crate) async fn settle(conn: &mut PgConnection) -> Result<(), StoreError> {
    let failed = |error| store_error("set up a connection", error);
    sqlx::raw_sql(include_str!("../sql/settle.sql")).execute(&mut *conn).await.map_err(failed)?;
    // A lane that is dropped while its backend waits for a twin's lock would stay there until the wait ends: 1,800 ms
    // instead of 200 when measured. PostgreSQL 13 does not know the setting, and some systems cannot look: then it
    // stays.
    if conn.server_version_num().is_some_and(|version| version < 140_000) {
        return Ok(());
    }
    match sqlx::raw_sql("set client_connection_check_interval = '200ms'").execute(conn).await {
        Err(error) if error.as_database_error().is_some() => {
            tracing::debug!("this server cannot look for clients that have gone");
            Ok(())
        }
        set => set.map(drop).map_err(failed),
    }
}

/// What a new connection says of itself.
#[derive(Debug)]
pub(crate) struct Hello {
    version: i32,
    encoding: String,
    /// The session's own `lock_timeout`, to go back to after a claim.
    pub(crate) lock_timeout: String,
    /// The server's clock, and ours at the same moment.
    pub(crate) clock: (Timestamp, Instant),
}

impl Hello {
    /// One simple query: one round trip, which is also how exactly the clock is known.
    pub(crate) async fn ask(conn: &mut PgConnection) -> sqlx::Result<Hello> {
        let asked = Instant::now();
        let row = sqlx::raw_sql(include_str!("../sql/hello.sql")).fetch_one(conn).await?;
        // The answer was made about half way between asking and reading.
        let middle = asked + asked.elapsed() / 2;
        Ok(Hello {
            version: row.try_get(0)?,
            encoding: row.try_get(1)?,
            lock_timeout: row.try_get(2)?,
            clock: (Timestamp::from_millis(row.try_get(3)?), middle),
        })
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let version = self.version;
        if version < SERVER_MIN {
            let message =
                format!("the server is PostgreSQL {}; semel needs {} or later", version / 10_000, SERVER_MIN / 10_000);
            return Err(StoreError::new(Trouble::Other, message));
        }
        if self.encoding != "UTF8" {
            let message = format!(
                "the database has the encoding {}; semel needs UTF8, or an id could not be compared byte by byte: \
                 create it with `create database … encoding 'UTF8' template template0`",
                self.encoding
            );
            return Err(StoreError::new(Trouble::Other, message));
        }
        Ok(())
    }
}
