//! Laws 1, 4, 8, 10 and 16 on PostgreSQL.

mod common;

use common::{Database, begin, claims, execute, key, let_wait, process, waiting, waiting_key, write};
use semel_core::{
    Claim, ClaimKey, ClaimWait, Claims, ConsumerNumber, Fingerprint, Lane, Records, Retried, Store, Timestamp, Trouble,
    Writes,
};
use semel_postgres::PostgresLane;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

async fn registered(database: &Database) -> (PostgresLane, ConsumerNumber) {
    let mut lane = database.lane().await;
    let consumer = lane.register("billing", None).await.unwrap();
    (lane, consumer)
}

#[tokio::test]
async fn fresh_duplicate_conflict() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let other = lane.register("shipping", None).await.unwrap();
    assert_eq!(process(&mut lane, consumer, "b", "1").await.unwrap(), Claim::Fresh);
    assert_eq!(process(&mut lane, consumer, "b", "1").await.unwrap(), Claim::Duplicate);
    assert_eq!(process(&mut lane, consumer, "b", "2").await.unwrap(), Claim::Conflict);
    assert_eq!(process(&mut lane, consumer, "B", "2").await.unwrap(), Claim::Fresh, "byte by byte");
    assert_eq!(process(&mut lane, other, "b", "2").await.unwrap(), Claim::Fresh, "each consumer for itself");

    let versioned = |version, digest| ClaimKey { fingerprint: Fingerprint { version, digest }, ..key("b", "") };
    for (key, verdict) in [
        (versioned(7, [1; 16]), Claim::Duplicate),
        (ClaimKey { fingerprint: Fingerprint::NONE, ..key("b", "") }, Claim::Duplicate),
        (versioned(1, [1; 16]), Claim::Conflict),
    ] {
        assert_eq!(begin(&mut lane, consumer, &[key]).await.claims, [verdict]);
        lane.rollback().await.unwrap();
        assert_eq!(lane.look(consumer, &[key]).await.unwrap().claims, [verdict]);
    }

    let time = Some(Timestamp::from_millis(1_700_000_000_123));
    let far = Some(Timestamp::from_millis(i64::MAX));
    let past = Some(Timestamp::from_millis(i64::MIN));
    let mixed = [
        ClaimKey { time: past, ..key("a", "") },
        key("b", "1"),
        ClaimKey { time, ..key("c", "") },
        ClaimKey { time: far, fingerprint: Fingerprint::NONE, ..key("d", "") },
        key("ü 'quoted'\\", ""),
    ];
    let expected = [Claim::Fresh, Claim::Duplicate, Claim::Fresh, Claim::Fresh, Claim::Fresh];
    assert_eq!(lane.look(consumer, &mixed).await.unwrap().claims, expected);
    assert_eq!(begin(&mut lane, consumer, &mixed).await.claims, expected);
    lane.commit(&Writes::default()).await.unwrap();
    let stored = database
        .count("select (extract(epoch from message_time) * 1000)::int8 from semel.claim where message_id = 'c'")
        .await;
    assert_eq!(stored, 1_700_000_000_123);
    assert_eq!(begin(&mut lane, consumer, &mixed).await.claims, [Claim::Duplicate; 5]);
    lane.rollback().await.unwrap();
    assert_eq!(lane.look(consumer, &[]).await.unwrap().claims, []);
}

#[tokio::test]
async fn waiting_rows_are_locked_instead() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let_wait(&mut lane, consumer, &[waiting("w1", None), waiting("w2", None), waiting("w3", None)]).await;

    // Somebody has w2; w3 has another number of attempts than we know; x waits nowhere; n is new.
    let mut other = database.lane().await;
    assert_eq!(begin(&mut other, consumer, &[waiting_key("w2", 1)]).await.claims, [Claim::Fresh]);
    let keys = [key("n", ""), waiting_key("w1", 1), waiting_key("w2", 1), waiting_key("w3", 2), waiting_key("x", 1)];
    let expected = [Claim::Fresh, Claim::Fresh, Claim::Duplicate, Claim::Duplicate, Claim::Duplicate];
    let started = Instant::now();
    let claimed = begin(&mut lane, consumer, &keys).await;
    assert_eq!(claimed.claims, expected, "and nothing waits for a lock");
    assert!(!claimed.keys_held, "none of them has a key");
    assert!(started.elapsed() < Duration::from_millis(250));
    let looked = database.lane().await.look(consumer, &keys).await.unwrap();
    let seen = [Claim::Fresh, Claim::Fresh, Claim::Fresh, Claim::Duplicate, Claim::Duplicate];
    assert_eq!(looked.claims, seen, "looking sees no locks");

    let retried =
        vec![Retried { id: "w1".into(), attempts: 2, delay: Duration::from_secs(60), error: "again\0".into() }];
    lane.commit(&Writes { retried, ..Writes::default() }).await.unwrap();
    other.commit(&Writes { finished: vec!["w2".into()], ..Writes::default() }).await.unwrap();
    assert_eq!(
        begin(&mut lane, consumer, &[waiting_key("w1", 1), waiting_key("w2", 1)]).await.claims,
        [Claim::Duplicate; 2]
    );
    lane.rollback().await.unwrap();
    let due: Vec<String> = lane.due(consumer, 10).await.unwrap().into_iter().map(|w| w.id).collect();
    assert_eq!(due, ["w3"]);
    assert_eq!(begin(&mut lane, consumer, &[waiting_key("w1", 2)]).await.claims, [Claim::Fresh]);
    lane.commit(&Writes::default()).await.unwrap();
}

#[tokio::test]
async fn held_keys_are_told_with_the_claim() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let other = lane.register("shipping", None).await.unwrap();
    assert!(!begin(&mut lane, consumer, &[key("a", "")]).await.keys_held);
    lane.rollback().await.unwrap();
    let_wait(
        &mut lane,
        consumer,
        &[waiting("w", Some("k")), semel_core::Waiting { holds: false, ..waiting("p", Some("q")) }],
    )
    .await;
    for keys in [[key("a", "")], [key("w", "w")], [waiting_key("w", 1)]] {
        assert!(begin(&mut lane, consumer, &keys).await.keys_held);
        assert_eq!(lane.held_keys(consumer, &["k", "q", "x"]).await.unwrap(), ["k"]);
        assert_eq!(lane.held_keys(consumer, &[]).await.unwrap(), Vec::<String>::new());
        lane.rollback().await.unwrap();
        assert!(lane.look(consumer, &keys).await.unwrap().keys_held);
        assert!(!begin(&mut lane, other, &keys).await.keys_held);
        lane.rollback().await.unwrap();
    }
}

/// A twin lets its message wait while our claim stands behind it: a later message of that key, in the same batch, must
/// know.
#[tokio::test]
async fn a_key_that_came_to_be_held_while_the_claim_waited_is_told() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let mut twin = database.lane().await;
    begin(&mut twin, consumer, &[key("w", "w")]).await;
    let claiming = tokio::spawn(async move {
        let keys = [key("later", ""), key("w", "w")];
        let patient = Claims { wait: ClaimWait::Claim(Duration::from_secs(20)), ..claims(consumer, &keys) };
        (lane.begin(&patient).await.unwrap(), lane)
    });
    wait_for_a_lock(&database).await;
    twin.commit(&Writes { waiting: vec![waiting("w", Some("k"))], ..Writes::default() }).await.unwrap();
    let (claimed, mut lane) = claiming.await.unwrap();
    assert_eq!(claimed.claims, [Claim::Fresh, Claim::Duplicate]);
    assert!(claimed.keys_held);
    assert_eq!(lane.held_keys(consumer, &["k"]).await.unwrap(), ["k"]);
    lane.rollback().await.unwrap();
}

async fn wait_for_a_lock(database: &Database) {
    let query = format!(
        "select count(*) from pg_stat_activity where datname = '{}' and wait_event_type = 'Lock'",
        database.name()
    );
    for _ in 0..200 {
        if database.count(&query).await > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody waits for a lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twins_make_one_effect() {
    let Some(database) = Database::fresh().await else { return };
    let (_lane, consumer) = registered(&database).await;
    for round in 0..5 {
        let twins: Vec<_> = (0..8)
            .map(|_| {
                let store = database.store();
                tokio::spawn(async move {
                    let mut lane = store.connect().await.unwrap();
                    let patient = ClaimWait::Claim(Duration::from_secs(30));
                    let ids: Vec<String> = (0..20).map(|n| format!("{round:02} {n:02}")).collect();
                    let keys: Vec<ClaimKey<'_>> = ids.iter().map(|id| key(id, id)).collect();
                    let claimed = lane.begin(&Claims { wait: patient, ..claims(consumer, &keys) }).await.unwrap();
                    for (id, claim) in ids.iter().zip(&claimed.claims) {
                        assert!(matches!(claim, Claim::Fresh | Claim::Duplicate));
                        if *claim == Claim::Fresh {
                            write(&mut lane, id).await;
                        }
                    }
                    lane.commit(&Writes::default()).await.unwrap();
                })
            })
            .collect();
        for twin in twins {
            twin.await.unwrap();
        }
        assert_eq!(database.effects().await, (round + 1) * 20);
    }
    assert_eq!(database.count("select count(distinct v) from effect").await, 100);
}

#[tokio::test]
async fn a_dropped_lane_is_rolled_back_at_once_also_while_it_waits() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    begin(&mut lane, consumer, &[key("a", "")]).await;
    write(&mut lane, "a").await;

    let mut waits = database.lane().await;
    let keys = [key("a", "")];
    let patient = Claims { wait: ClaimWait::Claim(Duration::from_secs(60)), ..claims(consumer, &keys) };
    assert!(tokio::time::timeout(Duration::from_millis(200), waits.begin(&patient)).await.is_err());
    drop(waits);
    let query = format!(
        "select count(*) from pg_stat_activity where datname = '{}' and wait_event_type = 'Lock'",
        database.name()
    );
    let gone = Instant::now();
    while database.count(&query).await > 0 {
        assert!(gone.elapsed() < Duration::from_secs(5), "the backend of a dropped lane still waits");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    drop(lane);
    let mut lane = database.lane().await;
    let patient = Claims { wait: ClaimWait::Claim(Duration::from_secs(5)), ..claims(consumer, &keys) };
    assert_eq!(lane.begin(&patient).await.unwrap().claims, [Claim::Fresh]);
    lane.rollback().await.unwrap();
    assert_eq!(database.effects().await, 0);
}

/// Law 16: dropped after any number of polls, a message is done whole or not at all, and claiming again tells which.
#[tokio::test]
async fn dropped_at_each_poll_it_is_done_whole_or_not_at_all() {
    let Some(database) = Database::fresh().await else { return };
    let (mut last, consumer) = registered(&database).await;
    let mut committed = 0;
    for polls in 0..60 {
        let id = format!("{polls:03}");
        let mut lane = database.lane().await;
        let done = {
            let mut processing = pin!(process(&mut lane, consumer, &id, ""));
            let mut done = false;
            for _ in 0..polls {
                let ready = std::future::poll_fn(|context| {
                    let _ = &context;
                    std::task::Poll::Ready(processing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready())
                })
                .await;
                if ready {
                    done = true;
                    break;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            done
        };
        drop(lane);
        let keys = [key(&id, "")];
        let patient = Claims { wait: ClaimWait::Claim(Duration::from_secs(10)), ..claims(consumer, &keys) };
        match last.begin(&patient).await.unwrap().claims[..] {
            [Claim::Duplicate] => {
                committed += 1;
                last.rollback().await.unwrap();
            }
            [Claim::Fresh] => {
                assert!(!done, "{polls} polls: said to be done, and is not");
                write(&mut last, &id).await;
                last.commit(&Writes::default()).await.unwrap();
            }
            _ => panic!(),
        }
    }
    assert_eq!((database.effects().await, database.claims().await), (60, 60));
    assert!(committed > 0 && committed < 60, "{committed} of 60 were committed by those that were dropped");
}

/// A claim that vanishes between the claiming statement and the reading one.
#[tokio::test]
async fn a_claim_that_vanished_is_run_again() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    process(&mut lane, consumer, "a", "").await.unwrap();
    // Deletes the claim right after it was met: what another session would do between the two statements.
    execute(
        lane.conn(),
        "create function vanish() returns trigger language plpgsql as $$ begin delete from semel.claim; return null; end $$;
         create trigger vanish after insert on semel.claim for each statement execute function vanish()",
    )
    .await;
    let keys = [key("a", "")];
    let error = match lane.begin(&claims(consumer, &keys)).await {
        Err(error) => error,
        Ok(claimed) => panic!("{claimed:?}"),
    };
    assert_eq!(error.trouble, Trouble::Rerun, "{error}");
}

#[tokio::test]
async fn the_clock_is_the_databases() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, _) = registered(&database).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    let ours = lane.now();
    let theirs: i64 = sqlx::query_scalar("select (extract(epoch from clock_timestamp()) * 1000)::int8")
        .fetch_one(lane.conn())
        .await
        .unwrap();
    assert!((ours.as_millis() - theirs).abs() < 200, "{ours:?} {theirs}");
}

/// Without a claim there is nothing to hold a lock limit for, and nothing is asked of semel's tables.
#[tokio::test]
async fn a_transaction_without_keys_claims_nothing() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let claimed = begin(&mut lane, consumer, &[]).await;
    assert!(claimed.claims.is_empty() && !claimed.keys_held);
    write(&mut lane, "x").await;
    lane.commit(&Writes::default()).await.unwrap();
    assert_eq!((database.effects().await, database.claims().await), (1, 0));
}
