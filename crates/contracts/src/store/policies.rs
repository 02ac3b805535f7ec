//! What a consumer is told to do with what it cannot work: its policies, its brake, and a stop in the middle.

use super::check::checks;
use super::consumer::{counts, placing};
use super::fixture::Fixture;
use super::source::{Memory, Placed, of_kind, placed};
use super::stage::{HOUR, Stage};
use semel_core::{
    Consumer, Envelope, HandlerError, OnConflict, OnUnknownKind, Outcome, Reason, RetryPlan, RunError, Semel, Settings,
    Stop, Tx,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

checks! {
    "§4: an unknown kind is a dead letter, or ignored without a claim, as the policy says" => unknown_kinds,
    "§4: a conflict is kept, or ignored, and counted under either policy; never worked" => conflicts,
    "§4: what cannot be read is a dead letter, and a repeat of it a duplicate" => unreadable,
    "on_defer = hold: the order within a key survives a deferral" => hold_keeps_the_order,
    "on_defer = hold: later runs keep the order too" => hold_over_runs,
    "on_defer = pass: later messages of the key overtake" => pass_overtakes,
    "law 31: the brake stops a run in which most messages are refused for one reason" => the_brake,
    "law 11: a stop in the middle acknowledges what was committed, and returns the rest" => a_stop_in_the_middle,
    "law 16: a run that is dropped in the middle leaves nothing half done, and the next run does the rest" => a_dropped_run,
}

async fn unknown_kinds<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let deliveries = || vec![placed("1"), of_kind("unheard.of", "2"), of_kind("", "3")];
    let ignoring = Settings { on_unknown_kind: OnUnknownKind::Ignore, ..Settings::default() };
    let (source, book) = Memory::new(deliveries());
    let summary = placing::<F>(&stage.semel).settings(ignoring).run(source).await.expect("run");
    assert_eq!((counts(&summary), book.acked_as(Outcome::Ignored).len()), ([3, 1, 0, 0, 0, 0, 2], 2));
    assert!(!stage.is_claimed("c", "2").await && stage.dead_letters().await.is_empty(), "a handler may come later");
    let (source, book) = Memory::new([deliveries(), deliveries()].concat());
    let summary = placing::<F>(&stage.semel).run(source).await.expect("run");
    assert_eq!((counts(&summary), book.acked().len()), ([6, 0, 4, 0, 2, 0, 0], 6));
    let letters = stage.dead_letters().await;
    let mut found: Vec<_> = letters.iter().map(|found| (found.letter.id.as_deref(), found.letter.reason)).collect();
    found.sort_by_key(|(id, _)| *id);
    assert_eq!(found, [(Some("2"), Reason::NoHandler), (Some("3"), Reason::NoHandler)]);
}

async fn conflicts<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let other = || Envelope { body: b"{\"v\":\"other\"}".to_vec(), ..placed("1") };
    let ignoring = Settings { on_conflict: OnConflict::Ignore, ..Settings::default() };
    let (source, book) = Memory::new([placed("1"), other(), placed("1")]);
    let summary = placing::<F>(&stage.semel).settings(ignoring).run(source).await.expect("run");
    assert_eq!((counts(&summary), book.acked().len()), ([3, 1, 1, 1, 0, 0, 0], 3));
    assert!(stage.dead_letters().await.is_empty());
    for expected in [[3, 0, 2, 1, 0, 0, 0], [3, 0, 3, 0, 0, 0, 0]] {
        let (source, book) = Memory::new([placed("1"), other(), placed("1")]);
        let summary = placing::<F>(&stage.semel).run(source).await.expect("run");
        assert_eq!((counts(&summary), book.acked().len()), (expected, 3), "the second copy is kept already");
    }
    assert_eq!(
        stage.dead_letters().await.iter().map(|found| (found.letter.reason, found.seen)).collect::<Vec<_>>(),
        [(Reason::Conflict, 2)]
    );
    assert_eq!(stage.effects().await, ["1"]);
}

async fn unreadable<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let with = |id: &str, body: &[u8]| Envelope { body: body.to_vec(), ..placed(id) };
    let nameless = |place: &str| Envelope { id: None, coordinates: Some(place.to_owned()), ..placed("x") };
    let deliveries = || {
        let long = "x".repeat(2 << 20);
        [
            placed("good"),
            with("not json", b"\xff\x00{"),
            with("empty", b""),
            with("other shape", b"{\"w\":1}"),
            with("long", long.as_bytes()),
            nameless("f:1"),
            nameless("f:2"),
        ]
    };
    for expected in [[7, 1, 0, 0, 6, 0, 0], [7, 0, 7, 0, 0, 0, 0]] {
        let (source, book) = Memory::new(deliveries());
        let summary = placing::<F>(&stage.semel).run(source).await.expect("run");
        assert_eq!((counts(&summary), book.acked().len()), (expected, 7));
    }
    let mut reasons: Vec<&str> = stage.dead_letters().await.iter().map(|found| found.letter.reason.as_str()).collect();
    reasons.sort();
    assert_eq!(reasons, ["missing-id", "missing-id", "too-large", "undecodable", "undecodable", "undecodable"]);
    assert_eq!(stage.effects().await, ["good"]);
}

/// Runs keyed messages of which `a1` fails the first time; the order in which they were worked.
async fn keyed_run<F: Fixture>(
    semel: &Semel<F::Store>,
    ids: &[&str],
    delay: Duration,
    hold: bool,
) -> (Vec<String>, [u64; 7]) {
    let keyed = |id: &&str| Envelope { key: Some(id[..1].to_owned()), ..placed(id) };
    let (source, book) = Memory::new(ids.iter().map(keyed));
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = order.clone();
    let settings =
        Settings { hold, retry: RetryPlan { immediate: 0, deferred: vec![delay; 3] }, ..Settings::default() };
    let consumer = Consumer::named("c", semel.clone()).settings(settings).on(async move |tx, placed: Placed| {
        let attempt = tx.message().map(|message| message.attempt());
        if placed.v == "a1" && attempt == Some(1) {
            return Err(HandlerError::from_boxed("not yet"));
        }
        F::write(tx.conn(), &placed.v).await?;
        noted.lock().expect("no panic").push(placed.v);
        Ok(())
    });
    let summary = consumer.run(source).await.expect("run");
    assert_eq!(book.acked().len(), ids.len());
    let worked = order.lock().expect("no panic").clone();
    (worked, counts(&summary))
}

/// Only what is written counts: a batch that failed may have been noted.
fn of_key(worked: &[String], key: char) -> Vec<&str> {
    let mut seen = HashSet::new();
    let mut last: Vec<&str> =
        worked.iter().rev().map(|id| &**id).filter(|id| id.starts_with(key) && seen.insert(*id)).collect();
    last.reverse();
    last
}

async fn hold_keeps_the_order<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let ids = ["a1", "b1", "a2", "b2", "a3", "b3", "a4"];
    let (worked, counted) = keyed_run::<F>(&stage.semel, &ids, Duration::ZERO, true).await;
    assert_eq!(counted, [7, 7, 0, 0, 0, 0, 0]);
    assert_eq!(of_key(&worked, 'a'), ["a1", "a2", "a3", "a4"]);
    assert_eq!(of_key(&worked, 'b'), ["b1", "b2", "b3"]);
    assert_eq!(stage.effects().await.len(), 7);
}

async fn hold_over_runs<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let (worked, counted) = keyed_run::<F>(&stage.semel, &["a1", "a2", "b1"], HOUR, true).await;
    assert_eq!((counted, of_key(&worked, 'a').len(), of_key(&worked, 'b')), ([3, 1, 0, 0, 0, 2, 0], 0, vec!["b1"]));
    let (worked, counted) = keyed_run::<F>(&stage.semel, &["a3", "a2", "b2"], HOUR, true).await;
    assert_eq!((counted, of_key(&worked, 'a').len()), ([3, 1, 1, 0, 0, 1, 0], 0), "a3 stands behind, a2 waits already");
    assert_eq!(stage.effects().await, ["b1", "b2"]);
}

async fn pass_overtakes<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let (_, counted) = keyed_run::<F>(&stage.semel, &["a1", "a2", "a3"], HOUR, false).await;
    assert_eq!(counted, [3, 2, 0, 0, 0, 1, 0]);
    assert_eq!(stage.effects().await, ["a2", "a3"]);
}

async fn the_brake<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let nameless = |n: usize| Envelope { id: None, coordinates: Some(format!("f:{n}")), ..placed("x") };
    let (source, book) = Memory::new((0..2000).map(nameless));
    let settings = Settings { prefetch: 50, ..Settings::default() };
    let braked = placing::<F>(&stage.semel).settings(settings).run(source).await;
    assert!(matches!(braked, Err(RunError::Brake { reason: Reason::MissingId, .. })), "{braked:?}");
    let letters = stage.dead_letters().await.len();
    assert!((200..600).contains(&letters), "{letters} dead letters of 2,000");
    assert_eq!(book.acked().len(), letters, "each one that is kept is acknowledged, and no other");
}

async fn a_stop_in_the_middle<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let all: Vec<String> = (0..500).map(|n| format!("{n:03}")).collect();
    let (source, book) = Memory::new(all.iter().map(|id| placed(id)));
    let (stop, worked) = (Stop::new(), Arc::new(AtomicUsize::new(0)));
    let stopping = stop.clone();
    let consumer =
        Consumer::named("c", stage.semel.clone()).stop_on(stop).max_batch(10).on(async move |tx, placed: Placed| {
            F::write(tx.conn(), &placed.v).await?;
            if worked.fetch_add(1, Ordering::SeqCst) == 50 {
                stopping.stop();
            }
            Ok(())
        });
    let summary = consumer.run(source).await.expect("a stop is no error");
    let (mut acked, returned) = (book.acked(), book.returned());
    acked.sort();
    assert!(acked.len() >= 50 && acked.len() < 500, "{} acknowledged", acked.len());
    assert_eq!(stage.effects().await, acked, "acknowledged is what was committed");
    assert_eq!(summary.processed, acked.len() as u64);
    let answered: HashSet<&String> = acked.iter().chain(&returned).collect();
    assert_eq!(answered.len(), acked.len() + returned.len(), "each answered once");
    let (source, book) = Memory::new(all.iter().map(|id| placed(id)));
    let summary = placing::<F>(&stage.semel).run(source).await.expect("run again");
    let before = acked.len() as u64;
    assert_eq!(counts(&summary), [500, 500 - before, before, 0, 0, 0, 0]);
    assert_eq!((stage.effects().await, book.acked().len()), (all, 500));
}

async fn a_dropped_run<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let all: Vec<String> = (0..200).map(|n| format!("{n:03}")).collect();
    for round in 1..=5 {
        let (source, book) = Memory::new(all.iter().map(|id| placed(id)));
        let (enough, worked) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let noted = enough.clone();
        let consumer = Consumer::named("c", stage.semel.clone()).max_batch(7).on(
            async move |tx: &mut Tx<'_, F::Store>, placed: Placed| {
                F::write(tx.conn(), &placed.v).await?;
                if worked.fetch_add(1, Ordering::SeqCst) == 20 {
                    noted.notify_one();
                }
                Ok(())
            },
        );
        tokio::select! {
            biased;
            () = enough.notified() => {}
            ended = consumer.run(source) => drop(ended.expect("run")),
        }
        // In this order: a lane that is being dropped may still commit and acknowledge.
        let acked = book.acked();
        let effects = stage.effects().await;
        assert!(acked.iter().all(|id| effects.contains(id)), "round {round}: acknowledged, but not committed");
    }
    let (source, book) = Memory::new(all.iter().map(|id| placed(id)));
    let summary = placing::<F>(&stage.semel).run(source).await.expect("run");
    assert_eq!((summary.processed + summary.duplicates, book.acked().len()), (200, 200));
    assert_eq!(stage.effects().await, all);
    stage.nobody_is_left_in_a_transaction().await;
}
