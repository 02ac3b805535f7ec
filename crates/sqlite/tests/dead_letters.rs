//! Dead letters: exactly what came, once each, and back to work.

mod common;

use common::*;
use semel_core::{
    Claim, DeadFilter, DeadLetter, Discarded, Envelope, Fingerprint, Forgotten, Lane, Reason, Records, Replayed,
    StoredDeadLetter, Timestamp, VARIANTS_MAX, Waiting, Writes,
};
use semel_sqlite::SqliteLane;
use std::time::Duration;

async fn all(lane: &mut SqliteLane) -> Vec<StoredDeadLetter> {
    lane.dead_letters(&DeadFilter::default(), 0, 1000).await.unwrap()
}

async fn dead(shop: &Shop, lane: &mut SqliteLane, dead: Vec<DeadLetter>) -> Vec<bool> {
    begin(lane, shop.consumer, &[]).await.unwrap();
    write(lane, Writes { dead, ..Writes::default() }).await.unwrap().dead_seen_before
}

/// When the claim was made or stamped, in milliseconds.
async fn claimed_at(lane: &mut SqliteLane, id: &str) -> Option<i64> {
    sqlx::query_scalar("select claimed_at from semel_claim where message_id = ?1")
        .bind(id)
        .fetch_optional(lane.conn())
        .await
        .unwrap()
}

async fn age_claims(lane: &mut SqliteLane) {
    sqlx::raw_sql("update semel_claim set claimed_at = 7").execute(lane.conn()).await.unwrap();
}

#[tokio::test]
async fn a_letter_comes_back_as_it_was() {
    let (shop, mut lane) = shop().await;
    let strange = DeadLetter { envelope: strange_envelope(), ..letter(Reason::Undecodable, None, 1) };
    let bare = DeadLetter {
        kind: String::new(),
        key: None,
        time: None,
        fingerprint: Fingerprint::NONE,
        attempts: 0,
        envelope: Envelope::default(),
        ..letter(Reason::MissingId, None, 0)
    };
    let ided = letter(Reason::Failed, Some("m"), 2);
    let letters = vec![strange, bare, ided];
    assert_eq!(dead(&shop, &mut lane, letters.clone()).await, [false; 3]);
    for (stored, sent) in all(&mut lane).await.iter().zip(&letters) {
        assert_eq!(format!("{:?}", stored.letter), format!("{sent:?}"));
        assert_eq!(stored.letter.envelope, sent.envelope);
        assert_eq!((stored.seen, &*stored.consumer), (1, "billing"));
        assert_eq!(stored.first_at, stored.last_at);
    }
}

/// PostgreSQL cannot store it; the envelope has it all the same.
#[tokio::test]
async fn zero_bytes_in_texts_for_people_are_replaced() {
    let (shop, mut lane) = shop().await;
    let text = "a\0b".to_owned();
    let sent = DeadLetter {
        kind: text.clone(),
        key: Some(text.clone()),
        error: text.clone(),
        envelope: Envelope { kind: Some(text.clone()), coordinates: Some(text.clone()), ..Envelope::default() },
        ..letter(Reason::InvalidId, None, 1)
    };
    dead(&shop, &mut lane, vec![sent.clone()]).await;
    let stored = all(&mut lane).await.remove(0).letter;
    let replaced = "a\u{fffd}b";
    assert_eq!((&*stored.kind, stored.key.as_deref(), &*stored.error), (replaced, Some(replaced), replaced));
    assert_eq!(stored.envelope, sent.envelope);
    let by_reference = DeadFilter { reference: Some(text), ..DeadFilter::default() };
    assert_eq!(lane.dead_letters(&by_reference, 0, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_same_again_only_raises_seen() {
    let (shop, mut lane) = shop().await;
    let one = letter(Reason::MissingId, None, 1);
    let other_place = DeadLetter {
        envelope: Envelope { coordinates: Some("payments.jsonl:18".to_owned()), ..Envelope::default() },
        ..one.clone()
    };
    let other_reason = letter(Reason::Undecodable, None, 1);
    let other_content = letter(Reason::MissingId, None, 2);
    let batch = vec![one.clone(), other_place, other_reason, other_content, one.clone()];
    assert_eq!(dead(&shop, &mut lane, batch).await, [false, false, false, false, true]);
    assert_eq!(dead(&shop, &mut lane, vec![one]).await, [true]);
    let stored = all(&mut lane).await;
    assert_eq!(stored.iter().map(|stored| stored.seen).collect::<Vec<_>>(), [3, 1, 1, 1]);
}

#[tokio::test]
async fn variants_have_a_limit_for_each_message_and_reason() {
    let (shop, mut lane) = shop().await;
    let many = |range: std::ops::Range<u8>| {
        range.map(|digest| letter(Reason::Conflict, Some("m"), digest)).collect::<Vec<_>>()
    };
    let limit = u8::try_from(VARIANTS_MAX).unwrap();
    let seen = dead(&shop, &mut lane, many(0..limit + 3)).await;
    assert!(!seen.contains(&true), "none of them had been there");
    dead(&shop, &mut lane, vec![letter(Reason::Conflict, Some("m"), 0), letter(Reason::Conflict, Some("n"), 0)]).await;
    let stored = all(&mut lane).await;
    let seen: Vec<u64> = stored.iter().map(|stored| stored.seen).collect();
    let limit = usize::from(limit);
    assert_eq!(seen.len(), limit + 1);
    assert_eq!((seen[0], seen[limit - 1], seen[limit]), (2, 4, 1), "known, newest, another message");
}

/// Neither id nor coordinates: many such letters are not variants of one message.
#[tokio::test]
async fn letters_without_any_reference_are_all_kept() {
    let (shop, mut lane) = shop().await;
    let nameless = |digest| DeadLetter { envelope: Envelope::default(), ..letter(Reason::MissingId, None, digest) };
    assert_eq!(dead(&shop, &mut lane, (0..40).map(nameless).collect()).await, [false; 40]);
    assert_eq!(dead(&shop, &mut lane, vec![nameless(39)]).await, [true]);
    assert_eq!(all(&mut lane).await.len(), 40);
}

#[tokio::test]
async fn filters_and_pages() {
    let (shop, mut lane) = shop().await;
    let second = lane.register("shipping", None).await.unwrap();
    dead(&shop, &mut lane, vec![letter(Reason::MissingId, None, 1), letter(Reason::Conflict, Some("m"), 1)]).await;
    begin(&mut lane, second, &[]).await.unwrap();
    write(&mut lane, Writes { dead: vec![letter(Reason::Conflict, Some("m"), 1)], ..Writes::default() }).await.unwrap();
    let numbers: Vec<i64> = all(&mut lane).await.iter().map(|stored| stored.number).collect();
    let any = DeadFilter::default;
    for (filter, found) in [
        (any(), vec![0, 1, 2]),
        (DeadFilter { consumer: Some("shipping".into()), ..any() }, vec![2]),
        (DeadFilter { consumer: Some("nobody".into()), ..any() }, vec![]),
        (DeadFilter { reason: Some(Reason::Conflict), ..any() }, vec![1, 2]),
        (DeadFilter { reference: Some("m".into()), ..any() }, vec![1, 2]),
        (DeadFilter { reference: Some("payments.jsonl:17".into()), ..any() }, vec![0]),
        (DeadFilter { number: Some(numbers[1]), ..any() }, vec![1]),
        (DeadFilter { number: Some(numbers[1]), reason: Some(Reason::MissingId), ..any() }, vec![]),
    ] {
        let got: Vec<i64> =
            lane.dead_letters(&filter, 0, 10).await.unwrap().iter().map(|stored| stored.number).collect();
        assert_eq!(got, found.iter().map(|i| numbers[*i]).collect::<Vec<_>>(), "{filter:?}");
    }
    let page = lane.dead_letters(&any(), numbers[0], 1).await.unwrap();
    assert_eq!(page.iter().map(|stored| stored.number).collect::<Vec<_>>(), [numbers[1]]);
}

#[tokio::test]
async fn explain_finds_all_of_a_message() {
    let (shop, mut lane) = shop().await;
    let second = lane.register("shipping", None).await.unwrap();
    shop.bury(&mut lane, letter(Reason::Failed, Some("m"), 1)).await;
    shop.bury(&mut lane, letter(Reason::Conflict, Some("m"), 2)).await;
    begin(&mut lane, second, &[key("m")]).await.unwrap();
    write(&mut lane, Writes { waiting: vec![waiting("m")], ..Writes::default() }).await.unwrap();
    let known = lane.explain(None, "m").await.unwrap();
    let seen: Vec<_> =
        known.iter().map(|k| (&*k.consumer, k.claim.is_some(), k.waiting.is_some(), k.dead.len())).collect();
    assert_eq!(seen, [("billing", true, false, 2), ("shipping", true, true, 0)]);
    assert_eq!(lane.explain(Some("shipping"), "m").await.unwrap().len(), 1);
    assert_eq!(lane.explain(Some("nobody"), "m").await.unwrap().len(), 0);
    assert_eq!(lane.explain(None, "M").await.unwrap().len(), 0);
    shop.bury(&mut lane, letter(Reason::MissingId, None, 3)).await;
    assert_eq!(lane.explain(None, "payments.jsonl:17").await.unwrap()[0].dead.len(), 1, "by its coordinates");
}

#[tokio::test]
async fn forget_works_on_done_messages_only() {
    let (shop, mut lane) = shop().await;
    shop.claim(&mut lane, &[key("done")]).await;
    shop.wait(&mut lane, waiting("waits")).await;
    shop.bury(&mut lane, letter(Reason::Rejected, Some("dead"), 1)).await;
    for (consumer, id, answer) in [
        ("nobody", "done", Forgotten::Unknown),
        ("billing", "DONE", Forgotten::Unknown),
        ("billing", "waits", Forgotten::Waits),
        ("billing", "dead", Forgotten::Dead),
    ] {
        assert_eq!(lane.forget(consumer, id).await.unwrap(), answer, "{id}");
    }
    assert_eq!(number(&mut lane, "select epoch from semel_consumer").await, 0);
    // A conflict is another message: this one is done all the same.
    shop.bury(&mut lane, letter(Reason::Conflict, Some("done"), 2)).await;
    assert_eq!(lane.forget("billing", "done").await.unwrap(), Forgotten::Done);
    assert_eq!(number(&mut lane, "select epoch from semel_consumer").await, 1);
    assert_eq!(lane.forget("billing", "done").await.unwrap(), Forgotten::Unknown);
    assert_eq!(
        shop.claim(&mut lane, &[key("dead"), key("done"), key("waits")]).await,
        [Claim::Duplicate, Claim::Fresh, Claim::Duplicate]
    );
}

#[tokio::test]
async fn discard_lets_go_of_the_claim() {
    let (shop, mut lane) = shop().await;
    let failed = shop.bury(&mut lane, letter(Reason::Failed, Some("m"), 1)).await;
    let conflict = shop.bury(&mut lane, letter(Reason::Conflict, Some("m"), 2)).await;
    let nameless = shop.bury(&mut lane, letter(Reason::MissingId, None, 3)).await;
    age_claims(&mut lane).await;
    assert_eq!(lane.discard(failed).await.unwrap(), Discarded::Done);
    assert_eq!(claimed_at(&mut lane, "m").await, Some(7), "the other letter still holds it");
    assert_eq!(lane.discard(failed).await.unwrap(), Discarded::Unknown);
    let before = lane.now().as_millis();
    assert_eq!(lane.discard(conflict).await.unwrap(), Discarded::Done);
    assert!(claimed_at(&mut lane, "m").await.unwrap() >= before, "now its window starts (law 25)");
    assert_eq!(lane.discard(nameless).await.unwrap(), Discarded::Done);
    assert_eq!(all(&mut lane).await.len(), 0);
}

fn again(id: &str, digest: u8) -> Waiting {
    Waiting {
        fingerprint: print(digest),
        delay: Duration::from_secs(3600),
        time: Some(Timestamp::from_millis(5)),
        ..waiting(id)
    }
}

#[tokio::test]
async fn a_letter_with_a_claim_keeps_it_when_replayed() {
    let (shop, mut lane) = shop().await;
    let number = shop.bury(&mut lane, letter(Reason::Failed, Some("m"), 1)).await;
    assert_eq!(lane.replay(number, &again("m", 1), None).await.unwrap(), Replayed::Waits);
    assert_eq!(lane.replay(number, &again("m", 1), None).await.unwrap(), Replayed::Gone);
    let due = lane.due(shop.consumer, 10).await.unwrap();
    assert_eq!((due.len(), &*due[0].id, due[0].attempts), (1, "m", 1), "due now, whatever delay was given");
    assert_eq!(shop.claim(&mut lane, &[key("m")]).await, [Claim::Duplicate]);
    assert_eq!(all(&mut lane).await.len(), 0);
}

#[tokio::test]
async fn a_letter_without_a_claim_makes_one() {
    let (shop, mut lane) = shop().await;
    let stale = shop.bury(&mut lane, letter(Reason::Stale, Some("s"), 1)).await;
    let missing = shop.bury(&mut lane, letter(Reason::MissingId, None, 2)).await;
    assert_eq!(lane.replay(stale, &again("s", 1), None).await.unwrap(), Replayed::Waits);
    assert_eq!(lane.replay(missing, &again("found", 2), None).await.unwrap(), Replayed::Waits);
    let claim = lane.explain(None, "found").await.unwrap()[0].claim.unwrap();
    assert_eq!((claim.fingerprint, claim.time), (print(2), Some(Timestamp::from_millis(5))));
    assert_eq!(lane.due(shop.consumer, 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_conflict_replaces_only_a_dead_first_version() {
    let (shop, mut lane) = shop().await;
    // The first version is done.
    shop.claim(&mut lane, &[key("done")]).await;
    let conflict = shop.bury(&mut lane, letter(Reason::Conflict, Some("done"), 2)).await;
    assert_eq!(lane.replay(conflict, &again("done", 2), None).await.unwrap(), Replayed::Claimed);
    assert_eq!(
        lane.replay(conflict, &again("done", 2), Some(conflict)).await.unwrap(),
        Replayed::Claimed,
        "itself is no first version"
    );
    assert_eq!(lane.replay(conflict, &again("done", 2), Some(999)).await.unwrap(), Replayed::Claimed);
    assert_eq!(all(&mut lane).await.len(), 1, "nothing changed");
    assert_eq!(lane.replay(conflict, &again("done-2", 2), None).await.unwrap(), Replayed::Waits, "under another id");

    // The first version waits.
    shop.wait(&mut lane, waiting("waits")).await;
    let conflict = shop.bury(&mut lane, letter(Reason::Conflict, Some("waits"), 2)).await;
    assert_eq!(lane.replay(conflict, &again("waits", 2), None).await.unwrap(), Replayed::Claimed);

    // The first version is a dead letter.
    let first = shop.bury(&mut lane, letter(Reason::Failed, Some("dead"), 1)).await;
    let conflict = shop.bury(&mut lane, letter(Reason::Conflict, Some("dead"), 2)).await;
    let other = shop.bury(&mut lane, letter(Reason::Failed, Some("other"), 1)).await;
    assert_eq!(lane.replay(conflict, &again("dead", 2), None).await.unwrap(), Replayed::Claimed);
    assert_eq!(
        lane.replay(conflict, &again("dead", 2), Some(other)).await.unwrap(),
        Replayed::Claimed,
        "a letter of another message"
    );
    assert_eq!(lane.replay(conflict, &again("dead", 2), Some(first)).await.unwrap(), Replayed::Waits);
    let known = lane.explain(None, "dead").await.unwrap().remove(0);
    assert_eq!(known.claim.unwrap().fingerprint, print(2), "the claim is the second version's now");
    assert_eq!((known.dead.len(), known.waiting.is_some()), (0, true));
}

#[tokio::test]
async fn a_letter_that_is_identified_anew_lets_its_old_claim_go() {
    let (shop, mut lane) = shop().await;
    let number = shop.bury(&mut lane, letter(Reason::Failed, Some("old"), 1)).await;
    age_claims(&mut lane).await;
    let before = lane.now().as_millis();
    assert_eq!(lane.replay(number, &again("new", 1), None).await.unwrap(), Replayed::Waits);
    assert!(claimed_at(&mut lane, "old").await.unwrap() >= before);
    assert_eq!(shop.claim(&mut lane, &[key("new"), key("old")]).await, [Claim::Duplicate; 2]);
}

#[tokio::test]
async fn numbers_are_not_used_again() {
    let (shop, mut lane) = shop().await;
    let first = shop.bury(&mut lane, letter(Reason::MissingId, None, 1)).await;
    lane.discard(first).await.unwrap();
    assert_ne!(shop.bury(&mut lane, letter(Reason::MissingId, None, 1)).await, first);
}

#[tokio::test]
async fn a_waiting_message_that_fails_for_good_becomes_a_letter_in_one_commit() {
    let (shop, mut lane) = shop().await;
    shop.wait(&mut lane, waiting("m")).await;
    begin(&mut lane, shop.consumer, &[semel_core::ClaimKey { waiting: Some(1), ..key("m") }]).await.unwrap();
    let writes =
        Writes { finished: vec!["m".into()], dead: vec![letter(Reason::Failed, Some("m"), 1)], ..Writes::default() };
    write(&mut lane, writes).await.unwrap();
    let status = lane.status().await.unwrap().remove(0);
    assert_eq!((status.claims, status.waiting, status.due, status.dead), (1, 0, 0, vec![(Reason::Failed, 1)]));
    assert_eq!(status.consumer, "billing");
}
