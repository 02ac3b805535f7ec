//! Handlers that do what no handler should do, alone and amid innocent neighbours of the same batch: the bad one ends as
//! it must, and the neighbours are processed once each.

use std::time::{Duration, Instant};

use semel_tests::base::Kind;
use semel_tests::laboratory::{Laboratory, Letter};
use semel_tests::shop::LIMIT;

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
async fn killed(kind: Kind) -> Option<()> {
    for neighbours in [0, 15] {
        let laboratory =
            check(kind, "abort", TIMEOUT, End::Dead("crashed", "killed the process 3 times"), neighbours).await?;
        let again = laboratory.lab(TIMEOUT).run(LIMIT).await;
        assert_eq!(again.code(), Some(0), "it is over: {again}");
    }
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_message_that_kills_the_process_is_set_aside_after_three_deaths_that_were_its_own() {
    killed(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_a_message_that_kills_the_process_is_set_aside_after_three_deaths_that_were_its_own() {
    killed(Kind::Postgres).await;
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
    assert!(oldest < 2_500, "a query that had a second worked for {oldest} ms");
    // The program is gone, and with it what its last connection still worked on.
    laboratory.base.wait_for_number(&format!("select 1::bigint where ({OLDEST}) = 0"), 1, Duration::from_secs(2)).await;
}
