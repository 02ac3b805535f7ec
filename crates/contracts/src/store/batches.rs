//! Many ids in one claim (law 4): known ones inside, conflicts inside, and batches that overlap.

use super::check::checks;
use super::dice::Dice;
use super::fixture::Fixture;
use super::stage::{LaneOf, SOON, Stage, begin, claims, joined, key, print, waiting, waiting_key};
use semel_core::{
    Claim, ClaimKey, ClaimWait, Claims, ConsumerNumber, DeadLetter, Envelope, Lane, Reason, Semel, Store, Trouble,
    Writes,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Barrier;

checks! {
    "law 4: one verdict for each key, in the order of the keys; nothing known is lost among the new" => verdicts_come_in_order,
    "law 4: of 100 ids with 3 known ones 97 are fresh, and one transaction holds them all" => a_hundred_with_three_known,
    "law 4: a thousand ids in one claim" => a_thousand_at_once,
    "law 16: a batch that is rolled back leaves none of its claims" => a_batch_is_all_or_nothing,
    "law 4: a transaction without keys claims nothing and commits" => no_keys_at_all,
    "law 4: new ids and waiting ones in one batch, each by its own rule" => new_and_waiting_in_one_batch,
    "law 4: sorted batches that overlap never deadlock, and each id is worked once" => overlapping_batches,
    "a batch's writes are of one commit with its claims, or of none" => writes_go_with_the_claims,
}

async fn verdicts_come_in_order<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.commit(number, &[key("b"), key("d"), key("f")], &Writes::default()).await;
    let batch =
        [key("a"), key("b"), key("c"), ClaimKey { fingerprint: print(2), ..key("d") }, key("e"), key("f"), key("g")];
    let expected =
        [Claim::Fresh, Claim::Duplicate, Claim::Fresh, Claim::Conflict, Claim::Fresh, Claim::Duplicate, Claim::Fresh];
    let mut lane = stage.lane().await;
    assert_eq!(begin::<F>(&mut lane, number, &batch).await.claims, expected);
    lane.commit(&Writes::default()).await.expect("commit");
    let known = begin::<F>(&mut lane, number, &batch).await.claims;
    let conflict = |at| if at == 3 { Claim::Conflict } else { Claim::Duplicate };
    assert_eq!(known, [0, 1, 2, 3, 4, 5, 6].map(conflict));
}

async fn a_hundred_with_three_known<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let ids: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
    stage.commit(number, &[key("000"), key("050"), key("099")], &Writes::default()).await;
    let mut lane = stage.lane().await;
    let fresh = work::<F>(&mut lane, number, &ids).await.expect("no twin is in flight");
    assert_eq!((fresh, stage.effects().await.len()), (97, 97));
    for id in ["000", "050", "099"] {
        assert_eq!(stage.count(id).await, 0);
    }
}

async fn a_thousand_at_once<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let ids: Vec<String> = (0..1000).map(|n| format!("{n:04}")).collect();
    let keys: Vec<ClaimKey<'_>> = ids.iter().map(|id| key(id)).collect();
    stage.commit(number, &keys, &Writes::default()).await;
    let mut lane = stage.lane().await;
    let again = begin::<F>(&mut lane, number, &keys).await.claims;
    assert_eq!(again, [Claim::Duplicate; 1000]);
}

async fn a_batch_is_all_or_nothing<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let ids: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    let keys: Vec<ClaimKey<'_>> = ids.iter().map(|id| key(id)).collect();
    let mut lane = stage.lane().await;
    begin::<F>(&mut lane, number, &keys).await;
    for id in &ids {
        F::write(lane.conn(), id).await.expect("write");
    }
    lane.rollback().await.expect("rollback");
    assert!(stage.effects().await.is_empty());
    assert_eq!(lane.begin(&claims(number, &keys)).await.expect("begin").claims, [Claim::Fresh; 10]);
}

async fn no_keys_at_all<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let mut lane = stage.lane().await;
    for wait in [ClaimWait::Claim(Duration::from_secs(5)), ClaimWait::Transaction(Duration::from_secs(5))] {
        let claimed = lane.begin(&Claims { wait, ..claims(number, &[]) }).await.expect("begin");
        assert!(claimed.claims.is_empty() && !claimed.keys_held);
        F::write(lane.conn(), "x").await.expect("write");
        lane.commit(&Writes::default()).await.expect("commit");
    }
    assert_eq!(stage.effects().await, ["x", "x"]);
}

async fn new_and_waiting_in_one_batch<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.defer(number, &[waiting("b"), waiting("d")]).await;
    stage.commit(number, &[key("e")], &Writes::default()).await;
    let batch = [key("a"), waiting_key("b", 0), key("c"), waiting_key("d", 1), key("e"), waiting_key("f", 0)];
    let expected = [Claim::Fresh, Claim::Fresh, Claim::Fresh, Claim::Duplicate, Claim::Duplicate, Claim::Duplicate];
    let mut lane = stage.lane().await;
    assert_eq!(begin::<F>(&mut lane, number, &batch).await.claims, expected);
    let finished = vec!["b".to_owned()];
    lane.commit(&Writes { finished, ..Writes::default() }).await.expect("commit");
    let left: Vec<String> = stage.due(number).await.into_iter().map(|message| message.id).collect();
    assert_eq!(left, ["d"]);
    for id in ["a", "b", "c", "d", "e"] {
        assert!(stage.is_claimed("c", id).await, "{id}");
    }
    assert!(!stage.is_claimed("c", "f").await, "a waiting key makes no claim");
}

/// Four connections, all with the same 120 ids in batches cut at random.
async fn overlapping_batches<F: Fixture>(fixture: &F) {
    const TASKS: usize = 4;
    let stage = Stage::with_lanes(fixture, TASKS).await;
    let number = stage.number("c").await;
    let seed = Dice::seed();
    let start = Arc::new(Barrier::new(TASKS));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (semel, start) = (stage.another(fixture), start.clone());
            tokio::spawn(async move {
                let mut dice = Dice::new(seed + task as u64);
                let mut batches = Vec::new();
                for _ in 0..20 {
                    let mut ids: Vec<String> = (0..12).map(|_| format!("{:03}", dice.below(120))).collect();
                    ids.sort();
                    ids.dedup();
                    batches.push(ids);
                }
                batches.extend((0..12).map(|part| (part * 10..part * 10 + 10).map(|n| format!("{n:03}")).collect()));
                start.wait().await;
                work_off::<F>(&semel, number, &batches).await;
            })
        })
        .collect();
    for task in tasks {
        joined(task).await;
    }
    let expected: Vec<String> = (0..120).map(|n| format!("{n:03}")).collect();
    assert_eq!(stage.effects().await, expected, "SEMEL_SEED={seed}");
}

async fn work_off<F: Fixture>(semel: &Semel<F::Store>, number: ConsumerNumber, batches: &[Vec<String>]) {
    let mut lane = semel.store().connect().await.expect("connect");
    for ids in batches {
        let began = Instant::now();
        while work::<F>(&mut lane, number, ids).await.is_none() {
            assert!(began.elapsed() < SOON, "a batch stands behind twins for ever");
            // After an error a lane is not used again.
            lane = semel.store().connect().await.expect("connect");
        }
    }
}

/// Claims the ids and writes an effect for each fresh one; how many were fresh. `None`: a twin was in flight for too long.
async fn work<F: Fixture>(lane: &mut LaneOf<F>, number: ConsumerNumber, ids: &[String]) -> Option<usize> {
    let keys: Vec<ClaimKey<'_>> = ids.iter().map(|id| key(id)).collect();
    let claims = Claims { wait: ClaimWait::Transaction(Duration::from_secs(2)), ..claims(number, &keys) };
    let claimed = match lane.begin(&claims).await {
        Ok(claimed) => claimed.claims,
        // Where there is one writer at a time, a lock that is not to be had counts as an outage (law 14).
        Err(error) if matches!(error.trouble, Trouble::Busy | Trouble::Unreachable) => return None,
        Err(error) => {
            panic!("batches with sorted ids meet no deadlock and no other error: {error} ({:?})", error.trouble)
        }
    };
    assert_eq!(claimed.len(), ids.len(), "one verdict a key");
    let fresh: Vec<&String> =
        ids.iter().zip(&claimed).filter(|(_, claim)| **claim == Claim::Fresh).map(|(id, _)| id).collect();
    for id in &fresh {
        F::write(lane.conn(), id).await.expect("write");
    }
    lane.commit(&Writes::default()).await.expect("commit");
    Some(fresh.len())
}

async fn writes_go_with_the_claims<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.defer(number, &[waiting("w")]).await;
    let letter = DeadLetter {
        reason: Reason::Failed,
        id: Some("d".to_owned()),
        kind: String::new(),
        key: None,
        time: None,
        fingerprint: print(1),
        error: "no".to_owned(),
        attempts: 3,
        envelope: Envelope::new("d", ""),
    };
    let writes = || Writes {
        waiting: vec![waiting("b")],
        finished: vec!["w".to_owned()],
        dead: vec![letter.clone()],
        ..Writes::default()
    };
    // A handler's error that the database sees only now must take the writes with it.
    let mut lane = stage.lane().await;
    begin::<F>(&mut lane, number, &[key("a"), key("b"), key("d"), waiting_key("w", 0)]).await;
    F::leak(lane.conn()).await.expect("leak");
    lane.commit(&writes()).await.expect_err("a nested transaction is open");
    drop(lane);
    assert_eq!(stage.due(number).await.len(), 1, "w still waits, b does not");
    assert!(stage.dead_letters().await.is_empty() && !stage.is_claimed("c", "b").await);
    let mut lane = stage.lane().await;
    begin::<F>(&mut lane, number, &[key("a"), key("b"), key("d"), waiting_key("w", 0)]).await;
    let written = lane.commit(&writes()).await.expect("commit");
    assert_eq!(written.dead_seen_before, [false]);
    let due: Vec<String> = stage.due(number).await.into_iter().map(|message| message.id).collect();
    assert_eq!((due, stage.dead_letters().await.len()), (vec!["b".to_owned()], 1));
}
