//! Acknowledging, giving back, dropping.

use super::*;
use crate::desk::FileSettle;
use semel_core::{Delivery, Settled};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::{Instant, timeout};

const NO_DELAY: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(3600);

async fn subscribed(place: &Place) -> FileSubscription {
    place.source().subscribe(&Positions::new()).await.unwrap()
}

async fn deliveries(subscription: &mut FileSubscription) -> VecDeque<Delivery<FileSettle>> {
    subscription.next(100).await.unwrap().into()
}

#[tokio::test]
async fn the_position_stays_before_the_first_line_that_is_not_acknowledged() {
    let place = Place::with("1\n2\n3\n4\n");
    let mut subscription = subscribed(&place).await;
    let start = subscription.positions();
    let mut open: VecDeque<_> = subscription.pull(100).await.unwrap().into();
    let (first, second) = (open.pop_front().unwrap(), open.pop_front().unwrap());
    open.into_iter().for_each(|pulled| assert_eq!(pulled.settle.acknowledge(), Settled::Confirmed));
    assert_eq!(subscription.positions(), start);
    first.settle.acknowledge();
    drop(second);
    assert_eq!(subscription.pull(100).await.unwrap().len(), 0, "every line has its answer, one of them none");
    let at = subscription.positions();
    drop(subscription);
    assert_eq!(place.run(&at).await.0, [line(2, "2"), line(3, "3"), line(4, "4")]);
}

#[tokio::test]
async fn what_is_given_back_comes_again_before_what_follows_it() {
    let place = Place::with("1\n2\n3\n");
    let mut subscription = subscribed(&place).await;
    let mut two: VecDeque<_> = subscription.next(2).await.unwrap().into();
    assert!(two.iter().all(|delivery| delivery.redelivered.is_none() && delivery.unit.is_none()));
    assert_eq!(two.pop_back().unwrap().back(NO_DELAY).await, Settled::Confirmed);
    assert_eq!(two.pop_back().unwrap().back(NO_DELAY).await, Settled::Confirmed);
    let all = deliveries(&mut subscription).await;
    let told: Vec<_> = all.iter().map(|delivery| (seen(delivery), delivery.redelivered)).collect();
    assert_eq!(told, [(line(1, "1"), Some(true)), (line(2, "2"), Some(true)), (line(3, "3"), None)]);
}

#[tokio::test]
async fn a_cut_line_comes_again_as_it_was() {
    let place = Place::with(format!("{}\n", "x".repeat(200)));
    let mut subscription = place.source().line_length_max(100).subscribe(&Positions::new()).await.unwrap();
    let first = deliveries(&mut subscription).await.pop_front().unwrap();
    let envelope = Envelope::clone(&first);
    assert!(envelope.cut.is_some());
    first.back(NO_DELAY).await;
    assert_eq!(*deliveries(&mut subscription).await.pop_front().unwrap(), envelope);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_kept_and_holds_nobody_else() {
    let place = Place::with("1\n2\n");
    let mut subscription = subscribed(&place).await;
    let started = Instant::now();
    subscription.pull(1).await.unwrap().pop().unwrap().settle.give_back(Duration::from_secs(5));
    assert_eq!(acknowledge_next(&mut subscription).await, [line(2, "2")]);
    assert_eq!(acknowledge_next(&mut subscription).await, [line(1, "1")], "the end waits for it");
    assert!(started.elapsed() >= Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(acknowledge_next(&mut subscription).await, []);
    subscription.positions().values().for_each(|at| assert!(at.contains(r#""offset":4"#), "{at}"));
}

#[tokio::test(start_paused = true)]
async fn the_end_comes_only_after_the_last_answer() {
    let place = Place::with("1\n");
    let mut subscription = subscribed(&place).await;
    let open = subscription.pull(1).await.unwrap().pop().unwrap();
    assert!(timeout(LONG, subscription.pull(1)).await.is_err(), "it may still be given back");
    let (batch, _) = tokio::join!(subscription.pull(1), async { open.settle.acknowledge() });
    assert_eq!(batch.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn with_much_given_back_nothing_new_is_read() {
    let place = Place::with("a line of some length\n".repeat(50_000));
    let mut subscription = subscribed(&place).await;
    let mut given_back = 0;
    while let Ok(batch) = timeout(Duration::from_secs(60), subscription.pull(1000)).await {
        let batch = batch.unwrap();
        given_back += batch.len();
        batch.into_iter().for_each(|pulled| _ = pulled.settle.give_back(LONG));
    }
    assert!((10_000..40_000).contains(&given_back), "{given_back}");
    assert_eq!(acknowledge_all(&mut subscription).await.len(), 50_000, "all of them come in the end");
}

#[tokio::test]
async fn an_answer_after_the_subscription_is_lost() {
    let place = Place::with("1\n2\n");
    let mut subscription = subscribed(&place).await;
    let mut open = subscription.pull(2).await.unwrap();
    let back = Delivery::from(open.pop().unwrap()).back(NO_DELAY);
    drop(subscription);
    assert_eq!(back.await, Settled::Lost);
    assert_eq!(open.pop().unwrap().settle.acknowledge(), Settled::Lost);
}
