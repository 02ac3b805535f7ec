//! The tests of crashes can fail: with each planted bug the books are wrong after the same crash from which the real
//! program recovers.

use semel_tests::base::Kind;
use semel_tests::laboratory::Laboratory;
use semel_tests::oracle::Violation;
use semel_tests::payments::Payments;
use semel_tests::program::Program;
use semel_tests::random::Random;
use semel_tests::shop::{LIMIT, Rules, Shop};

const PROGRAM: &str = env!("CARGO_BIN_EXE_semel-probed");
const LAB: &str = env!("CARGO_BIN_EXE_lab");

/// What the oracle says with this bug, or without one. `None` without a server.
async fn violations(kind: Kind, bug: &'static str, planted: bool) -> Option<Vec<Violation>> {
    let plant = |program: Program| if planted { program.env("SEMEL_PLANT", bug) } else { program };
    match bug {
        "ack-before-commit" => ack_before_commit(kind, plant).await,
        "claim-elsewhere" => claim_elsewhere(kind, plant).await,
        "defer-without-claim" => defer_without_claim(kind, plant).await,
        "no-proof" => no_proof(kind, plant).await,
        bug => panic!("a new bug {bug:?}: write the scenario in which it shows"),
    }
}

/// The position passes a payment that is still tried, and the program dies before it is deferred.
async fn ack_before_commit(kind: Kind, plant: impl Fn(Program) -> Program) -> Option<Vec<Violation>> {
    let mut random = Random::seeded(3);
    let mut payments = Payments::plain(10, &mut random);
    payments.add_for("pay-flaky", "payment.flaky", "jana", &mut random);
    let shop = Shop::open(kind, PROGRAM, &Rules { immediate: 4, ..Rules::default() }, payments).await?;
    crash(plant(shop.run()), "before-defer:1").await;
    shop.work_off(&[]).await;
    Some(shop.violations().await)
}

/// The program dies between the claim's own commit and that of the work.
async fn claim_elsewhere(kind: Kind, plant: impl Fn(Program) -> Program) -> Option<Vec<Violation>> {
    let payments = Payments::mixed(&mut Random::seeded(4));
    let shop = Shop::open(kind, PROGRAM, &Rules::default(), payments).await?;
    crash(plant(shop.run()), "before-commit:3").await;
    shop.work_off(&["--from-start"]).await;
    Some(shop.violations().await)
}

/// A payment is deferred while its account is frozen; the account is thawed, and the payment comes again while it waits.
async fn defer_without_claim(kind: Kind, plant: impl Fn(Program) -> Program) -> Option<Vec<Violation>> {
    let mut random = Random::seeded(5);
    let mut payments = Payments::plain(10, &mut random);
    payments.add_for("pay-frozen", "payment.frozen", "jana", &mut random);
    // With "pass", what comes later is not held back by what waits, not even by itself.
    let rules = Rules { immediate: 0, deferred: r#"["500ms"]"#, more: r#"on_defer = "pass""#, ..Rules::default() };
    let shop = Shop::open(kind, PROGRAM, &rules, payments).await?;
    assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
    shop.base.execute("insert into frozen (account) values ('jana')").await;
    // The first time is at the start, the second when everything is acknowledged.
    crash(plant(shop.run()), "before-position:2").await;
    shop.base.execute("delete from frozen").await;
    shop.work_off(&["--from-start"]).await;
    Some(shop.violations().await)
}

/// A handler hides that its transaction has failed, or ends it itself.
async fn no_proof(kind: Kind, plant: impl Fn(Program) -> Program) -> Option<Vec<Violation>> {
    // What is hidden on PostgreSQL is no failure on SQLite; a ROLLBACK of the handler's is one on both.
    let tasks = ["nothing", "hide", "rollback"].into_iter().map(|act| (act.to_owned(), act)).collect();
    let laboratory = Laboratory::open(kind, LAB, PROGRAM, tasks).await?;
    let finished = plant(laboratory.lab(5_000)).run(LIMIT).await;
    assert_eq!(finished.code(), Some(0), "{finished}");
    let (effects, letters) = (laboratory.effects().await, laboratory.dead_letters().await);
    let lost = laboratory
        .tasks
        .iter()
        .filter(|(id, _)| !effects.contains_key(id) && letters.iter().all(|letter| letter.id != *id));
    Some(lost.map(|(id, _)| Violation::Lost(id.clone())).collect())
}

async fn crash(program: Program, at: &str) {
    let finished = program.env("SEMEL_CRASH_AT", at).run(LIMIT).await;
    assert!(finished.stderr.contains("crash point"), "{at}: {finished}");
}

/// Without the bug nothing is wrong; with it something is, and it is this.
async fn shows(kind: Kind, bug: &'static str, expected: impl Fn(&Violation) -> bool) {
    let Some(without) = violations(kind, bug, false).await else { return };
    assert_eq!(without, [], "{bug} was not planted");
    let with = violations(kind, bug, true).await.expect("a server, as before");
    assert!(with.iter().any(expected), "{bug} was planted, and nobody found more than {with:?}");
}

fn lost(violation: &Violation) -> bool {
    matches!(violation, Violation::Lost(_))
}

fn doubled(violation: &Violation) -> bool {
    matches!(violation, Violation::Doubled(..))
}

#[test]
fn every_bug_that_can_be_planted_has_a_test_here() {
    let mut tested = ["ack-before-commit", "claim-elsewhere", "defer-without-claim", "no-proof"];
    let mut bugs = semel::BUGS;
    tested.sort_unstable();
    bugs.sort_unstable();
    assert_eq!(bugs, tested);
}

#[tokio::test]
async fn on_sqlite_an_acknowledgement_before_the_commit_is_found_to_lose_a_payment() {
    shows(Kind::Sqlite, "ack-before-commit", lost).await;
}

#[tokio::test]
async fn on_postgres_an_acknowledgement_before_the_commit_is_found_to_lose_a_payment() {
    shows(Kind::Postgres, "ack-before-commit", lost).await;
}

#[tokio::test]
async fn on_sqlite_a_claim_in_a_transaction_of_its_own_is_found_to_lose_a_payment() {
    shows(Kind::Sqlite, "claim-elsewhere", lost).await;
}

#[tokio::test]
async fn on_postgres_a_claim_in_a_transaction_of_its_own_is_found_to_lose_a_payment() {
    shows(Kind::Postgres, "claim-elsewhere", lost).await;
}

#[tokio::test]
async fn on_sqlite_a_deferral_without_a_claim_is_found_to_double_a_payment() {
    shows(Kind::Sqlite, "defer-without-claim", doubled).await;
}

#[tokio::test]
async fn on_postgres_a_deferral_without_a_claim_is_found_to_double_a_payment() {
    shows(Kind::Postgres, "defer-without-claim", doubled).await;
}

#[tokio::test]
async fn on_sqlite_a_commit_without_proof_is_found_to_lose_an_effect() {
    shows(Kind::Sqlite, "no-proof", lost).await;
}

#[tokio::test]
async fn on_postgres_a_commit_without_proof_is_found_to_lose_an_effect() {
    shows(Kind::Postgres, "no-proof", lost).await;
}
