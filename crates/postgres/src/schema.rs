//! semel's tables: made, brought up to date, checked. And the application's own, run once.

use crate::convert::clean;
use crate::error::{store_error, words};
use crate::lane::PostgresLane;
use crate::{session, transaction};
use semel_core::{Setup, StoreError, Trouble};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};
use std::cmp::Ordering;

/// One file a version, in order; never edited.
const MIGRATIONS: [&str; 2] =
    [include_str!("../migrations/0001_tables.sql"), include_str!("../migrations/0002_contract.sql")];

/// The whole schema as SQL, the SQL contract included: what `migrate` runs on an empty database, for those who run
/// their migrations themselves. It says by itself which version it is.
pub const SCHEMA: &str =
    concat!(include_str!("../migrations/0001_tables.sql"), "\n", include_str!("../migrations/0002_contract.sql"));

/// A setup may take its time.
const UNLIMITED: &str = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

/// "semel" in ASCII: the advisory lock under which the schema is changed.
const LOCK: i64 = 0x73_65_6d_65_6c;

/// The schema version that this program knows.
const VERSION: i32 = MIGRATIONS.len() as i32;

pub(crate) async fn migrate(lane: &mut PostgresLane, setups: &[Setup]) -> Result<(), StoreError> {
    if let Some(Setup { name, .. }) = setups.iter().find(|setup| setup.sql.contains('\0') || setup.name.contains('\0'))
    {
        let message = format!("the setup file {} holds U+0000, which PostgreSQL takes nowhere", clean(name));
        return Err(StoreError::new(Trouble::Other, message));
    }
    // Every process asks at its start, and mostly there is nothing to do: then no lock is taken, and no right to change
    // anything is needed.
    if current(&mut lane.conn).await? == VERSION && left(&mut lane.conn, setups).await?.is_empty() {
        return Ok(());
    }
    let failed = |error| store_error("bring semel's schema up to date", error);
    // Ten minutes: another process may be running a long setup.
    lane.open(&format!("; SET LOCAL lock_timeout = '10min'; {UNLIMITED}")).await.map_err(failed)?;
    // Held until COMMIT or ROLLBACK, so it also works behind a pooler; the schema itself is made under it.
    sqlx::query("select pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut lane.conn).await.map_err(failed)?;
    let from = current(&mut lane.conn).await?;
    for migration in &MIGRATIONS[usize::try_from(from).unwrap_or(0)..] {
        lane.conn.execute(*migration).await.map_err(failed)?;
    }
    let mark = lane.mark();
    let setups = left(&mut lane.conn, setups).await?;
    for setup in &setups {
        run(&mut lane.conn, setup, &mark).await?;
    }
    transaction::commit(&mut lane.conn).await.map_err(failed)?;
    if !setups.is_empty() {
        session::settle(&mut lane.conn).await?;
    }
    Ok(())
}

/// The version of the schema; 0 where there is none. One that is newer than this program is an error (law 32).
async fn current(conn: &mut PgConnection) -> Result<i32, StoreError> {
    let failed = |error| store_error("read the version of semel's schema", error);
    let exists: bool =
        sqlx::query_scalar(include_str!("../sql/schema_exists.sql")).fetch_one(&mut *conn).await.map_err(failed)?;
    if !exists {
        return Ok(0);
    }
    let version: Option<i32> =
        sqlx::query_scalar(include_str!("../sql/version.sql")).fetch_one(conn).await.map_err(failed)?;
    let version = version.unwrap_or(0);
    if version > VERSION { Err(judge(version)) } else { Ok(version) }
}

pub(crate) async fn check(conn: &mut PgConnection) -> Result<(), StoreError> {
    check_version(current(conn).await?)
}

pub(crate) fn check_version(version: i32) -> Result<(), StoreError> {
    if version == VERSION { Ok(()) } else { Err(judge(version)) }
}

fn judge(version: i32) -> StoreError {
    let message = match (version, version.cmp(&VERSION)) {
        (0, _) => "this database has no schema of semel's: run `semel migrate`".to_owned(),
        (_, Ordering::Greater) => format!(
            "this database was made by a newer semel (schema {version}, this program knows {VERSION}): use the newer program"
        ),
        _ => format!(
            "this database has an older schema of semel's ({version}, this program needs {VERSION}): run `semel migrate`"
        ),
    };
    StoreError::new(Trouble::Schema, message)
}

/// The setups that were not run on this database. One that was run with another text is an error.
async fn left<'a>(conn: &mut PgConnection, setups: &'a [Setup]) -> Result<Vec<&'a Setup>, StoreError> {
    if setups.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = setups.iter().map(|setup| &*setup.name).collect();
    let texts: Vec<&str> = setups.iter().map(|setup| &*setup.sql).collect();
    let states: Vec<(bool, bool)> = sqlx::query_as(include_str!("../sql/setups.sql"))
        .bind(names)
        .bind(texts)
        .fetch_all(conn)
        .await
        .map_err(|error| store_error("read which setup files were run", error))?;
    let mut left = Vec::new();
    for (setup, (known, same)) in setups.iter().zip(states) {
        match (known, same) {
            (true, true) => {}
            (true, false) => {
                let message = format!(
                    "the setup file {} has changed since it was run on this database; leave it as it was, and add a new file with the change",
                    setup.name
                );
                return Err(StoreError::new(Trouble::Schema, message));
            }
            (false, _) if left.iter().any(|other: &&Setup| other.name == setup.name && other.sql == setup.sql) => {}
            (false, _) => left.push(setup),
        }
    }
    Ok(left)
}

async fn run(conn: &mut PgConnection, setup: &Setup, mark: &str) -> Result<(), StoreError> {
    let Setup { name, sql } = setup;
    let refused = |error: sqlx::Error| match store_error("run a setup file", error) {
        error if error.trouble == Trouble::Unreachable => error,
        error => {
            let said = error.source.as_deref().and_then(|source| source.downcast_ref()).map(|error| words(error, sql));
            let message = format!(
                "the setup file {name} failed, and nothing of this migration was kept: {}",
                said.unwrap_or_else(|| error.message.clone())
            );
            StoreError { trouble: Trouble::Other, message, source: error.source }
        }
    };
    conn.execute(AssertSqlSafe(&**sql)).await.map_err(refused)?;
    let ours: bool = sqlx::query_scalar("select current_setting('semel.transaction', true) is not distinct from $1")
        .bind(mark)
        .fetch_one(&mut *conn)
        .await
        .map_err(refused)?;
    if !ours {
        let message = format!(
            "the setup file {name} ends its transaction itself (COMMIT, ROLLBACK or RESET ALL): semel runs it in one of its own. \
             Take that statement out; what ran before it was kept, so look at the database before you start again"
        );
        return Err(StoreError::new(Trouble::Other, message));
    }
    // A dump sets search_path and more for its session: that must not reach the next file, nor the handlers.
    let reset = format!(
        "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; SET LOCAL semel.transaction = '{mark}'; {UNLIMITED}"
    );
    conn.execute(AssertSqlSafe(reset)).await.map_err(refused)?;
    sqlx::query(include_str!("../sql/setup_done.sql")).bind(name).bind(sql).execute(conn).await.map_err(refused)?;
    Ok(())
}
