//! Retention (laws 24 to 26): what may be swept, the floor that is left, and what is refused below it.

use super::check::checks;
use super::dead_letters::letter;
use super::fixture::Fixture;
use super::stage::{HOUR, Stage, begin, joined, key, process, waiting, waiting_key};
use semel_core::{
    ClaimKey, ConsumerNumber, Envelope, Lane, Outcome, Reason, Records, SWEEP_ROWS, SweptStep, Timestamp, Trouble,
    Writes,
};
use std::time::Duration;
use uuid::{NoContext, Uuid};

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

checks! {
    "law 24: claims older than the window are swept, younger ones stay" => the_window_is_respected,
    "law 25: the claim of a message that waits or is a dead letter is never swept" => what_is_not_done_stays,
    "law 25: a message that is discarded is swept a window later" => the_window_starts_when_it_is_let_go,
    "law 24: a sweep goes in bounded steps, and ends" => bounded_steps,
    "law 24: a page full of claims that must stay does not hide the others, nor come again for ever" => a_page_of_what_must_stay,
    "law 24: two sweeps at once sweep each claim once" => two_sweeps_at_once,
    "law 24: a sweep and a claim of the same id do not pass through each other" => a_sweep_during_a_claim,
}

pub(super) async fn sweep<F: Fixture>(
    stage: &Stage<F>,
    consumer: ConsumerNumber,
    window: Duration,
    rows: u32,
) -> SweptStep {
    let mut lane = stage.semel.lane().await.expect("a lane");
    let step = lane.sweep(consumer, window, rows).await.expect("sweep");
    lane.done();
    step
}

pub(super) async fn floor<F: Fixture>(stage: &Stage<F>, consumer: ConsumerNumber) -> Option<Timestamp> {
    let mut lane = stage.lane().await;
    lane.begin(&super::stage::claims(consumer, &[])).await.expect("begin");
    let floor = lane.floor(consumer).await.expect("floor");
    lane.rollback().await.expect("rollback");
    floor
}

async fn claim_all<F: Fixture>(stage: &Stage<F>, consumer: ConsumerNumber, ids: &[&str]) {
    let keys: Vec<ClaimKey<'_>> = ids.iter().map(|id| key(id)).collect();
    stage.commit(consumer, &keys, &Writes::default()).await;
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
}

async fn the_window_is_respected<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (c, d) = (stage.number("c").await, stage.number("d").await);
    claim_all(&stage, c, &["old", "older"]).await;
    claim_all(&stage, d, &["old"]).await;
    F::age(&stage.database, HOUR * 2).await;
    claim_all(&stage, c, &["young"]).await;
    assert_eq!(
        sweep(&stage, c, HOUR * 3, 100).await,
        SweptStep { deleted: 0, more: false },
        "all are younger than that"
    );
    assert_eq!(stage.semel.sweep("c", HOUR).await.expect("sweep"), 2);
    assert!(stage.explain("c", "old").await.is_none() && stage.explain("c", "older").await.is_none());
    assert!(stage.is_claimed("c", "young").await, "younger than the window");
    assert!(stage.is_claimed("d", "old").await, "another consumer's");
    assert_eq!(sweep(&stage, c, HOUR, 100).await, SweptStep { deleted: 0, more: false });
}

async fn what_is_not_done_stays<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (c, d) = (stage.number("c").await, stage.number("d").await);
    stage.defer(c, &[waiting("waits")]).await;
    let dead = |reason, id| Writes { dead: vec![letter(reason, id)], ..Writes::default() };
    stage.commit(c, &[key("dead")], &dead(Reason::Failed, "dead")).await;
    claim_all(&stage, c, &["conflict", "done"]).await;
    stage.write(c, &dead(Reason::Conflict, "conflict")).await;
    // The same ids of another consumer neither wait nor are dead.
    claim_all(&stage, d, &["conflict", "dead", "waits"]).await;
    F::age(&stage.database, DAY).await;
    assert_eq!(sweep(&stage, c, HOUR, 100).await, SweptStep { deleted: 1, more: false });
    for id in ["waits", "dead", "conflict"] {
        assert!(stage.is_claimed("c", id).await, "{id}");
    }
    assert_eq!(sweep(&stage, d, HOUR, 100).await.deleted, 3);
    assert_eq!(sweep(&stage, c, Duration::ZERO, 100).await.deleted, 0, "not with any window");
}

async fn the_window_starts_when_it_is_let_go<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let c = stage.number("c").await;
    let dead = Writes { dead: vec![letter(Reason::Failed, "dead")], ..Writes::default() };
    stage.commit(c, &[key("dead")], &dead).await;
    stage.defer(c, &[waiting("waits")]).await;
    F::age(&stage.database, DAY).await;
    let number = stage.dead_letters().await[0].number;
    let mut lane = stage.lane().await;
    lane.discard(number).await.expect("discard");
    begin::<F>(&mut lane, c, &[waiting_key("waits", 0)]).await;
    lane.commit(&Writes { finished: vec!["waits".to_owned()], ..Writes::default() }).await.expect("commit");
    assert_eq!(sweep(&stage, c, HOUR, 100).await.deleted, 0, "both were let go just now");
    F::age(&stage.database, HOUR * 2).await;
    assert_eq!(sweep(&stage, c, HOUR, 100).await.deleted, 2);
}

async fn bounded_steps<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let c = stage.number("c").await;
    let ids: Vec<String> = (0..25).map(|n| format!("{n:02}")).collect();
    claim_all(&stage, c, &ids.iter().map(|id| &**id).collect::<Vec<_>>()).await;
    F::age(&stage.database, DAY).await;
    let mut deleted = Vec::new();
    for _ in 0..10 {
        let step = sweep(&stage, c, HOUR, 10).await;
        assert!(step.deleted <= 10, "{step:?}");
        deleted.push(step.deleted);
        if !step.more {
            break;
        }
    }
    assert_eq!((deleted.len() <= 4, deleted.iter().sum::<u64>()), (true, 25), "{deleted:?}");
    assert_eq!(sweep(&stage, c, HOUR, SWEEP_ROWS).await, SweptStep { deleted: 0, more: false });
}

async fn a_page_of_what_must_stay<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let c = stage.number("c").await;
    let ids: Vec<String> = (0..10).map(|n| format!("stays {n}")).collect();
    stage.defer(c, &ids.iter().map(|id| waiting(id)).collect::<Vec<_>>()).await;
    for n in 0..10 {
        let id = format!("dead {n}");
        stage.commit(c, &[key(&id)], &Writes { dead: vec![letter(Reason::Failed, &id)], ..Writes::default() }).await;
    }
    F::age(&stage.database, HOUR).await;
    // Younger than all that must stay, so it comes behind them.
    claim_all(&stage, c, &["done 1", "done 2", "done 3"]).await;
    F::age(&stage.database, DAY).await;
    let mut deleted = 0;
    for steps in 1.. {
        assert!(steps < 20, "{deleted} deleted in {steps} steps of at most 3, and still `more`");
        let step = sweep(&stage, c, HOUR, 3).await;
        deleted += step.deleted;
        if !step.more {
            break;
        }
    }
    assert_eq!(deleted, 3);
    assert_eq!(stage.semel.sweep("c", HOUR).await.expect("sweep"), 0);
}

/// A UUIDv7 whose time lies `ago` before now.
pub(super) fn id_from(ago: Duration, now: Timestamp) -> String {
    let millis = u64::try_from(now.minus(ago).as_millis()).expect("after 1970");
    let time =
        uuid::Timestamp::from_unix(NoContext, millis / 1000, u32::try_from(millis % 1000).expect("small") * 1_000_000);
    Uuid::new_v7(time).to_string()
}

async fn two_sweeps_at_once<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let c = stage.number("c").await;
    let ids: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    let keys: Vec<ClaimKey<'_>> = ids.iter().map(|id| ClaimKey { time: Some(at(100)), ..key(id) }).collect();
    stage.commit(c, &keys, &Writes::default()).await;
    F::age(&stage.database, DAY).await;
    let sweeps: Vec<_> = (0..4)
        .map(|_| {
            let semel = stage.semel.clone();
            tokio::spawn(async move {
                let mut deleted = 0;
                loop {
                    let mut lane = semel.lane().await.expect("a lane");
                    // Two that meet may disturb each other: the next round does the rest.
                    let step = match lane.sweep(c, HOUR, 50).await {
                        Ok(step) => step,
                        Err(error) if matches!(error.trouble, Trouble::Rerun | Trouble::Busy) => continue,
                        Err(error) => panic!("{error}"),
                    };
                    lane.done();
                    deleted += step.deleted;
                    if !step.more {
                        return deleted;
                    }
                }
            })
        })
        .collect();
    let mut deleted = 0;
    for sweep in sweeps {
        deleted += joined(sweep).await;
    }
    assert_eq!((deleted, floor(&stage, c).await), (200, Some(at(100))));
}

/// A copy that comes while its claim is being swept is a duplicate, or meets the floor: it is never worked again unnoticed.
async fn a_sweep_during_a_claim<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let now = stage.semel.now().await.expect("now");
    for round in 0..10 {
        let message = Envelope::new(id_from(DAY * 8 - Duration::from_secs(3600 * round), now), "body");
        let id = message.id.clone().expect("an id");
        assert_eq!(stage.process("c", &message).await, Outcome::Processed);
        F::age(&stage.database, DAY * 8).await;
        let sweep = {
            let semel = stage.semel.clone();
            tokio::spawn(async move { semel.sweep("c", DAY * 7).await.expect("sweep") })
        };
        let again = process::<F>(&stage.semel, "c", &message).await.expect("process").outcome();
        assert_eq!(joined(sweep).await, 1);
        assert!(matches!(again, Outcome::Duplicate | Outcome::DeadLettered(Reason::Stale)), "round {round}: {again:?}");
        assert_eq!(stage.count(&id).await, 1);
    }
}
