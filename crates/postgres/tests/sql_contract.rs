//! The SQL contract: two sessions of any language, without a line of semel's code.

mod common;

use common::{Database, execute, text};
use semel_core::{Claim, Lane, Records, Timestamp, Writes};
use sqlx::postgres::{PgConnection, PgDatabaseError};
use sqlx::{AssertSqlSafe, Connection};
use std::time::{Duration, Instant};

/// The answer of one statement, as psql would show it, or the code and text of its error.
async fn ask(conn: &mut PgConnection, sql: &str) -> String {
    match sqlx::raw_sql(AssertSqlSafe(sql)).fetch_one(conn).await {
        Ok(row) => sqlx::Row::get(&row, 0),
        Err(error) => {
            let error = error.as_database_error().unwrap().downcast_ref::<PgDatabaseError>();
            format!("{}: {} {}", error.code(), error.message(), error.hint().unwrap_or_default())
        }
    }
}

#[tokio::test]
async fn two_sessions() {
    let Some(database) = Database::fresh().await else { return };
    let (mut one, mut two) = (database.conn().await, database.conn().await);
    let number = ask(&mut one, "select semel.register('billing')::text").await;
    assert_eq!(ask(&mut two, "select semel.register('billing')::text").await, number);

    execute(&mut one, "begin").await;
    assert_eq!(ask(&mut one, "select semel.claim('billing', 'a')").await, "fresh");
    execute(&mut one, "insert into effect values ('a'); commit").await;
    execute(&mut two, "begin").await;
    assert_eq!(ask(&mut two, "select semel.claim('billing', 'a')").await, "duplicate");
    execute(&mut two, "rollback").await;

    // Rolled back, the claim is free again.
    execute(&mut one, "begin").await;
    assert_eq!(ask(&mut one, "select semel.claim('billing', 'b')").await, "fresh");
    execute(&mut one, "rollback; begin").await;
    assert_eq!(ask(&mut one, "select semel.claim('billing', 'b', 'one')").await, "fresh");
    assert_eq!(ask(&mut one, "select semel.claim('billing', 'b', 'one')").await, "duplicate");
    assert_eq!(ask(&mut one, "select semel.claim('billing', 'b', 'two')").await, "conflict");
    assert_eq!(
        ask(&mut one, "select semel.claim('billing', 'b')").await,
        "duplicate",
        "without a fingerprint it matches"
    );
    assert_eq!(ask(&mut one, "select semel.claim('billing', 'a', 'any')").await, "duplicate");
    execute(&mut one, "commit").await;
}

#[tokio::test]
async fn a_twin_is_waited_for_and_then_an_error() {
    let Some(database) = Database::fresh().await else { return };
    let (mut one, mut two) = (database.conn().await, database.conn().await);
    execute(&mut one, "select semel.register('billing')").await;
    execute(&mut one, "begin; select semel.claim('billing', 'a')").await;
    execute(&mut two, "set lock_timeout = '123ms'").await;
    execute(&mut two, "begin").await;
    let started = Instant::now();
    let answer = ask(&mut two, "select semel.claim('billing', 'a')").await;
    assert!(answer.starts_with("55P03"), "{answer}");
    assert!(started.elapsed() > Duration::from_secs(4), "five seconds, whatever the session has set");
    execute(&mut two, "rollback; begin").await;
    assert_eq!(ask(&mut two, "select semel.claim('billing', 'other')").await, "fresh");
    assert_eq!(ask(&mut two, "show lock_timeout").await, "123ms", "the session's own limit is its own again");
    execute(&mut two, "rollback; begin").await;

    let waits = tokio::spawn(async move {
        let answer = ask(&mut two, "select semel.claim('billing', 'a', 'x')").await;
        execute(&mut two, "rollback").await;
        answer
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    execute(&mut one, "commit").await;
    assert_eq!(waits.await.unwrap(), "duplicate", "the second statement sees what committed during the wait");
}

#[tokio::test]
async fn misuse_is_a_clear_error() {
    let Some(database) = Database::fresh().await else { return };
    let mut conn = database.conn().await;
    execute(&mut conn, "select semel.register('billing')").await;
    for (sql, words) in [
        (
            "select semel.claim('nobody', 'a')",
            "42704: semel.claim: the consumer 'nobody' is not registered Call select semel.register(name)",
        ),
        ("select semel.claim(null, 'a')", "42704: semel.claim: the consumer null is not registered"),
        ("select semel.claim('billing', null)", "22023: semel.claim: the message id is null"),
        ("select semel.claim('billing', '')", "22023: semel.claim: the message id is empty"),
        ("select semel.claim('billing', repeat('ü', 128))", "22023: semel.claim: the message id has 256 bytes"),
        ("select semel.register(null)::text", "22023: semel.register: a consumer's name has 1 to 255 bytes"),
        ("select semel.register('')::text", "22023"),
        ("select semel.register(repeat('x', 256))::text", "22023"),
    ] {
        let answer = ask(&mut conn, sql).await;
        assert!(answer.starts_with(words), "{sql}: {answer}");
    }
    assert_eq!(ask(&mut conn, "begin; select semel.claim('billing', repeat('x', 255))").await, "fresh");
    execute(&mut conn, "rollback").await;
    assert_eq!(database.count("select count(*) from semel.consumer").await, 1);
}

fn v7(millis: i64) -> String {
    let hex = format!("{millis:012x}");
    format!("{}-{}-7abc-8abc-0123456789ab", &hex[..8], &hex[8..])
}

#[tokio::test]
async fn what_may_have_been_swept_is_stale() {
    let Some(database) = Database::fresh().await else { return };
    let mut lane = database.lane().await;
    let hour = Duration::from_secs(3600);
    let consumer = lane.register("billing", Some(hour)).await.unwrap();
    let mut conn = database.conn().await;
    let now = lane.now().as_millis();
    let claim = |id: &str| format!("begin; select semel.claim('billing', '{id}')");
    let minutes = |minutes: i64| v7(now - minutes * 60_000);

    assert_eq!(ask(&mut conn, &claim(&minutes(60))).await, "fresh", "no floor, nothing is stale");
    execute(&mut conn, "commit; update semel.claim set claimed_at = now() - interval '2 hours'").await;
    assert_eq!(lane.sweep(consumer, hour, 10).await.unwrap().deleted, 1);
    assert_eq!(lane.floor(consumer).await.unwrap(), Some(Timestamp::from_millis(now - 3_600_000)), "the id's own time");

    // Floor + 5 minutes of skew.
    for (id, answer) in [
        (minutes(60), "stale"),
        (minutes(90), "stale"),
        (minutes(56), "stale"),
        (minutes(54), "fresh"),
        (minutes(60).to_uppercase(), "stale"),
        ("no-v7".into(), "fresh"),
        (minutes(90).replacen("-7", "-4", 1), "fresh"),
    ] {
        assert_eq!(ask(&mut conn, &claim(&id)).await, answer, "{id}");
        let kept = ask(&mut conn, "select count(*)::text from semel.claim").await;
        assert_eq!(kept, if answer == "stale" { "0" } else { "1" }, "the claim of a stale id is taken back");
        execute(&mut conn, "rollback").await;
    }

    // A window of 8 minutes: a quarter of it is 2.
    lane.register("billing", Some(Duration::from_secs(480))).await.unwrap();
    for (id, answer) in [(minutes(59), "stale"), (minutes(57), "fresh")] {
        assert_eq!(ask(&mut conn, &claim(&id)).await, answer);
        execute(&mut conn, "rollback").await;
    }

    // An id from the future is claimed, and does not lift the floor into the future when it goes.
    execute(&mut conn, "begin").await;
    assert_eq!(ask(&mut conn, &format!("select semel.claim('billing', '{}')", v7(now + 86_400_000))).await, "fresh");
    execute(&mut conn, "commit; update semel.claim set claimed_at = now() - interval '2 hours'").await;
    assert_eq!(lane.sweep(consumer, hour, 10).await.unwrap().deleted, 1);
    assert_eq!(lane.floor(consumer).await.unwrap(), Some(Timestamp::from_millis(now - 3_600_000)));
}

/// A claim in SQL and one in Rust are one claim.
#[tokio::test]
async fn programs_on_the_library_and_on_sql_share_their_claims() {
    let Some(database) = Database::fresh().await else { return };
    let mut lane = database.lane().await;
    let consumer = lane.register("billing", None).await.unwrap();
    let mut conn = database.conn().await;
    common::process(&mut lane, consumer, "a", "1").await.unwrap();
    assert_eq!(ask(&mut conn, "begin; select semel.claim('billing', 'a', 'x')").await, "duplicate");
    assert_eq!(ask(&mut conn, "select semel.claim('billing', 'b', 'x')").await, "fresh");
    execute(&mut conn, "commit").await;
    assert_eq!(common::begin(&mut lane, consumer, &[common::key("b", "1")]).await.claims, [Claim::Duplicate]);
    lane.commit(&Writes::default()).await.unwrap();
}

#[tokio::test]
async fn concurrent_registrations_agree() {
    let Some(database) = Database::fresh().await else { return };
    let (mut one, mut two) = (database.conn().await, database.conn().await);
    let first = ask(&mut one, "begin; select semel.register('new')::text").await;
    let waits = tokio::spawn(async move { ask(&mut two, "select semel.register('new')::text").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    execute(&mut one, "commit").await;
    assert_eq!(waits.await.unwrap(), first);
}

#[tokio::test]
async fn the_functions_are_the_owners_until_they_are_granted() {
    let Some(database) = Database::fresh().await else { return };
    let mut owner = database.conn().await;
    let role = format!("{}_user", database.name());
    execute(
        &mut owner,
        &format!("select semel.register('billing'); create role {role} login; grant usage on schema semel to {role}"),
    )
    .await;
    let mut user = PgConnection::connect(&database.url_as(&role)).await.unwrap();
    let answer = ask(&mut user, "begin; select semel.claim('billing', 'a')").await;
    assert!(answer.starts_with("42501"), "{answer}");
    execute(&mut user, "rollback").await;
    execute(&mut owner, &format!("grant execute on function semel.claim(text, text, bytea) to {role}")).await;
    // With the rights of the owner, and not to be fooled by the caller's names.
    execute(
        &mut user,
        "create temp table claim (consumer int, message_id text); create function pg_temp.clock_timestamp() returns timestamptz
         language sql as 'select null::timestamptz'; set search_path = pg_temp, pg_catalog; begin",
    )
    .await;
    assert_eq!(ask(&mut user, "select semel.claim('billing', 'a')").await, "fresh");
    execute(&mut user, "commit").await;
    let answer = ask(&mut user, "select count(*)::text from semel.claim").await;
    assert!(answer.starts_with("42501"), "the table itself is out of reach: {answer}");
    assert_eq!(database.claims().await, 1);
    drop(user);
    execute(&mut owner, &format!("drop owned by {role} cascade; drop role {role}")).await;
}

/// A warning cannot be read through the driver; where it is raised can: as an error.
#[tokio::test]
async fn a_bare_call_outside_a_transaction_is_warned_of() {
    let Some(database) = Database::fresh().await else { return };
    let mut conn = database.conn().await;
    // PostgreSQL has no switch that turns warnings into errors, so the condition is tried on a function made from the
    // same text.
    let source = text(
        &mut conn,
        "select replace(pg_get_functiondef('semel.claim'::regproc), 'raise warning', 'raise exception')",
    )
    .await;
    execute(&mut conn, &source.unwrap()).await;
    execute(&mut conn, "select semel.register('billing')").await;
    for (sql, warned) in [
        ("select semel.claim('billing', 'a')", true),
        ("SELECT * FROM semel.claim('billing', 'a', 'x') ;", true),
        ("select semel.claim('billing', 'a') as verdict", true),
        ("begin; select semel.claim('billing', 'b')", false),
        (
            "with c as (select semel.claim('billing', 'd') as v) insert into effect select v from c where v = 'fresh' returning v",
            false,
        ),
        ("select semel.claim('billing', 'c'); insert into effect values ('c')", false),
        ("do $$ begin perform semel.claim('billing', 'e'); insert into effect values ('e'); end $$; select 'x'", false),
    ] {
        let answer = ask(&mut conn, sql).await;
        assert_eq!(answer.contains("outside a transaction block"), warned, "{sql}: {answer}");
        execute(&mut conn, "rollback").await;
    }
    execute(&mut conn, "begin").await;
    assert_eq!(ask(&mut conn, "select semel.claim('billing', 'f')").await, "fresh");
    execute(&mut conn, "commit").await;
    // With the extended protocol nobody can tell, and nothing is said wrongly.
    let verdict: String =
        sqlx::query_scalar("select semel.claim('billing', $1)").bind("g").fetch_one(&mut conn).await.unwrap();
    assert_eq!(verdict, "fresh");
}
