//! Processes and the attempts they have begun (law 15).

use super::Answer;
use crate::convert;
use crate::error::store_error;
use semel_core::{Attempt, ConsumerNumber, Instance, Seen};
use sqlx::postgres::PgConnection;

pub(super) async fn beat(conn: &mut PgConnection, consumer: ConsumerNumber, instance: &Instance) -> Answer<()> {
    let query = sqlx::query(include_str!("../../sql/beat.sql"))
        .bind(consumer.0)
        .bind(&instance.id)
        .bind(&instance.place)
        .bind(i64::from(instance.process))
        .bind(instance.started.cast_signed());
    query.execute(conn).await.map_err(|error| store_error("write down that this process lives", error))?;
    Ok(())
}

pub(super) async fn instances(conn: &mut PgConnection, consumer: ConsumerNumber) -> Answer<Vec<Seen>> {
    let query = sqlx::query_as(include_str!("../../sql/instances.sql")).bind(consumer.0);
    let rows: Vec<(String, String, i64, i64, i64)> =
        query.fetch_all(conn).await.map_err(|error| store_error("read which processes live", error))?;
    let seen = rows.into_iter().map(|(id, place, process, started, silent)| Seen {
        instance: Instance {
            id,
            place,
            process: u32::try_from(process).unwrap_or_default(),
            started: started.cast_unsigned(),
        },
        silent: convert::duration(silent),
    });
    Ok(seen.collect())
}

pub(super) async fn remove_instance(conn: &mut PgConnection, consumer: ConsumerNumber, instance: &str) -> Answer<()> {
    let query = sqlx::query(include_str!("../../sql/remove_instance.sql")).bind(consumer.0).bind(instance);
    query.execute(conn).await.map_err(|error| store_error("remove a process", error))?;
    Ok(())
}

pub(super) async fn attempt(conn: &mut PgConnection, consumer: ConsumerNumber, id: &str) -> Answer<Option<Attempt>> {
    let query = sqlx::query_as(include_str!("../../sql/attempt.sql")).bind(consumer.0).bind(id);
    let row: Option<(String, i32)> =
        query.fetch_optional(conn).await.map_err(|error| store_error("read an attempt", error))?;
    Ok(row.map(|(instance, crashes)| Attempt { instance, crashes: u32::try_from(crashes).unwrap_or_default() }))
}

pub(super) async fn open_attempt(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    id: &str,
    attempt: &Attempt,
) -> Answer<()> {
    let query = sqlx::query(include_str!("../../sql/open_attempt.sql"))
        .bind(consumer.0)
        .bind(id)
        .bind(&attempt.instance)
        .bind(convert::count(attempt.crashes));
    query.execute(conn).await.map_err(|error| store_error("open an attempt", error))?;
    Ok(())
}
