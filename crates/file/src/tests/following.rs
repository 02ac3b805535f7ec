//! Files that grow, are rotated and are truncated while they are read. Time is tokio's paused clock: a minute passes when nothing else can
//! happen, so "nothing comes" is known and not guessed.

use super::*;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::time::timeout;

async fn following(place: &Place) -> FileSubscription {
    place.source().follow(true).subscribe(&Positions::new()).await.unwrap()
}

async fn nothing_comes(subscription: &mut FileSubscription) {
    let came = timeout(Duration::from_secs(60), subscription.pull(10)).await;
    assert!(came.is_err(), "something came: {:?}", came.unwrap().unwrap()[0].envelope);
}

fn replaced() -> Vec<Notice> {
    vec![Notice::Replaced { name: "in".to_owned() }]
}

fn rewritten() -> Vec<Notice> {
    vec![Notice::Rewritten { name: "in".to_owned() }]
}

#[tokio::test(start_paused = true)]
async fn a_line_comes_with_its_newline_and_not_before() {
    let place = Place::with("one\ntw");
    let mut subscription = following(&place).await;
    assert_eq!(acknowledge_next(&mut subscription).await, [line(1, "one")]);
    nothing_comes(&mut subscription).await;
    place.append("o");
    nothing_comes(&mut subscription).await;
    place.append("\n");
    assert_eq!(acknowledge_next(&mut subscription).await, [line(2, "two")]);
    nothing_comes(&mut subscription).await;

    let at = subscription.positions();
    place.append("three\nfo");
    let mut later = place.source().follow(true).subscribe(&at).await.unwrap();
    assert_eq!(acknowledge_next(&mut later).await, [line(3, "three")]);
    assert_eq!(
        place.run(&later.positions()).await.0,
        [line(4, "fo")],
        "a reader that does not follow takes what is there"
    );
    assert_eq!(place.notices(), []);
}

#[tokio::test(start_paused = true)]
async fn a_rotated_file_is_read_to_its_end_before_the_new_one() {
    let place = Place::with("one\n");
    let mut subscription = following(&place).await;
    assert_eq!(acknowledge_next(&mut subscription).await, [line(1, "one")]);
    let mut writer = place.opened();
    place.rotate();
    writer.write_all(b"two\n").unwrap();
    assert_eq!(acknowledge_next(&mut subscription).await, [line(2, "two")], "there is no new file yet");
    place.create("");
    writer.write_all(b"three\n").unwrap();
    assert_eq!(acknowledge_next(&mut subscription).await, [line(3, "three")], "the writer has not moved on yet");
    nothing_comes(&mut subscription).await;

    writer.write_all(b"four\nfive").unwrap();
    place.append("ONE\n");
    let mut lines = acknowledge_next(&mut subscription).await;
    while lines.len() < 3 {
        lines.extend(acknowledge_next(&mut subscription).await);
    }
    assert_eq!(lines, [line(4, "four"), line(5, "five"), line(1, "ONE")]);
    assert_eq!(place.notices(), replaced());
    nothing_comes(&mut subscription).await;
    assert_eq!(place.run(&subscription.positions()).await.0, [], "the position is one of the new file");
}

#[tokio::test(start_paused = true)]
async fn the_position_stays_in_the_old_file_while_lines_of_it_are_open() {
    let place = Place::with("one\ntwo\n");
    let mut subscription = following(&place).await;
    let mut old = subscription.pull(10).await.unwrap();
    place.rotate();
    place.create("ONE\n");
    assert_eq!(acknowledge_next(&mut subscription).await, [line(1, "ONE")]);
    let offset = |subscription: &mut FileSubscription| subscription.positions().values().next().unwrap().clone();
    assert!(offset(&mut subscription).contains(r#""offset":0"#));
    old.drain(..).for_each(|pulled| _ = pulled.settle.acknowledge());
    assert!(offset(&mut subscription).contains(r#""offset":4"#));
}

#[tokio::test(start_paused = true)]
async fn a_file_truncated_in_place_is_read_from_its_beginning() {
    let place = Place::with("one\ntwo\n");
    let mut subscription = following(&place).await;
    assert_eq!(acknowledge_next(&mut subscription).await.len(), 2);
    File::create(&place.path).unwrap();
    place.append("ONE\n");
    assert_eq!(acknowledge_next(&mut subscription).await, [line(1, "ONE")]);
    assert_eq!(place.notices(), rewritten());

    nothing_comes(&mut subscription).await;
    File::create(&place.path).unwrap().write_all(b"longer than before\n").unwrap();
    assert_eq!(acknowledge_next(&mut subscription).await, [line(1, "longer than before")], "told by its beginning");
    assert_eq!(place.notices(), rewritten());
    nothing_comes(&mut subscription).await;
}

#[tokio::test(start_paused = true)]
async fn a_file_replaced_at_once_is_noticed() {
    let place = Place::with("one\n");
    let mut subscription = following(&place).await;
    assert_eq!(acknowledge_next(&mut subscription).await, [line(1, "one")]);
    for round in ["1", "2", "3"] {
        let written = place.path.with_extension("new");
        std::fs::write(&written, format!("round {round}\n")).unwrap();
        std::fs::rename(written, &place.path).unwrap();
        assert_eq!(acknowledge_next(&mut subscription).await, [line(1, &format!("round {round}"))]);
        assert_eq!(place.notices(), replaced());
    }
}

#[test]
fn next_may_be_dropped_at_any_await() {
    // With one thread for reading, it can be kept busy: then no read is done when `next` is polled.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let place = Place::with((1..=20_000).map(|number| format!("line {number} of many\n")).collect::<String>());
        let mut subscription = following(&place).await;
        let mut lines = Vec::new();
        let mut dropped = 0;
        while lines.len() < 20_000 {
            let (release, held) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || held.recv());
            match poll_once_and_drop(subscription.pull(1000)).await {
                Poll::Ready(batch) => lines.extend(batch.unwrap().into_iter().map(acknowledge)),
                Poll::Pending => dropped += 1,
            }
            assert!(dropped < 1000, "what was read is lost every time");
            drop(release);
            assert!(busy.await.unwrap().is_err());
        }
        let expected: Vec<Seen> = (1..=20_000).map(|number| line(number, &format!("line {number} of many"))).collect();
        assert!(lines == expected, "{} lines", lines.len());
        assert!(dropped > 0);
    });
}

#[tokio::test(start_paused = true)]
async fn the_next_look_is_not_put_off_by_calling_again() {
    let place = Place::with("one\n");
    let mut subscription = following(&place).await;
    assert_eq!(acknowledge_next(&mut subscription).await, [line(1, "one")]);
    nothing_comes(&mut subscription).await;
    place.append("two\n");
    let impatient = async {
        loop {
            if let Ok(batch) = timeout(Duration::from_millis(10), subscription.pull(1)).await {
                return batch.unwrap().len();
            }
        }
    };
    assert_eq!(timeout(Duration::from_secs(1), impatient).await, Ok(1));
}

async fn poll_once_and_drop<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}
