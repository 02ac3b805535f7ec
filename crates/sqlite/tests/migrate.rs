//! Making and checking the schema, from many processes at once; setups.

mod common;

use common::*;
use semel_core::{Lane, Records, Store, StoreError, Trouble};
use semel_sqlite::{SCHEMA, Sqlite};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

#[tokio::test(flavor = "multi_thread")]
async fn ten_at_once_on_an_empty_file() {
    for _ in 0..5 {
        let directory = tempfile::tempdir().unwrap();
        let barrier = Arc::new(Barrier::new(10));
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let store = Sqlite::open(directory.path().join("shop.db")).unwrap().busy_timeout(PATIENCE);
                let barrier = barrier.clone();
                tokio::spawn(async move {
                    barrier.wait().await;
                    let mut lane = store.connect().await?;
                    // Would fail the second time.
                    lane.migrate(&[setup(
                        "shop.sql",
                        "create table shop (id integer primary key); insert into shop values (1)",
                    )])
                    .await?;
                    let window = Some(Duration::from_secs(60));
                    Ok::<_, StoreError>((lane.register("a", window).await?, lane.register("b", None).await?))
                })
            })
            .collect();
        let mut numbers = Vec::new();
        for task in tasks {
            numbers.push(task.await.unwrap().unwrap());
        }
        assert!(numbers.iter().all(|pair| *pair == numbers[0]) && numbers[0].0 != numbers[0].1, "{numbers:?}");
        let mut lane = Sqlite::open(directory.path().join("shop.db")).unwrap().connect().await.unwrap();
        assert_eq!(number(&mut lane, "select count(*) from shop").await, 1);
        assert_eq!(number(&mut lane, "select count(*) from semel_migration").await, 1);
    }
}

#[tokio::test]
async fn the_printed_schema_is_a_whole_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut lane = Sqlite::open(directory.path().join("shop.db")).unwrap().connect().await.unwrap();
    sqlx::raw_sql(SCHEMA).execute(lane.conn()).await.unwrap();
    lane.check_schema().await.unwrap();
    lane.migrate(&[]).await.unwrap();
    lane.register("billing", None).await.unwrap();
}

#[tokio::test]
async fn a_newer_schema_is_left_alone() {
    let (shop, mut lane) = shop().await;
    sqlx::raw_sql("insert into semel_migration (version) values (99)").execute(lane.conn()).await.unwrap();
    let errors = [
        lane.check_schema().await.unwrap_err(),
        shop.lane().await.migrate(&[]).await.unwrap_err(),
        shop.lane().await.register("billing", None).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.trouble, Trouble::Schema);
        assert!(
            error.message.contains("made by a newer semel (schema 99, this program knows 1): use the newer program"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn names_keep_their_numbers_and_windows() {
    let (shop, mut lane) = shop().await;
    let day = Duration::from_secs(86_400);
    assert_eq!(lane.register("billing", Some(day)).await.unwrap(), shop.consumer);
    assert_eq!(lane.register("billing", None).await.unwrap(), shop.consumer);
    assert_eq!(lane.status().await.unwrap()[0].window, Some(day), "no window given: it stays");
    lane.register("billing", Some(day * 2)).await.unwrap();
    assert_eq!(lane.status().await.unwrap()[0].window, Some(day * 2));
    assert_ne!(lane.register("Billing", None).await.unwrap(), shop.consumer, "another name");
    assert_eq!(lane.consumer("billing").await.unwrap(), Some(shop.consumer));
    assert_eq!(lane.consumer("billing ").await.unwrap(), None);
}

#[tokio::test]
async fn a_start_with_nothing_to_do_waits_for_nobody() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    let mut second = shop.store.clone().busy_timeout(Duration::ZERO).connect().await.unwrap();
    second.migrate(&[setup("effects.sql", "create table effects (v text)")]).await.unwrap();
    assert_eq!(second.register("billing", None).await.unwrap(), shop.consumer);
    lane.rollback().await.unwrap();
}

#[tokio::test]
async fn setups_run_once_in_order_and_together() {
    let (shop, mut lane) = shop().await;
    let first = setup("1.sql", "create table a (v); -- the first\ninsert into a values (1);");
    let second = setup("2.sql", "insert into a select v + 1 from a");
    lane.migrate(&[first.clone(), second.clone()]).await.unwrap();
    lane.migrate(&[first.clone(), second]).await.unwrap();
    assert_eq!(number(&mut lane, "select sum(v) from a").await, 3);

    let broken = setup("3.sql", "insert into a values (10); insert into nowhere values (1)");
    let error =
        shop.lane().await.migrate(&[first, setup("0.sql", "insert into a values (20)"), broken]).await.unwrap_err();
    assert_eq!(error.trouble, Trouble::Other);
    assert_eq!(error.message, "the setup file 3.sql failed, and nothing was changed: no such table: nowhere");
    assert_eq!(number(&mut lane, "select sum(v) from a").await, 3, "0.sql was undone too");
}

#[tokio::test]
async fn a_changed_setup_is_an_error() {
    let (shop, mut lane) = shop().await;
    let error = lane.migrate(&[setup("effects.sql", "create table effects (v text, w text)")]).await.unwrap_err();
    assert_eq!(error.trouble, Trouble::Schema);
    assert!(
        error.message.starts_with("the setup file effects.sql has changed since it was run on this database"),
        "{error}"
    );
    assert!(error.message.ends_with("add a new file for what is new"), "{error}");
    // Also where something else is new, so that the look is taken under the lock.
    let new = setup("new.sql", "create table new (v)");
    let changed = setup("effects.sql", "select 1");
    assert_eq!(shop.lane().await.migrate(&[new, changed]).await.unwrap_err().trouble, Trouble::Schema);
    assert_eq!(number(&mut shop.lane().await, "select count(*) from sqlite_schema where name = 'new'").await, 0);
}

#[tokio::test]
async fn a_setup_that_ends_its_transaction_is_noticed() {
    let (shop, _lane) = shop().await;
    for sql in [
        "create table a (v); commit",
        "create table a (v); end; create table b (v)",
        "create table a (v); rollback; begin; create table b (v)",
        "create table a (v); rollback; create table b (v)",
    ] {
        let error = shop.lane().await.migrate(&[setup("a.sql", sql)]).await.unwrap_err();
        assert_eq!(error.trouble, Trouble::Other, "{sql}");
        assert!(
            error.message.starts_with("the setup file a.sql ends the transaction that it runs in"),
            "{sql}: {error}"
        );
        let mut lane = shop.lane().await;
        assert_eq!(number(&mut lane, "select count(*) from sqlite_schema where name in ('a', 'b')").await, 0, "{sql}");
        assert_eq!(number(&mut lane, "select count(*) from semel_setup where name = 'a.sql'").await, 0, "{sql}");
    }
    let error = shop.lane().await.migrate(&[setup("a.sql", "begin; create table a (v); commit")]).await.unwrap_err();
    assert!(error.message.contains("cannot start a transaction within a transaction"), "{error}");
}

/// sqlx 0.9.0 looks for ever for the statement behind a U+0000.
#[tokio::test]
async fn a_setup_with_a_zero_byte_is_refused() {
    let (_shop, mut lane) = shop().await;
    let error = lane.migrate(&[setup("a.sql", "select 1;\0 select 2")]).await.unwrap_err();
    assert!(error.message.contains("U+0000"), "{error}");
}
