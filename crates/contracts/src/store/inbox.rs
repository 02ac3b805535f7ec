//! Messages that wait: deferral is a claim (law 28), order within a key, and tries that are fenced.

use super::check::checks;
use super::fixture::Fixture;
use super::keys::keyed;
use super::stage::{HOUR, SOON, Stage, begin, eventually, ids, joined, key, print, waiting, waiting_key};
use semel_core::{Claim, ClaimKey, Envelope, Lane, Outcome, Records, Retried, Timestamp, Waiting, Writes};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;

checks! {
    "law 28: deferral is a claim: a second copy of what waits is a duplicate, with other content a conflict" => deferral_is_a_claim,
    "what is due comes in the order in which it was put there, and no more than asked for" => due_in_order,
    "what is not due yet does not come, and next_due says when it will" => not_before_it_is_due,
    "every field of what waits is read back as it was" => waiting_is_read_back,
    "a try of a waiting message is fenced by its number of tries" => tries_are_fenced,
    "of eight workers that take up one waiting message one works it" => workers_race,
    "law 28: a copy that comes while the waiting message is worked is a duplicate at once" => a_copy_while_it_is_worked,
    "law 25: a finished message leaves the inbox and its claim is stamped anew" => finishing_stamps_anew,
    "each consumer has its own inbox" => each_consumer_has_its_own,
}

pub(super) fn retried(id: &str, attempts: u32, delay: Duration) -> Writes {
    Writes {
        retried: vec![Retried { id: id.to_owned(), attempts, delay, error: format!("try {attempts}") }],
        ..Writes::default()
    }
}

pub(super) fn finished(id: &str) -> Writes {
    Writes { finished: vec![id.to_owned()], ..Writes::default() }
}

async fn deferral_is_a_claim<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.defer(number, &[Waiting { delay: HOUR, ..waiting("a") }]).await;
    let mut lane = stage.lane().await;
    for (fingerprint, expected) in [(print(1), Claim::Duplicate), (print(2), Claim::Conflict)] {
        let copy = [ClaimKey { fingerprint, ..key("a") }];
        assert_eq!(lane.look(number, &copy).await.expect("look").claims, [expected]);
        assert_eq!(begin::<F>(&mut lane, number, &copy).await.claims, [expected]);
        lane.rollback().await.expect("rollback");
    }
    // Rolled back, a deferral leaves neither claim nor row.
    begin::<F>(&mut lane, number, &[key("b")]).await;
    drop(lane);
    assert_eq!(stage.process("c", &Envelope::new("b", "body")).await, Outcome::Processed);
}

async fn due_in_order<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let order = ["d", "b", "e", "a", "c"];
    stage.defer(number, &order.map(waiting)).await;
    let mut lane = stage.lane().await;
    for max in [5, 100] {
        assert_eq!(ids(&lane.due(number, max).await.expect("due")), order);
    }
    assert_eq!(ids(&lane.due(number, 2).await.expect("due")), ["d", "b"]);
    assert_eq!(ids(&lane.due(number, 2).await.expect("due")), ["d", "b"], "looking takes nothing");
    assert_eq!(lane.next_due(number).await.expect("next_due"), Some(Duration::ZERO));
    // Several in one commit, too.
    let keys = [key("x"), key("y"), key("z")];
    begin::<F>(&mut lane, number, &keys).await;
    lane.commit(&Writes { waiting: ["z", "x", "y"].map(waiting).to_vec(), ..Writes::default() }).await.expect("commit");
    assert_eq!(ids(&lane.due(number, 100).await.expect("due")), ["d", "b", "e", "a", "c", "z", "x", "y"]);
}

async fn not_before_it_is_due<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let mut lane = stage.lane().await;
    assert_eq!(lane.next_due(number).await.expect("next_due"), None, "nothing waits");
    stage.defer(number, &[Waiting { delay: HOUR, ..waiting("later") }]).await;
    assert!(lane.due(number, 10).await.expect("due").is_empty());
    let next = lane.next_due(number).await.expect("next_due").expect("one waits");
    assert!(next <= HOUR && next > HOUR - SOON * 2, "{next:?}");
    stage.defer(number, &[Waiting { delay: Duration::from_millis(300), ..waiting("soon") }]).await;
    let next = lane.next_due(number).await.expect("next_due").expect("two wait");
    assert!(next <= Duration::from_millis(300), "{next:?}");
    let due = eventually("it is due", async || {
        let due = lane.due(number, 10).await.expect("due");
        (!due.is_empty()).then_some(due)
    });
    assert_eq!(ids(&due.await), ["soon"]);
    assert_eq!(lane.next_due(number).await.expect("next_due"), Some(Duration::ZERO), "due already");
}

async fn waiting_is_read_back<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let full = Waiting {
        kind: "order.placed 'é' 😀".to_owned(),
        key: Some(" key\t\n".to_owned()),
        time: Some(Timestamp::from_millis(1_767_225_600_123)),
        fingerprint: semel_core::Fingerprint { version: 17, digest: [0xa5; 16] },
        attempts: 7,
        holds: true,
        error: "line 1\nline 2 'quoted'".to_owned(),
        instance: "0198-instance".to_owned(),
        ..waiting("full")
    };
    let bare = Waiting {
        kind: String::new(),
        error: String::new(),
        instance: String::new(),
        fingerprint: semel_core::Fingerprint::NONE,
        envelope: Envelope::default(),
        ..waiting("bare")
    };
    let written =
        [full, bare, Waiting { time: Some(Timestamp::from_millis(-1)), key: Some(String::new()), ..waiting("odd") }];
    stage.defer(number, &written).await;
    let read = stage.due(number).await;
    assert_eq!(read.len(), written.len());
    for (read, written) in read.iter().zip(&written) {
        let of = |w: &Waiting| {
            let names = (w.id.clone(), w.kind.clone(), w.key.clone(), w.error.clone(), w.instance.clone());
            (names, w.time, w.fingerprint, w.attempts, w.holds, w.envelope.clone())
        };
        assert_eq!(of(read), of(written));
    }
}

async fn tries_are_fenced<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.defer(number, &[waiting("a")]).await;
    let mut lane = stage.lane().await;
    let mut try_of = async |attempts: u32, writes: Option<Writes>| {
        let claim = begin::<F>(&mut lane, number, &[waiting_key("a", attempts)]).await.claims[0];
        match writes {
            Some(writes) => drop(lane.commit(&writes).await.expect("commit")),
            None => lane.rollback().await.expect("rollback"),
        }
        claim
    };
    assert_eq!(try_of(1, None).await, Claim::Duplicate, "there was no first try yet");
    assert_eq!(try_of(0, None).await, Claim::Fresh);
    assert_eq!(try_of(0, Some(retried("a", 1, Duration::ZERO))).await, Claim::Fresh, "the last try was rolled back");
    assert_eq!(try_of(0, None).await, Claim::Duplicate, "a late worker with the old number");
    let explained = stage.explain("c", "a").await.and_then(|explained| explained.waiting).expect("it waits");
    assert_eq!((explained.attempts, &*explained.error), (1, "try 1"));
    assert_eq!(stage.due(number).await[0].attempts, 1);
    assert_eq!(try_of(1, Some(finished("a"))).await, Claim::Fresh);
    assert_eq!(try_of(1, None).await, Claim::Duplicate, "it is done");
    let looked = lane.look(number, &[waiting_key("a", 1)]).await.expect("look");
    assert_eq!(looked.claims, [Claim::Duplicate], "looking sees that it is done");
    // What failed again after it was finished elsewhere does not come back.
    begin::<F>(&mut lane, number, &[]).await;
    lane.commit(&retried("a", 5, Duration::ZERO)).await.expect("commit");
    assert!(stage.due(number).await.is_empty());
}

async fn workers_race<F: Fixture>(fixture: &F) {
    const WORKERS: usize = 8;
    let stage = Stage::with_lanes(fixture, WORKERS).await;
    let number = stage.number("c").await;
    for round in 0..5 {
        let id = format!("{round}");
        stage.defer(number, &[waiting(&id)]).await;
        let start = Arc::new(Barrier::new(WORKERS));
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (semel, start, id) = (stage.semel.clone(), start.clone(), id.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    let mut lane = semel.lane().await.expect("a lane");
                    let claim = begin::<F>(&mut lane, number, &[waiting_key(&id, 0)]).await.claims[0];
                    match claim {
                        Claim::Fresh => {
                            F::write(lane.conn(), &id).await.expect("write");
                            lane.commit(&finished(&id)).await.expect("commit");
                        }
                        Claim::Duplicate => lane.rollback().await.expect("rollback"),
                        Claim::Conflict => panic!("a waiting key has no conflict"),
                    }
                    lane.done();
                })
            })
            .collect();
        for worker in workers {
            joined(worker).await;
        }
        assert_eq!(stage.count(&id).await, 1, "round {round}");
    }
    assert!(stage.due(number).await.is_empty());
}

async fn a_copy_while_it_is_worked<F: Fixture>(fixture: &F) {
    if !F::DIFFERENCES.writes_in_parallel {
        return;
    }
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.defer(number, &[waiting("a")]).await;
    let mut worker = stage.lane().await;
    assert_eq!(begin::<F>(&mut worker, number, &[waiting_key("a", 0)]).await.claims, [Claim::Fresh]);
    let mut other = stage.lane().await;
    for (asked, expected) in
        [(key("a"), Claim::Duplicate), (waiting_key("a", 0), Claim::Duplicate), (key("b"), Claim::Fresh)]
    {
        let keys = [asked];
        let claimed = tokio::time::timeout(Duration::from_secs(3), begin::<F>(&mut other, number, &keys)).await;
        assert_eq!(claimed.expect("it waits for the worker").claims, [expected], "{asked:?}");
        other.rollback().await.expect("rollback");
    }
    worker.commit(&finished("a")).await.expect("commit");
    assert!(stage.due(number).await.is_empty());
}

async fn finishing_stamps_anew<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.defer(number, &[waiting("a"), waiting("b")]).await;
    F::age(&stage.database, HOUR * 2).await;
    let mut lane = stage.lane().await;
    begin::<F>(&mut lane, number, &[waiting_key("a", 0)]).await;
    lane.commit(&finished("a")).await.expect("commit");
    begin::<F>(&mut lane, number, &[waiting_key("b", 0)]).await;
    lane.commit(&retried("b", 1, Duration::ZERO)).await.expect("commit");
    let now = lane.now();
    let since = async |id: &str| {
        let explained = stage.explain("c", id).await.expect("known");
        now.since(explained.claim.expect("claimed").claimed_at)
    };
    assert!(since("a").await < SOON * 3, "the window starts when it is let go");
    assert!(since("b").await > HOUR, "a failed try is no end");
}

async fn each_consumer_has_its_own<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (first, second) = (stage.number("c").await, stage.number("d").await);
    stage.defer(first, &[keyed("a", "k", true, Duration::ZERO)]).await;
    stage.defer(second, &[keyed("a", "k", true, Duration::ZERO), keyed("b", "l", true, Duration::ZERO)]).await;
    assert_eq!(ids(&stage.due(first).await), ["a"]);
    let mut lane = stage.lane().await;
    begin::<F>(&mut lane, first, &[waiting_key("a", 0)]).await;
    lane.commit(&finished("a")).await.expect("commit");
    assert!(stage.due(first).await.is_empty());
    assert_eq!(ids(&stage.due(second).await), ["a", "b"]);
    assert_eq!(lane.next_due(first).await.expect("next_due"), None);
}
