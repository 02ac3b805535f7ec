//! Processes, and the attempts that they have begun (law 15).

use crate::row;
use semel_core::{Attempt, ConsumerNumber, Instance, Seen};
use serde_json::Value;
use sqlx::{Row, SqliteConnection};

pub(crate) async fn beat(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    instance: &Instance,
) -> sqlx::Result<()> {
    sqlx::query(include_str!("../sql/beat.sql"))
        .bind(consumer.0)
        .bind(&instance.id)
        .bind(&instance.place)
        .bind(instance.process)
        .bind(instance.started.cast_signed())
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) async fn instances(conn: &mut SqliteConnection, consumer: ConsumerNumber) -> sqlx::Result<Vec<Seen>> {
    let rows = sqlx::query(include_str!("../sql/instances.sql")).bind(consumer.0).fetch_all(conn).await?;
    rows.iter()
        .map(|row| {
            Ok(Seen {
                instance: Instance {
                    id: row.try_get("id")?,
                    place: row.try_get("place")?,
                    process: row.try_get("process")?,
                    started: row.try_get::<i64, _>("started")?.cast_unsigned(),
                },
                silent: row::duration(row.try_get("silent_ms")?),
            })
        })
        .collect()
}

pub(crate) async fn remove(conn: &mut SqliteConnection, consumer: ConsumerNumber, instance: &str) -> sqlx::Result<()> {
    sqlx::query(include_str!("../sql/remove_instance.sql")).bind(consumer.0).bind(instance).execute(conn).await?;
    Ok(())
}

pub(crate) async fn open(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    id: &str,
    attempt: &Attempt,
) -> sqlx::Result<()> {
    sqlx::query(include_str!("../sql/open_attempt.sql"))
        .bind(consumer.0)
        .bind(id)
        .bind(&attempt.instance)
        .bind(attempt.crashes)
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) async fn find(
    conn: &mut SqliteConnection,
    consumer: ConsumerNumber,
    id: &str,
) -> sqlx::Result<Option<Attempt>> {
    let row = sqlx::query(include_str!("../sql/attempt.sql")).bind(consumer.0).bind(id).fetch_optional(conn).await?;
    row.map(|row| Ok(Attempt { instance: row.try_get("instance")?, crashes: row.try_get("crashes")? })).transpose()
}

pub(crate) async fn close(conn: &mut SqliteConnection, consumer: ConsumerNumber, ids: &[String]) -> sqlx::Result<()> {
    sqlx::query(include_str!("../sql/close_attempts.sql"))
        .bind(consumer.0)
        .bind(Value::from(ids).to_string())
        .execute(conn)
        .await?;
    Ok(())
}
