//! The outcomes of a claim, and that nothing is left of what was rolled back.

use super::check::checks;
use super::fixture::Fixture;
use super::stage::{Stage, begin, key, print};
use semel_core::{
    Claim, ClaimKey, ConsumerNumber, Envelope, Fingerprint, HandlerError, Lane, Outcome, ProcessError, Reason, Records,
    Writes,
};

checks! {
    "law 1: claimed again with the same content, a message is a duplicate, and nothing is written" => a_repeat_is_a_duplicate,
    "law 10: claimed again with other content, it is a conflict: kept once, never worked, never silently acknowledged" => other_content_is_a_conflict,
    "law 2: the key is consumer and id: each consumer has its own claims" => another_consumer_has_its_own_claims,
    "law 10: a fingerprint of another version, or none, matches anything" => fingerprints_of_other_versions_match,
    "law 16: after an error of the handler nothing is left, neither effect nor claim" => an_error_leaves_nothing,
    "law 16: after a reject of the handler nothing is left" => a_reject_leaves_nothing,
    "law 16: a lane that is rolled back or dropped takes its claims with it" => uncommitted_claims_vanish,
    "look: answers as a claim would, and writes nothing" => looking_writes_nothing,
    "a lane is used for many transactions, and one leaves nothing to the next" => a_lane_is_good_for_many_transactions,
    "one-call form: a transaction without a message commits, or leaves nothing" => a_transaction_without_a_message,
}

async fn a_repeat_is_a_duplicate<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let message = Envelope::new("a", "body");
    assert_eq!(stage.process("c", &message).await, Outcome::Processed);
    for _ in 0..3 {
        assert_eq!(stage.process("c", &message).await, Outcome::Duplicate);
    }
    assert_eq!(stage.effects().await, ["a"]);
    assert!(stage.dead_letters().await.is_empty());
}

async fn other_content_is_a_conflict<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    assert_eq!(stage.process("c", &Envelope::new("a", "first")).await, Outcome::Processed);
    let other = Envelope::new("a", "second");
    assert_eq!(stage.process("c", &other).await, Outcome::Conflict);
    assert_eq!(stage.process("c", &other).await, Outcome::Duplicate, "kept already");
    assert_eq!(stage.process("c", &Envelope::new("a", "third")).await, Outcome::Conflict);
    assert_eq!(stage.process("c", &Envelope::new("a", "first")).await, Outcome::Duplicate, "the first content stands");
    assert_eq!(stage.effects().await, ["a"], "no conflict is worked");
    let letters = stage.dead_letters().await;
    let kept: Vec<_> = letters.iter().map(|l| (l.letter.reason, l.seen, l.letter.envelope.body.clone())).collect();
    let expected = [(Reason::Conflict, 2, b"second".to_vec()), (Reason::Conflict, 1, b"third".to_vec())];
    assert_eq!(kept, expected);
}

async fn another_consumer_has_its_own_claims<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let message = Envelope::new("a", "body");
    for consumer in ["billing", "shipping", "Billing", "billing "] {
        assert_eq!(stage.process(consumer, &message).await, Outcome::Processed, "{consumer:?}");
    }
    assert_eq!(stage.process("shipping", &message).await, Outcome::Duplicate);
    assert_eq!(stage.effects().await, ["a"; 4]);
}

async fn fingerprints_of_other_versions_match<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let other_version = Fingerprint { version: 7, ..print(1) };
    let longest = Fingerprint { version: i16::MAX, digest: [255; 16] };
    let stored = [("a", print(1)), ("b", Fingerprint::NONE), ("c", longest)];
    let stored: Vec<ClaimKey<'_>> =
        stored.iter().map(|(id, fingerprint)| ClaimKey { fingerprint: *fingerprint, ..key(id) }).collect();
    stage.commit(number, &stored, &Writes::default()).await;
    let asked = [
        ("a", print(1), Claim::Duplicate),
        ("a", print(2), Claim::Conflict),
        ("a", other_version, Claim::Duplicate),
        ("a", Fingerprint::NONE, Claim::Duplicate),
        ("b", print(1), Claim::Duplicate),
        ("b", longest, Claim::Duplicate),
        ("c", longest, Claim::Duplicate),
        ("c", Fingerprint { digest: [254; 16], ..longest }, Claim::Conflict),
        ("c", print(1), Claim::Duplicate),
    ];
    let mut lane = stage.lane().await;
    for (id, fingerprint, expected) in asked {
        let asked = [ClaimKey { fingerprint, ..key(id) }];
        let looked = lane.look(number, &asked).await.expect("look");
        assert_eq!(looked.claims, [expected], "look at {id} with {fingerprint:?}");
        let claimed = begin::<F>(&mut lane, number, &asked).await;
        assert_eq!(claimed.claims, [expected], "claim {id} with {fingerprint:?}");
        lane.rollback().await.expect("rollback");
    }
}

async fn an_error_leaves_nothing<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let message = Envelope::new("a", "body");
    let failed = stage.semel.process("c", &message, async |tx| {
        F::write(tx.conn(), "a").await?;
        Err(HandlerError::from_boxed("no stock"))
    });
    let failed = failed.await;
    assert!(matches!(&failed, Err(ProcessError::Failed { text, .. }) if text == "no stock"), "{failed:?}");
    assert!(stage.effects().await.is_empty());
    assert!(!stage.is_claimed("c", "a").await);
    // A statement that the database refuses, returned by the handler as it should be.
    let failed = stage.semel.process("c", &message, async |tx| {
        F::write(tx.conn(), "a").await?;
        F::execute(tx.conn(), "insert into no_such_table (v) values ('x')").await?;
        Ok(())
    });
    assert!(matches!(failed.await, Err(ProcessError::Failed { .. })));
    assert!(stage.effects().await.is_empty());
    assert_eq!(stage.process("c", &message).await, Outcome::Processed, "the next try has a good transaction");
    assert_eq!(stage.effects().await, ["a"]);
}

async fn a_reject_leaves_nothing<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let message = Envelope::new("a", "");
    let rejected = stage.semel.process("c", &message, async |tx| {
        F::write(tx.conn(), "a").await?;
        Err(HandlerError::reject("never"))
    });
    let rejected = rejected.await;
    assert!(matches!(rejected, Err(ProcessError::Rejected { .. })), "{rejected:?}");
    assert!(stage.effects().await.is_empty() && !stage.is_claimed("c", "a").await);
}

async fn uncommitted_claims_vanish<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let keys = [key("a"), key("b")];
    let mut lane = stage.lane().await;
    assert_eq!(begin::<F>(&mut lane, number, &keys).await.claims, [Claim::Fresh; 2]);
    F::write(lane.conn(), "rolled back").await.expect("write");
    lane.rollback().await.expect("rollback");
    assert_eq!(begin::<F>(&mut lane, number, &keys).await.claims, [Claim::Fresh; 2], "rolled back");
    F::write(lane.conn(), "dropped").await.expect("write");
    drop(lane);
    let mut lane = stage.lane().await;
    assert_eq!(begin::<F>(&mut lane, number, &keys).await.claims, [Claim::Fresh; 2], "dropped");
    lane.commit(&Writes::default()).await.expect("commit");
    assert!(stage.effects().await.is_empty());
}

async fn looking_writes_nothing<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.commit(number, &[key("b"), key("d")], &Writes::default()).await;
    let asked = [key("a"), key("b"), key("c"), ClaimKey { fingerprint: print(2), ..key("d") }];
    let expected = [Claim::Fresh, Claim::Duplicate, Claim::Fresh, Claim::Conflict];
    let mut lane = stage.lane().await;
    for _ in 0..2 {
        assert_eq!(lane.look(number, &asked).await.expect("look").claims, expected);
    }
    assert!(lane.look(number, &[]).await.expect("look at nothing").claims.is_empty());
    assert_eq!(begin::<F>(&mut lane, number, &asked).await.claims, expected);
    lane.rollback().await.expect("rollback");
    let nobody = lane.look(ConsumerNumber(number.0 + 1000), &asked[1..2]).await.expect("look").claims;
    assert_eq!(nobody, [Claim::Fresh], "another consumer's claims are not seen");
}

/// Commit and rollback leave the connection as it was: settings, locks and flags of one transaction are not the next one's.
async fn a_lane_is_good_for_many_transactions<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let mut lane = stage.lane().await;
    for round in 0..20 {
        let id = format!("{round}");
        assert_eq!(begin::<F>(&mut lane, number, &[key(&id)]).await.claims, [Claim::Fresh]);
        F::write(lane.conn(), &id).await.expect("write");
        match round % 3 {
            0 => lane.rollback().await.expect("rollback"),
            _ => drop(lane.commit(&Writes::default()).await.expect("commit")),
        }
        assert_eq!(lane.consumer("c").await.expect("consumer"), Some(number), "records on the same lane");
    }
    assert_eq!(stage.effects().await.len(), 13);
}

async fn a_transaction_without_a_message<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let answer = stage.semel.transaction(async |tx| {
        F::write(tx.conn(), "committed").await?;
        Ok(tx.message().is_none())
    });
    assert!(answer.await.expect("transaction"));
    let failed = stage.semel.transaction(async |tx| {
        F::write(tx.conn(), "rolled back").await?;
        Err::<(), _>(HandlerError::from_boxed("no"))
    });
    assert!(matches!(failed.await, Err(ProcessError::Failed { .. })));
    let empty = stage.semel.transaction(async |_tx| Ok(7)).await.expect("a transaction that does nothing");
    assert_eq!((empty, stage.effects().await), (7, vec!["committed".to_owned()]));
}
