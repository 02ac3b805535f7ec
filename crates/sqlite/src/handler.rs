//! Handlers that are SQL: what `semel run` runs for `sql = "…"`.
//!
//! The batch is shown as a relation `messages`, one row a message:
//!
//! | column | type | |
//! |---|---|---|
//! | `id`, `kind` | text | |
//! | `key` | text or null | the ordering key |
//! | `time` | text or null | the producer's time, RFC 3339 |
//! | `headers` | JSON text | an object: `headers->>'tenant'` |
//! | `body` | JSON text | `body->>'account'`; of a body that is a single value, `body->>'$'` |
//! | `attempt` | integer | 1 for the first try |
//!
//! Numbers are as exact as SQLite's: integers of up to 64 bits are integers, larger ones and fractions become REAL where they are read with
//! `->>`; the JSON text itself is unchanged. An upsert from `messages` needs a `where`, or SQLite takes `on conflict` for part of a join:
//! `insert into … select … from messages where true on conflict …`.
//!
//! `messages` is a temporary table of the connection: a table of that name in the database is hidden behind it (it is still
//! `main.messages`), for every later statement on this connection.

use crate::error::says_what_is_wrong;
use semel_core::{StoreError, Trouble};
use sqlx::{AssertSqlSafe, Either, Executor, SqlSafeStr, SqlStr, SqliteConnection, Statement};

/// SQL texts that run, in order, for each batch of messages, inside the transaction that claimed them.
#[derive(Debug, Clone)]
pub struct SqlHandler {
    texts: Vec<SqlStr>,
}

impl SqlHandler {
    /// From the author's texts, each with one or several statements. They run verbatim: nothing is added, nothing is parsed.
    pub fn new(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        // `Arc<str>`, so that every run shares the text.
        let shared = |text: String| AssertSqlSafe(std::sync::Arc::<str>::from(text)).into_sql_str();
        SqlHandler { texts: texts.into_iter().map(|text| shared(text.into())).collect() }
    }

    /// Shows the batch as `messages` and runs the statements; rows that they return are ignored. Only inside a lane's open transaction.
    ///
    /// `batch_json` is a JSON array of objects with the members `id`, `kind`, `key`, `time`, `headers` (an object), `body` (any JSON value;
    /// a base64 string where the body is bytes) and `attempt`.
    ///
    /// # Errors
    /// SQLite's, as it is: the handler has failed.
    pub async fn run(&self, conn: &mut SqliteConnection, batch_json: &str) -> Result<(), sqlx::Error> {
        // One trip for all three statements. The table is made where it is missing: once on a connection, and again after a rollback of
        // the transaction that made it.
        sqlx::query(include_str!("../sql/messages.sql")).bind(batch_json).execute(&mut *conn).await?;
        for text in &self.texts {
            sqlx::query(text.clone()).execute(&mut *conn).await?;
        }
        Ok(())
    }

    /// Prepares every statement, without running any.
    ///
    /// # Errors
    /// What SQLite says of the first text that it does not accept. All tables must exist: one that an earlier statement of the same
    /// handler would make does not, so make it in `setup`.
    pub async fn check(&self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        let refused = |why: &str| {
            Err(StoreError::new(Trouble::Other, format!("SQLite does not accept the handler's SQL: {why}")))
        };
        sqlx::query(include_str!("../sql/messages.sql")).bind("[]").execute(&mut *conn).await.map_err(wrapped)?;
        for text in &self.texts {
            if text.as_str().trim().is_empty() {
                return refused("there is no statement in it");
            }
            if text.as_str().contains('\0') {
                // sqlx would look for the next statement behind it for ever.
                return refused("it holds U+0000");
            }
            let prepared = conn.prepare(text.clone()).await.map_err(wrapped)?;
            if let Some(Either::Right(1..)) = prepared.parameters() {
                return refused(
                    "it has parameters (`?`, `$1`, `:name`), and nothing gives them a value; read from `messages` instead",
                );
            }
        }
        Ok(())
    }
}

fn wrapped(error: sqlx::Error) -> StoreError {
    let message = match error.as_database_error() {
        Some(refused) if says_what_is_wrong(&error) => {
            format!("SQLite does not accept the handler's SQL: {}", refused.message())
        }
        _ => "the handler's SQL could not be checked: the database does not answer".to_owned(),
    };
    StoreError { trouble: Trouble::Other, message, source: Some(Box::new(error)) }
}
