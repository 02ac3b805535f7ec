//! Everything known of one id.

use super::{Answer, dead};
use crate::convert::{self, clean};
use crate::error::store_error;
use semel_core::{DeadFilter, Explained, ExplainedClaim, ExplainedWaiting, Timestamp};
use sqlx::postgres::PgConnection;
use std::collections::BTreeMap;

type ClaimRow = (String, i64, Option<Vec<u8>>, i16, Option<i64>);
type WaitingRow = (String, String, Option<String>, i32, i64, String, i64);

/// Consumers that know nothing of it are left out.
pub(super) async fn read(conn: &mut PgConnection, consumer: Option<&str>, id: &str) -> Answer<Vec<Explained>> {
    let failed = |error| store_error("read what is known of a message", error);
    // With U+0000 it can be no id, but the place in a source.
    let text = clean(id);
    let claims: Vec<ClaimRow> = sqlx::query_as(include_str!("../../sql/explain_claims.sql"))
        .bind(consumer)
        .bind(&text)
        .fetch_all(&mut *conn)
        .await
        .map_err(failed)?;
    let waiting: Vec<WaitingRow> = sqlx::query_as(include_str!("../../sql/explain_waiting.sql"))
        .bind(consumer)
        .bind(&text)
        .fetch_all(&mut *conn)
        .await
        .map_err(failed)?;
    let filter =
        DeadFilter { consumer: consumer.map(str::to_owned), reference: Some(id.to_owned()), ..DeadFilter::default() };
    let letters = dead::read(conn, &filter, 0, usize::MAX).await?;

    let mut all: BTreeMap<String, Explained> = BTreeMap::new();
    let entry = |all: &mut BTreeMap<String, Explained>, consumer: &str, put: &mut dyn FnMut(&mut Explained)| {
        put(all.entry(consumer.to_owned()).or_insert_with(|| Explained {
            consumer: consumer.to_owned(),
            claim: None,
            waiting: None,
            dead: Vec::new(),
        }));
    };
    for (consumer, claimed_at, digest, version, time) in claims {
        let claim = ExplainedClaim {
            claimed_at: Timestamp::from_millis(claimed_at),
            fingerprint: convert::fingerprint(version, &digest.unwrap_or_default()),
            time: time.map(Timestamp::from_millis),
        };
        entry(&mut all, &consumer, &mut |explained| explained.claim = Some(claim));
    }
    for (consumer, kind, key, attempts, due_at, error, since) in waiting {
        let mut waiting = Some(ExplainedWaiting {
            kind,
            key,
            attempts: u32::try_from(attempts).unwrap_or_default(),
            due_at: Timestamp::from_millis(due_at),
            error,
            since: Timestamp::from_millis(since),
        });
        entry(&mut all, &consumer, &mut |explained| explained.waiting = waiting.take());
    }
    for letter in letters {
        let consumer = letter.consumer.clone();
        let mut letter = Some(letter);
        entry(&mut all, &consumer, &mut |explained| explained.dead.extend(letter.take()));
    }
    Ok(all.into_values().collect())
}
