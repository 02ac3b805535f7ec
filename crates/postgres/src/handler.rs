//! Handlers that are SQL: what `semel run` executes in the claiming transaction.

use crate::error::{code, store_error, words};
use crate::statements::{self, Statement};
use semel_core::{StoreError, Trouble};
use sqlx::postgres::{PgConnection, Postgres};
use sqlx::{AssertSqlSafe, Connection, Executor, SqlSafeStr, Statement as _, Transaction};
use std::sync::Arc;

/// SQL that handles a batch of messages, which it sees as the relation
/// `messages(id text, kind text, key text, time timestamptz, headers jsonb, body jsonb, attempt int)`.
///
/// The relation is a temporary view over a setting that ends with the transaction; it hides a table of that name. The
/// author's SQL runs as it was written, each text in order: one statement prepared once a connection, several as one
/// simple query. Rows that it returns are read to the end, so that functions with effects are called, and ignored.
#[derive(Debug, Clone)]
pub struct SqlHandler {
    texts: Vec<Text>,
    body_as_bytes: bool,
}

#[derive(Debug, Clone)]
struct Text {
    sql: Arc<str>,
    single: bool,
}

impl Text {
    fn new(sql: String) -> Self {
        // Whether it is one statement is decided once. Where it cannot be told, the simple query takes it as it is.
        let single = statements::split(&sql).is_some_and(|statements| statements.len() == 1);
        Text { sql: sql.into(), single }
    }
}

impl SqlHandler {
    /// A handler that runs these texts in order. With `body_as_bytes`, whoever makes the batch gives each body as a
    /// JSON string in base64 (`decode(body #>> '{}', 'base64')` has the bytes).
    pub fn new(texts: impl IntoIterator<Item = String>, body_as_bytes: bool) -> Self {
        SqlHandler { texts: texts.into_iter().map(Text::new).collect(), body_as_bytes }
    }

    /// Whether bodies are given in base64.
    pub fn body_as_bytes(&self) -> bool {
        self.body_as_bytes
    }

    /// Runs the SQL for one batch, inside the lane's open transaction. `batch_json` is an array of objects with the
    /// members `id`, `kind`, `key`, `time` (RFC 3339 or null), `headers`, `body` and `attempt`.
    ///
    /// # Errors
    /// Whatever PostgreSQL says of the author's SQL. The transaction is aborted then.
    pub async fn run(&self, conn: &mut PgConnection, batch_json: &str) -> Result<(), sqlx::Error> {
        show_batch(conn, batch_json).await?;
        for text in &self.texts {
            let sql = AssertSqlSafe(Arc::clone(&text.sql));
            let done = match text.single {
                true => sqlx::query(sql).execute(&mut *conn).await,
                false => sqlx::raw_sql(sql).execute(&mut *conn).await,
            };
            if let Err(error) = done {
                if matches!(code(&error), Some("0A000" | "26000")) {
                    // "cached plan must not change result type": a table was altered. The next try on this connection
                    // prepares anew.
                    conn.clear_cached_statements().await.ok();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether PostgreSQL takes the SQL: prepares each statement and runs none, in a transaction that is rolled back.
    /// Not inside another one.
    ///
    /// In a text of several statements, what stands behind one that makes tables or functions is only checked for its
    /// syntax.
    ///
    /// # Errors
    /// With PostgreSQL's own words and the line, where a statement is refused; where one has parameters, or ends the
    /// transaction.
    pub async fn check(&self, conn: &mut PgConnection) -> Result<(), StoreError> {
        let failed = |error| store_error("check a handler's SQL", error);
        let mut outer = conn.begin().await.map_err(failed)?;
        show_batch(&mut outer, "[]").await.map_err(failed)?;
        let mut names_may_change = false;
        for (number, text) in self.texts.iter().enumerate() {
            let which =
                if self.texts.len() == 1 { String::new() } else { format!(", statement {} of the list", number + 1) };
            let Some(all) = statements::split(&text.sql) else {
                names_may_change = true;
                continue;
            };
            if all.is_empty() {
                return Err(refused(&which, "it is empty"));
            }
            for statement in &all {
                prepare(&mut outer, text, statement, names_may_change).await.map_err(|problem| match problem {
                    Problem::Sql(said) => refused(&which, &said),
                    Problem::Store(error) => failed(error),
                })?;
                names_may_change |= statement.may_change_names();
            }
        }
        outer.rollback().await.map_err(failed)?;
        // They were prepared with a view that has gone.
        conn.clear_cached_statements().await.map_err(failed)?;
        Ok(())
    }
}

/// Shows the batch to this transaction, in one round trip; once a connection, another one makes the view. Nothing is
/// remembered of the view: a rollback removes one that was made in its transaction.
async fn show_batch(conn: &mut PgConnection, batch_json: &str) -> sqlx::Result<()> {
    let (_, view_missing): (bool, bool) =
        sqlx::query_as(include_str!("../sql/show_batch.sql")).bind(batch_json).fetch_one(&mut *conn).await?;
    if view_missing {
        conn.execute(include_str!("../sql/messages_view.sql")).await?;
    }
    Ok(())
}

enum Problem {
    Sql(String),
    Store(sqlx::Error),
}

async fn prepare(
    outer: &mut Transaction<'_, Postgres>,
    text: &Text,
    statement: &Statement<'_>,
    names_may_change: bool,
) -> Result<(), Problem> {
    if statement.is_transaction_control() {
        let word = statement.words.first().map(|word| word.to_uppercase()).unwrap_or_default();
        return Err(Problem::Sql(format!(
            "line {}: {word} ends the transaction that holds the messages' claims; take it out, semel commits",
            line(text, statement.place)
        )));
    }
    if statement.copies_from_the_client() {
        return Err(Problem::Sql(format!(
            "line {}: COPY from STDIN or to STDOUT has no client to talk to; take the rows from the relation messages",
            line(text, statement.place)
        )));
    }
    let mut inner = outer.begin().await.map_err(Problem::Store)?;
    // Line breaks in front put the statement at its own line, so that PostgreSQL's position can be counted in the whole
    // text.
    let padded = format!("{}{}", "\n".repeat(line(text, statement.place) - 1), statement.text);
    let prepared = (&mut *inner).prepare(AssertSqlSafe(padded.as_str()).into_sql_str()).await;
    let parameters = match &prepared {
        Ok(prepared) => prepared.parameters().map_or(0, |given| given.either(|types| types.len(), |count| count)),
        Err(sqlx::Error::Database(_)) => 0,
        Err(_) => return prepared.map(drop).map_err(Problem::Store),
    };
    if parameters > 0 {
        return Err(Problem::Sql(format!(
            "line {}: it has parameters ($1), and nobody gives them; the messages are in the relation messages",
            line(text, statement.place)
        )));
    }
    inner.rollback().await.map_err(Problem::Store)?;
    match prepared {
        // A table, column, function or type that an earlier statement may make.
        Err(error)
            if names_may_change && matches!(code(&error), Some("42P01" | "42703" | "42883" | "42704" | "3F000")) =>
        {
            Ok(())
        }
        Err(error) => Err(Problem::Sql(words(&error, &padded))),
        Ok(_) => Ok(()),
    }
}

/// The line of a place in bytes, counted from 1.
fn line(text: &Text, place: usize) -> usize {
    1 + text.sql[..place].matches('\n').count()
}

fn refused(which: &str, said: &str) -> StoreError {
    StoreError::new(Trouble::Other, format!("PostgreSQL refuses the handler's SQL{which}: {said}"))
}
