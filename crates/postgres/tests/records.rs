//! What is kept beside the messages' own transactions.

mod common;

use common::{Database, begin, bury, execute, key, let_wait, letter, outside, print, process, waiting, waiting_key};
use semel_core::{
    Attempt, Claim, ClaimKey, ConsumerNumber, Cut, DeadFilter, DeadLetter, Discarded, Envelope, Fingerprint, Forgotten,
    Instance, Lane, Positions, Reason, Records, Replayed, Retried, SweptStep, Timestamp, VARIANTS_MAX, Waiting, Writes,
};
use semel_postgres::PostgresLane;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

async fn registered(database: &Database) -> (PostgresLane, ConsumerNumber) {
    let mut lane = database.lane().await;
    let consumer = lane.register("billing", None).await.unwrap();
    (lane, consumer)
}

/// Everything that a broker could ever deliver.
fn awkward() -> Envelope {
    Envelope {
        id: Some("i\0d".into()),
        kind: Some("\0".into()),
        key: Some(String::new()),
        time: Some(Timestamp::from_millis(i64::MAX)),
        correlation_id: Some("\u{10ffff}\u{fffd}\\u0000".into()),
        causation_id: Some("\"'; drop table x; --".into()),
        content_type: Some("text/plain\r\n".into()),
        headers: vec![
            ("a\0".into(), "\0\u{1}\u{7f}".into()),
            ("a\0".into(), String::new()),
            (String::new(), "ü".into()),
        ],
        body: (0..=255).chain([0, 0]).collect(),
        cut: Some(Cut { length: i64::MAX as u64, digest: [0xff; 16] }),
        coordinates: Some("file\0:1".into()),
    }
}

#[tokio::test]
async fn envelopes_come_back_byte_for_byte() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let time = Some(Timestamp::from_millis(1_700_000_000_001));
    let fingerprint = Fingerprint { version: 77, digest: [0; 16] };
    for (id, envelope) in [("a", awkward()), ("b", Envelope::default())] {
        let given = Waiting {
            time,
            fingerprint,
            envelope: envelope.clone(),
            error: "e\0".into(),
            key: Some("k".into()),
            ..waiting(id, None)
        };
        let_wait(&mut lane, consumer, std::slice::from_ref(&given)).await;
        let found = lane.due(consumer, 10).await.unwrap().pop().unwrap();
        assert_eq!(found.envelope, envelope);
        assert_eq!((&*found.id, &*found.kind, found.key.as_deref(), found.time), (id, "k", Some("k"), time));
        assert_eq!((found.fingerprint, found.attempts, found.holds, &*found.instance), (fingerprint, 1, false, "i"));
        assert_eq!(found.error, "e\u{fffd}");

        // A dead letter without an id may have anything in its own columns.
        let refused = DeadLetter {
            reason: Reason::InvalidId,
            id: None,
            kind: "k\0".into(),
            key: Some("\0".into()),
            time: Some(Timestamp::from_millis(i64::MIN)),
            fingerprint: Fingerprint::NONE,
            error: "e\0".into(),
            attempts: u32::MAX,
            envelope: envelope.clone(),
        };
        let number = bury(&mut lane, consumer, &refused).await;
        let filter = DeadFilter { number: Some(number), ..DeadFilter::default() };
        let found = lane.dead_letters(&filter, 0, 10).await.unwrap().pop().unwrap();
        assert_eq!(found.letter.envelope, envelope);
        assert_eq!(
            (&*found.letter.kind, found.letter.key.as_deref(), found.letter.id),
            ("k\u{fffd}", Some("\u{fffd}"), None)
        );
        assert_eq!((found.letter.fingerprint, found.letter.reason), (Fingerprint::NONE, Reason::InvalidId));
        if let Some(place) = envelope.coordinates {
            let explained = lane.explain(None, &place).await.unwrap();
            assert_eq!(explained[0].dead[0].number, number, "found by its place");
        }
    }
    let long = Envelope { coordinates: Some("ü".repeat(5000)), ..Envelope::default() };
    let number = bury(
        &mut lane,
        consumer,
        &DeadLetter { id: None, envelope: long.clone(), ..letter(Reason::MissingId, None, "") },
    )
    .await;
    assert_eq!(lane.explain(Some("billing"), &"ü".repeat(5000)).await.unwrap()[0].dead[0].number, number);
    let found = lane.dead_letters(&DeadFilter { number: Some(number), ..DeadFilter::default() }, 0, 1).await.unwrap();
    assert_eq!(found[0].letter.envelope, long);
}

#[tokio::test]
async fn no_time_zone_shifts_a_time() {
    let Some(database) = Database::fresh().await else { return };
    let mut conn = database.conn().await;
    execute(&mut conn, &format!("alter database {} set timezone = 'Europe/Berlin'", database.name())).await;
    let (mut lane, consumer) = registered(&database).await;
    execute(outside(&mut lane).await, "set timezone = 'America/New_York'").await;
    let time = Timestamp::from_millis(1_711_846_799_999); // a moment before the clocks change
    let keys = [ClaimKey { time: Some(time), ..key("a", "") }];
    begin(&mut lane, consumer, &keys).await;
    lane.commit(&Writes::default()).await.unwrap();
    let before = lane.now();
    let_wait(&mut lane, consumer, &[Waiting { time: Some(time), delay: HOUR, ..waiting("w", None) }]).await;
    bury(&mut lane, consumer, &DeadLetter { time: Some(time), ..letter(Reason::Stale, Some("d"), "") }).await;

    let explained =
        |id: &str, all: Vec<semel_core::Explained>| all.into_iter().next().unwrap_or_else(|| panic!("{id}"));
    let claim = explained("a", lane.explain(None, "a").await.unwrap()).claim.unwrap();
    assert_eq!(claim.time, Some(time));
    assert!(claim.claimed_at.as_millis().abs_diff(before.as_millis()) < 60_000);
    let waits = explained("w", lane.explain(None, "w").await.unwrap()).waiting.unwrap();
    assert!(waits.due_at.as_millis().abs_diff(before.plus(HOUR).as_millis()) < 60_000);
    assert!(waits.since.as_millis().abs_diff(before.as_millis()) < 60_000);
    assert_eq!(explained("d", lane.explain(None, "d").await.unwrap()).dead[0].letter.time, Some(time));
    let next = lane.next_due(consumer).await.unwrap().unwrap();
    assert!(next <= HOUR && next > HOUR - Duration::from_secs(60));

    // The floor too.
    execute(
        outside(&mut lane).await,
        "update semel.claim set claimed_at = now() - interval '2 hours' where message_id = 'a'",
    )
    .await;
    assert_eq!(lane.sweep(consumer, HOUR, 10).await.unwrap(), SweptStep { deleted: 1, more: false });
    assert_eq!(lane.floor(consumer).await.unwrap(), Some(time));
}

#[tokio::test]
async fn names_keep_their_numbers() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    for _ in 0..3 {
        assert_eq!(lane.register("billing", None).await.unwrap(), consumer);
    }
    let other = lane.register("Billing", Some(HOUR)).await.unwrap();
    assert_ne!(other, consumer);
    assert_eq!(other.0, consumer.0 + 1, "asking again uses up no number");
    assert_eq!(lane.consumer("Billing").await.unwrap(), Some(other));
    assert_eq!(lane.consumer("nobody").await.unwrap(), None);
    let window =
        |status: &[semel_core::ConsumerStatus], name: &str| status.iter().find(|s| s.consumer == name).unwrap().window;
    lane.register("Billing", None).await.unwrap();
    assert_eq!(window(&lane.status().await.unwrap(), "Billing"), Some(HOUR), "nothing said, nothing changed");
    lane.register("Billing", Some(2 * HOUR)).await.unwrap();
    let status = lane.status().await.unwrap();
    assert_eq!((window(&status, "Billing"), window(&status, "billing")), (Some(2 * HOUR), None));
}

#[tokio::test]
async fn positions_processes_attempts() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let positions =
        |all: &[(&str, &str)]| all.iter().map(|(u, p)| ((*u).to_owned(), (*p).to_owned())).collect::<Positions>();
    lane.save_positions(consumer, "orders", &positions(&[])).await.unwrap();
    lane.save_positions(consumer, "orders", &positions(&[("0", "5"), ("1", "7")])).await.unwrap();
    lane.save_positions(consumer, "orders", &positions(&[("1", "8"), ("2", "1")])).await.unwrap();
    lane.save_positions(consumer, "others", &positions(&[("", "x")])).await.unwrap();
    assert_eq!(lane.positions(consumer, "orders").await.unwrap(), positions(&[("0", "5"), ("1", "8"), ("2", "1")]));
    assert_eq!(lane.positions(consumer, "nothing").await.unwrap(), positions(&[]));

    let me = Instance { id: "me".into(), place: "here".into(), process: u32::MAX, started: u64::MAX };
    lane.beat(consumer, &me).await.unwrap();
    execute(outside(&mut lane).await, "update semel.instance set beat_at = now() - interval '1 minute'").await;
    let seen = lane.instances(consumer).await.unwrap();
    assert_eq!((seen.len(), &seen[0].instance), (1, &me));
    assert!(seen[0].silent >= Duration::from_secs(60) && seen[0].silent < Duration::from_secs(120));
    lane.beat(consumer, &me).await.unwrap();
    assert!(lane.instances(consumer).await.unwrap()[0].silent < Duration::from_secs(30));

    let open = |crashes| Attempt { instance: "me".into(), crashes };
    assert_eq!(lane.attempt(consumer, "a").await.unwrap(), None);
    lane.open_attempt(consumer, "a", &open(0)).await.unwrap();
    lane.open_attempt(consumer, "a", &open(1)).await.unwrap();
    lane.open_attempt(consumer, "b", &open(0)).await.unwrap();
    assert_eq!(lane.attempt(consumer, "a").await.unwrap(), Some(open(1)));
    begin(&mut lane, consumer, &[key("a", "")]).await;
    lane.commit(&Writes { closed: vec!["a".into()], ..Writes::default() }).await.unwrap();
    assert_eq!(lane.attempt(consumer, "a").await.unwrap(), None);
    assert_eq!(lane.attempt(consumer, "b").await.unwrap(), Some(open(0)));

    let status = lane.status().await.unwrap().pop().unwrap();
    assert_eq!(status.instances.len(), 1);
    let all: Vec<(&str, &str, &str)> = status.positions.iter().map(|(s, u, p)| (&**s, &**u, &**p)).collect();
    assert_eq!(all, [("orders", "0", "5"), ("orders", "1", "8"), ("orders", "2", "1"), ("others", "", "x")]);
    lane.remove_instance(consumer, "me").await.unwrap();
    assert!(lane.instances(consumer).await.unwrap().is_empty());
}

#[tokio::test]
async fn due_in_order_and_behind_their_key() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    assert_eq!(lane.next_due(consumer).await.unwrap(), None);
    let all = [
        Waiting { delay: HOUR, ..waiting("a1", Some("a")) },
        waiting("a2", Some("a")),
        waiting("n1", None),
        waiting("b1", Some("b")),
        waiting("b2", Some("b")),
        Waiting { holds: false, ..waiting("p1", Some("p")) },
        Waiting { holds: false, ..waiting("p2", Some("p")) },
        Waiting { delay: HOUR / 2, ..waiting("n2", None) },
    ];
    let_wait(&mut lane, consumer, &all).await;
    let ids = async |lane: &mut PostgresLane, max| -> Vec<String> {
        lane.due(consumer, max).await.unwrap().into_iter().map(|waiting| waiting.id).collect()
    };
    assert_eq!(ids(&mut lane, 10).await, ["n1", "b1", "p1", "p2"]);
    assert_eq!(ids(&mut lane, 2).await, ["n1", "b1"]);
    execute(outside(&mut lane).await, "update semel.inbox set priority = 1 where message_id in ('p2', 'b2')").await;
    assert_eq!(ids(&mut lane, 10).await, ["p2", "n1", "b1", "p1"], "priority comes first, but not before its key");

    let due: Vec<ClaimKey<'_>> = ["b1", "n1", "p1", "p2"].map(|id| waiting_key(id, 1)).to_vec();
    assert_eq!(begin(&mut lane, consumer, &due).await.claims, [Claim::Fresh; 4]);
    lane.commit(&Writes { finished: ["b1", "n1", "p1", "p2"].map(Into::into).to_vec(), ..Writes::default() })
        .await
        .unwrap();
    assert_eq!(ids(&mut lane, 10).await, ["b2"], "its key is free now");
    begin(&mut lane, consumer, &[waiting_key("b2", 1)]).await;
    let retried = vec![Retried { id: "b2".into(), attempts: 2, delay: HOUR, error: "again".into() }];
    lane.commit(&Writes { retried, ..Writes::default() }).await.unwrap();
    assert!(ids(&mut lane, 10).await.is_empty());
    // a2 is due, and of no use before a1 has gone: whoever slept until it would spin.
    let next = lane.next_due(consumer).await.unwrap().unwrap();
    assert!(next > HOUR / 2 - Duration::from_secs(60) && next <= HOUR / 2, "{next:?}");

    let status = lane.status().await.unwrap().pop().unwrap();
    assert_eq!((status.claims, status.waiting, status.due), (8, 4, 1));
    let waits = lane.explain(Some("billing"), "b2").await.unwrap().pop().unwrap().waiting.unwrap();
    assert_eq!((waits.attempts, &*waits.error, waits.key.as_deref()), (2, "again", Some("b")));
}

#[tokio::test]
async fn the_same_dead_letter_is_counted() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let one = letter(Reason::Conflict, Some("a"), "1");
    let two = letter(Reason::Conflict, Some("a"), "2");
    let other = letter(Reason::Stale, Some("a"), "1");
    begin(&mut lane, consumer, &[]).await;
    let dead = vec![one.clone(), two.clone(), one.clone(), other.clone()];
    let written = lane.commit(&Writes { dead, ..Writes::default() }).await.unwrap();
    assert_eq!(written.dead_seen_before, [false, false, true, false]);
    begin(&mut lane, consumer, &[]).await;
    let written = lane
        .commit(&Writes {
            dead: vec![other, two.clone(), letter(Reason::Conflict, Some("b"), "1")],
            ..Writes::default()
        })
        .await;
    assert_eq!(written.unwrap().dead_seen_before, [true, true, false]);
    let all = lane.dead_letters(&DeadFilter::default(), 0, 10).await.unwrap();
    let seen: Vec<(Reason, &str, u64)> =
        all.iter().map(|l| (l.letter.reason, l.letter.id.as_deref().unwrap(), l.seen)).collect();
    assert_eq!(
        seen,
        [(Reason::Conflict, "a", 2), (Reason::Stale, "a", 2), (Reason::Conflict, "a", 2), (Reason::Conflict, "b", 1)]
    );
    assert!(all[0].last_at >= all[0].first_at);

    let filtered = async |lane: &mut PostgresLane, filter: DeadFilter, after, max| -> Vec<i64> {
        lane.dead_letters(&filter, after, max).await.unwrap().into_iter().map(|letter| letter.number).collect()
    };
    let numbers: Vec<i64> = all.iter().map(|letter| letter.number).collect();
    let by = |reason| DeadFilter { reason: Some(reason), ..DeadFilter::default() };
    assert_eq!(filtered(&mut lane, by(Reason::Stale), 0, 10).await, [numbers[1]]);
    assert_eq!(filtered(&mut lane, DeadFilter::default(), 0, 2).await, numbers[..2]);
    assert_eq!(filtered(&mut lane, DeadFilter::default(), numbers[1], 2).await, numbers[2..]);
    let by = |consumer: &str, reference: &str| DeadFilter {
        consumer: Some(consumer.into()),
        reference: Some(reference.into()),
        ..DeadFilter::default()
    };
    assert_eq!(filtered(&mut lane, by("billing", "b"), 0, 10).await, [numbers[3]]);
    assert!(filtered(&mut lane, by("nobody", "b"), 0, 10).await.is_empty());
    let status = lane.status().await.unwrap().pop().unwrap();
    assert_eq!(status.dead, [(Reason::Conflict, 3), (Reason::Stale, 1)]);
}

#[tokio::test]
async fn variants_of_one_id_have_a_limit_and_strangers_have_none() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let count = VARIANTS_MAX as usize + 5;
    let variants: Vec<DeadLetter> = (0..count).map(|n| letter(Reason::Conflict, Some("a"), &n.to_string())).collect();
    let (first, rest) = variants.split_at(VARIANTS_MAX as usize - 1);
    for dead in [first.to_vec(), rest.to_vec(), vec![variants[0].clone(), variants[count - 1].clone()]] {
        begin(&mut lane, consumer, &[]).await;
        lane.commit(&Writes { dead, ..Writes::default() }).await.unwrap();
    }
    let all = lane.dead_letters(&DeadFilter::default(), 0, 100).await.unwrap();
    assert_eq!(all.len() as i64, VARIANTS_MAX);
    assert_eq!((all[0].seen, all[1].seen), (2, 1));
    assert_eq!(all.last().unwrap().seen, 7, "those beyond the limit are counted with the last");
    assert_eq!(all.last().unwrap().letter.fingerprint, print(&(VARIANTS_MAX - 1).to_string()));

    // Neither an id nor a place: each is a message of its own, and must not be lost.
    let strangers: Vec<DeadLetter> = (0..count).map(|n| letter(Reason::MissingId, None, &n.to_string())).collect();
    begin(&mut lane, consumer, &[]).await;
    let dead = strangers.iter().chain(&strangers[..2]).cloned().collect();
    let written = lane.commit(&Writes { dead, ..Writes::default() }).await.unwrap();
    let before: Vec<bool> = (0..count + 2).map(|n| n >= count).collect();
    assert_eq!(written.dead_seen_before, before);
    let filter = DeadFilter { reason: Some(Reason::MissingId), ..DeadFilter::default() };
    assert_eq!(lane.dead_letters(&filter, 0, 100).await.unwrap().len(), count);
}

async fn age(lane: &mut PostgresLane, ids: &str, age: &str) {
    execute(
        outside(lane).await,
        &format!("update semel.claim set claimed_at = now() - interval '{age}' where message_id ~ '{ids}'"),
    )
    .await;
}

#[tokio::test]
async fn a_sweep_takes_what_is_done_and_old_and_raises_the_floor_before() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    assert_eq!(lane.sweep(consumer, HOUR, 10).await.unwrap(), SweptStep::default());
    assert_eq!(lane.floor(consumer).await.unwrap(), None);
    let at = |millis| Some(Timestamp::from_millis(millis));
    let keys: Vec<ClaimKey<'_>> = vec![
        ClaimKey { time: at(5000), ..key("o1", "") },
        ClaimKey { time: at(3000), ..key("o2", "") },
        ClaimKey { time: None, ..key("o3", "") },
        ClaimKey { time: at(9000), ..key("y1", "") },
    ];
    begin(&mut lane, consumer, &keys).await;
    lane.commit(&Writes::default()).await.unwrap();
    let_wait(&mut lane, consumer, &[Waiting { time: at(8000), ..waiting("w1", None) }]).await;
    bury(&mut lane, consumer, &DeadLetter { time: at(7000), ..letter(Reason::Failed, Some("d1"), "") }).await;
    // A done message whose other version is a dead letter stays as well.
    process(&mut lane, consumer, "d2", "").await.unwrap();
    bury(&mut lane, consumer, &letter(Reason::Conflict, Some("d2"), "x")).await;
    let other = lane.register("shipping", None).await.unwrap();
    process(&mut lane, other, "o1", "").await.unwrap();
    age(&mut lane, "^[wd]", "3 hours").await;
    age(&mut lane, "^o", "2 hours").await;

    // What stays is older, and does not stand in the way page after page.
    assert_eq!(lane.sweep(consumer, HOUR, 2).await.unwrap(), SweptStep { deleted: 2, more: true });
    assert_eq!(lane.sweep(consumer, HOUR, 2).await.unwrap(), SweptStep { deleted: 1, more: false });
    assert_eq!(lane.sweep(consumer, HOUR, 2).await.unwrap(), SweptStep::default());
    assert_eq!(lane.floor(consumer).await.unwrap(), at(5000));
    assert_eq!(lane.floor(other).await.unwrap(), None, "each consumer's own");
    let left: Vec<String> = sqlx::query_scalar("select message_id from semel.claim order by consumer, message_id")
        .fetch_all(outside(&mut lane).await)
        .await
        .unwrap();
    assert_eq!(left, ["d1", "d2", "w1", "y1", "o1"]);

    // A lower time later does not lower it.
    let keys = [ClaimKey { time: at(1000), ..key("o9", "") }];
    begin(&mut lane, consumer, &keys).await;
    lane.commit(&Writes::default()).await.unwrap();
    age(&mut lane, "^o9", "2 hours").await;
    assert_eq!(lane.sweep(consumer, HOUR, 2).await.unwrap().deleted, 1);
    assert_eq!(lane.floor(consumer).await.unwrap(), at(5000));
    assert_eq!(lane.status().await.unwrap()[0].floor, at(5000));

    // Finished: its window starts now.
    begin(&mut lane, consumer, &[waiting_key("w1", 1)]).await;
    lane.commit(&Writes { finished: vec!["w1".into()], ..Writes::default() }).await.unwrap();
    assert_eq!(lane.sweep(consumer, HOUR, 2).await.unwrap().deleted, 0);
    age(&mut lane, "^w1", "2 hours").await;
    assert_eq!(lane.sweep(consumer, HOUR, 2).await.unwrap().deleted, 1);
    assert_eq!(lane.floor(consumer).await.unwrap(), at(8000));
    assert_eq!(lane.sweep(consumer, Duration::MAX, 2).await.unwrap(), SweptStep::default());
}

/// The floor is committed before anything is deleted: a sweep that dies in between has lost nothing.
#[tokio::test]
async fn the_floor_stands_before_the_first_claim_goes() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let keys = [ClaimKey { time: Some(Timestamp::from_millis(5000)), ..key("a", "") }];
    begin(&mut lane, consumer, &keys).await;
    lane.commit(&Writes::default()).await.unwrap();
    age(&mut lane, "a", "2 hours").await;
    // Somebody holds the claim's row: the deletion waits, the floor does not.
    let mut other = database.conn().await;
    execute(&mut other, "begin; select * from semel.claim for update").await;
    let sweep = tokio::spawn(async move { lane.sweep(consumer, HOUR, 10).await });
    let mut watcher = database.lane().await;
    let mut floor = None;
    for _ in 0..200 {
        floor = watcher.floor(consumer).await.unwrap();
        if floor.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((floor, database.claims().await), (Some(Timestamp::from_millis(5000)), 1));
    // Stamped anew in between: it stays.
    execute(&mut other, "update semel.claim set claimed_at = now(); commit").await;
    assert_eq!(sweep.await.unwrap().unwrap().deleted, 0);
    assert_eq!(database.claims().await, 1);
}

#[tokio::test]
async fn forget_is_for_what_is_done() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let epoch = "select epoch from semel.consumer where name = 'billing'";
    process(&mut lane, consumer, "done", "").await.unwrap();
    process(&mut lane, consumer, "conflict", "").await.unwrap();
    let_wait(&mut lane, consumer, &[waiting("waits", None)]).await;
    bury(&mut lane, consumer, &letter(Reason::Failed, Some("dead"), "")).await;
    bury(&mut lane, consumer, &letter(Reason::Stale, Some("stale"), "")).await;
    bury(&mut lane, consumer, &letter(Reason::Conflict, Some("conflict"), "x")).await;
    for (consumer, id, verdict) in [
        ("billing", "waits", Forgotten::Waits),
        ("billing", "dead", Forgotten::Dead),
        ("billing", "stale", Forgotten::Unknown),
        ("billing", "nothing", Forgotten::Unknown),
        ("billing", "nu\0l", Forgotten::Unknown),
        ("nobody", "done", Forgotten::Unknown),
    ] {
        assert_eq!(lane.forget(consumer, id).await.unwrap(), verdict, "{consumer} {id}");
    }
    assert_eq!((database.count(epoch).await, database.claims().await), (0, 4));
    assert_eq!(lane.forget("billing", "done").await.unwrap(), Forgotten::Done);
    // The dead letter is another message under its id.
    assert_eq!(lane.forget("billing", "conflict").await.unwrap(), Forgotten::Done);
    assert_eq!((database.count(epoch).await, database.claims().await), (2, 2));
    assert_eq!(process(&mut lane, consumer, "done", "other").await.unwrap(), Claim::Fresh);
}

#[tokio::test]
async fn discard_starts_the_window_anew() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let failed = bury(&mut lane, consumer, &letter(Reason::Failed, Some("a"), "1")).await;
    let conflict = bury(&mut lane, consumer, &letter(Reason::Conflict, Some("a"), "2")).await;
    let missing = bury(&mut lane, consumer, &letter(Reason::MissingId, None, "3")).await;
    age(&mut lane, "a", "2 hours").await;
    assert_eq!(lane.discard(failed).await.unwrap(), Discarded::Done);
    assert_eq!(lane.discard(failed).await.unwrap(), Discarded::Unknown);
    assert_eq!(lane.discard(missing).await.unwrap(), Discarded::Done);
    let old = "select count(*) from semel.claim where claimed_at < now() - interval '1 hour'";
    assert_eq!(database.count(old).await, 1, "the other dead letter still holds it");
    assert_eq!(lane.discard(conflict).await.unwrap(), Discarded::Done);
    assert_eq!(database.count(old).await, 0);
    assert_eq!(lane.sweep(consumer, HOUR, 10).await.unwrap().deleted, 0);
}

#[tokio::test]
async fn replay_puts_a_message_back_where_its_claim_can_be() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let state = async |database: &Database| {
        let count = async |table: &str| database.count(&format!("select count(*) from semel.{table}")).await;
        (count("claim").await, count("inbox").await, count("dead_letter").await)
    };
    let wait = |id: &str, content: &str| Waiting { fingerprint: print(content), delay: HOUR, ..waiting(id, Some("k")) };

    // It has its claim.
    let failed = bury(&mut lane, consumer, &letter(Reason::Failed, Some("f"), "1")).await;
    assert_eq!(lane.replay(failed, &wait("f", "1"), None).await.unwrap(), Replayed::Waits);
    assert_eq!(lane.replay(failed, &wait("f", "1"), None).await.unwrap(), Replayed::Gone);
    assert_eq!(state(&database).await, (1, 1, 0));
    assert_eq!(lane.due(consumer, 10).await.unwrap()[0].id, "f", "due now, whatever delay was given");

    // It had none.
    let stale = bury(&mut lane, consumer, &letter(Reason::Stale, Some("s"), "1")).await;
    assert_eq!(lane.replay(stale, &wait("s", "1"), None).await.unwrap(), Replayed::Waits);
    assert_eq!(state(&database).await, (2, 2, 0));

    // A conflict whose first version is done, or waits.
    process(&mut lane, consumer, "c", "1").await.unwrap();
    let done = bury(&mut lane, consumer, &letter(Reason::Conflict, Some("c"), "2")).await;
    let waits = bury(&mut lane, consumer, &letter(Reason::Conflict, Some("f"), "2")).await;
    for replaces in [None, Some(waits), Some(999)] {
        assert_eq!(lane.replay(done, &wait("c", "2"), replaces).await.unwrap(), Replayed::Claimed);
        assert_eq!(lane.replay(waits, &wait("f", "2"), replaces).await.unwrap(), Replayed::Claimed);
    }
    assert_eq!(state(&database).await, (3, 2, 2), "nothing was changed");
    // Under another id it may come back.
    assert_eq!(lane.replay(done, &wait("c again", "2"), None).await.unwrap(), Replayed::Waits);
    assert_eq!(state(&database).await, (4, 3, 1));

    // A conflict whose first version is a dead letter itself, in either order of their numbers.
    for (conflict_first, id) in [(false, "r"), (true, "q")] {
        let first = letter(Reason::Failed, Some(id), "1");
        let second = letter(Reason::Conflict, Some(id), "2");
        let (failed, conflict) = if conflict_first {
            let conflict = bury(&mut lane, consumer, &second).await;
            (bury(&mut lane, consumer, &first).await, conflict)
        } else {
            let failed = bury(&mut lane, consumer, &first).await;
            (failed, bury(&mut lane, consumer, &second).await)
        };
        let other = bury(&mut lane, consumer, &letter(Reason::Failed, Some(&format!("{id} other")), "1")).await;
        let before = state(&database).await;
        assert_eq!(lane.replay(conflict, &wait(id, "2"), None).await.unwrap(), Replayed::Claimed);
        assert_eq!(
            lane.replay(conflict, &wait(id, "2"), Some(other)).await.unwrap(),
            Replayed::Claimed,
            "not of this id"
        );
        assert_eq!(state(&database).await, before);
        assert_eq!(lane.replay(conflict, &wait(id, "2"), Some(failed)).await.unwrap(), Replayed::Waits);
        assert_eq!(state(&database).await, (before.0, before.1 + 1, before.2 - 2));
        let claim = lane.explain(None, id).await.unwrap().pop().unwrap();
        assert_eq!(claim.claim.unwrap().fingerprint, print("2"), "the claim is for this content now");
        assert_eq!(
            begin(&mut lane, consumer, &[key(id, "2"), waiting_key(&format!("{id}x"), 1)]).await.claims,
            [Claim::Duplicate; 2]
        );
        lane.rollback().await.unwrap();
    }
}

/// Replayed under a new id: the old claim is let go of, and its window starts then.
#[tokio::test]
async fn replay_under_another_id_lets_the_old_claim_go() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let failed = bury(&mut lane, consumer, &letter(Reason::Failed, Some("old"), "1")).await;
    age(&mut lane, "old", "2 hours").await;
    assert_eq!(lane.replay(failed, &waiting("new", None), None).await.unwrap(), Replayed::Waits);
    assert_eq!(database.claims().await, 2);
    assert_eq!(lane.sweep(consumer, HOUR, 10).await.unwrap().deleted, 0);
    assert_eq!(process(&mut lane, consumer, "old", "1").await.unwrap(), Claim::Duplicate);
}

#[tokio::test]
async fn explain_tells_everything_of_all_consumers() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let other = lane.register("shipping", None).await.unwrap();
    lane.register("quiet", None).await.unwrap();
    process(&mut lane, consumer, "a", "1").await.unwrap();
    bury(&mut lane, consumer, &letter(Reason::Conflict, Some("a"), "2")).await;
    let_wait(&mut lane, other, &[waiting("a", Some("k"))]).await;
    let all = lane.explain(None, "a").await.unwrap();
    let names: Vec<&str> = all.iter().map(|explained| &*explained.consumer).collect();
    assert_eq!(names, ["billing", "shipping"]);
    assert!(all[0].claim.is_some() && all[0].waiting.is_none() && all[0].dead.len() == 1);
    assert!(all[1].claim.is_some() && all[1].waiting.is_some() && all[1].dead.is_empty());
    assert_eq!(lane.explain(Some("shipping"), "a").await.unwrap().len(), 1);
    assert!(lane.explain(Some("quiet"), "a").await.unwrap().is_empty());
    assert!(lane.explain(None, "A").await.unwrap().is_empty());
}
