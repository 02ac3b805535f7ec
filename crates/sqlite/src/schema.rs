//! semel's tables, and the application's own SQL that runs beside them once.

use crate::error;
use crate::lane::SqliteLane;
use semel_core::{BodyDigest, Setup, StoreError, Trouble};
use sqlx::{AssertSqlSafe, SqliteConnection};

/// The statements that make semel's tables in an empty database, as one text: what `semel schema` prints for those who run migrations
/// themselves. Times are milliseconds, names begin with `semel_`.
pub const SCHEMA: &str = include_str!("../migrations/0001_start.sql");

/// Each brings the schema from the version before it to its own, and writes that down. Never edited once released.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_start.sql")];
/// The version that this program knows.
const KNOWN: i64 = MIGRATIONS.len() as i64;

/// The schema's version: 0 where there are no tables.
async fn version(conn: &mut SqliteConnection) -> sqlx::Result<i64> {
    if !sqlx::query_scalar(include_str!("../sql/schema_present.sql")).fetch_one(&mut *conn).await? {
        return Ok(0);
    }
    let version: Option<i64> = sqlx::query_scalar(include_str!("../sql/schema_version.sql")).fetch_one(conn).await?;
    Ok(version.unwrap_or_default())
}

/// Whether the schema is the one that this program knows (law 32).
pub(crate) async fn check(conn: &mut SqliteConnection) -> sqlx::Result<Result<(), StoreError>> {
    Ok(match version(conn).await? {
        KNOWN => Ok(()),
        0 => Err(schema_error("semel's tables are not in this database: run `semel migrate`".to_owned())),
        older if older < KNOWN => Err(schema_error(format!(
            "this database was made by an older semel (schema {older}, this program knows {KNOWN}): run `semel migrate`"
        ))),
        newer => Err(newer_error(newer)),
    })
}

fn newer_error(newer: i64) -> StoreError {
    schema_error(format!(
        "this database was made by a newer semel (schema {newer}, this program knows {KNOWN}): use the newer program"
    ))
}

fn schema_error(message: String) -> StoreError {
    StoreError::new(Trouble::Schema, message)
}

/// Brings the schema up to date and runs the setups, all in one transaction under the write lock.
pub(crate) async fn migrate(lane: &mut SqliteLane, setups: &[Setup]) -> Result<(), StoreError> {
    // Most starts find nothing to do, and should not wait for whoever is writing.
    let looked = done(&mut lane.conn, setups).await;
    if lane.told(looked).await?? {
        return Ok(());
    }
    let begun = lane.open(None).await;
    lane.told(begun).await?;
    let version = version(&mut lane.conn).await;
    let version = lane.told(version).await?;
    if version > KNOWN {
        return Err(newer_error(version));
    }
    for migration in &MIGRATIONS[usize::try_from(version).unwrap_or_default()..] {
        let made = sqlx::raw_sql(*migration).execute(&mut lane.conn).await;
        lane.told(made).await?;
    }
    for setup in setups {
        let known = known(&mut lane.conn, setup).await;
        if !lane.told(known).await?? {
            run(lane, setup).await?;
        }
    }
    lane.end().await
}

/// Whether there is nothing to do.
async fn done(conn: &mut SqliteConnection, setups: &[Setup]) -> sqlx::Result<Result<bool, StoreError>> {
    let version = version(conn).await?;
    if version > KNOWN {
        return Ok(Err(newer_error(version)));
    }
    if version < KNOWN {
        return Ok(Ok(false));
    }
    for setup in setups {
        match known(conn, setup).await? {
            Ok(true) => {}
            other => return Ok(other),
        }
    }
    Ok(Ok(true))
}

/// Whether this setup was run before. An error where its text has changed since.
async fn known(conn: &mut SqliteConnection, setup: &Setup) -> sqlx::Result<Result<bool, StoreError>> {
    let stored: Option<Vec<u8>> =
        sqlx::query_scalar(include_str!("../sql/setup_digest.sql")).bind(&setup.name).fetch_optional(conn).await?;
    Ok(match stored {
        None => Ok(false),
        Some(stored) if stored == digest(setup) => Ok(true),
        Some(_) => Err(schema_error(format!(
            "the setup file {} has changed since it was run on this database; undo the change, and add a new file for what is new",
            setup.name
        ))),
    })
}

async fn run(lane: &mut SqliteLane, setup: &Setup) -> Result<(), StoreError> {
    let name = &setup.name;
    if setup.sql.contains('\0') {
        // sqlx would look for the next statement behind it for ever.
        return Err(StoreError::new(Trouble::Other, format!("the setup file {name} holds U+0000: it is no SQL text")));
    }
    let ran = sqlx::raw_sql(AssertSqlSafe(setup.sql.as_str())).execute(&mut lane.conn).await;
    if lane.unbroken().is_err() {
        let message = format!(
            "the setup file {name} ends the transaction that it runs in (COMMIT or ROLLBACK); take that out: semel commits when all of \
             it is done. Nothing was changed"
        );
        return Err(StoreError {
            trouble: Trouble::Other,
            message,
            source: ran.err().map(|error| Box::new(error) as _),
        });
    }
    if let Err(error) = ran {
        return Err(match error.as_database_error() {
            Some(refused) if error::says_what_is_wrong(&error) => {
                let message = format!("the setup file {name} failed, and nothing was changed: {}", refused.message());
                StoreError { trouble: Trouble::Other, message, source: Some(Box::new(error)) }
            }
            _ => lane.place.error(error),
        });
    }
    let written = sqlx::query(include_str!("../sql/insert_setup.sql"))
        .bind(name)
        .bind(digest(setup))
        .execute(&mut lane.conn)
        .await;
    lane.told(written).await?;
    Ok(())
}

fn digest(setup: &Setup) -> Vec<u8> {
    let mut digest = BodyDigest::default();
    digest.update(setup.sql.as_bytes());
    digest.finish().to_vec()
}
