//! Law 11: COMMIT is no proof, so semel proves before it that its own transaction lives.

mod common;

use common::{Database, begin, claims, execute, key, letter, process, text, write};
use semel_core::{
    Claim, ClaimKey, ClaimWait, ConsumerNumber, Lane, Reason, Records, Store, StoreError, Trouble, Writes,
};
use semel_postgres::{Postgres, PostgresLane};
use sqlx::Connection;
use std::time::{Duration, Instant};

async fn registered(database: &Database) -> (PostgresLane, ConsumerNumber) {
    let mut lane = database.lane().await;
    let consumer = lane.register("billing", None).await.unwrap();
    (lane, consumer)
}

/// What a handler can do to its transaction, each as (with its claim, or without one).
async fn refused(handler: &str, keys: &[ClaimKey<'_>], database: &Database) -> StoreError {
    let (mut lane, consumer) = registered(database).await;
    begin(&mut lane, consumer, keys).await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(handler)).execute(lane.conn()).await.ok();
    lane.commit(&Writes { dead: vec![letter(Reason::Stale, Some("s"), "s")], ..Writes::default() })
        .await
        .expect_err(handler)
}

#[tokio::test]
async fn what_a_handler_does_to_the_transaction_is_noticed() {
    let Some(database) = Database::fresh().await else { return };
    let claim = [key("a", "a")];
    for keys in [&claim[..], &[]] {
        for handler in [
            "insert into effect values ('hidden'); select 1 / 0",
            "insert into effect values ('hidden'); insert into nowhere values (1)",
        ] {
            let error = refused(handler, keys, &database).await;
            assert_eq!(error.trouble, Trouble::Other);
            assert!(error.message.contains("the handler hid a database error"), "{error}");
        }
        for handler in [
            "rollback",
            "rollback; begin",
            "rollback; begin; insert into effect values ('other')",
            "rollback and chain",
            "rollback; begin; set local semel.transaction = 'mine'",
        ] {
            let error = refused(handler, keys, &database).await;
            assert_eq!(error.trouble, Trouble::Other);
            assert!(error.message.contains("ended the transaction itself"), "{handler}: {error}");
        }
    }
    assert_eq!((database.claims().await, database.effects().await), (0, 0), "nothing of it was kept");

    for handler in ["commit", "commit; begin", "commit and chain"] {
        let id = format!("id of {handler}");
        let error = refused(handler, &[key(&id, "")], &database).await;
        assert!(error.message.contains("ended the transaction itself"), "{handler}: {error}");
    }
    assert_eq!(database.claims().await, 3, "a raw COMMIT keeps what it keeps");
    assert_eq!(
        database.count("select count(*) from semel.dead_letter").await,
        0,
        "but nothing was written outside a transaction"
    );
}

#[tokio::test]
async fn a_transaction_of_duplicates_is_proved_too() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    assert_eq!(process(&mut lane, consumer, "a", "a").await.unwrap(), Claim::Fresh);
    // Nobody's work runs in it, so this is as good as it needs to be.
    let error = refused("commit", &[key("a", "a")], &database).await;
    assert_eq!(error.trouble, Trouble::Other, "{error}");
    begin(&mut lane, consumer, &[key("a", "a")]).await;
    lane.commit(&Writes::default()).await.unwrap();
    begin(&mut lane, consumer, &[]).await;
    write(&mut lane, "without a claim").await;
    lane.commit(&Writes::default()).await.unwrap();
    assert_eq!(database.effects().await, 2);
}

#[tokio::test]
async fn a_leaked_nested_transaction_is_noticed_and_an_ended_one_is_a_savepoint() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    begin(&mut lane, consumer, &[key("a", "a")]).await;
    std::mem::forget(lane.conn().begin().await.unwrap());
    write(&mut lane, "a").await;
    let error = lane.commit(&Writes::default()).await.unwrap_err();
    assert!(error.message.contains("nested transaction"), "{error}");
    drop(lane);

    let (mut lane, consumer) = registered(&database).await;
    begin(&mut lane, consumer, &[key("b", "b")]).await;
    let mut nested = lane.conn().begin().await.unwrap();
    execute(&mut nested, "insert into effect values ('nested')").await;
    nested.commit().await.unwrap();
    let mut failing = lane.conn().begin().await.unwrap();
    sqlx::raw_sql("select 1 / 0").execute(&mut *failing).await.unwrap_err();
    drop(failing);
    lane.rollback().await.unwrap();
    assert_eq!((database.claims().await, database.effects().await), (0, 0), "a nested commit is no commit");

    begin(&mut lane, consumer, &[key("b", "b")]).await;
    std::mem::forget(lane.conn().begin().await.unwrap());
    lane.rollback().await.unwrap();
    assert_eq!(
        process(&mut lane, consumer, "b", "b").await.unwrap(),
        Claim::Fresh,
        "the lane is whole after a rollback"
    );
    let mut failing = lane.conn().begin().await.unwrap();
    sqlx::raw_sql("select 1 / 0").execute(&mut *failing).await.unwrap_err();
    failing.rollback().await.unwrap();
}

/// The error of a statement whose answer nobody read must not get lost.
#[tokio::test]
async fn an_error_that_was_never_read_is_noticed() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    begin(&mut lane, consumer, &[key("a", "a")]).await;
    {
        let slow = sqlx::raw_sql("select pg_sleep(0.2); select 1 / 0").execute(lane.conn());
        assert!(tokio::time::timeout(Duration::from_millis(50), slow).await.is_err());
    }
    let error = lane.commit(&Writes::default()).await.unwrap_err();
    assert_eq!(error.trouble, Trouble::Other, "{error}");
    drop(lane);
    assert_eq!(database.claims().await, 0);
}

/// Records the setting of the moment when a transaction commits.
const NOTE_AT_COMMIT: &str = "
    create table at_commit (v text, durable text);
    create function note() returns trigger language plpgsql as $$ begin
      insert into at_commit values (new.v, current_setting('synchronous_commit'));
      return null;
    end $$;
    create constraint trigger note after insert on effect deferrable initially deferred for each row execute function note()";

#[tokio::test]
async fn a_commit_is_durable_and_no_stronger_setting_is_lowered() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    execute(lane.conn(), NOTE_AT_COMMIT).await;
    for session in ["off", "local", "on", "remote_write", "remote_apply"] {
        let store = Postgres::new(&database.url(&format!("?options=-c%20synchronous_commit%3D{session}"))).unwrap();
        for handler in ["off", "local", "on", "remote_write", "remote_apply", "none"] {
            let mut lane = store.connect().await.unwrap();
            let id = format!("{session} {handler}");
            begin(&mut lane, consumer, &[key(&id, "")]).await;
            if handler != "none" {
                execute(lane.conn(), &format!("set local synchronous_commit = {handler}")).await;
            }
            write(&mut lane, &id).await;
            lane.commit(&Writes::default()).await.unwrap();
            let set = if handler == "none" { session } else { handler };
            let expected = if matches!(set, "off" | "local") { "on" } else { set };
            let found = text(lane.conn(), &format!("select durable from at_commit where v = '{id}'")).await;
            assert_eq!(found.as_deref(), Some(expected), "session {session}, handler {handler}");
        }
    }
}

#[tokio::test]
async fn the_claim_alone_waits_for_at_most_its_limit() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    assert_eq!(process(&mut lane, consumer, "done", "").await.unwrap(), Claim::Fresh);
    let own = Postgres::new(&database.url("?options=-c%20lock_timeout%3D7s")).unwrap();
    let (new, old, none) = ([key("new", "")], [key("done", "")], []);
    for keys in [&new[..], &old[..], &none[..]] {
        let mut lane = own.connect().await.unwrap();
        begin(&mut lane, consumer, keys).await;
        assert_eq!(text(lane.conn(), "show lock_timeout").await.as_deref(), Some("7s"), "{} keys", keys.len());
        lane.rollback().await.unwrap();
        let wait = ClaimWait::Transaction(Duration::from_millis(150));
        lane.begin(&semel_core::Claims { wait, ..claims(consumer, keys) }).await.unwrap();
        assert_eq!(text(lane.conn(), "show lock_timeout").await.as_deref(), Some("150ms"));
        assert_eq!(text(lane.conn(), "show statement_timeout").await.as_deref(), Some("32s"));
        assert_eq!(text(lane.conn(), "show idle_in_transaction_session_timeout").await.as_deref(), Some("32s"));
        lane.rollback().await.unwrap();
        assert_eq!(text(lane.conn(), "show lock_timeout").await.as_deref(), Some("7s"));
    }
}

#[tokio::test]
async fn a_handlers_own_wait_is_its_own_affair() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    execute(lane.conn(), "create table account (id int primary key, n int); insert into account values (1, 0)").await;
    for wait in [ClaimWait::Claim(Duration::from_millis(100)), ClaimWait::Transaction(Duration::from_millis(100))] {
        let mut other = database.conn().await;
        execute(&mut other, "begin; update account set n = n + 1 where id = 1").await;
        let holder = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            execute(&mut other, "commit").await;
        });
        let id = format!("{wait:?}");
        lane.begin(&semel_core::Claims { wait, ..claims(consumer, &[key(&id, "")]) }).await.unwrap();
        let updated = sqlx::query("update account set n = n + 1 where id = 1").execute(lane.conn()).await;
        match wait {
            ClaimWait::Claim(_) => {
                updated.unwrap();
                lane.commit(&Writes::default()).await.unwrap();
            }
            ClaimWait::Transaction(_) => {
                assert_eq!(Postgres::trouble(&updated.unwrap_err()), Trouble::Busy);
                lane.rollback().await.unwrap();
            }
        }
        holder.await.unwrap();
    }
}

#[tokio::test]
async fn a_twin_that_runs_too_long_is_busy() {
    let Some(database) = Database::fresh().await else { return };
    let (mut first, consumer) = registered(&database).await;
    begin(&mut first, consumer, &[key("a", "a")]).await;
    let mut second = database.lane().await;
    let started = Instant::now();
    let error = second.begin(&claims(consumer, &[key("a", "a")])).await.unwrap_err();
    assert_eq!(error.trouble, Trouble::Busy, "{error}");
    assert!(started.elapsed() >= Duration::from_millis(250) && started.elapsed() < Duration::from_secs(5));

    first.rollback().await.unwrap();
    let mut fourth = database.lane().await;
    assert_eq!(process(&mut fourth, consumer, "a", "a").await.unwrap(), Claim::Fresh, "rolled back: free again");
}

/// By code, never by text: the server speaks German here.
#[tokio::test]
async fn codes_are_told_in_any_language() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, _) = registered(&database).await;
    if sqlx::query("set lc_messages = 'de_DE.UTF-8'").execute(lane.conn()).await.is_err() {
        eprintln!("this server speaks no German: only texts of our own are tried");
    } else {
        let said = sqlx::query("select 1 / 0").execute(lane.conn()).await.unwrap_err().to_string();
        assert!(said.contains("Division durch Null"), "{said}");
    }
    for (code, trouble) in [
        ("40001", Trouble::Rerun),
        ("40P01", Trouble::Rerun),
        ("55P03", Trouble::Busy),
        ("57P01", Trouble::Unreachable),
        ("08006", Trouble::Unreachable),
        ("53300", Trouble::Unreachable),
        ("23505", Trouble::Other),
        ("42P01", Trouble::Other),
    ] {
        let raise =
            format!("do $$ begin raise exception 'nicht serialisierbar: s3cret' using errcode = '{code}'; end $$");
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(raise)).execute(lane.conn()).await.unwrap_err();
        assert_eq!(Postgres::trouble(&error), trouble, "{code}");
        let wrapped = StoreError { trouble: Trouble::Other, message: "x".into(), source: Some(Box::new(error)) };
        let wrapped: Box<dyn std::error::Error> = Box::new(Outer(wrapped));
        assert_eq!(Postgres::trouble(&*wrapped), Trouble::Other, "semel's own judgement counts");
    }

    // A real one: two serializable transactions that each read what the other writes.
    let (mut one, mut two) = (database.conn().await, database.conn().await);
    for conn in [&mut one, &mut two] {
        sqlx::query("set lc_messages = 'de_DE.UTF-8'").execute(&mut *conn).await.ok();
        execute(conn, "begin isolation level serializable; select count(*) from effect").await;
    }
    execute(&mut one, "insert into effect values ('1')").await;
    execute(&mut two, "insert into effect values ('2')").await;
    execute(&mut one, "commit").await;
    let error = sqlx::raw_sql("commit").execute(&mut two).await.unwrap_err();
    assert_eq!(Postgres::trouble(&error), Trouble::Rerun, "{error}");
}

#[derive(Debug)]
struct Outer(StoreError);
impl std::fmt::Display for Outer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("outer")
    }
}
impl std::error::Error for Outer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}
