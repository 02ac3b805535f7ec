//! Handlers that do what no handler should do, alone and amid innocent neighbours of the same batch: the bad one ends as
//! it must, and the neighbours are processed once each.

use std::time::{Duration, Instant};

use semel_tests::base::Kind;
use semel_tests::laboratory::{Laboratory, Letter};
use semel_tests::payments::Payments;
use semel_tests::random::Random;
use semel_tests::shop::{LIMIT, Rules, Shop, Summary, TRIES};

const LAB: &str = env!("CARGO_BIN_EXE_lab");
const SEMEL: &str = env!("CARGO_BIN_EXE_semel-probed");

/// What must become of the bad one.
#[derive(Debug, Clone, Copy)]
enum End {
    /// A dead letter with this reason and these words, and no effect.
    Dead(&'static str, &'static str),
    /// Processed as if nothing had been.
    Processed,
    /// It committed by itself: at most one effect, and no claim that promises more.
    AtMostOnce,
}

/// Long enough for a handler that does nothing, short enough to wait for.
const TIMEOUT: u64 = 5_000;
const SHORT: u64 = 700;

async fn on(kind: Kind, act: &'static str, timeout: u64, end: End) {
    for neighbours in [0, 15] {
        check(kind, act, timeout, end, neighbours).await;
    }
}

async fn check(kind: Kind, act: &'static str, timeout: u64, end: End, neighbours: usize) -> Option<Laboratory> {
    let mut tasks: Vec<(String, &str)> =
        (0..neighbours).map(|number| (format!("innocent-{number}"), "nothing")).collect();
    tasks.insert(neighbours / 2, ("bad".to_owned(), act));
    let laboratory = Laboratory::open(kind, LAB, SEMEL, tasks).await?;
    let ends = laboratory.supervise(timeout).await;
    let said = format!("{act} amid {neighbours}, {} starts, the last: {}", ends.len(), ends.last().expect("an end"));

    let mut effects = laboratory.effects().await;
    let bad = effects.remove("bad").unwrap_or(0);
    assert_eq!(effects.len(), neighbours, "{said}: an innocent one is lost: {effects:?}");
    assert!(effects.values().all(|count| *count == 1), "{said}: an innocent one is doubled: {effects:?}");
    let letters = laboratory.dead_letters().await;
    match (end, &*letters) {
        (End::Dead(reason, error), [letter]) => {
            let Letter { id, reason: found, error: words } = letter;
            assert_eq!((&**id, &**found), ("bad", reason), "{said}: {letter:?}");
            assert!(words.contains(error), "{said}: {letter:?}");
            assert_eq!(bad, 0, "{said}: a failed one left something behind");
        }
        (End::Processed, []) => assert_eq!(bad, 1, "{said}"),
        (End::AtMostOnce, []) => assert!(bad <= 1, "{said}: {bad} effects"),
        (_, letters) => panic!("{said}: {letters:?}, and not {end:?}"),
    }
    Some(laboratory)
}

macro_rules! acts {
    ($($sqlite:ident, $postgres:ident: $act:literal, $timeout:expr, $on_sqlite:expr, $on_postgres:expr;)*) => {
        $(
            #[tokio::test]
            async fn $sqlite() {
                on(Kind::Sqlite, $act, $timeout, $on_sqlite).await;
            }

            #[tokio::test]
            async fn $postgres() {
                on(Kind::Postgres, $act, $timeout, $on_postgres).await;
            }
        )*
    };
}

acts! {
    on_sqlite_an_error_fails_its_own_message, on_postgres_an_error_fails_its_own_message:
        "fail", TIMEOUT, End::Dead("failed", "as asked"), End::Dead("failed", "as asked");
    on_sqlite_a_rejected_message_is_set_aside, on_postgres_a_rejected_message_is_set_aside:
        "reject", TIMEOUT, End::Dead("rejected", "as asked"), End::Dead("rejected", "as asked");
    on_sqlite_a_panic_fails_its_own_message, on_postgres_a_panic_fails_its_own_message:
        "panic", TIMEOUT, End::Dead("failed", "panicked: as asked"), End::Dead("failed", "panicked: as asked");
    on_sqlite_a_handler_that_sleeps_too_long_fails, on_postgres_a_handler_that_sleeps_too_long_fails:
        "sleep", SHORT, End::Dead("failed", "longer than its limit"), End::Dead("failed", "longer than its limit");
    on_sqlite_a_query_that_never_ends_is_ended, on_postgres_a_query_that_never_ends_is_ended:
        "query", SHORT, End::Dead("failed", "limit"), End::Dead("failed", "limit");
    // A statement that fails on SQLite undoes itself and nothing else, so that there is nothing to hide: what the handler
    // did before and after it is committed. On PostgreSQL it aborts the transaction.
    on_sqlite_a_hidden_error_of_a_statement_changes_nothing, on_postgres_a_hidden_error_fails_the_message:
        "hide", TIMEOUT, End::Processed, End::Dead("failed", "hid a database error");
    // On SQLite a handler's own COMMIT is refused. PostgreSQL carries it out, and the claim with it: that it is found out
    // keeps it from being called processed, but what was committed stays, and the next try is a duplicate.
    on_sqlite_a_commit_by_hand_is_refused, on_postgres_a_commit_by_hand_is_found_out:
        "commit", TIMEOUT, End::Dead("failed", "ended the transaction itself"), End::AtMostOnce;
    on_sqlite_a_rollback_by_hand_is_found_out, on_postgres_a_rollback_by_hand_is_found_out:
        "rollback", TIMEOUT, End::Dead("failed", "rolled back"), End::Dead("failed", "ended the transaction itself");
    on_sqlite_a_nested_transaction_left_open_fails, on_postgres_a_nested_transaction_left_open_fails:
        "savepoint", TIMEOUT, End::Dead("failed", "nested transaction"), End::Dead("failed", "nested transaction");
}

/// The supervisor starts it again each time. The first death is not counted, for nobody knew yet whom to watch.
async fn killed(kind: Kind, act: &'static str) -> Option<()> {
    for neighbours in [0, 15] {
        let end = End::Dead("crashed", "killed the process 3 times");
        let laboratory = check(kind, act, TIMEOUT, end, neighbours).await?;
        let again = laboratory.lab(TIMEOUT).run(LIMIT).await;
        assert_eq!(again.code(), Some(0), "it is over: {again}");
    }
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_message_that_kills_the_process_is_set_aside_after_three_deaths_that_were_its_own() {
    killed(Kind::Sqlite, "abort").await;
}

#[tokio::test]
async fn on_sqlite_a_message_that_kills_the_process_when_it_is_taken_from_the_inbox_is_set_aside_too() {
    killed(Kind::Sqlite, "later-abort").await;
}

#[tokio::test]
async fn on_postgres_a_message_that_kills_the_process_is_set_aside_after_three_deaths_that_were_its_own() {
    killed(Kind::Postgres, "abort").await;
}

#[tokio::test]
async fn on_postgres_a_message_that_kills_the_process_when_it_is_taken_from_the_inbox_is_set_aside_too() {
    killed(Kind::Postgres, "later-abort").await;
}

/// Two bad ones among many, and none is taken for the other.
async fn two_of_a_kind(kind: Kind) -> Option<()> {
    let mut tasks: Vec<(String, &str)> = (0..20).map(|number| (format!("innocent-{number}"), "nothing")).collect();
    tasks.insert(5, ("first".to_owned(), "abort"));
    tasks.insert(15, ("second".to_owned(), "abort"));
    tasks.insert(18, ("third".to_owned(), "fail"));
    let laboratory = Laboratory::open(kind, LAB, SEMEL, tasks).await?;
    let starts = laboratory.supervise(TIMEOUT).await.len();
    let mut letters: Vec<(String, String)> =
        laboratory.dead_letters().await.into_iter().map(|letter| (letter.id, letter.reason)).collect();
    letters.sort();
    let expected = [("first", "crashed"), ("second", "crashed"), ("third", "failed")];
    assert_eq!(letters, expected.map(|(id, reason)| (id.to_owned(), reason.to_owned())));
    // One death that nobody was watched at, and three for each.
    assert!(starts <= 8, "{starts} starts");
    let effects = laboratory.effects().await;
    assert_eq!((effects.len(), effects.values().sum::<i64>()), (20, 20), "{effects:?}");
    Some(())
}

#[tokio::test]
async fn on_sqlite_two_messages_that_kill_the_process_are_told_apart() {
    two_of_a_kind(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_two_messages_that_kill_the_process_are_told_apart() {
    two_of_a_kind(Kind::Postgres).await;
}

#[tokio::test]
async fn on_postgres_no_backend_works_on_after_the_time_limit_of_its_handler() {
    const OLDEST: &str = "select coalesce(max(extract(epoch from clock_timestamp() - query_start) * 1000), 0)::bigint
        from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query like '%pg_sleep%'
        and state <> 'idle'";
    // Two handlers that never end, and work for some seconds behind them, so that somebody is there to be watched.
    let tasks =
        ["query", "sleep", "query"].into_iter().enumerate().map(|(number, act)| (format!("task-{number}"), act));
    let Some(laboratory) = Laboratory::open(Kind::Postgres, LAB, SEMEL, tasks.collect()).await else { return };
    let running = laboratory.lab(1_000).spawn();
    let mut oldest = 0;
    let since = Instant::now();
    let ended = running.wait(LIMIT);
    tokio::pin!(ended);
    let finished = loop {
        tokio::select! {
            finished = &mut ended => break finished,
            age = laboratory.base.number(OLDEST) => oldest = oldest.max(age),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert!(since.elapsed() > Duration::from_secs(2), "two tries of a second each: {finished}");
    assert!(oldest > 500, "the query was never seen at work");
    assert!(oldest < 5_000, "a query that had a second worked for {oldest} ms");
    // The program is gone, and with it what its last connection still worked on.
    laboratory.base.wait_for_number(&format!("select 1::bigint where ({OLDEST}) = 0"), 1, Duration::from_secs(2)).await;
}

// ---- what is nobody's fault

/// Everything is booked at the first try, whatever the database says in between.
async fn is_no_try(shop: &Shop, what: &str) {
    let good = shop.payments.good.len() as u64;
    let finished = shop.run().run(LIMIT).await;
    let summary = Summary::of(&finished);
    assert_eq!((summary.processed, summary.dead_lettered, summary.deferred), (good, 0, 0), "{what}: {finished}");
    assert_eq!(shop.violations().await, [], "{what}");
    assert_eq!(shop.base.number(TRIES).await, 1, "{what} is no failed try");
}

#[tokio::test]
async fn on_postgres_a_serialization_failure_in_a_statement_or_at_commit_is_run_again_and_is_no_try() {
    // The answer of a sequence is not rolled back, so that the seventh insert goes through, whoever makes it.
    const FAILURES: &str = "
        create sequence failures;
        create function fail_some_times() returns trigger language plpgsql as $$ begin
          if nextval('failures') <= 6 then raise exception 'as asked' using errcode = '40001'; end if;
          return null;
        end $$;";
    const TRIGGERS: [&str; 2] = [
        "create trigger fail after insert on ledger for each statement execute function fail_some_times()",
        "create constraint trigger fail after insert on ledger deferrable initially deferred
         for each row execute function fail_some_times()",
    ];
    for trigger in TRIGGERS {
        let payments = Payments::plain(60, &mut Random::seeded(41));
        let Some(shop) = Shop::open(Kind::Postgres, SEMEL, &Rules::default(), payments).await else { return };
        assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
        shop.base.execute(&format!("{FAILURES} {trigger}")).await;
        is_no_try(&shop, trigger).await;
        assert!(shop.base.number("select last_value from failures").await > 6, "it failed as often as it was to");
    }
}

#[tokio::test]
async fn on_postgres_deadlocks_between_lanes_are_run_again_and_are_no_tries() {
    // Each payment touches both rows, half of them in one order and half in the other.
    const SHARED: &str = "
        create table shared (account text primary key, touched bigint not null default 0);
        insert into shared (account) values ('left'), ('right');
        create function touch_both() returns void language plpgsql as $$
          declare payment record;
          begin
            for payment in select (body->>'amount')::bigint % 2 = 0 as even from messages loop
              update shared set touched = touched + 1 where account = case when payment.even then 'left' else 'right' end;
              perform pg_sleep(0.002);
              update shared set touched = touched + 1 where account = case when payment.even then 'right' else 'left' end;
            end loop;
          end $$;
        do $$ begin
          execute format('alter database %I set deadlock_timeout = 20', current_database());
        end $$;";
    let payments = Payments::plain(150, &mut Random::seeded(42));
    let rules = Rules { keyed: false, max_batch: 10, last: "select touch_both()", ..Rules::default() };
    let Some(shop) = Shop::open(Kind::Postgres, SEMEL, &rules, payments).await else { return };
    assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
    shop.base.execute(SHARED).await;
    is_no_try(&shop, "a deadlock").await;
    assert_eq!(shop.base.number("select cast(sum(touched) as bigint) from shared").await, 300);
    const DEADLOCKS: &str = "select deadlocks from pg_stat_database where datname = current_database()";
    shop.base.wait_for_number(DEADLOCKS, 1, Duration::from_secs(10)).await;
}

#[tokio::test]
async fn on_postgres_nothing_is_held_between_two_tries() {
    // A transaction that has written or locked something, and for how long.
    const HELD: &str = "select coalesce(max(extract(epoch from clock_timestamp() - xact_start) * 1000), 0)::bigint
        from pg_stat_activity a where datname = current_database() and pid <> pg_backend_pid()
        and (backend_xid is not null or exists (select from pg_locks l where l.pid = a.pid and l.locktype = 'relation'))";
    let mut payments = Payments::default();
    payments.add_for("pay-frozen", "payment.frozen", "jana", &mut Random::seeded(43));
    // The pauses grow to seconds.
    let rules = Rules { immediate: 20, ..Rules::default() };
    let Some(shop) = Shop::open(Kind::Postgres, SEMEL, &rules, payments).await else { return };
    assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
    shop.base.execute("insert into frozen (account) values ('jana')").await;
    let running = shop.run().spawn();
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(5) {
        let held = shop.base.number(HELD).await;
        assert!(held < 1_000, "something is held for {held} ms");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.sigterm();
    let finished = running.wait(LIMIT).await;
    assert_eq!(finished.code(), Some(0), "{finished}");
}
