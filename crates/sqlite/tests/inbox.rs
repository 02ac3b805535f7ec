//! Waiting messages: order, keys that are held, what is stored.

mod common;

use common::*;
use semel_core::{
    Attempt, Claim, ClaimKey, Fingerprint, Instance, Lane, Positions, Records, Retried, Timestamp, Waiting, Writes,
};
use semel_sqlite::SqliteLane;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

async fn due(shop: &Shop, lane: &mut SqliteLane) -> Vec<String> {
    lane.due(shop.consumer, 100).await.unwrap().into_iter().map(|waiting| waiting.id).collect()
}

fn of_key(id: &str, key: &str, holds: bool) -> Waiting {
    Waiting { key: Some(key.to_owned()), holds, ..waiting(id) }
}

#[tokio::test]
async fn a_waiting_message_comes_back_as_it_was() {
    let (shop, mut lane) = shop().await;
    let plain = Waiting { envelope: semel_core::Envelope::default(), error: String::new(), ..waiting("plain") };
    let strange = Waiting {
        key: Some("k\"\\é😀".to_owned()),
        time: Some(Timestamp::from_millis(-5)),
        fingerprint: Fingerprint { version: i16::MAX, digest: std::array::from_fn(|i| i as u8 * 16) },
        attempts: u32::MAX,
        holds: true,
        envelope: strange_envelope(),
        ..waiting("strange ')\u{1}")
    };
    let none = Waiting { fingerprint: Fingerprint::NONE, ..waiting("none") };
    let batch = vec![plain, strange, none];
    let mut keys: Vec<_> =
        batch.iter().map(|waiting| ClaimKey { fingerprint: waiting.fingerprint, ..key(&waiting.id) }).collect();
    keys.sort_by_key(|key| key.id);
    begin(&mut lane, shop.consumer, &keys).await.unwrap();
    write(&mut lane, Writes { waiting: batch.clone(), ..Writes::default() }).await.unwrap();
    let back = lane.due(shop.consumer, 100).await.unwrap();
    assert_eq!(back.len(), 3);
    for (back, sent) in back.iter().zip(&batch) {
        assert_eq!(format!("{back:?}"), format!("{sent:?}"));
        assert_eq!(back.envelope, sent.envelope);
    }
}

#[tokio::test]
async fn what_is_due_comes_in_order_and_behind_its_key() {
    let (shop, mut lane) = shop().await;
    assert_eq!(lane.next_due(shop.consumer).await.unwrap(), None);
    for waiting in [
        Waiting { delay: HOUR, ..of_key("a1", "a", true) },
        of_key("a2", "a", true),
        of_key("b1", "b", false),
        of_key("b2", "b", true),
        of_key("b3", "b", false),
        waiting("free"),
        Waiting { delay: HOUR, ..waiting("later") },
    ] {
        shop.wait(&mut lane, waiting).await;
    }
    assert_eq!(due(&shop, &mut lane).await, ["b1", "b2", "free"]);
    assert_eq!(lane.due(shop.consumer, 2).await.unwrap().len(), 2);
    assert_eq!(lane.next_due(shop.consumer).await.unwrap(), Some(Duration::ZERO));

    begin(&mut lane, shop.consumer, &[]).await.unwrap();
    assert_eq!(lane.held_keys(shop.consumer, &["a", "b", "c", "A"]).await.unwrap(), ["a", "b"]);
    write(
        &mut lane,
        Writes { finished: vec!["b1".into(), "b2".into(), "b3".into(), "free".into()], ..Writes::default() },
    )
    .await
    .unwrap();
    assert_eq!(due(&shop, &mut lane).await, [] as [&str; 0], "a2 is behind a1, whose time has not come");
    let next = lane.next_due(shop.consumer).await.unwrap().unwrap();
    assert!(next > HOUR - PATIENCE && next <= HOUR, "not a2, which nothing but a1 can make due: {next:?}");

    begin(&mut lane, shop.consumer, &[]).await.unwrap();
    assert_eq!(lane.held_keys(shop.consumer, &["a", "b", "c"]).await.unwrap(), ["a"]);
    write(&mut lane, Writes { finished: vec!["a1".into()], ..Writes::default() }).await.unwrap();
    assert_eq!(due(&shop, &mut lane).await, ["a2"]);
}

#[tokio::test]
async fn a_claim_says_whether_keys_are_held() {
    let (shop, mut lane) = shop().await;
    let held = async |lane: &mut SqliteLane, id: &str| {
        let held = begin(lane, shop.consumer, &[key(id)]).await.unwrap().keys_held;
        lane.rollback().await.unwrap();
        assert_eq!(lane.look(shop.consumer, &[key(id)]).await.unwrap().keys_held, held);
        held
    };
    assert!(!held(&mut lane, "new").await);
    shop.wait(&mut lane, Waiting { holds: true, ..waiting("no key") }).await;
    shop.wait(&mut lane, of_key("no hold", "a", false)).await;
    assert!(!held(&mut lane, "new").await);
    shop.wait(&mut lane, of_key("holds", "a", true)).await;
    assert!(held(&mut lane, "new").await);
    assert!(held(&mut lane, "holds").await, "of a duplicate, too");
    let second = lane.register("shipping", None).await.unwrap();
    assert!(!begin(&mut lane, second, &[key("new")]).await.unwrap().keys_held, "another consumer");
    lane.rollback().await.unwrap();
}

#[tokio::test]
async fn retried_is_written_where_the_message_still_waits() {
    let (shop, mut lane) = shop().await;
    shop.wait(&mut lane, waiting("w")).await;
    begin(&mut lane, shop.consumer, &[ClaimKey { waiting: Some(1), ..key("w") }]).await.unwrap();
    let retried = |id: &str, delay| Retried { id: id.to_owned(), attempts: 2, delay, error: "a\0b".to_owned() };
    write(&mut lane, Writes { retried: vec![retried("gone", HOUR), retried("w", Duration::MAX)], ..Writes::default() })
        .await
        .unwrap();
    let waits = lane.explain(None, "w").await.unwrap().remove(0).waiting.unwrap();
    assert_eq!((waits.attempts, &*waits.error), (2, "a\u{fffd}b"));
    assert!(waits.due_at > lane.now().plus(HOUR));
    assert_eq!(due(&shop, &mut lane).await, [] as [&str; 0]);
    assert!(lane.next_due(shop.consumer).await.unwrap().unwrap() > HOUR);
}

#[tokio::test]
async fn finishing_stamps_the_claim_anew() {
    let (shop, mut lane) = shop().await;
    shop.wait(&mut lane, waiting("w")).await;
    sqlx::raw_sql("update semel_claim set claimed_at = 0").execute(lane.conn()).await.unwrap();
    let before = lane.now();
    begin(&mut lane, shop.consumer, &[ClaimKey { waiting: Some(1), ..key("w") }]).await.unwrap();
    write(&mut lane, Writes { finished: vec!["w".into()], ..Writes::default() }).await.unwrap();
    let known = lane.explain(None, "w").await.unwrap().remove(0);
    assert!(known.waiting.is_none() && known.claim.unwrap().claimed_at >= before, "{known:?}");
}

#[tokio::test]
async fn attempts_and_processes() {
    let (shop, mut lane) = shop().await;
    let attempt = |crashes| Attempt { instance: "me".to_owned(), crashes };
    assert_eq!(lane.attempt(shop.consumer, "m").await.unwrap(), None);
    lane.open_attempt(shop.consumer, "m", &attempt(0)).await.unwrap();
    lane.open_attempt(shop.consumer, "m", &attempt(2)).await.unwrap();
    assert_eq!(lane.attempt(shop.consumer, "m").await.unwrap(), Some(attempt(2)));
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    write(&mut lane, Writes { closed: vec!["m".into(), "other".into()], ..Writes::default() }).await.unwrap();
    assert_eq!(lane.attempt(shop.consumer, "m").await.unwrap(), None);

    let me = Instance { id: "i".to_owned(), place: "p".to_owned(), process: u32::MAX, started: u64::MAX };
    lane.beat(shop.consumer, &me).await.unwrap();
    sqlx::raw_sql("update semel_instance set beat_at = beat_at - 60000").execute(lane.conn()).await.unwrap();
    let seen = lane.instances(shop.consumer).await.unwrap();
    assert_eq!(seen[0].instance, me);
    assert!(seen[0].silent >= Duration::from_secs(60) && seen[0].silent < Duration::from_secs(60) + PATIENCE);
    lane.beat(shop.consumer, &me).await.unwrap();
    assert!(lane.instances(shop.consumer).await.unwrap()[0].silent < PATIENCE);
    assert_eq!(lane.status().await.unwrap()[0].instances[0].0, "i");
    lane.remove_instance(shop.consumer, "i").await.unwrap();
    assert_eq!(lane.instances(shop.consumer).await.unwrap().len(), 0);
}

#[tokio::test]
async fn positions_that_are_not_named_stay() {
    let (shop, mut lane) = shop().await;
    let of =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Positions>();
    lane.save_positions(shop.consumer, "f", &of(&[("", "1"), ("a\"\\\u{1}é", "{\"x\":\"\\\"\"}")])).await.unwrap();
    lane.save_positions(shop.consumer, "f", &of(&[("", "2")])).await.unwrap();
    lane.save_positions(shop.consumer, "f", &of(&[])).await.unwrap();
    lane.save_positions(shop.consumer, "g", &of(&[("", "9007199254740993")])).await.unwrap();
    let positions = lane.positions(shop.consumer, "f").await.unwrap();
    assert_eq!(positions, of(&[("", "2"), ("a\"\\\u{1}é", "{\"x\":\"\\\"\"}")]));
    assert_eq!(lane.positions(shop.consumer, "g").await.unwrap(), of(&[("", "9007199254740993")]));
    assert_eq!(lane.positions(shop.consumer, "h").await.unwrap(), of(&[]));
    assert_eq!(lane.status().await.unwrap()[0].positions.len(), 3);
}

/// Ten thousand behind one key: the look at what is due must not take the bodies along, nor compare each with each.
#[tokio::test]
async fn many_behind_one_key() {
    let (shop, mut lane) = shop().await;
    shop.wait(&mut lane, Waiting { delay: HOUR, ..of_key("0", "a", true) }).await;
    let ids: Vec<String> = (1..=10_000).map(|i| format!("{i:05}")).collect();
    for page in ids.chunks(500) {
        let keys: Vec<_> = page.iter().map(|id| key(id)).collect();
        assert_eq!(begin(&mut lane, shop.consumer, &keys).await.unwrap().claims, [Claim::Fresh; 500]);
        let waiting = page.iter().map(|id| of_key(id, "a", true)).collect();
        write(&mut lane, Writes { waiting, ..Writes::default() }).await.unwrap();
    }
    let start = std::time::Instant::now();
    assert_eq!(due(&shop, &mut lane).await, [] as [&str; 0]);
    assert!(lane.next_due(shop.consumer).await.unwrap().unwrap() > HOUR - PATIENCE);
    eprintln!("looked in {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(20), "ten thousand looks at an index, not fifty million");
}
