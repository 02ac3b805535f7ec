//! The floor (law 26): what was swept leaves a time below which nobody can tell, and what is below it is refused.

use super::check::checks;
use super::fixture::Fixture;
use super::retention::{DAY, at, floor, id_from, sweep};
use super::stage::{HOUR, Stage, begin, key, waiting, waiting_key};
use semel_core::{Claim, ClaimKey, DeadFilter, Envelope, Lane, Outcome, Reason, Records, Timestamp, Writes};
use std::time::Duration;

checks! {
    "law 26: the floor is the newest time of what was swept, and never falls" => the_floor_is_monotone,
    "law 26: a consumer without swept claims has no floor; each has its own" => each_consumer_has_its_own_floor,
    "law 26: below the floor a message is stale: refused, kept, not worked" => stale_below_the_floor,
    "law 26: what was deferred before the sweep is worked after it" => what_waits_is_not_stale,
}

async fn the_floor_is_monotone<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let c = stage.number("c").await;
    let claim = async |id: &str, time: Option<Timestamp>| {
        stage.commit(c, &[ClaimKey { time, ..key(id) }], &Writes::default()).await;
    };
    claim("timeless", None).await;
    F::age(&stage.database, DAY).await;
    assert_eq!(sweep(&stage, c, HOUR, 100).await.deleted, 1);
    assert_eq!(floor(&stage, c).await, None, "a message without a time leaves no floor");
    for (id, time) in [("2", 200), ("3", 300), ("1", 100)] {
        claim(id, Some(at(time))).await;
    }
    claim("timeless", None).await;
    assert_eq!(floor(&stage, c).await, None, "only what was really swept");
    F::age(&stage.database, DAY).await;
    stage.defer(c, &[semel_core::Waiting { time: Some(at(900)), ..waiting("waits") }]).await;
    F::age(&stage.database, DAY).await;
    assert_eq!(sweep(&stage, c, HOUR, 100).await.deleted, 4);
    assert_eq!(floor(&stage, c).await, Some(at(300)), "the newest of them, without what stays");
    claim("early", Some(at(150))).await;
    F::age(&stage.database, DAY).await;
    sweep(&stage, c, HOUR, 100).await;
    assert_eq!(floor(&stage, c).await, Some(at(300)), "it never falls");
    claim("late", Some(at(400))).await;
    F::age(&stage.database, DAY).await;
    sweep(&stage, c, HOUR, 100).await;
    assert_eq!(floor(&stage, c).await, Some(at(400)));
    let mut lane = stage.lane().await;
    let all = lane.status().await.expect("status");
    assert_eq!(all[0].floor, Some(at(400)));
}

async fn each_consumer_has_its_own_floor<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (c, d) = (stage.number("c").await, stage.number("d").await);
    for number in [c, d] {
        stage.commit(number, &[ClaimKey { time: Some(at(100)), ..key("a") }], &Writes::default()).await;
    }
    F::age(&stage.database, DAY).await;
    sweep(&stage, c, HOUR, 100).await;
    assert_eq!((floor(&stage, c).await, floor(&stage, d).await), (Some(at(100)), None));
}

async fn stale_below_the_floor<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let now = stage.semel.now().await.expect("now");
    let message = |ago| Envelope::new(id_from(ago, now), "body");
    let (first, older, newer) = (message(DAY * 8), message(DAY * 9), message(DAY * 5));
    assert_eq!(
        stage.process("c", &first).await,
        Outcome::Processed,
        "no floor yet: a first replay from the beginning runs"
    );
    F::age(&stage.database, DAY * 8).await;
    assert_eq!(stage.semel.sweep("c", DAY * 7).await.expect("sweep"), 1);
    for message in [&first, &older] {
        assert_eq!(stage.process("c", message).await, Outcome::DeadLettered(Reason::Stale), "nobody can tell any more");
        assert_eq!(stage.process("c", message).await, Outcome::Duplicate, "kept already");
        assert!(!stage.is_claimed("c", message.id.as_deref().expect("an id")).await, "a stale message makes no claim");
    }
    assert_eq!(stage.process("c", &newer).await, Outcome::Processed, "above the floor");
    assert_eq!(
        stage.process("c", &Envelope::new("timeless", "body")).await,
        Outcome::Processed,
        "without a time it cannot be too old"
    );
    assert_eq!(stage.process("d", &first).await, Outcome::Processed, "another consumer has no floor");
    assert_eq!(stage.effects().await.len(), 4);
    let stale = stage.dead_letters_where(&DeadFilter { reason: Some(Reason::Stale), ..DeadFilter::default() }).await;
    assert_eq!(stale.iter().map(|letter| letter.seen).collect::<Vec<_>>(), [2, 2]);
    let future = Envelope::new(id_from(Duration::ZERO, now.plus(DAY)), "body");
    assert_eq!(
        stage.process("c", &future).await,
        Outcome::DeadLettered(Reason::Future),
        "or it would be swept too late"
    );
}

async fn what_waits_is_not_stale<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let c = stage.number("c").await;
    let time = Some(at(100));
    stage.defer(c, &[semel_core::Waiting { time, ..waiting("waits") }]).await;
    stage.commit(c, &[ClaimKey { time: Some(at(500)), ..key("done") }], &Writes::default()).await;
    F::age(&stage.database, DAY).await;
    sweep(&stage, c, HOUR, 100).await;
    assert_eq!(floor(&stage, c).await, Some(at(500)));
    let mut lane = stage.lane().await;
    assert_eq!(
        begin::<F>(&mut lane, c, &[ClaimKey { time, ..key("waits") }]).await.claims,
        [Claim::Duplicate],
        "still known"
    );
    lane.rollback().await.expect("rollback");
    assert_eq!(begin::<F>(&mut lane, c, &[ClaimKey { time, ..waiting_key("waits", 0) }]).await.claims, [Claim::Fresh]);
}
