//! COMMIT is no proof (law 11): what handlers do to the transaction behind the store's back, and what a permit is good for.

use super::check::checks;
use super::fixture::Fixture;
use super::source::{Book, Note};
use super::stage::{Stage, begin, key};
use semel_core::{AckPermit, BrokerError, Claim, Delivery, Envelope, Lane, Outcome, ProcessError, Settled, Writes};
use std::time::Duration;

checks! {
    "law 11: a database error that the handler swallows is no success where it ended the transaction, and harmless where it did not" => a_swallowed_error,
    "law 11: a COMMIT of the handler's own is found out, and there is no second effect" => a_raw_commit,
    "law 11: a ROLLBACK of the handler's own is found out, and nothing is kept" => a_raw_rollback,
    "law 11: a ROLLBACK and a BEGIN are found out: what follows them is not tied to the claim" => a_raw_rollback_and_begin,
    "law 11: a COMMIT and a BEGIN are found out, and there is no second effect" => a_raw_commit_and_begin,
    "law 11: a nested transaction that is left open is found out, and nothing is kept" => a_leaked_nested_transaction,
    "law 11: savepoints that are ended are the handler's own affair" => savepoints_are_fine,
    "law 11: the same holds for a transaction without a message" => a_transaction_without_a_message_is_proved,
    "law 11: the same holds for an empty handler and for semel's own writes" => a_proof_covers_the_writes,
    "law 11: a constraint that fails in COMMIT leaves nothing, and is the message's own failure" => a_deferred_constraint,
    "law 16: after a panic of the handler nothing is left, and the next message works" => a_panic_leaves_nothing,
    "law 11: a permit fits the delivery that it was made for, and no other" => a_permit_fits_its_own_delivery,
}

/// What a handler did, with one effect `a` before it and one after it.
async fn tamper<F: Fixture>(stage: &Stage<F>, sql: &'static str) -> Result<AckPermit, ProcessError> {
    let message = Envelope::new("a", "body");
    let work = stage.semel.process("c", &message, async |tx| {
        F::write(tx.conn(), "a").await?;
        // Its error is swallowed: that is the fault.
        let _ = F::execute(tx.conn(), sql).await;
        let _ = F::write(tx.conn(), "after").await;
        Ok(())
    });
    work.await
}

/// The handle is good, and at last the message has its effect once.
async fn works_on<F: Fixture>(stage: &Stage<F>, outcome: Outcome) {
    assert_eq!(stage.process("c", &Envelope::new("a", "body")).await, outcome);
    assert_eq!(stage.count("a").await, 1, "exactly one effect in the end");
    assert_eq!(stage.process("c", &Envelope::new("b", "body")).await, Outcome::Processed);
    assert_eq!(stage.count("b").await, 1);
    stage.nobody_is_left_in_a_transaction().await;
}

fn refused(result: Result<AckPermit, ProcessError>) {
    assert!(matches!(result, Err(ProcessError::Failed { .. } | ProcessError::Store(_))), "no permit, but {result:?}");
}

async fn a_swallowed_error<F: Fixture>(fixture: &F) {
    for sql in
        ["insert into no_such_table (v) values ('x')", "insert into sums (k, n) values ('a', 1)", "this is no SQL"]
    {
        let stage = Stage::new(fixture).await;
        let result = tamper(&stage, sql).await;
        match F::DIFFERENCES.swallowed_error_poisons {
            true => {
                refused(result);
                assert!(stage.effects().await.is_empty(), "{sql}");
                works_on(&stage, Outcome::Processed).await;
            }
            false => {
                assert_eq!(result.expect("only the statement was undone").outcome(), Outcome::Processed, "{sql}");
                assert_eq!(stage.effects().await, ["a", "after"]);
                works_on(&stage, Outcome::Duplicate).await;
            }
        }
    }
}

async fn a_raw_commit<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    refused(tamper(&stage, "commit").await);
    after_a_raw_commit(&stage).await;
}

async fn a_raw_commit_and_begin<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    refused(tamper(&stage, "commit; begin").await);
    after_a_raw_commit(&stage).await;
}

async fn after_a_raw_commit<F: Fixture>(stage: &Stage<F>) {
    match F::DIFFERENCES.prevents_raw_commit {
        true => {
            assert_eq!(stage.count("a").await, 0, "the COMMIT was stopped");
            works_on(stage, Outcome::Processed).await;
        }
        false => {
            assert_eq!(stage.count("a").await, 1, "claim and effect were committed together");
            works_on(stage, Outcome::Duplicate).await;
        }
    }
}

async fn a_raw_rollback<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    refused(tamper(&stage, "rollback").await);
    // What is written after it stands outside of any transaction, where no store can hold it back.
    assert_eq!(stage.count("a").await, 0);
    works_on(&stage, Outcome::Processed).await;
}

async fn a_raw_rollback_and_begin<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    refused(tamper(&stage, "rollback; begin").await);
    assert!(stage.effects().await.is_empty(), "neither what was before nor what came after");
    works_on(&stage, Outcome::Processed).await;
}

async fn a_leaked_nested_transaction<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let message = Envelope::new("a", "body");
    let work = stage.semel.process("c", &message, async |tx| {
        F::write(tx.conn(), "a").await?;
        F::leak(tx.conn()).await?;
        F::write(tx.conn(), "a").await?;
        Ok(())
    });
    refused(work.await);
    assert!(stage.effects().await.is_empty());
    works_on(&stage, Outcome::Processed).await;
}

async fn savepoints_are_fine<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let message = Envelope::new("a", "body");
    let work = stage.semel.process("c", &message, async |tx| {
        F::write(tx.conn(), "a").await?;
        F::execute(tx.conn(), "savepoint one").await?;
        F::write(tx.conn(), "undone").await?;
        F::execute(tx.conn(), "insert into no_such_table (v) values ('x')").await.expect_err("refused");
        F::execute(tx.conn(), "rollback to savepoint one").await?;
        F::execute(tx.conn(), "release savepoint one; savepoint two").await?;
        F::write(tx.conn(), "kept").await?;
        F::execute(tx.conn(), "release savepoint two").await?;
        Ok(())
    });
    assert_eq!(work.await.expect("process").outcome(), Outcome::Processed);
    assert_eq!(stage.effects().await, ["a", "kept"]);
    works_on(&stage, Outcome::Duplicate).await;
}

async fn a_transaction_without_a_message_is_proved<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let mut bad = vec!["rollback", "rollback; begin", "commit; begin"];
    bad.extend(F::DIFFERENCES.swallowed_error_poisons.then_some("insert into no_such_table (v) values ('x')"));
    for sql in bad {
        for writes in [false, true] {
            let work = stage.semel.transaction(async |tx| {
                if writes {
                    F::write(tx.conn(), "before").await?;
                }
                let _ = F::execute(tx.conn(), sql).await;
                Ok(())
            });
            let result = work.await;
            assert!(
                matches!(result, Err(ProcessError::Failed { .. } | ProcessError::Store(_))),
                "{sql}, wrote: {writes}: {result:?}"
            );
        }
    }
    let leaked = stage.semel.transaction(async |tx| Ok(F::leak(tx.conn()).await?)).await;
    assert!(matches!(leaked, Err(ProcessError::Failed { .. } | ProcessError::Store(_))), "{leaked:?}");
    let committed = usize::from(!F::DIFFERENCES.prevents_raw_commit);
    assert_eq!(stage.count("before").await, committed, "only what a raw COMMIT committed");
    works_on(&stage, Outcome::Processed).await;
}

/// A batch in which nothing is fresh runs no handler; its dead letters are proved all the same.
async fn a_proof_covers_the_writes<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    for sql in ["rollback", "rollback; begin"] {
        let mut lane = stage.lane().await;
        assert_eq!(begin::<F>(&mut lane, number, &[key("a")]).await.claims, [Claim::Fresh]);
        let _ = F::execute(lane.conn(), sql).await;
        let writes = Writes { waiting: vec![super::stage::waiting("a")], ..Writes::default() };
        lane.commit(&writes).await.expect_err("the transaction is not the one that claimed");
        drop(lane);
        assert!(stage.due(number).await.is_empty() && !stage.is_claimed("c", "a").await, "{sql}");
    }
    works_on(&stage, Outcome::Processed).await;
}

async fn a_deferred_constraint<F: Fixture>(fixture: &F) {
    if !F::DIFFERENCES.defers_constraints {
        return;
    }
    let stage = Stage::new(fixture).await;
    let message = Envelope::new("a", "body");
    let orphan = stage.semel.process("c", &message, async |tx| {
        F::write(tx.conn(), "a").await?;
        F::execute(tx.conn(), "insert into children (parent) values (1)").await?;
        Ok(())
    });
    let result = orphan.await;
    assert!(matches!(result, Err(ProcessError::Failed { .. })), "not an outage, not a success: {result:?}");
    assert!(stage.effects().await.is_empty());
    let adopted = stage.semel.process("c", &message, async |tx| {
        F::write(tx.conn(), "a").await?;
        F::execute(tx.conn(), "insert into children (parent) values (1)").await?;
        F::execute(tx.conn(), "insert into parents (id) values (1)").await?;
        Ok(())
    });
    assert_eq!(adopted.await.expect("process").outcome(), Outcome::Processed);
    works_on(&stage, Outcome::Duplicate).await;
}

async fn a_panic_leaves_nothing<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 1).await;
    let message = Envelope::new("a", "body");
    let work = stage.semel.process("c", &message, async |tx| {
        F::write(tx.conn(), "a").await?;
        match tx.message().is_some() {
            true => std::panic::panic_any("a handler of this check panics on purpose"),
            false => Ok(()),
        }
    });
    let result = work.await;
    assert!(matches!(&result, Err(ProcessError::Panicked(text)) if text.contains("on purpose")), "{result:?}");
    assert!(stage.effects().await.is_empty());
    works_on(&stage, Outcome::Processed).await;
}

async fn a_permit_fits_its_own_delivery<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let book = Book::default();
    let delivery = |id: &str| Delivery::new(Envelope::new(id, "body"), Note::new(&book, id));
    let (first, second, again) = (delivery("a"), delivery("b"), delivery("a"));
    let of_first = permit(&stage, &first).await;
    assert!(matches!(second.ack(of_first).await, Err(BrokerError::WrongPermit)), "a permit of another delivery");
    assert!(book.acked().is_empty(), "nothing was acknowledged");
    let of_second_copy = permit(&stage, &again).await;
    assert_eq!(of_second_copy.outcome(), Outcome::Duplicate, "a proven duplicate is acknowledged too");
    assert_eq!(again.ack(of_second_copy).await.expect("its own"), Settled::Confirmed);
    let of_first = permit(&stage, &first).await;
    assert_eq!(first.ack(of_first).await.expect("its own"), Settled::Confirmed);
    assert_eq!(book.acked(), ["a", "a"]);
    let third = delivery("c");
    let failed = stage
        .semel
        .process("c", &third, async |_tx| Err(semel_core::HandlerError::retry_after(Duration::ZERO, "no")))
        .await;
    assert!(failed.is_err(), "no permit for what did not commit");
}

async fn permit<F: Fixture>(stage: &Stage<F>, delivery: &Delivery<Note>) -> AckPermit {
    stage.semel.process("c", delivery, async |tx| Ok(F::write(tx.conn(), "x").await?)).await.expect("process")
}
