//! Dropped anywhere (law 16): rolled back or committed, never half, and never a poisoned connection.

use super::check::checks;
use super::cut::cut;
use super::dice::Dice;
use super::fixture::Fixture;
use super::stage::{SOON, Stage, begin, key, process, tables, waiting};
use semel_core::{Claim, ClaimKey, Envelope, Lane, Outcome, Records, Semel, Writes};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// No work of this suite needs as many polls.
const POLLS_MAX: usize = 2_000;
const DROPS: usize = 200;

checks! {
    "law 16: `process` dropped after each number of polls: the message can be processed again and has one effect" => dropped_after_each_poll,
    "law 16: `process` dropped at random moments, 200 times: each message has one effect, and the handle works on" => dropped_at_random_moments,
    "law 16: a transaction without a message, dropped after each number of polls: all of it or nothing" => a_transaction_dropped_after_each_poll,
    "law 16: a deferral dropped after each number of polls: the message waits once, or is fresh" => a_deferral_dropped_after_each_poll,
    "law 16: `migrate` dropped after each number of polls holds no lock, and the next one succeeds" => a_migration_dropped_after_each_poll,
    "law 16: records dropped after each number of polls leave the handle good" => records_dropped_after_each_poll,
}

/// How many polls the work needs depends on how fast the database answers: so it is done several times.
async fn dropped_after_each_poll<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 2).await;
    stage.number("c").await;
    let (mut drops, mut messages) = (0, 0);
    for round in 0..10 {
        for polls in 1..POLLS_MAX {
            let message = Envelope::new(format!("{round} {polls}"), "body");
            let dropped = cut(polls, process::<F>(&stage.semel, "c", &message)).await.is_err();
            after_a_drop(&stage, &message, dropped).await;
            messages += 1;
            if !dropped {
                break;
            }
            drops += 1;
        }
    }
    assert!(drops >= 10, "`process` has hardly a moment at which it can be dropped: {drops} drops");
    let mut effects = stage.effects().await;
    effects.dedup();
    assert_eq!((effects.len(), stage.effects().await.len()), (messages, messages), "one effect each, {drops} drops");
    stage.nobody_is_left_in_a_transaction().await;
}

/// Processes the message again: it is done now, if it was not before.
async fn after_a_drop<F: Fixture>(stage: &Stage<F>, message: &Envelope, dropped: bool) {
    let again = tokio::time::timeout(SOON, process::<F>(&stage.semel, "c", message))
        .await
        .expect("the handle hangs after a drop");
    match again.map(|permit| permit.outcome()) {
        Ok(Outcome::Processed) if dropped => {}
        Ok(Outcome::Duplicate) => {}
        other => panic!("message {:?} after a drop: {other:?}", message.id),
    }
}

async fn dropped_at_random_moments<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    stage.number("c").await;
    let usual = usual_time(&stage).await;
    let seed = Dice::seed();
    let mut dice = Dice::new(seed);
    let mut dropped = 0;
    for round in 0..DROPS {
        let message = Envelope::new(format!("{round:04}"), "body");
        let after = Duration::from_nanos(dice.below(u64::try_from(usual.as_nanos()).expect("short") * 3 / 2));
        let ended = match round % 2 {
            // By its own task, on whatever thread.
            0 => {
                let (semel, message) = (stage.semel.clone(), message.clone());
                let task = tokio::spawn(async move { process::<F>(&semel, "c", &message).await.map(drop) });
                tokio::time::sleep(after).await;
                task.abort();
                task.await.is_ok()
            }
            _ => tokio::time::timeout(after, process::<F>(&stage.semel, "c", &message)).await.is_ok(),
        };
        dropped += usize::from(!ended);
        after_a_drop(&stage, &message, true).await;
        let effects = stage.count(&format!("{round:04}")).await;
        assert_eq!(effects, 1, "round {round}, dropped after {after:?}; SEMEL_SEED={seed}");
    }
    assert!(dropped > 0, "nothing was dropped: SEMEL_SEED={seed}");
    let expected: BTreeMap<String, usize> = (0..DROPS).map(|round| (format!("{round:04}"), 1)).collect();
    let mut effects = BTreeMap::new();
    for effect in stage.effects().await.into_iter().filter(|effect| !effect.starts_with("usual")) {
        *effects.entry(effect).or_insert(0) += 1;
    }
    assert_eq!(effects, expected, "SEMEL_SEED={seed}, {dropped} dropped");
    stage.nobody_is_left_in_a_transaction().await;
}

async fn usual_time<F: Fixture>(stage: &Stage<F>) -> Duration {
    let mut times = Vec::new();
    for round in 0..9 {
        let began = Instant::now();
        stage.process("c", &Envelope::new(format!("usual {round}"), "body")).await;
        times.push(began.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

async fn a_transaction_dropped_after_each_poll<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 2).await;
    let mut written = Vec::new();
    for polls in 1..POLLS_MAX {
        let v = format!("{polls:04}");
        let work = stage.semel.transaction(async |tx| {
            F::write(tx.conn(), &v).await?;
            F::write(tx.conn(), &v).await?;
            Ok(())
        });
        let dropped = cut(polls, work).await.is_err();
        written.push(v);
        if !dropped {
            break;
        }
    }
    // Somebody who is gone without an answer may still be committing: nothing changes any more when nobody is in a transaction.
    stage.nobody_is_left_in_a_transaction().await;
    for v in &written {
        let count = stage.count(v).await;
        assert!(count == 2 || (count == 0 && v != written.last().expect("one")), "{v}: {count} of 2 effects");
    }
}

async fn a_deferral_dropped_after_each_poll<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 2).await;
    let number = stage.number("c").await;
    for polls in 1..POLLS_MAX {
        let id = format!("{polls:04}");
        let work = async {
            let mut lane = stage.lane().await;
            begin::<F>(&mut lane, number, &[key(&id)]).await;
            lane.commit(&Writes { waiting: vec![waiting(&id)], ..Writes::default() }).await.expect("commit");
        };
        let dropped = cut(polls, work).await.is_err();
        let mut lane = stage.lane().await;
        let again = begin::<F>(&mut lane, number, &[key(&id)]).await.claims[0];
        lane.rollback().await.expect("rollback");
        let waits = stage.due(number).await.iter().filter(|message| message.id == id).count();
        match again {
            Claim::Fresh if dropped => assert_eq!(waits, 0, "{polls} polls: no claim, but it waits"),
            Claim::Duplicate => assert_eq!(waits, 1, "{polls} polls: a claim, but it does not wait"),
            other => panic!("{polls} polls: {other:?}"),
        }
        if !dropped {
            return;
        }
    }
    panic!("a deferral does not end");
}

async fn a_migration_dropped_after_each_poll<F: Fixture>(fixture: &F) {
    let database = fixture.database().await;
    let semel = Semel::new(fixture.store(&database, 2));
    for polls in 1..POLLS_MAX {
        if cut(polls, semel.migrate(&[tables()])).await.map(|done| done.expect("migrate")).is_ok() {
            break;
        }
    }
    tokio::time::timeout(SOON, semel.migrate(&[tables()]))
        .await
        .expect("a lock is left behind")
        .expect("migrate again");
    let stage = Stage::<F> { semel, database };
    assert_eq!(stage.process("c", &Envelope::new("a", "")).await, Outcome::Processed);
}

async fn records_dropped_after_each_poll<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 2).await;
    let number = stage.number("c").await;
    let keys: Vec<String> = (0..20).map(|n| format!("{n:02}")).collect();
    let keys: Vec<ClaimKey<'_>> = keys.iter().map(|id| key(id)).collect();
    stage.commit(number, &keys, &Writes::default()).await;
    F::age(&stage.database, Duration::from_secs(7200)).await;
    for polls in 1..POLLS_MAX {
        let work = async {
            let mut lane = stage.semel.lane().await.expect("a lane");
            lane.register(&format!("consumer {polls}"), Some(Duration::from_secs(polls as u64)))
                .await
                .expect("register");
            lane.sweep(number, Duration::from_secs(3600), 5).await.expect("sweep");
            let positions = BTreeMap::from([("u".to_owned(), polls.to_string())]);
            lane.save_positions(number, "s", &positions).await.expect("save_positions");
            lane.done();
        };
        if cut(polls, work).await.is_ok() {
            let mut lane = stage.semel.lane().await.expect("a lane");
            let positions = lane.positions(number, "s").await.expect("positions");
            assert_eq!(positions.get("u"), Some(&polls.to_string()));
            assert!(lane.consumer(&format!("consumer {polls}")).await.expect("consumer").is_some());
            lane.done();
            stage.nobody_is_left_in_a_transaction().await;
            return;
        }
    }
    panic!("the records do not end");
}
