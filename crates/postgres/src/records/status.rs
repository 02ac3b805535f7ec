//! One line a consumer.

use super::Answer;
use crate::convert;
use crate::error::store_error;
use crate::transaction;
use semel_core::{ConsumerStatus, Timestamp};
use sqlx::postgres::PgConnection;
use std::collections::BTreeMap;

type ConsumerRow = (String, Option<i64>, i64, Option<i64>, i64, i64, Option<i64>);

/// One snapshot for all of it: the figures fit together.
pub(super) async fn read(conn: &mut PgConnection) -> Answer<Vec<ConsumerStatus>> {
    ask(conn).await.map_err(|error| store_error("read the status", error))
}

async fn ask(conn: &mut PgConnection) -> sqlx::Result<Vec<ConsumerStatus>> {
    transaction::begin(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY".into()).await?;
    let consumers: Vec<ConsumerRow> =
        sqlx::query_as(include_str!("../../sql/status_consumers.sql")).fetch_all(&mut *conn).await?;
    let dead: Vec<(String, String, i64)> =
        sqlx::query_as(include_str!("../../sql/status_dead.sql")).fetch_all(&mut *conn).await?;
    let positions: Vec<(String, String, String, String)> =
        sqlx::query_as(include_str!("../../sql/status_positions.sql")).fetch_all(&mut *conn).await?;
    let instances: Vec<(String, String, i64)> =
        sqlx::query_as(include_str!("../../sql/status_instances.sql")).fetch_all(&mut *conn).await?;
    transaction::rollback(conn).await?;

    let some = |count: i64| u64::try_from(count).unwrap_or_default();
    let mut all: BTreeMap<String, ConsumerStatus> = consumers
        .into_iter()
        .map(|(consumer, window, claims, oldest, waiting, due, floor)| {
            let status = ConsumerStatus {
                consumer: consumer.clone(),
                window: window.map(convert::duration),
                claims: some(claims),
                oldest_claim: oldest.map(Timestamp::from_millis),
                waiting: some(waiting),
                due: some(due),
                dead: Vec::new(),
                floor: floor.map(Timestamp::from_millis),
                positions: Vec::new(),
                instances: Vec::new(),
            };
            (consumer, status)
        })
        .collect();
    for (consumer, reason, count) in dead {
        // A reason that this program does not know was written by a newer one.
        if let (Some(status), Ok(reason)) = (all.get_mut(&consumer), reason.parse()) {
            status.dead.push((reason, some(count)));
        }
    }
    for (consumer, source, unit, position) in positions {
        all.entry(consumer).and_modify(|status| status.positions.push((source, unit, position)));
    }
    for (consumer, instance, silent) in instances {
        all.entry(consumer).and_modify(|status| status.instances.push((instance, convert::duration(silent))));
    }
    let in_order = |status: &mut ConsumerStatus| {
        status.dead.sort_by_key(|(reason, _)| semel_core::Reason::ALL.iter().position(|other| other == reason));
    };
    all.values_mut().for_each(in_order);
    Ok(all.into_values().collect())
}
