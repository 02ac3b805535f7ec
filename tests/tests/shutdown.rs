//! Asked to stop: what is in work is finished, nothing new is begun, and what cannot be finished is rolled back.

use std::time::{Duration, Instant};

use semel_tests::base::{Base, Connected, Kind};
use semel_tests::oracle;
use semel_tests::payments::Payments;
use semel_tests::program::{Program, Running};
use semel_tests::random::Random;
use semel_tests::shop::{BOOKED, LIMIT, Rules, Shop, Summary, TRIES};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

const PROGRAM: &str = env!("CARGO_BIN_EXE_semel-probed");

/// Much longer than stopping may take, much shorter than the default grace.
const SOON: Duration = Duration::from_secs(8);

/// SQL that takes some time: some ten milliseconds.
fn work(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => "select pg_sleep(0.02) from (select from messages limit 1) once",
        Kind::Sqlite => {
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) select max(i) from n"
        }
    }
}

/// SQL that never ends for payments of a frozen account.
fn endless(kind: Kind) -> &'static str {
    match kind {
        Kind::Postgres => "select pg_sleep(3600) from messages m join frozen on frozen.account = m.body->>'account'",
        Kind::Sqlite => {
            "with recursive n(i) as (select 1 from messages m join frozen on frozen.account = m.body->>'account'
             union all select i + 1 from n) select max(i) from n"
        }
    }
}

// ---- under load

async fn under_load(kind: Kind, stop: impl AsyncFn(&Shop) -> Running) -> Option<()> {
    let (lanes, max_batch) = (4, 4);
    let payments = Payments::plain(400, &mut Random::seeded(21));
    let shop =
        Shop::open(kind, PROGRAM, &Rules { lanes, max_batch, last: work(kind), ..Rules::default() }, payments).await?;
    let running = stop(&shop).await;
    let (asked, before) = (Instant::now(), shop.base.number(BOOKED).await);
    let finished = running.wait(SOON).await;
    let booked = shop.base.number(BOOKED).await;
    let summary = Summary::of(&finished);
    assert!(asked.elapsed() < SOON, "{finished}");
    assert_eq!(summary.processed, booked as u64, "what it had in work is finished and told: {finished}");
    // A batch for each lane was in work, and another may have been committed between the question and the count.
    assert!(
        booked - before <= i64::from(2 * lanes * max_batch),
        "{booked} of 400 were booked, {before} when it was asked"
    );
    assert!(booked < 400, "it was asked too late");
    assert_eq!(oracle::at_any_time(&shop.base, &shop.payments).await, []);

    let rest = shop.run().run(LIMIT).await;
    assert_eq!(Summary::of(&rest).processed, 400 - booked as u64, "{rest}");
    assert!(!rest.stderr.contains("did not end well"), "it did end well: {rest}");
    assert_eq!(shop.violations().await, []);
    Some(())
}

async fn terminated(shop: &Shop) -> Running {
    let running = shop.run().spawn();
    shop.wait_until_booked(40, &running).await;
    running.sigterm();
    running
}

/// A program that says its process id first, for signals that [`Running`] cannot send.
fn with_id(program: &str, shop: &Shop) -> Program {
    let script = r#"echo "process $$" >&2; exec "$0" run --json"#;
    Program::new("sh").current_dir(shop.directory()).args(["-c", script, program])
}

async fn interrupt(running: &Running) {
    let line = running.wait_for_line("process ", LIMIT).await;
    let id = line.trim_start_matches("process ").to_owned();
    let sent = Program::new("sh").args(["-c", r#"kill -INT "$0""#, &id]).run(LIMIT).await;
    assert_eq!(sent.code(), Some(0), "{sent}");
}

async fn interrupted(shop: &Shop) -> Running {
    let running = with_id(PROGRAM, shop).spawn();
    shop.wait_until_booked(40, &running).await;
    interrupt(&running).await;
    running
}

#[tokio::test]
async fn on_sqlite_a_sigterm_lets_what_is_in_work_be_finished_and_begins_nothing() {
    under_load(Kind::Sqlite, terminated).await;
}

#[tokio::test]
async fn on_postgres_a_sigterm_lets_what_is_in_work_be_finished_and_begins_nothing() {
    under_load(Kind::Postgres, terminated).await;
}

#[tokio::test]
async fn on_sqlite_a_sigint_does_the_same() {
    under_load(Kind::Sqlite, interrupted).await;
}

#[tokio::test]
async fn on_postgres_a_sigint_does_the_same() {
    under_load(Kind::Postgres, interrupted).await;
}

// ---- a handler that never ends

/// A shop in which the last payment never ends while its account is frozen; the others are booked.
async fn with_an_endless_one(kind: Kind, more: &'static str) -> Option<Shop> {
    let mut random = Random::seeded(22);
    let mut payments = Payments::plain(5, &mut random);
    payments.add_for("pay-endless", "payment.requested", "jana", &mut random);
    let rules = Rules { lanes: 2, max_batch: 1, last: endless(kind), more, ..Rules::default() };
    let shop = Shop::open(kind, PROGRAM, &rules, payments).await?;
    assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
    shop.base.execute("insert into frozen (account) values ('jana')").await;
    Some(shop)
}

/// Wait until the handler is at work that never ends.
async fn wait_until_endless(shop: &Shop, running: &Running) {
    shop.wait_until_booked(5, running).await;
    match &shop.base {
        Base::Postgres(_) => {
            const AT_WORK: &str = "select count(*) from pg_stat_activity where datname = current_database()
                and state = 'active' and query like '%pg_sleep(3600)%' and pid <> pg_backend_pid()";
            shop.base.wait_for_number(AT_WORK, 1, LIMIT).await;
        }
        // Nobody but the one that is at work holds the lock for so long.
        Base::Sqlite(path, _) => {
            let options = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::ZERO);
            let held = async {
                let mut in_a_row = 0;
                while in_a_row < 50 {
                    let mut connection = Connected::Sqlite(options.connect().await.expect("the file is there"));
                    let taken = connection.execute("begin immediate; rollback").await;
                    connection.close().await;
                    in_a_row = if taken.is_err() { in_a_row + 1 } else { 0 };
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(LIMIT, held).await.expect("the handler is at work");
        }
    }
}

/// What was rolled back is booked by the next run, once the account is thawed.
async fn is_made_good(shop: &Shop) {
    shop.base.wait_until_quiet().await;
    assert_eq!(
        shop.base.number("select count(*) from ledger where payment_id = 'pay-endless'").await,
        0,
        "rolled back"
    );
    assert_eq!(shop.dead_letters().await, []);
    shop.base.execute("delete from frozen").await;
    shop.work_off(&[]).await;
    assert_eq!(shop.violations().await, []);
    assert_eq!(shop.base.number(TRIES).await, 1, "a stop is no failed try");
}

async fn after_the_grace(kind: Kind) -> Option<()> {
    let shop = with_an_endless_one(kind, "grace = \"1s\"\ntimeout = \"5m\"").await?;
    let running = shop.run().spawn();
    wait_until_endless(&shop, &running).await;
    let asked = Instant::now();
    running.sigterm();
    running.wait_for_line("stopping", LIMIT).await;
    let finished = running.wait(SOON).await;
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert!(asked.elapsed() >= Duration::from_secs(1), "it was given its grace: {:?}, {finished}", asked.elapsed());
    assert!(finished.stderr.contains("the grace time is over"), "{finished}");
    assert_eq!(Summary::of(&finished).processed, 5, "{finished}");
    is_made_good(&shop).await;
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_handler_that_never_ends_is_rolled_back_after_the_grace() {
    after_the_grace(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_a_handler_that_never_ends_is_rolled_back_after_the_grace() {
    after_the_grace(Kind::Postgres).await;
}

/// In a run after an unclean end the message is watched, and what is found open after another unclean end is a crash of
/// its own. A stop that cut it off is none, and one crash would be too many here.
async fn watched(kind: Kind) -> Option<()> {
    let shop = with_an_endless_one(kind, "grace = \"200ms\"\ntimeout = \"5m\"\nmax_crashes = 1").await?;
    for _ in 0..2 {
        let unwatched = shop.run().spawn();
        wait_until_endless(&shop, &unwatched).await;
        unwatched.kill9().await;
        shop.base.wait_until_quiet().await;
        let watched = shop.run().spawn();
        watched.wait_for_line("did not end well", LIMIT).await;
        wait_until_endless(&shop, &watched).await;
        watched.sigterm();
        let finished = watched.wait(SOON).await;
        assert_eq!(finished.code(), Some(0), "{finished}");
        shop.base.wait_until_quiet().await;
    }
    is_made_good(&shop).await;
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_stop_that_cuts_off_a_watched_message_is_no_crash_of_it() {
    watched(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_a_stop_that_cuts_off_a_watched_message_is_no_crash_of_it() {
    watched(Kind::Postgres).await;
}

async fn at_once(kind: Kind, by_interrupt: bool) -> Option<()> {
    let shop = with_an_endless_one(kind, "timeout = \"5m\"").await?;
    let running = with_id(PROGRAM, &shop).spawn();
    wait_until_endless(&shop, &running).await;
    let ask = async || if by_interrupt { interrupt(&running).await } else { running.sigterm() };
    ask().await;
    running.wait_for_line("once more to end at once", LIMIT).await;
    let asked_again = Instant::now();
    ask().await;
    running.wait_for_line("ended at once", LIMIT).await;
    let finished = running.wait(SOON).await;
    assert_eq!(finished.code(), Some(1), "{finished}");
    assert!(asked_again.elapsed() < Duration::from_secs(3), "{:?}: {finished}", asked_again.elapsed());
    is_made_good(&shop).await;
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_second_sigterm_ends_at_once_with_exit_code_1() {
    at_once(Kind::Sqlite, false).await;
}

#[tokio::test]
async fn on_postgres_a_second_sigterm_ends_at_once_with_exit_code_1() {
    at_once(Kind::Postgres, false).await;
}

#[tokio::test]
async fn on_sqlite_a_second_sigint_ends_at_once_with_exit_code_1() {
    at_once(Kind::Sqlite, true).await;
}

#[tokio::test]
async fn on_postgres_a_second_sigint_ends_at_once_with_exit_code_1() {
    at_once(Kind::Postgres, true).await;
}

// ---- between tries, and with nothing to do

/// A pause between two tries is no work: a stop ends it.
async fn between_tries(kind: Kind) -> Option<()> {
    let mut random = Random::seeded(23);
    let mut payments = Payments::plain(5, &mut random);
    payments.add_for("pay-frozen", "payment.frozen", "jana", &mut random);
    // Twenty tries in place, with pauses of seconds between the later ones.
    let shop = Shop::open(kind, PROGRAM, &Rules { immediate: 20, ..Rules::default() }, payments).await?;
    assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
    shop.base.execute("insert into frozen (account) values ('jana')").await;
    let running = shop.run().spawn();
    shop.wait_until_booked(5, &running).await;
    running.sigterm();
    let finished = running.wait(SOON).await;
    assert_eq!(Summary::of(&finished).processed, 5, "{finished}");
    shop.base.execute("delete from frozen").await;
    shop.work_off(&[]).await;
    assert_eq!(shop.violations().await, []);
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_stop_does_not_wait_for_the_next_try() {
    between_tries(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_a_stop_does_not_wait_for_the_next_try() {
    between_tries(Kind::Postgres).await;
}
