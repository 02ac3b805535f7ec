//! A lane that is dropped stops what runs on it, and leaves no trace; law 16.

mod common;

use common::*;
use semel_core::{Claim, Lane, Store, Writes};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

const ENDLESS: &str =
    "insert into effects with recursive n (i) as (select 1 union all select i + 1 from n) select max(i) from n";

#[tokio::test]
async fn a_dropped_lane_interrupts_a_long_statement() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    effect(lane.conn(), "before").await.unwrap();
    assert!(timeout(Duration::from_millis(100), sqlx::raw_sql(ENDLESS).execute(lane.conn())).await.is_err());
    drop(lane);
    // It held the write lock: the next one waits at most `busy_timeout` for it.
    let mut lane = shop.lane().await;
    assert_eq!(shop.claim(&mut lane, &[key("m")]).await, [Claim::Fresh]);
    assert_eq!(effects(&shop).await, [] as [&str; 0]);
}

/// Core's own limit comes first; this one holds where core is not there to see.
#[tokio::test]
async fn a_statement_ends_after_the_time_limit() {
    let (shop, mut lane) = shop().await;
    let key = [key("m")];
    lane.begin(&semel_core::Claims { time_limit: Duration::ZERO, ..claims(shop.consumer, &key) }).await.unwrap();
    let stopped = timeout(PATIENCE, sqlx::raw_sql(ENDLESS).execute(lane.conn())).await.expect("SQLite stops it");
    let code = stopped.unwrap_err().into_database_error().unwrap().code().unwrap().into_owned();
    assert_eq!(code, "9", "SQLITE_INTERRUPT");
    let error = lane.commit(&Writes::default()).await.unwrap_err();
    assert!(error.message.contains("the handler hid a database error"), "{error}");
}

/// Polls at most so often.
struct Polls<F>(Pin<Box<F>>, usize);

impl<F: Future> Future for Polls<F> {
    type Output = Option<F::Output>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.1 == 0 {
            return Poll::Ready(None);
        }
        self.1 -= 1;
        self.0.as_mut().poll(cx).map(Some)
    }
}

#[tokio::test]
async fn dropped_at_any_poll_the_claim_and_the_effect_stand_or_fall_together() {
    let (shop, lane) = shop().await;
    drop(lane);
    let mut ended = 0;
    for polls in 1..60 {
        let id = format!("m{polls}");
        let (store, consumer) = (shop.store.clone(), shop.consumer);
        let work = async {
            let mut lane = store.connect().await.unwrap();
            begin(&mut lane, consumer, &[key(&id)]).await.unwrap();
            effect(lane.conn(), &id).await.unwrap();
            lane.commit(&Writes::default()).await.unwrap();
        };
        ended += usize::from(Polls(Box::pin(work), polls).await.is_some());
    }
    assert!(ended > 0, "some must end");
    // Behind everything that is still closing.
    let mut lane = shop.lane().await;
    let claimed = begin(&mut lane, shop.consumer, &[]).await;
    claimed.unwrap();
    let apart = "select (select count(*) from effects where v not in (select message_id from semel_claim)) \
                 + (select count(*) from semel_claim where message_id not in (select v from effects))";
    assert_eq!(number(&mut lane, apart).await, 0);
    assert!(number(&mut lane, "select count(*) from effects").await >= i64::try_from(ended).unwrap());
}

/// The future of a nested transaction, dropped while it begins, commits or rolls back.
#[tokio::test]
async fn a_nested_transaction_dropped_at_any_poll_breaks_nothing() {
    use sqlx::Connection;
    let (shop, mut lane) = shop().await;
    for polls in 1..12 {
        let id = format!("m{polls}");
        begin(&mut lane, shop.consumer, &[key(&id)]).await.unwrap();
        let nested = async {
            let mut nested = lane.conn().begin().await?;
            effect(&mut nested, "nested").await?;
            nested.commit().await
        };
        let _ = Polls(Box::pin(nested), polls).await;
        let committed = lane.commit(&Writes::default()).await;
        if committed.is_err() {
            // sqlx may have sent one ROLLBACK too many; then the hooks noticed.
            lane = shop.lane().await;
        }
        let verdict = shop.claim(&mut lane, &[key(&id)]).await;
        assert_eq!(verdict, [if committed.is_ok() { Claim::Duplicate } else { Claim::Fresh }]);
    }
}
