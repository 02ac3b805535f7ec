//! The claim on SQLite: verdicts, ids byte by byte, batches, many processes.

mod common;

use common::*;
use semel_core::{Claim, ClaimKey, Fingerprint, Lane, Records, Retried, Store, Timestamp, Writes};
use semel_sqlite::Sqlite;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

#[tokio::test]
async fn a_batch_has_one_verdict_a_key_in_their_order() {
    let (shop, mut lane) = shop().await;
    assert_eq!(shop.claim(&mut lane, &[key("b"), key("d")]).await, [Claim::Fresh; 2]);
    let other = |id| ClaimKey { fingerprint: print(2), ..key(id) };
    let mixed = [key("a"), key("b"), key("c"), other("d"), key("e")];
    let verdicts = [Claim::Fresh, Claim::Duplicate, Claim::Fresh, Claim::Conflict, Claim::Fresh];
    assert_eq!(lane.look(shop.consumer, &mixed).await.unwrap().claims, verdicts);
    assert_eq!(shop.claim(&mut lane, &mixed).await, verdicts);
    assert_eq!(
        shop.claim(&mut lane, &mixed).await,
        [Claim::Duplicate, Claim::Duplicate, Claim::Duplicate, Claim::Conflict, Claim::Duplicate]
    );
    let second = lane.register("shipping", None).await.unwrap();
    assert_eq!(begin(&mut lane, second, &[key("a")]).await.unwrap().claims, [Claim::Fresh], "another consumer");
    lane.rollback().await.unwrap();
    assert_eq!(lane.look(second, &[key("a")]).await.unwrap().claims, [Claim::Fresh], "rolled back");
}

#[tokio::test]
async fn ids_are_compared_byte_by_byte() {
    let (shop, mut lane) = shop().await;
    let mut ids = [
        "a", "A", "a ", " a", "á", "a\u{301}", "à", "ａ", "1", "01", "1.0", "null", "a\"b", "a\\b", "\u{1}", "😀",
        "[1]", "a'b", "%",
    ];
    ids.sort_unstable();
    let keys: Vec<_> = ids.iter().map(|id| key(id)).collect();
    assert_eq!(shop.claim(&mut lane, &keys).await, vec![Claim::Fresh; ids.len()]);
    assert_eq!(shop.claim(&mut lane, &keys).await, vec![Claim::Duplicate; ids.len()]);
    for id in ids {
        assert_eq!(shop.claim(&mut lane, &[key(id)]).await, [Claim::Duplicate], "{id:?}");
    }
    let long = "x".repeat(255);
    assert_eq!(shop.claim(&mut lane, &[key(&long)]).await, [Claim::Fresh]);
    assert_eq!(shop.claim(&mut lane, &[key(&long[1..])]).await, [Claim::Fresh]);
}

#[tokio::test]
async fn fingerprints_of_other_rules_match() {
    let (shop, mut lane) = shop().await;
    let with = |version, digest| ClaimKey { fingerprint: Fingerprint { version, digest: [digest; 16] }, ..key("m") };
    assert_eq!(shop.claim(&mut lane, &[with(i16::MAX, 0)]).await, [Claim::Fresh]);
    assert_eq!(shop.claim(&mut lane, &[with(1, 7)]).await, [Claim::Duplicate], "another version");
    assert_eq!(shop.claim(&mut lane, &[with(0, 0)]).await, [Claim::Duplicate], "none");
    assert_eq!(shop.claim(&mut lane, &[with(i16::MAX, 9)]).await, [Claim::Conflict]);

    let none = |id| ClaimKey { fingerprint: Fingerprint::NONE, ..key(id) };
    assert_eq!(shop.claim(&mut lane, &[none("n")]).await, [Claim::Fresh]);
    assert_eq!(shop.claim(&mut lane, &[key("n")]).await, [Claim::Duplicate]);
    let stored = lane.explain(Some("billing"), "n").await.unwrap();
    assert_eq!(stored[0].claim.unwrap().fingerprint, Fingerprint::NONE);
}

#[tokio::test]
async fn times_and_fingerprints_are_stored_with_the_claim() {
    let (shop, mut lane) = shop().await;
    let before = lane.now();
    let times = [None, Some(0), Some(-1), Some(i64::MIN), Some(i64::MAX), Some(1_700_000_000_123)];
    let ids: Vec<String> = (0..times.len()).map(|i| format!("m{i}")).collect();
    let keys: Vec<_> = ids
        .iter()
        .zip(times)
        .map(|(id, time)| ClaimKey {
            fingerprint: print(id.as_bytes()[1]),
            time: time.map(Timestamp::from_millis),
            ..key(id)
        })
        .collect();
    assert_eq!(shop.claim(&mut lane, &keys).await, vec![Claim::Fresh; ids.len()]);
    for key in keys {
        let claim = lane.explain(None, key.id).await.unwrap()[0].claim.unwrap();
        assert_eq!((claim.time, claim.fingerprint), (key.time, key.fingerprint), "{}", key.id);
        assert!(before <= claim.claimed_at && claim.claimed_at <= lane.now(), "{:?}", claim.claimed_at);
    }
}

#[tokio::test]
async fn a_thousand_at_once() {
    let (shop, mut lane) = shop().await;
    let ids: Vec<String> = (0..1000).map(|i| format!("{i:04}")).collect();
    let keys: Vec<_> = ids.iter().map(|id| key(id)).collect();
    let odd: Vec<_> = keys.iter().copied().skip(1).step_by(2).collect();
    assert_eq!(shop.claim(&mut lane, &odd).await, [Claim::Fresh; 500]);
    let all = shop.claim(&mut lane, &keys).await;
    assert!(
        all.iter().enumerate().all(|(i, claim)| *claim == if i % 2 == 0 { Claim::Fresh } else { Claim::Duplicate })
    );
}

#[tokio::test]
async fn a_waiting_message_is_ours_only_while_nobody_touched_it() {
    let (shop, mut lane) = shop().await;
    shop.wait(&mut lane, waiting("w")).await;
    let still = |attempts| ClaimKey { waiting: Some(attempts), ..key("w") };
    let gone = ClaimKey { waiting: Some(1), ..key("x") };
    // Both sorts in one batch.
    let claimed = begin(&mut lane, shop.consumer, &[key("new"), still(1), gone]).await.unwrap();
    assert_eq!(claimed.claims, [Claim::Fresh, Claim::Fresh, Claim::Duplicate]);
    let retried = Retried { id: "w".to_owned(), attempts: 2, delay: Duration::ZERO, error: "again".to_owned() };
    write(&mut lane, Writes { retried: vec![retried], ..Writes::default() }).await.unwrap();

    assert_eq!(shop.claim(&mut lane, &[still(1)]).await, [Claim::Duplicate], "tried meanwhile");
    assert_eq!(shop.claim(&mut lane, &[key("w")]).await, [Claim::Duplicate], "its claim stands");
    assert_eq!(lane.look(shop.consumer, &[still(1)]).await.unwrap().claims, [Claim::Duplicate]);
    assert_eq!(lane.look(shop.consumer, &[still(2), gone]).await.unwrap().claims, [Claim::Fresh, Claim::Duplicate]);
    begin(&mut lane, shop.consumer, &[still(2)]).await.unwrap();
    write(&mut lane, Writes { finished: vec!["w".to_owned()], ..Writes::default() }).await.unwrap();
    assert_eq!(shop.claim(&mut lane, &[still(2)]).await, [Claim::Duplicate], "finished");
    assert_eq!(lane.due(shop.consumer, 10).await.unwrap().len(), 0);
}

/// Each with a store and a connection of its own, as processes have; the busy timeout is the default one.
#[tokio::test(flavor = "multi_thread")]
async fn eight_on_one_file_and_no_handler_is_busy() {
    const MESSAGES: usize = 40;
    let (shop, lane) = shop().await;
    drop(lane);
    let barrier = Arc::new(Barrier::new(8));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, consumer, barrier) = (shop.store.clone(), shop.consumer, barrier.clone());
            tokio::spawn(async move {
                let mut lane = store.connect().await.unwrap();
                barrier.wait().await;
                for message in 0..MESSAGES {
                    let id = format!("{message:03}");
                    let claimed = begin(&mut lane, consumer, &[key(&id)]).await.unwrap();
                    match claimed.claims[0] {
                        Claim::Fresh => {
                            number(&mut lane, "select count(*) from effects").await;
                            effect(lane.conn(), &id).await.expect("a handler is never busy");
                            lane.commit(&Writes::default()).await.unwrap();
                        }
                        _ => lane.rollback().await.unwrap(),
                    }
                    // Without a message, and reading first.
                    begin(&mut lane, consumer, &[]).await.unwrap();
                    number(&mut lane, "select count(*) from effects").await;
                    let counted = sqlx::raw_sql("update effects set v = v").execute(lane.conn()).await;
                    counted.expect("nor here");
                    lane.commit(&Writes::default()).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut effects = effects(&shop).await;
    effects.sort();
    assert_eq!(effects, (0..MESSAGES).map(|i| format!("{i:03}")).collect::<Vec<_>>());
}

/// The same with processes, which begin with an empty file: this test runs itself eight times.
#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_on_one_file() {
    const THERE: &str = "SEMEL_TEST_ONE_OF_EIGHT";
    const MESSAGES: usize = 40;

    if let Some(path) = std::env::var_os(THERE) {
        let mut lane = Sqlite::open(path).unwrap().busy_timeout(PATIENCE).connect().await.unwrap();
        lane.migrate(&[setup("effects.sql", "create table effects (v text)")]).await.unwrap();
        let consumer = lane.register("billing", None).await.unwrap();
        for message in 0..MESSAGES {
            let id = format!("{message:03}");
            match begin(&mut lane, consumer, &[key(&id)]).await.unwrap().claims[0] {
                Claim::Fresh => {
                    effect(lane.conn(), &id).await.expect("a handler is never busy");
                    lane.commit(&Writes::default()).await.unwrap();
                }
                _ => lane.rollback().await.unwrap(),
            }
        }
        return;
    }

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut again = std::process::Command::new(&program);
            again.args(["--exact", "eight_processes_on_one_file"]).env(THERE, &path);
            again.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let mut lane = Sqlite::open(&path).unwrap().connect().await.unwrap();
    let effects: Vec<String> =
        sqlx::query_scalar("select v from effects order by v").fetch_all(lane.conn()).await.unwrap();
    assert_eq!(effects, (0..MESSAGES).map(|i| format!("{i:03}")).collect::<Vec<_>>());
}
