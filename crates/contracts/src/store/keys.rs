//! Messages of one key that wait: who stands behind whom.

use super::check::checks;
use super::fixture::Fixture;
use super::inbox::{finished, retried};
use super::stage::{HOUR, Stage, begin, ids, key, waiting, waiting_key};
use semel_core::{Lane, Records, Waiting};
use std::time::Duration;

checks! {
    "on_defer = hold: what stands behind an earlier message of its key is not due until that one is gone" => a_key_is_held,
    "on_defer = pass: what does not hold its key holds nobody" => a_key_is_passed,
    "whether keys are held is told with each claim, and which of them when asked" => held_keys_are_told,
}

async fn a_key_is_held<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let now = Duration::ZERO;
    let all = [
        keyed("1", "k", true, HOUR),
        keyed("2", "k", true, now),
        keyed("3", "other", true, now),
        keyed("4", "k", false, now),
        waiting("5"),
        keyed("6", "K", true, now),
        keyed("7", "k ", true, now),
    ];
    stage.defer(number, &all).await;
    assert_eq!(ids(&stage.due(number).await), ["3", "5", "6", "7"], "2 and 4 stand behind 1");
    let mut lane = stage.lane().await;
    begin::<F>(&mut lane, number, &[waiting_key("1", 0)]).await;
    lane.commit(&retried("1", 1, now)).await.expect("commit");
    assert_eq!(ids(&stage.due(number).await), ["1", "3", "5", "6", "7"], "1 keeps its place");
    begin::<F>(&mut lane, number, &[waiting_key("1", 1)]).await;
    lane.commit(&finished("1")).await.expect("commit");
    assert_eq!(ids(&stage.due(number).await), ["2", "3", "5", "6", "7"], "4 stands behind 2");
    begin::<F>(&mut lane, number, &[waiting_key("2", 0)]).await;
    lane.commit(&finished("2")).await.expect("commit");
    assert_eq!(ids(&stage.due(number).await), ["3", "4", "5", "6", "7"]);
}

async fn a_key_is_passed<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let all =
        [keyed("1", "k", false, HOUR), keyed("2", "k", false, Duration::ZERO), keyed("3", "k", true, Duration::ZERO)];
    stage.defer(number, &all).await;
    assert_eq!(ids(&stage.due(number).await), ["2", "3"]);
}

async fn held_keys_are_told<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (number, other) = (stage.number("c").await, stage.number("d").await);
    let mut lane = stage.lane().await;
    let mut told = async |id: &str, asked: &[&str]| {
        let claimed = begin::<F>(&mut lane, number, &[key(id)]).await;
        let mut held = lane.held_keys(number, asked).await.expect("held_keys");
        held.sort();
        held.dedup();
        lane.rollback().await.expect("rollback");
        (claimed.keys_held, held)
    };
    let nobody = Vec::<String>::new();
    let asked = ["k", "K", "k ", "l", "passed", "é", "e\u{301}"];
    assert_eq!(told("a", &asked).await, (false, nobody.clone()), "nothing waits");
    stage.defer(other, &[keyed("0", "k", true, HOUR)]).await;
    stage.defer(number, &[waiting("1"), keyed("2", "passed", false, HOUR)]).await;
    assert_eq!(told("a", &asked).await, (false, nobody.clone()), "no key, a passed key, another consumer's key");
    stage.defer(number, &[keyed("3", "k", true, HOUR), keyed("4", "k", true, HOUR), keyed("5", "é", true, HOUR)]).await;
    assert_eq!(told("a", &asked).await, (true, vec!["k".to_owned(), "é".to_owned()]));
    assert_eq!(told("1", &["l"]).await, (true, nobody.clone()), "told with a duplicate too");
    assert_eq!(told("a", &[]).await, (true, nobody));
}

/// A message with a key that holds it, or not.
pub(super) fn keyed(id: &str, key: &str, holds: bool, delay: Duration) -> Waiting {
    Waiting { key: Some(key.to_owned()), holds, delay, ..waiting(id) }
}
