//! Law 11 on SQLite: nothing is acknowledged whose own transaction was not committed, whatever the handler does to it.

mod common;

use common::*;
use semel_core::{Claim, Lane, StoreError, Trouble, Writes};
use sqlx::Connection;

/// After any of these the message is as if it had never come.
async fn untouched(shop: &Shop) {
    assert_eq!(effects(shop).await, [] as [&str; 0]);
    let mut lane = shop.lane().await;
    assert_eq!(shop.claim(&mut lane, &[key("m")]).await, [Claim::Fresh], "the claim is gone too");
}

fn refused(result: Result<semel_core::Written, StoreError>, part: &str) {
    let error = result.expect_err("this must not be acknowledged");
    assert_eq!(error.trouble, Trouble::Other);
    assert!(error.message.contains(part), "{error}");
}

#[tokio::test]
async fn a_raw_commit_is_refused() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    effect(lane.conn(), "before").await.unwrap();
    let error = sqlx::raw_sql("COMMIT").execute(lane.conn()).await.expect_err("the hook refuses it");
    assert_eq!(<semel_sqlite::Sqlite as semel_core::Store>::trouble(&error), Trouble::Other);
    assert!(effect(lane.conn(), "after, alone").await.is_err(), "nothing commits by itself any more");
    refused(lane.commit(&Writes::default()).await, "ended the transaction itself (COMMIT)");
    drop(lane);
    untouched(&shop).await;
}

#[tokio::test]
async fn a_raw_commit_and_a_new_begin_are_noticed() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    effect(lane.conn(), "before").await.unwrap();
    let _ = sqlx::raw_sql("COMMIT").execute(lane.conn()).await;
    sqlx::raw_sql("BEGIN").execute(lane.conn()).await.unwrap();
    effect(lane.conn(), "after").await.unwrap();
    refused(lane.commit(&Writes { closed: vec!["m".to_owned()], ..Writes::default() }).await, "(COMMIT)");
    drop(lane);
    untouched(&shop).await;
}

#[tokio::test]
async fn a_raw_rollback_and_a_new_begin_are_noticed() {
    for restart in ["ROLLBACK; BEGIN", "ROLLBACK; BEGIN IMMEDIATE", "ROLLBACK"] {
        let (shop, mut lane) = shop().await;
        begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
        effect(lane.conn(), "before").await.unwrap();
        sqlx::raw_sql(restart).execute(lane.conn()).await.unwrap();
        let _ = effect(lane.conn(), "after").await;
        refused(lane.commit(&Writes::default()).await, "the handler hid a database error");
        drop(lane);
        untouched(&shop).await;
    }
}

#[tokio::test]
async fn a_statement_that_rolls_everything_back_is_noticed() {
    let (shop, mut lane) = shop().await;
    sqlx::raw_sql("create unique index one on effects (v)").execute(lane.conn()).await.unwrap();
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    effect(lane.conn(), "a").await.unwrap();
    let error = sqlx::raw_sql("insert or rollback into effects values ('a')").execute(lane.conn()).await;
    assert!(error.is_err(), "and the handler swallows it");
    refused(lane.commit(&Writes::default()).await, "the handler hid a database error");
    drop(lane);
    untouched(&shop).await;
}

/// Takes so long that what is sent behind it is still to be run when `commit` looks.
const SLOW: &str =
    "with recursive n (i) as (select 1 union all select i + 1 from n where i < 300000) select max(i) from n";

/// Sends a statement and does not wait for it.
async fn send(lane: &mut semel_sqlite::SqliteLane, sql: &'static str) {
    let mut future = Box::pin(sqlx::raw_sql(sql).execute(lane.conn()));
    let _ = std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await;
}

/// Statements that nobody waited for still run, in their order: the hooks judge them when they do.
#[tokio::test]
async fn a_commit_or_rollback_that_was_sent_and_not_awaited() {
    let insert = "insert into effects values ('after')";
    for sent in [
        &["COMMIT"][..],
        &["COMMIT", "BEGIN", insert],
        &["ROLLBACK"],
        &["ROLLBACK", "BEGIN", insert],
        &["ROLLBACK", insert],
    ] {
        let (shop, mut lane) = shop().await;
        begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
        effect(lane.conn(), "before").await.unwrap();
        send(&mut lane, SLOW).await;
        for sql in sent {
            send(&mut lane, sql).await;
        }
        let committed = lane.commit(&Writes::default()).await;
        drop(lane);
        let mut lane = shop.lane().await;
        let claim = shop.claim(&mut lane, &[key("m")]).await[0];
        let effects = effects(&shop).await;
        // Claim and effects together or neither; and an acknowledgement only with both.
        match claim {
            Claim::Fresh => assert_eq!(effects, [] as [&str; 0], "{sent:?}"),
            _ => assert_eq!(effects[0], "before", "{sent:?}"),
        }
        assert!(committed.is_err() || claim == Claim::Duplicate, "{sent:?}");
    }
}

/// A handler that failed, with a COMMIT still on its way.
#[tokio::test]
async fn a_commit_that_was_sent_before_the_rollback() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    effect(lane.conn(), "before").await.unwrap();
    send(&mut lane, SLOW).await;
    send(&mut lane, "COMMIT").await;
    let _ = lane.rollback().await;
    drop(lane);
    untouched(&shop).await;
}

#[tokio::test]
async fn a_leaked_savepoint_is_noticed() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    std::mem::forget(lane.conn().begin().await.unwrap());
    effect(lane.conn(), "nested").await.unwrap();
    refused(lane.commit(&Writes::default()).await, "left a nested transaction open");
    drop(lane);
    untouched(&shop).await;
}

/// Its rollback is only on its way when `commit` looks at the depth.
#[tokio::test]
async fn a_dropped_savepoint_is_no_leak() {
    for _ in 0..50 {
        let (shop, mut lane) = shop().await;
        begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
        effect(lane.conn(), "outer").await.unwrap();
        let mut nested = lane.conn().begin().await.unwrap();
        effect(&mut nested, "nested").await.unwrap();
        drop(nested);
        lane.commit(&Writes::default()).await.unwrap();
        assert_eq!(effects(&shop).await, ["outer"]);
    }
}

#[tokio::test]
async fn a_nested_begin_is_a_savepoint() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    let mut nested = lane.conn().begin().await.unwrap();
    effect(&mut nested, "nested").await.unwrap();
    nested.commit().await.unwrap();
    let mut undone = lane.conn().begin().await.unwrap();
    effect(&mut undone, "undone").await.unwrap();
    undone.rollback().await.unwrap();
    assert_eq!(effects(&shop).await, [] as [&str; 0], "the inner commit committed nothing");
    lane.commit(&Writes::default()).await.unwrap();
    assert_eq!(effects(&shop).await, ["nested"]);
    drop(lane);

    let mut lane = shop.lane().await;
    begin(&mut lane, shop.consumer, &[key("n")]).await.unwrap();
    let nested = lane.conn().begin().await.unwrap();
    nested.commit().await.unwrap();
    lane.rollback().await.unwrap();
    assert_eq!(shop.claim(&mut lane, &[key("n")]).await, [Claim::Fresh]);
}

/// SQLite undoes the failed statement alone, and the transaction goes on: so do we.
#[tokio::test]
async fn a_swallowed_statement_error_ends_nothing() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    effect(lane.conn(), "one").await.unwrap();
    assert!(sqlx::raw_sql("insert into nowhere values (1)").execute(lane.conn()).await.is_err());
    assert!(
        sqlx::raw_sql("insert into effects select v from effects union all select json('{')")
            .execute(lane.conn())
            .await
            .is_err()
    );
    effect(lane.conn(), "two").await.unwrap();
    lane.commit(&Writes::default()).await.unwrap();
    assert_eq!(effects(&shop).await, ["one", "two"]);
    assert_eq!(shop.claim(&mut lane, &[key("m")]).await, [Claim::Duplicate]);
}

#[tokio::test]
async fn a_lane_is_good_for_more_after_every_kind_of_end() {
    let (shop, mut lane) = shop().await;
    for round in 0..3 {
        for wreck in [
            "",
            "insert or rollback into effects select v from effects",
            "ROLLBACK",
            "ROLLBACK; BEGIN",
            "COMMIT",
            "SAVEPOINT a",
        ] {
            begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
            effect(lane.conn(), "undone").await.unwrap();
            let _ = sqlx::raw_sql(wreck).execute(lane.conn()).await;
            std::mem::forget(lane.conn().begin().await);
            lane.rollback().await.unwrap_or_else(|error| panic!("{wreck}: {error}"));
        }
        let id = format!("round {round}");
        assert_eq!(
            begin(&mut lane, shop.consumer, &[key("m"), key(&id)]).await.unwrap().claims,
            [Claim::Fresh, Claim::Fresh]
        );
        lane.rollback().await.unwrap();
        assert_eq!(shop.claim(&mut lane, &[key(&id)]).await, [Claim::Fresh]);
    }
    assert_eq!(effects(&shop).await, [] as [&str; 0]);
}

#[tokio::test]
async fn a_deferred_foreign_key_says_what_it_is() {
    let (shop, mut lane) = shop().await;
    let tables = "create table a (id integer primary key); create table b (a integer references a deferrable initially deferred)";
    sqlx::raw_sql(tables).execute(lane.conn()).await.unwrap();
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    sqlx::raw_sql("insert into b values (7)").execute(lane.conn()).await.unwrap();
    refused(lane.commit(&Writes::default()).await, "a deferred foreign key");
    drop(lane);
    untouched(&shop).await;
}

/// With a COMMIT of the handler's own in a trigger or a function there is nothing to fear: SQLite has none. But statements outside the
/// message's transaction must go on working on the same connection.
#[tokio::test]
async fn outside_a_message_the_connection_commits_as_ever() {
    let (shop, mut lane) = shop().await;
    assert_eq!(shop.claim(&mut lane, &[key("m")]).await, [Claim::Fresh]);
    sqlx::raw_sql("begin; insert into effects values ('raw'); commit").execute(lane.conn()).await.unwrap();
    effect(lane.conn(), "alone").await.unwrap();
    assert_eq!(effects(&shop).await, ["raw", "alone"]);
}
