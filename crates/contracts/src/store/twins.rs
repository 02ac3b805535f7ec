//! Twins: two copies of one message at the same moment, and what waits for whom.

use super::check::checks;
use super::fixture::Fixture;
use super::stage::{SOON, Stage, begin, claims, joined, key, process};
use semel_core::{Claim, ClaimWait, Claims, Envelope, Lane, Outcome, ProcessError, Semel, Store, Trouble, Writes};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Barrier, Notify, oneshot};

checks! {
    "law 1: of eight twins through one lane one is processed; the others are duplicates or busy" => twins_through_one_lane,
    "law 1: of eight twins through eight lanes one is processed; the others are duplicates or busy" => twins_through_eight_lanes,
    "law 1: twins in two processes: one is processed" => twins_in_two_processes,
    "law 1: twins for two consumers are both processed" => twins_for_two_consumers,
    "law 8: a twin waits for a claim in flight; if that commits, the twin is a duplicate" => a_twin_waits_for_the_commit,
    "law 8: a twin waits for a claim in flight; if that is rolled back or dropped, the twin is fresh" => a_twin_waits_for_the_rollback,
    "law 8: a twin waits no longer than it was told, and then it is busy" => a_twin_is_busy_after_its_wait,
    "law 8: the claim's wait is for the claim alone: it does not cut the handler's own wait for a lock" => the_handlers_own_wait_is_not_cut,
    "law 8: in a batch every lock of the transaction waits no longer than told" => a_batch_waits_for_nobody,
    "§7: a long handler does not hold up the claim of another id" => a_long_handler_holds_up_nobody,
}

async fn twins_through_one_lane<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 1).await;
    race(&stage, std::slice::from_ref(&stage.semel)).await;
}

async fn twins_through_eight_lanes<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 8).await;
    race(&stage, std::slice::from_ref(&stage.semel)).await;
}

async fn twins_in_two_processes<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    race(&stage, &[stage.semel.clone(), stage.another(fixture)]).await;
}

/// Ten rounds of eight tasks that start together.
async fn race<F: Fixture>(stage: &Stage<F>, handles: &[Semel<F::Store>]) {
    stage.number("c").await;
    for round in 0..10 {
        let message = Arc::new(Envelope::new(format!("{round}"), "body"));
        let start = Arc::new(Barrier::new(8));
        let twins: Vec<_> = (0..8)
            .map(|twin| {
                let (semel, message, start) = (handles[twin % handles.len()].clone(), message.clone(), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    process::<F>(&semel, "c", &message).await
                })
            })
            .collect();
        let mut processed = 0;
        for twin in twins {
            match joined(twin).await.map(|permit| permit.outcome()) {
                Ok(Outcome::Processed) => processed += 1,
                Ok(Outcome::Duplicate) | Err(ProcessError::Busy) => {}
                other => panic!("round {round}: a twin is processed, a duplicate or busy, but not {other:?}"),
            }
        }
        assert_eq!((processed, stage.count(&format!("{round}")).await), (1, 1), "round {round}: (permits, effects)");
    }
}

async fn twins_for_two_consumers<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 8).await;
    for round in 0..10 {
        let start = Arc::new(Barrier::new(2));
        let twins = ["billing", "shipping"].map(|consumer| {
            let (semel, start) = (stage.semel.clone(), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                process::<F>(&semel, consumer, &Envelope::new(format!("{round}"), "body"))
                    .await
                    .expect("process")
                    .outcome()
            })
        });
        for twin in twins {
            assert_eq!(joined(twin).await, Outcome::Processed);
        }
    }
    assert_eq!(stage.effects().await.len(), 20);
}

async fn a_twin_waits_for_the_commit<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let mut first = stage.lane().await;
    begin::<F>(&mut first, number, &[key("a")]).await;
    let mut second = stage.lane().await;
    let keys = [key("a")];
    let claims = claims(number, &keys);
    let twin = second.begin(&claims);
    tokio::pin!(twin);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut twin).await;
    assert!(early.is_err(), "an answer while the claim was in flight: {early:?}");
    first.commit(&Writes::default()).await.expect("commit");
    assert_eq!(twin.await.expect("begin").claims, [Claim::Duplicate], "seen at READ COMMITTED, after the wait");
}

async fn a_twin_waits_for_the_rollback<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    for dropped in [false, true] {
        let mut first = stage.lane().await;
        begin::<F>(&mut first, number, &[key("a")]).await;
        let mut second = stage.lane().await;
        let keys = [key("a")];
        let claims = claims(number, &keys);
        let mut twin = Box::pin(second.begin(&claims));
        let early = tokio::time::timeout(Duration::from_millis(100), &mut twin).await;
        assert!(early.is_err(), "an answer while the claim was in flight: {early:?}");
        match dropped {
            true => drop(first),
            false => first.rollback().await.expect("rollback"),
        }
        assert_eq!(twin.await.expect("begin").claims, [Claim::Fresh], "dropped: {dropped}");
        second.rollback().await.expect("rollback");
    }
}

async fn a_twin_is_busy_after_its_wait<F: Fixture>(fixture: &F) {
    if !F::DIFFERENCES.writes_in_parallel {
        return;
    }
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let mut first = stage.lane().await;
    begin::<F>(&mut first, number, &[key("b")]).await;
    for wait in [ClaimWait::Claim(Duration::from_millis(100)), ClaimWait::Transaction(Duration::from_millis(100))] {
        let mut second = stage.lane().await;
        let keys = [key("a"), key("b"), key("c")];
        let began = Instant::now();
        let claims = Claims { wait, ..claims(number, &keys) };
        let busy = second.begin(&claims).await.expect_err("the twin is still in flight");
        assert_eq!(busy.trouble, Trouble::Busy, "{busy}");
        let took = began.elapsed();
        assert!(
            took >= Duration::from_millis(90) && took < Duration::from_secs(4),
            "told to wait 100 ms, waited {took:?}"
        );
    }
    first.commit(&Writes::default()).await.expect("commit");
}

/// A handler of 600 ms of waiting, under a claim that waits 100 ms.
async fn the_handlers_own_wait_is_not_cut<F: Fixture>(fixture: &F) {
    if !(F::DIFFERENCES.writes_in_parallel && F::DIFFERENCES.locks_rows) {
        return;
    }
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let no_keys: &[_] = &[];
    for keys in [&[key("a")][..], no_keys] {
        let holder = hold::<F>(&stage.semel).await;
        let mut lane = stage.lane().await;
        let claims = Claims { wait: ClaimWait::Claim(Duration::from_millis(100)), ..claims(number, keys) };
        lane.begin(&claims).await.expect("begin");
        let release = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(600)).await;
            holder.release().await;
        });
        F::execute(lane.conn(), "update sums set n = n + 1 where k = 'a'")
            .await
            .expect("the handler waits as long as it wants");
        joined(release).await;
        lane.commit(&Writes::default()).await.expect("commit");
    }
    assert_eq!(stage.sum("a").await, 4);
}

async fn a_batch_waits_for_nobody<F: Fixture>(fixture: &F) {
    if !(F::DIFFERENCES.writes_in_parallel && F::DIFFERENCES.locks_rows) {
        return;
    }
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let holder = hold::<F>(&stage.semel).await;
    let mut lane = stage.lane().await;
    let keys = [key("a"), key("b")];
    let claims = Claims { wait: ClaimWait::Transaction(Duration::from_millis(100)), ..claims(number, &keys) };
    lane.begin(&claims).await.expect("begin");
    let cut =
        F::execute(lane.conn(), "update sums set n = n + 1 where k = 'a'").await.expect_err("cut by the batch's limit");
    assert_eq!(F::Store::trouble(&cut), Trouble::Busy, "{cut}");
    lane.rollback().await.expect("rollback");
    holder.release().await;
}

async fn a_long_handler_holds_up_nobody<F: Fixture>(fixture: &F) {
    if !F::DIFFERENCES.writes_in_parallel {
        return;
    }
    let stage = Stage::with_lanes(fixture, 2).await;
    let (inside, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let long = {
        let (semel, inside, go) = (stage.semel.clone(), inside.clone(), go.clone());
        tokio::spawn(async move {
            let message = Envelope::new("long", "");
            let work = semel.process("c", &message, async move |tx| {
                F::write(tx.conn(), "long").await?;
                inside.notify_one();
                go.notified().await;
                Ok(())
            });
            work.await.expect("process").outcome()
        })
    };
    inside.notified().await;
    for id in 0..10 {
        let other = Envelope::new(format!("{id}"), "");
        let outcome =
            tokio::time::timeout(SOON, stage.process("c", &other)).await.expect("held up by the long handler");
        assert_eq!(outcome, Outcome::Processed);
    }
    assert_eq!(stage.count("long").await, 0, "not committed yet");
    go.notify_one();
    assert_eq!(joined(long).await, Outcome::Processed);
    assert_eq!(stage.effects().await.len(), 11);
}

/// A transaction that holds the lock of a row, until it is told to commit.
struct Holder {
    release: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

async fn hold<F: Fixture>(semel: &Semel<F::Store>) -> Holder {
    let (locked, is_locked) = oneshot::channel();
    let (release, released) = oneshot::channel();
    let semel = semel.clone();
    let task = tokio::spawn(async move {
        // The work may be run again, the channels may not: so they lie beside it.
        let channels = Arc::new(std::sync::Mutex::new(Some((locked, released))));
        let work = semel.transaction(async move |tx| {
            F::execute(tx.conn(), "update sums set n = n + 1 where k = 'a'").await?;
            let channels = channels.lock().expect("no panic").take();
            let (locked, released) = channels.expect("run once");
            let _ = locked.send(());
            let _ = released.await;
            Ok(())
        });
        work.await.expect("transaction");
    });
    is_locked.await.expect("the lock is taken");
    Holder { release, task }
}

impl Holder {
    async fn release(self) {
        let _ = self.release.send(());
        joined(self.task).await;
    }
}
