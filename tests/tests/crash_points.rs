//! The program is killed at every point of a message's way, and at random ones, and started again. Then the books are
//! counted.

use std::os::unix::process::ExitStatusExt;

use semel_tests::base::Kind;
use semel_tests::oracle;
use semel_tests::payments::Payments;
use semel_tests::program::Finished;
use semel_tests::random::Random;
use semel_tests::shop::{BOOKED, LIMIT, Rules, Shop, Summary};

const PROGRAM: &str = env!("CARGO_BIN_EXE_semel-probed");
const SIGABRT: i32 = 6;

/// Where a run is killed, and how it is gone on with.
#[derive(Debug, Clone, Copy)]
struct Case {
    point: &'static str,
    /// At which time that the run comes by.
    time: u32,
    /// Most messages in a transaction.
    max_batch: u32,
    /// Whether the next run reads from the beginning, or from the stored position.
    from_start: bool,
}

/// How often a run of [`Payments::mixed`] surely comes by a point, when two messages share a transaction: what is killed
/// must have had time to do something.
fn later(point: &str) -> u32 {
    match point {
        "before-claim" | "after-claim" | "after-handle" | "before-commit" | "after-commit" => 12,
        "before-ack" | "after-ack" => 25,
        "attempt-open" => 6,
        "before-defer" | "after-defer" => 3,
        // Lines without an id are written down together, so there may be two times only.
        "before-bury" | "after-bury" => 2,
        // At the end of the run: before it comes one in its course, and one at its start.
        "before-position" | "after-position" => 3,
        point => panic!("a new point {point:?}: say here how it is reached"),
    }
}

fn cases() -> Vec<Case> {
    let both = |point: &'static str| {
        let case = |time, max_batch, from_start| Case { point, time, max_batch, from_start };
        let first = if point.ends_with("-position") { 2 } else { 1 };
        [case(first, 16, false), case(later(point), 2, true)]
    };
    semel::POINTS.into_iter().flat_map(both).collect()
}

async fn every_point(kind: Kind) {
    for case in cases() {
        let Some(()) = one_point(kind, case).await else { return };
    }
}

async fn one_point(kind: Kind, case: Case) -> Option<()> {
    let Case { point, time, max_batch, from_start } = case;
    let payments = Payments::mixed(&mut Random::seeded(7));
    // The pauses between tries are long enough for a position to be stored meanwhile.
    let immediate = if point.ends_with("-position") { 4 } else { 1 };
    let shop = Shop::open(kind, PROGRAM, &Rules { max_batch, immediate, ..Rules::default() }, payments).await?;
    if point == "attempt-open" {
        // Attempts are written down in a run after an unclean end.
        crash(&shop, "before-commit", 3).await;
    }
    crash(&shop, point, time).await;
    assert_eq!(oracle::at_any_time(&shop.base, &shop.payments).await, [], "{case:?}: right after it");
    // From the stored position, and then everything once more; or everything again at once.
    let orders: &[&[&str]] = if from_start { &[&["--from-start"]] } else { &[&[], &["--from-start"]] };
    for arguments in orders {
        shop.work_off(arguments).await;
        assert_eq!(shop.violations().await, [], "{case:?}: after `run {}`", arguments.join(" "));
    }
    Some(())
}

/// Run until the program kills itself at this point.
async fn crash(shop: &Shop, point: &str, time: u32) -> Finished {
    let finished = shop.run().env("SEMEL_CRASH_AT", format!("{point}:{time}")).run(LIMIT).await;
    assert_eq!(finished.status.signal(), Some(SIGABRT), "{point}:{time}: {finished}");
    assert!(finished.stderr.contains(&format!("crash point {point}")), "{finished}");
    finished
}

#[tokio::test]
async fn on_sqlite_every_payment_is_booked_once_at_whatever_point_the_program_dies() {
    every_point(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_every_payment_is_booked_once_at_whatever_point_the_program_dies() {
    every_point(Kind::Postgres).await;
}

/// A message that was in hand in a crash is not blamed for the next one, when that is another message's.
async fn crashes_in_a_row(kind: Kind) -> Option<()> {
    let payments = Payments::mixed(&mut Random::seeded(8));
    let shop = Shop::open(kind, PROGRAM, &Rules::default(), payments).await?;
    for (point, time) in
        [("after-claim", 2), ("attempt-open", 3), ("before-commit", 5), ("after-ack", 9), ("attempt-open", 2)]
    {
        crash(&shop, point, time).await;
    }
    shop.work_off(&[]).await;
    assert_eq!(shop.violations().await, []);
    Some(())
}

#[tokio::test]
async fn on_sqlite_several_crashes_in_a_row_leave_every_payment_booked_once() {
    crashes_in_a_row(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_several_crashes_in_a_row_leave_every_payment_booked_once() {
    crashes_in_a_row(Kind::Postgres).await;
}

/// The program dies, and dies at the same point again while it makes good for the first death.
async fn again_in_recovery(kind: Kind) -> Option<()> {
    for point in semel::POINTS.into_iter().take_while(|point| *point != "before-defer") {
        let payments = Payments::mixed(&mut Random::seeded(9));
        let shop = Shop::open(kind, PROGRAM, &Rules { max_batch: 4, ..Rules::default() }, payments).await?;
        crash(&shop, if point == "attempt-open" { "after-commit" } else { point }, 4).await;
        for time in [3, 1] {
            crash(&shop, point, time).await;
        }
        assert_eq!(oracle::at_any_time(&shop.base, &shop.payments).await, [], "{point}");
        shop.work_off(&["--from-start"]).await;
        assert_eq!(shop.violations().await, [], "{point}");
    }
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_crash_while_a_crash_is_made_good_leaves_every_payment_booked_once() {
    again_in_recovery(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_a_crash_while_a_crash_is_made_good_leaves_every_payment_booked_once() {
    again_in_recovery(Kind::Postgres).await;
}

const KILLS: u64 = 15;

async fn random_kills(kind: Kind) -> Option<()> {
    let mut random = Random::new();
    let payments = Payments::plain(2_600, &mut random);
    // More crashes than kills: whoever happens to be in work at a kill is not to be blamed in this test.
    // Without a key, repeats of a payment may be in work in two lanes at once, and all lanes write to the same balances.
    let rules = Rules { max_batch: 100, keyed: false, more: "max_crashes = 20", ..Rules::default() };
    let shop = Shop::open(kind, PROGRAM, &rules, payments).await?;
    // The tables must be there, or the first kills would all hit the making of them.
    assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
    let mut booked = 0;
    for kill in 0..KILLS {
        let running = shop.run().spawn();
        // Not to wait for something: the moment itself is what is drawn. In one half of the kills it lies after progress.
        if kill % 2 == 0 {
            let more = booked + 1 + random.below(120) as i64;
            shop.wait_until_booked(more, &running).await;
        } else {
            tokio::time::sleep(std::time::Duration::from_micros(random.below(200_000))).await;
        }
        let finished = running.kill9().await;
        assert_eq!(finished.code(), None, "it ended before kill {kill}: {finished}");
        assert_eq!(oracle::at_any_time(&shop.base, &shop.payments).await, [], "after kill {kill}");
        shop.base.wait_until_quiet().await;
        booked = shop.base.number(BOOKED).await;
    }
    let left = shop.payments.good.len() as i64 - booked;
    assert!(left > 0, "the kills came too late");
    let processed: u64 = shop.work_off(&[]).await.iter().map(|summary: &Summary| summary.processed).sum();
    assert_eq!(processed, left as u64, "what was booked before the last kill is not booked again");
    assert_eq!(shop.violations().await, []);
    Some(())
}

#[tokio::test]
async fn on_sqlite_fifteen_kills_at_random_moments_leave_every_payment_booked_once() {
    random_kills(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_fifteen_kills_at_random_moments_leave_every_payment_booked_once() {
    random_kills(Kind::Postgres).await;
}
