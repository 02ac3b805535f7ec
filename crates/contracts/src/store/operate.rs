//! What an operator asks for: forget, explain, status.

use super::check::checks;
use super::dead_letters::letter;
use super::fixture::Fixture;
use super::stage::{HOUR, SOON, Stage, begin, claims, key, print, waiting, waiting_key};
use semel_core::{
    Attempt, DeadLetter, Discarded, Envelope, Forgotten, Instance, Lane, Outcome, Positions, Reason, Records,
    Timestamp, Waiting, Writes,
};
use std::time::Duration;

checks! {
    "law 28: forget works on done messages only, and the next copy is processed" => forgetting,
    "law 28: forget leaves what waits and what is dead as it was" => what_is_not_done_is_not_forgotten,
    "law 28: forget and a claim in flight do not pass through each other" => forgetting_waits_for_a_claim,
    "explain: claim, waiting message and dead letters of one id, for one consumer or all" => explaining,
    "status: one line a consumer, with what it has" => status,
}

async fn forget<F: Fixture>(stage: &Stage<F>, consumer: &str, id: &str) -> Forgotten {
    let mut lane = stage.semel.lane().await.expect("a lane");
    let forgotten = lane.forget(consumer, id).await.expect("forget");
    lane.done();
    forgotten
}

async fn forgetting<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    assert_eq!(forget(&stage, "c", "a").await, Forgotten::Unknown, "no such consumer");
    stage.number("d").await;
    let message = Envelope::new("a", "body");
    assert_eq!(stage.process("c", &message).await, Outcome::Processed);
    assert_eq!(stage.process("d", &message).await, Outcome::Processed);
    assert_eq!(forget(&stage, "c", "b").await, Forgotten::Unknown, "no such claim");
    assert_eq!(forget(&stage, "C", "a").await, Forgotten::Unknown, "another name");
    assert_eq!(forget(&stage, "c", "a").await, Forgotten::Done);
    assert_eq!(forget(&stage, "c", "a").await, Forgotten::Unknown, "forgotten already");
    assert_eq!(stage.process("c", &Envelope::new("a", "other")).await, Outcome::Processed, "even with other content");
    assert_eq!(stage.process("d", &message).await, Outcome::Duplicate, "another consumer's claim stands");
    assert_eq!(stage.effects().await.len(), 3);
}

async fn what_is_not_done_is_not_forgotten<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.defer(number, &[Waiting { delay: HOUR, ..waiting("waits") }]).await;
    let dead = Writes { dead: vec![letter(Reason::Failed, "dead")], ..Writes::default() };
    stage.commit(number, &[key("dead")], &dead).await;
    stage.commit(number, &[key("conflict")], &Writes::default()).await;
    let conflict = DeadLetter { fingerprint: print(2), ..letter(Reason::Conflict, "conflict") };
    stage.write(number, &Writes { dead: vec![conflict], ..Writes::default() }).await;
    for (id, expected) in [("waits", Forgotten::Waits), ("dead", Forgotten::Dead)] {
        assert_eq!(forget(&stage, "c", id).await, expected);
        assert!(stage.is_claimed("c", id).await, "{id}: its claim stands");
    }
    assert_eq!(stage.due(number).await.len(), 0);
    assert_eq!(
        forget(&stage, "c", "conflict").await,
        Forgotten::Done,
        "it is done; the dead letter is of another message under its id"
    );
    assert_eq!(stage.dead_letters().await.len(), 2, "which is kept");
    let mut lane = stage.lane().await;
    for found in stage.dead_letters().await {
        assert_eq!(lane.discard(found.number).await.expect("discard"), Discarded::Done);
    }
    assert_eq!(forget(&stage, "c", "dead").await, Forgotten::Done, "discarded, it is done");
    begin::<F>(&mut lane, number, &[waiting_key("waits", 0)]).await;
    lane.commit(&Writes { finished: vec!["waits".to_owned()], ..Writes::default() }).await.expect("commit");
    assert_eq!(forget(&stage, "c", "waits").await, Forgotten::Done);
}

/// A message that is being deferred at this moment is not done: forgetting its claim would let it run twice.
async fn forgetting_waits_for_a_claim<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let mut first = stage.lane().await;
    first.begin(&claims(number, &[key("a")])).await.expect("begin");
    let mut second = stage.lane().await;
    let mut forgetting = Box::pin(second.forget("c", "a"));
    let early = tokio::time::timeout(Duration::from_millis(100), &mut forgetting).await;
    first.commit(&Writes { waiting: vec![waiting("a")], ..Writes::default() }).await.expect("commit");
    let forgotten = match early {
        Ok(forgotten) => forgotten,
        Err(_) => forgetting.await,
    };
    let forgotten = forgotten.expect("forget");
    assert!(matches!(forgotten, Forgotten::Unknown | Forgotten::Waits), "{forgotten:?}");
    assert!(stage.is_claimed("c", "a").await && stage.due(number).await.len() == 1);
}

async fn explaining<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (c, d) = (stage.number("c").await, stage.number("d").await);
    let time = Timestamp::from_millis(1_767_225_600_123);
    let full = Waiting {
        key: Some("k".to_owned()),
        time: Some(time),
        attempts: 3,
        delay: HOUR,
        error: "why".to_owned(),
        ..waiting("a")
    };
    stage.defer(c, &[full]).await;
    let place = Envelope { coordinates: Some("f:1".to_owned()), ..Envelope::default() };
    let nameless = DeadLetter { id: None, envelope: place, ..letter(Reason::MissingId, "") };
    let conflict = DeadLetter { fingerprint: print(2), ..letter(Reason::Conflict, "a") };
    stage.write(c, &Writes { dead: vec![conflict, nameless], ..Writes::default() }).await;
    stage.commit(d, &[key("a")], &Writes::default()).await;

    let mut lane = stage.lane().await;
    let now = lane.now();
    let found = stage.explain("c", "a").await.expect("known");
    let claim = found.claim.expect("claimed");
    assert_eq!((claim.fingerprint, claim.time), (print(1), Some(time)));
    assert!(now.since(claim.claimed_at) < SOON && claim.claimed_at.since(now) < SOON, "{claim:?} at {now}");
    let waits = found.waiting.expect("it waits");
    assert_eq!((&*waits.kind, waits.key.as_deref(), waits.attempts, &*waits.error), ("note", Some("k"), 3, "why"));
    assert!(
        waits.due_at.since(waits.since) >= HOUR - SOON && waits.due_at.since(waits.since) <= HOUR + SOON,
        "{waits:?}"
    );
    assert_eq!(found.dead.iter().map(|dead| dead.letter.reason).collect::<Vec<_>>(), [Reason::Conflict]);

    let mut all: Vec<String> =
        lane.explain(None, "a").await.expect("explain").into_iter().map(|found| found.consumer).collect();
    all.sort();
    assert_eq!(all, ["c", "d"]);
    let by_place = lane.explain(None, "f:1").await.expect("explain");
    let known: Vec<_> = by_place.iter().filter(|found| !found.dead.is_empty()).collect();
    assert_eq!((known.len(), &*known[0].consumer, known[0].dead.len()), (1, "c", 1), "found by its place");
    for (consumer, id) in [("c", "b"), ("x", "a"), ("c", "A")] {
        assert!(stage.explain(consumer, id).await.is_none(), "{consumer} {id}");
    }
}

async fn status<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let mut lane = stage.lane().await;
    assert!(lane.status().await.expect("status").is_empty(), "no consumer yet");
    let c = lane.register("c", Some(HOUR)).await.expect("register");
    lane.register("idle", None).await.expect("register");
    stage.commit(c, &[key("1"), key("2")], &Writes::default()).await;
    F::age(&stage.database, HOUR).await;
    stage.defer(c, &[waiting("due"), Waiting { delay: HOUR, ..waiting("later") }]).await;
    let dead = vec![letter(Reason::Stale, "s"), letter(Reason::Failed, "f"), letter(Reason::Stale, "t")];
    stage.write(c, &Writes { dead, ..Writes::default() }).await;
    lane.save_positions(c, "file", &Positions::from([("".to_owned(), "17".to_owned())])).await.expect("save_positions");
    lane.beat(c, &Instance::current()).await.expect("beat");
    lane.open_attempt(c, "1", &Attempt { instance: "x".to_owned(), crashes: 0 }).await.expect("open_attempt");

    let now = lane.now();
    let mut all = lane.status().await.expect("status");
    all.sort_by(|a, b| a.consumer.cmp(&b.consumer));
    assert_eq!(all.iter().map(|one| &*one.consumer).collect::<Vec<_>>(), ["c", "idle"]);
    let one = &all[0];
    assert_eq!((one.window, one.claims, one.waiting, one.due, one.floor), (Some(HOUR), 4, 2, 1, None));
    let oldest = now.since(one.oldest_claim.expect("there are claims"));
    assert!(oldest >= HOUR - SOON && oldest < HOUR + SOON * 3, "{oldest:?}");
    let mut dead = one.dead.clone();
    dead.sort_by_key(|(reason, _)| reason.as_str());
    assert_eq!(dead, [(Reason::Failed, 1), (Reason::Stale, 2)]);
    assert_eq!(one.positions, [("file".to_owned(), String::new(), "17".to_owned())]);
    assert!(one.instances.len() == 1 && one.instances[0].1 < SOON, "{:?}", one.instances);
    let idle = &all[1];
    assert_eq!((idle.window, idle.claims, idle.waiting, idle.due, idle.oldest_claim), (None, 0, 0, 0, None));
    assert!(idle.dead.is_empty() && idle.positions.is_empty() && idle.instances.is_empty());
}
