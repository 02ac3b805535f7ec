//! Looking before claiming: the same verdicts, nothing written, nothing locked.

use crate::convert;
use crate::error::store_error;
use crate::lane::Known;
use semel_core::{Claim, ClaimKey, Claimed, ConsumerNumber, StoreError};
use sqlx::postgres::PgConnection;
use std::collections::HashSet;

pub(crate) async fn look(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    keys: &[ClaimKey<'_>],
) -> Result<Claimed, StoreError> {
    let ids: Vec<&str> = keys.iter().filter(|key| key.waiting.is_none()).map(|key| key.id).collect();
    let known = if ids.is_empty() { Known::default() } else { Known::of(conn, consumer, &ids, None).await? };
    let waiting: Vec<(&str, i32)> =
        keys.iter().filter_map(|key| Some((key.id, convert::count(key.waiting?)))).collect();
    let (still, held) =
        if waiting.is_empty() { Default::default() } else { still_waiting(conn, consumer, &waiting).await? };
    let claims = keys.iter().map(|key| match key.waiting {
        Some(_) if still.contains(key.id) => Claim::Fresh,
        Some(_) => Claim::Duplicate,
        None => known.verdict(key).unwrap_or(Claim::Fresh),
    });
    Ok(Claimed { claims: claims.collect(), keys_held: known.keys_held || held })
}

async fn still_waiting(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    waiting: &[(&str, i32)],
) -> Result<(HashSet<String>, bool), StoreError> {
    let (ids, attempts): (Vec<&str>, Vec<i32>) = waiting.iter().copied().unzip();
    let (ids, held): (Option<Vec<String>>, bool) = sqlx::query_as(include_str!("../sql/look_waiting.sql"))
        .bind(consumer.0)
        .bind(ids)
        .bind(attempts)
        .fetch_one(conn)
        .await
        .map_err(|error| store_error("read what waits", error))?;
    Ok((ids.into_iter().flatten().collect(), held))
}
