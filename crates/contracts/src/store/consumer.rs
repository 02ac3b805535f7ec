//! Consumers on a source in memory: everything above together.

use super::check::checks;
use super::dice::Dice;
use super::fixture::Fixture;
use super::source::{Billed, Book, Memory, Paid, Placed, Shipped, of_kind, placed};
use super::stage::{Stage, joined};
use semel_core::{
    Attempt, Consumer, Envelope, Handler, HandlerError, HandlerResult, Message, Outcome, Reason, Records, RetryPlan,
    Semel, Settings, Summary, Tx,
};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

checks! {
    "§1: 1,203 deliveries with 300 repeats through every form of handler: exact effects, one ack each" => twelve_hundred_and_three,
    "§7: every delivery is taken up, however tight the prefetch, and the run ends only with its source" => a_tight_prefetch,
    "§7: one poison message among 15 innocents: it alone is tried, as planned, and becomes a dead letter" => one_poison_message,
    "law 16: a panic and an overrun of the time limit roll back, and the others are worked" => a_panic_and_an_overrun,
    "law 3: messages that work on the same rows in every order are worked once each, and the sums are right" => shared_rows,
    "§10: two replicas that get every message: each is worked once" => two_replicas,
    "law 12: an ack that is lost is only counted; the redelivery is a duplicate" => lost_acks,
    "law 15: an attempt is closed with its message; one left open by dead processes ends as a dead letter" => careful_attempts,
    "a message deferred in one run is taken up by the next, and worked once" => the_next_run_takes_up,
}

async fn place<F: Fixture>(tx: &mut Tx<'_, F::Store>, placed: Placed) -> HandlerResult {
    if placed.v.starts_with("reject") {
        return Err(HandlerError::reject("no such order"));
    }
    F::write(tx.conn(), &placed.v).await?;
    Ok(())
}

struct Ship<F>(PhantomData<fn(F)>);

impl<F: Fixture> Handler<F::Store, Shipped> for Ship<F> {
    async fn handle(&self, tx: &mut Tx<'_, F::Store>, shipped: Shipped) -> HandlerResult {
        assert_eq!(tx.message().map(semel_core::Incoming::kind), Some(Shipped::KIND));
        F::write(tx.conn(), &shipped.v).await?;
        Ok(())
    }
}

/// A consumer whose handler writes what it was told, or rejects it.
pub(super) fn placing<F: Fixture>(semel: &Semel<F::Store>) -> Consumer<F::Store> {
    Consumer::named("c", semel.clone()).on(place::<F>)
}

/// The counts, without the time that it took.
pub(super) fn counts(summary: &Summary) -> [u64; 7] {
    let Summary { received, processed, duplicates, conflicts, dead_lettered, deferred, ignored, .. } = summary;
    [*received, *processed, *duplicates, *conflicts, *dead_lettered, *deferred, *ignored]
}

async fn twelve_hundred_and_three<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 8).await;
    let seed = Dice::seed();
    let mut dice = Dice::new(seed);
    let kinds = [Placed::KIND, Paid::KIND, Billed::KIND, Shipped::KIND];
    let mut deliveries: Vec<Envelope> = (0..900).map(|n| of_kind(kinds[n % 4], &format!("{n:03}"))).collect();
    deliveries.extend(deliveries[100..400].to_vec());
    deliveries.extend((0..3).map(|n| placed(&format!("reject {n}"))));
    for at in (1..deliveries.len()).rev() {
        deliveries.swap(at, usize::try_from(dice.below(at as u64 + 1)).expect("small"));
    }
    let (source, book) = Memory::new(deliveries);
    let suffix = Arc::new("paid".to_owned());
    let consumer = placing::<F>(&stage.semel)
        .on(async move |tx, paid: Paid| {
            assert_eq!(*suffix, "paid", "what the closure captured is still there");
            F::write(tx.conn(), &paid.v).await?;
            Ok(())
        })
        .on_batch(async |tx, all: Vec<Billed>| {
            for billed in all {
                F::write(tx.conn(), &billed.v).await?;
            }
            Ok(())
        })
        .handler(Ship::<F>(PhantomData));
    let summary = consumer.run(source).await.expect("run");
    assert_eq!(counts(&summary), [1203, 900, 300, 0, 3, 0, 0], "SEMEL_SEED={seed}");
    assert_eq!((book.acked().len(), book.returned().len(), summary.lost_acks), (1203, 0, 0), "SEMEL_SEED={seed}");
    let expected: Vec<String> = (0..900).map(|n| format!("{n:03}")).collect();
    assert_eq!(stage.effects().await, expected, "SEMEL_SEED={seed}");
    assert_eq!(stage.dead_letters().await.iter().filter(|found| found.letter.reason == Reason::Rejected).count(), 3);
    stage.nobody_is_left_in_a_transaction().await;
}

/// With a place free for a moment and the next one not, a run must not take "nothing now" for the end of its source.
async fn a_tight_prefetch<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    for (round, prefetch) in [1, 2, 5, 16].into_iter().enumerate() {
        let (source, _book) = Memory::new((0..300).map(|n| placed(&format!("{round} {n:03}"))).collect::<Vec<_>>());
        let settings = Settings { prefetch, max_batch: 1, ..Settings::default() };
        let summary = placing::<F>(&stage.semel).settings(settings).run(source).await.expect("run");
        assert_eq!(counts(&summary), [300, 300, 0, 0, 0, 0, 0], "prefetch {prefetch}");
    }
}

async fn one_poison_message<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    // Fifteen before, so that the batch has grown when the poison comes.
    let ids = (0..15)
        .map(|n| format!("early {n}"))
        .chain((0..16).map(|n| if n == 7 { "poison".to_owned() } else { format!("late {n}") }));
    let deliveries: Vec<Envelope> = ids.map(|id| placed(&id)).collect();
    let (source, book) = Memory::new(deliveries);
    let alone = Arc::new(Mutex::new(Vec::new()));
    let tries = alone.clone();
    let consumer = Consumer::named("c", stage.semel.clone())
        .on_batch(async move |tx, all: Vec<Placed>| {
            if all.len() == 1 && all[0].v == "poison" {
                tries.lock().expect("no panic").extend(tx.message().map(|message| message.attempt()));
            }
            for placed in &all {
                F::write(tx.conn(), &placed.v).await?;
            }
            match all.iter().any(|placed| placed.v == "poison") {
                true => Err(HandlerError::from_boxed("poison")),
                false => Ok(()),
            }
        })
        .lanes(1)
        .max_batch(16)
        .retry(RetryPlan { immediate: 1, deferred: vec![Duration::ZERO; 2] });
    let summary = consumer.run(source).await.expect("run");
    assert_eq!(counts(&summary), [31, 30, 0, 0, 1, 0, 0], "innocents are not blamed");
    assert_eq!(*alone.lock().expect("no panic"), [1, 2, 3, 4], "the first try, one in place, two from the inbox");
    let effects = stage.effects().await;
    assert!(effects.len() == 30 && !effects.contains(&"poison".to_owned()), "{effects:?}");
    let letters = stage.dead_letters().await;
    let found: Vec<_> =
        letters.iter().map(|found| (found.letter.reason, found.letter.id.as_deref(), found.letter.attempts)).collect();
    assert_eq!(found, [(Reason::Failed, Some("poison"), 4)]);
    assert!(letters[0].letter.error.contains("poison"));
    assert_eq!(book.acked().len(), 31);
    assert_eq!(book.acked_as(Outcome::Deferred), ["poison"], "acknowledged once it waits");
}

async fn a_panic_and_an_overrun<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let (source, book) = Memory::new(["1", "panic", "2", "overrun", "3"].map(placed));
    let consumer = Consumer::named("c", stage.semel.clone())
        .on(async |tx, placed: Placed| {
            F::write(tx.conn(), &placed.v).await?;
            match &*placed.v {
                "panic" => std::panic::panic_any("a handler of this check panics on purpose"),
                "overrun" => std::future::pending::<HandlerResult>().await,
                _ => Ok(()),
            }
        })
        .timeout(Duration::from_secs(2))
        .retry(RetryPlan::never());
    let summary = consumer.run(source).await.expect("run");
    assert_eq!(counts(&summary), [5, 3, 0, 0, 2, 0, 0]);
    assert_eq!((stage.effects().await, book.acked().len()), (["1", "2", "3"].map(str::to_owned).to_vec(), 5));
    let mut letters: Vec<_> =
        stage.dead_letters().await.into_iter().map(|found| (found.letter.id, found.letter.error)).collect();
    letters.sort();
    assert!(letters[0].0.as_deref() == Some("overrun") && letters[0].1.contains("2s"), "{letters:?}");
    assert!(letters[1].0.as_deref() == Some("panic") && letters[1].1.contains("on purpose"), "{letters:?}");
    stage.nobody_is_left_in_a_transaction().await;
}

async fn shared_rows<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let (source, book) = Memory::new((0..60).map(|n| placed(&n.to_string())));
    let consumer = Consumer::named("c", stage.semel.clone()).on(async |tx, placed: Placed| {
        let number: usize = placed.v.parse()?;
        let orders = [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]];
        for key in orders[number % 3] {
            F::execute(tx.conn(), &format!("update sums set n = n + 1 where k = '{key}'")).await?;
        }
        Ok(())
    });
    let summary = consumer.run(source).await.expect("run");
    assert_eq!(counts(&summary), [60, 60, 0, 0, 0, 0, 0], "a deadlock counts as no try, and buries nobody");
    assert_eq!([stage.sum("a").await, stage.sum("b").await, stage.sum("c").await], [60; 3]);
    assert_eq!(book.acked_as(Outcome::Processed).len(), 60);
}

async fn two_replicas<F: Fixture>(fixture: &F) {
    let stage = Stage::with_lanes(fixture, 4).await;
    let replicas = [stage.semel.clone(), stage.another(fixture)].map(|semel| {
        let (source, book) = Memory::new((0..200).map(|n| placed(&format!("{n:03}"))));
        (tokio::spawn(async move { placing::<F>(&semel).run(source).await.expect("run") }), book)
    });
    let (mut processed, mut duplicates) = (0, 0);
    for (run, book) in replicas {
        let summary = joined(run).await;
        assert_eq!((summary.received, book.acked().len()), (200, 200));
        processed += summary.processed;
        duplicates += summary.duplicates;
    }
    assert_eq!((processed, duplicates), (200, 200));
    let mut times: HashMap<String, usize> = HashMap::new();
    for effect in stage.effects().await {
        *times.entry(effect).or_default() += 1;
    }
    assert!(times.len() == 200 && times.values().all(|times| *times == 1), "{times:?}");
}

async fn lost_acks<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let run = async |book: &mut Book, lose: bool| {
        let (source, noted) = Memory::new(["1", "2", "3"].map(placed));
        if lose {
            noted.lose_acks();
        }
        *book = noted;
        placing::<F>(&stage.semel).run(source).await.expect("run")
    };
    let mut book = Book::default();
    let first = run(&mut book, true).await;
    assert_eq!((counts(&first), first.lost_acks, book.acked().len()), ([3, 3, 0, 0, 0, 0, 0], 3, 0));
    let second = run(&mut book, false).await;
    assert_eq!((counts(&second), second.lost_acks, book.acked().len()), ([3, 0, 3, 0, 0, 0, 0], 0, 3));
    assert_eq!(stage.effects().await, ["1", "2", "3"]);
}

async fn careful_attempts<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let mut lane = stage.lane().await;
    let left_open = |crashes| Attempt { instance: "a process that is gone".to_owned(), crashes };
    lane.open_attempt(number, "killer", &left_open(2)).await.expect("open_attempt");
    lane.open_attempt(number, "suspect", &left_open(0)).await.expect("open_attempt");
    let (source, book) = Memory::new(["1", "killer", "suspect", "2", "reject"].map(placed));
    let summary = placing::<F>(&stage.semel).run(source.redelivered()).await.expect("run");
    assert_eq!((counts(&summary), book.acked().len()), ([5, 3, 0, 0, 2, 0, 0], 5));
    assert_eq!(stage.effects().await, ["1", "2", "suspect"]);
    let crashed: Vec<_> =
        stage.dead_letters().await.into_iter().filter(|found| found.letter.reason == Reason::Crashed).collect();
    assert_eq!((crashed.len(), crashed[0].letter.id.as_deref()), (1, Some("killer")));
    for id in ["1", "killer", "suspect", "2", "reject"] {
        assert_eq!(lane.attempt(number, id).await.expect("attempt"), None, "{id}: its attempt is over");
    }
    assert!(lane.instances(number).await.expect("instances").is_empty(), "a clean end leaves no process behind");
}

async fn the_next_run_takes_up<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let run = async |ids: &[&str], fails: bool| {
        let (source, book) = Memory::new(ids.iter().map(|id| placed(id)));
        let consumer = Consumer::named("c", stage.semel.clone()).on(async move |tx, placed: Placed| {
            F::write(tx.conn(), &placed.v).await?;
            match fails && placed.v == "later" {
                true => Err(HandlerError::retry_after(Duration::from_millis(300), "not now")),
                false => Ok(()),
            }
        });
        (consumer.run(source).await.expect("run"), book)
    };
    let (first, book) = run(&["now", "later"], true).await;
    assert_eq!(
        (counts(&first), book.acked().len()),
        ([2, 1, 0, 0, 0, 1, 0], 2),
        "what is not due does not keep a run alive"
    );
    assert_eq!(stage.effects().await, ["now"]);
    let second = super::stage::eventually("it is due", async || {
        let (summary, _) = run(&["later"], false).await;
        assert_eq!(summary.duplicates, 1, "a copy of what waits, or of what is done");
        (summary.processed > 0).then_some(summary)
    });
    assert_eq!(counts(&second.await), [2, 1, 1, 0, 0, 0, 0]);
    assert_eq!(stage.effects().await, ["later", "now"]);
}
