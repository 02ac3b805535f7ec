//! Deadlocks and serialization failures (law 3): run again in a fresh transaction, and the sums are right.

use super::check::checks;
use super::fixture::Fixture;
use super::stage::{Stage, joined};
use semel_core::{Envelope, Outcome, ProcessError, Semel, Store, Trouble};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Barrier;

checks! {
    "law 3: after a deadlock the whole body runs again in a fresh transaction, and both messages have their effects once" => a_deadlock_is_run_again,
    "law 3: the same for transactions without a message" => a_deadlocked_transaction_is_run_again,
    "law 3: many writers in every order: each message once, and the sums are right" => many_writers_in_every_order,
    "law 3: an ordinary database error is no reason to run again" => an_ordinary_error_is_not_run_again,
}

/// Meets the other one between its two locks, in the first run only: the second run must find nobody to wait for.
#[derive(Clone)]
struct Crosswise {
    meet: Arc<Barrier>,
    runs: Arc<AtomicUsize>,
}

impl Crosswise {
    fn two() -> [Crosswise; 2] {
        let meet = Arc::new(Barrier::new(2));
        [(); 2].map(|()| Crosswise { meet: meet.clone(), runs: Arc::default() })
    }

    async fn between(&self) {
        if self.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            self.meet.wait().await;
        }
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

const ORDERS: [[&str; 2]; 2] = [["a", "b"], ["b", "a"]];

fn add(key: &str) -> String {
    format!("update sums set n = n + 1 where k = '{key}'")
}

async fn a_deadlock_is_run_again<F: Fixture>(fixture: &F) {
    if !(F::DIFFERENCES.writes_in_parallel && F::DIFFERENCES.locks_rows) {
        return;
    }
    let stage = Stage::with_lanes(fixture, 2).await;
    stage.number("c").await;
    let crosswise = Crosswise::two();
    let tasks: Vec<_> = crosswise
        .iter()
        .zip(ORDERS)
        .map(|(crosswise, [first, second])| {
            let (semel, crosswise) = (stage.semel.clone(), crosswise.clone());
            tokio::spawn(async move {
                let message = Envelope::new(first, "body");
                let work = semel.process("c", &message, async move |tx| {
                    F::write(tx.conn(), first).await?;
                    F::execute(tx.conn(), &add(first)).await?;
                    crosswise.between().await;
                    F::execute(tx.conn(), &add(second)).await?;
                    Ok(())
                });
                work.await.expect("run again, not an error").outcome()
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(joined(task).await, Outcome::Processed);
    }
    let runs: usize = crosswise.iter().map(Crosswise::runs).sum();
    assert!(runs >= 3, "{runs} runs: there was no deadlock, so this check has shown nothing");
    assert_eq!((stage.sum("a").await, stage.sum("b").await), (2, 2));
    assert_eq!(stage.effects().await, ["a", "b"]);
}

async fn a_deadlocked_transaction_is_run_again<F: Fixture>(fixture: &F) {
    if !(F::DIFFERENCES.writes_in_parallel && F::DIFFERENCES.locks_rows) {
        return;
    }
    let stage = Stage::with_lanes(fixture, 2).await;
    let crosswise = Crosswise::two();
    let tasks: Vec<_> = crosswise
        .iter()
        .zip(ORDERS)
        .map(|(crosswise, [first, second])| {
            let (semel, crosswise) = (stage.semel.clone(), crosswise.clone());
            tokio::spawn(async move {
                let work = semel.transaction(async move |tx| {
                    F::execute(tx.conn(), &add(first)).await?;
                    crosswise.between().await;
                    F::execute(tx.conn(), &add(second)).await?;
                    Ok(())
                });
                work.await.expect("run again, not an error");
            })
        })
        .collect();
    for task in tasks {
        joined(task).await;
    }
    let runs: usize = crosswise.iter().map(Crosswise::runs).sum();
    assert!(runs >= 3, "{runs} runs: there was no deadlock, so this check has shown nothing");
    assert_eq!((stage.sum("a").await, stage.sum("b").await), (2, 2));
}

async fn many_writers_in_every_order<F: Fixture>(fixture: &F) {
    const WRITERS: usize = 3;
    const MESSAGES: usize = 6;
    let stage = Stage::with_lanes(fixture, WRITERS).await;
    stage.number("c").await;
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let semel = stage.semel.clone();
            tokio::spawn(async move {
                for message in 0..MESSAGES {
                    work_in_order::<F>(&semel, writer, message).await;
                }
            })
        })
        .collect();
    for task in tasks {
        joined(task).await;
    }
    let all = i64::try_from(WRITERS * MESSAGES).expect("small");
    assert_eq!([stage.sum("a").await, stage.sum("b").await, stage.sum("c").await], [all; 3]);
}

/// As its broker would, delivers the message again where it was unlucky as often as semel runs it again.
async fn work_in_order<F: Fixture>(semel: &Semel<F::Store>, writer: usize, message: usize) {
    let order = [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]][writer % 3];
    let message = Envelope::new(format!("{writer} {message}"), "body");
    for _ in 0..10 {
        let work = semel.process("c", &message, async |tx| {
            for key in order {
                F::execute(tx.conn(), &add(key)).await?;
            }
            Ok(())
        });
        match work.await {
            Ok(permit) => return assert_eq!(permit.outcome(), Outcome::Processed),
            Err(ProcessError::Failed { source, .. }) if F::Store::trouble(&*source) == Trouble::Rerun => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("a hundred deadlocks in a row");
}

async fn an_ordinary_error_is_not_run_again<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let runs = AtomicUsize::new(0);
    let counted = &runs;
    for sql in
        ["insert into sums (k, n) values ('a', 1)", "insert into no_such_table (v) values ('x')", "this is no SQL"]
    {
        counted.store(0, Ordering::SeqCst);
        let message = Envelope::new("a", "body");
        let work = stage.semel.process("c", &message, async |tx| {
            counted.fetch_add(1, Ordering::SeqCst);
            F::execute(tx.conn(), sql).await?;
            Ok(())
        });
        let result = work.await;
        let Err(ProcessError::Failed { source, .. }) = &result else { panic!("{sql}: {result:?}") };
        assert_eq!(F::Store::trouble(&**source), Trouble::Other, "{sql}");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{sql}");
    }
}
