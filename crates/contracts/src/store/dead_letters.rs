//! Dead letters: their key, what is counted instead of kept, and how they are found again.

use super::check::checks;
use super::fixture::Fixture;
use super::stage::{Stage, joined, key, print, waiting};
use semel_core::{
    ConsumerNumber, DeadFilter, DeadLetter, Discarded, Envelope, Fingerprint, Lane, Outcome, Reason, Records,
    Timestamp, VARIANTS_MAX, Writes,
};
use std::sync::Arc;
use tokio::sync::Barrier;

checks! {
    "§2: the key is consumer, reason, id or place, and content; the same again only raises `seen`" => the_same_again_is_counted,
    "§2: a message without an id is told by its place, and by its content alone where it has none" => without_an_id,
    "§2: the same message twice in one commit is kept once and told for each" => twice_in_one_commit,
    "every field of a dead letter is read back as it was; U+0000 only in the envelope" => a_letter_is_read_back,
    "law 30: of one id at most 20 variants are kept; further ones raise the count of the last" => variants_are_limited,
    "law 30: variants are limited within one commit too" => variants_in_one_commit,
    "§2: eight processes that bury one message keep one dead letter" => burying_races,
    "dead letters are listed by number, in pages" => pages_by_number,
    "dead letters are found by consumer, reason, reference and number" => filters,
    "law 28: discard removes a dead letter and stamps its claim anew; the message stays known" => discarding,
}

/// A dead letter of the message `id`.
pub(super) fn letter(reason: Reason, id: &str) -> DeadLetter {
    DeadLetter {
        reason,
        id: Some(id.to_owned()),
        kind: "note".to_owned(),
        key: None,
        time: None,
        fingerprint: print(1),
        error: "no".to_owned(),
        attempts: 1,
        envelope: Envelope::new(id, "body"),
    }
}

fn dead(letters: &[DeadLetter]) -> Writes {
    Writes { dead: letters.to_vec(), ..Writes::default() }
}

async fn bury<F: Fixture>(stage: &Stage<F>, consumer: ConsumerNumber, letters: &[DeadLetter]) -> Vec<bool> {
    stage.write(consumer, &dead(letters)).await
}

async fn the_same_again_is_counted<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let (number, other) = (stage.number("c").await, stage.number("d").await);
    let first = letter(Reason::Conflict, "a");
    assert_eq!(bury(&stage, number, std::slice::from_ref(&first)).await, [false]);
    assert_eq!(bury(&stage, number, std::slice::from_ref(&first)).await, [true]);
    let again = DeadLetter { error: "other words".to_owned(), attempts: 9, kind: "other".to_owned(), ..first.clone() };
    assert_eq!(bury(&stage, number, &[again]).await, [true], "neither words nor counts belong to the key");
    let others = [
        DeadLetter { fingerprint: print(2), ..first.clone() },
        DeadLetter { reason: Reason::Stale, ..first.clone() },
        letter(Reason::Conflict, "A"),
        letter(Reason::Conflict, "a "),
    ];
    for other in &others {
        assert_eq!(bury(&stage, number, std::slice::from_ref(other)).await, [false], "{other:?}");
    }
    assert_eq!(bury(&stage, other, std::slice::from_ref(&first)).await, [false]);
    let letters = stage.dead_letters().await;
    assert_eq!(letters.iter().map(|l| l.seen).collect::<Vec<_>>(), [3, 1, 1, 1, 1, 1]);
    assert!(letters.iter().all(|l| l.first_at <= l.last_at), "{letters:?}");
    assert_eq!(letters[0].letter.error, "no", "the first words stay");
    assert_eq!(
        bury(&stage, number, &[others[0].clone(), letter(Reason::Conflict, "b"), first]).await,
        [true, false, true],
        "in order"
    );
}

async fn without_an_id<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let at = |place: Option<&str>, content: u8| DeadLetter {
        id: None,
        fingerprint: print(content),
        envelope: Envelope { coordinates: place.map(str::to_owned), ..Envelope::default() },
        ..letter(Reason::MissingId, "")
    };
    let all =
        [at(Some("f:1"), 1), at(Some("f:2"), 1), at(Some("f:1"), 2), at(None, 1), at(None, 2), at(Some("f:\0"), 1)];
    assert_eq!(bury(&stage, number, &all).await, [false; 6]);
    assert_eq!(bury(&stage, number, &all).await, [true; 6]);
    // Many messages without id and place are no variants of one message.
    let nameless: Vec<DeadLetter> = (10..40).map(|content| at(None, content)).collect();
    assert_eq!(bury(&stage, number, &nameless).await, [false; 30]);
    let letters = stage.dead_letters().await;
    assert_eq!((letters.len(), letters.iter().map(|l| l.seen).sum::<u64>()), (36, 42));
    assert!(letters.iter().all(|l| l.letter.id.is_none()));
}

async fn twice_in_one_commit<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let (a, b) = (letter(Reason::InvalidId, "a"), letter(Reason::InvalidId, "b"));
    let all = [a.clone(), b.clone(), a.clone(), a.clone()];
    assert_eq!(bury(&stage, number, &all).await, [false, false, true, true]);
    assert_eq!(bury(&stage, number, &[b.clone(), b]).await, [true, true]);
    assert_eq!(stage.dead_letters().await.iter().map(|l| l.seen).collect::<Vec<_>>(), [3, 3]);
}

async fn a_letter_is_read_back<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    for (at, reason) in Reason::ALL.into_iter().enumerate() {
        let written = DeadLetter {
            kind: "kind 'é' 😀".to_owned(),
            key: (at % 2 == 0).then(|| " key\t".to_owned()),
            time: (at % 3 == 0).then(|| Timestamp::from_millis(1_767_225_600_123)),
            fingerprint: Fingerprint { version: 300, digest: [0xa5; 16] },
            error: format!("line 1\nline 2 {}", "é".repeat(2000)),
            attempts: u32::try_from(at).expect("small"),
            ..letter(reason, &at.to_string())
        };
        bury(&stage, number, std::slice::from_ref(&written)).await;
        let read = stage.dead_letters().await.pop().expect("a dead letter");
        let of = |l: &DeadLetter| {
            (
                (l.reason, l.id.clone(), l.kind.clone(), l.key.clone()),
                l.time,
                l.fingerprint,
                l.error.clone(),
                l.attempts,
            )
        };
        assert_eq!((of(&read.letter), &*read.consumer), (of(&written), "c"));
    }
    let zeros = DeadLetter {
        kind: "k\0".to_owned(),
        key: Some("\0".to_owned()),
        error: "e\0e".to_owned(),
        ..letter(Reason::InvalidId, "z")
    };
    bury(&stage, number, std::slice::from_ref(&zeros)).await;
    let read = stage.dead_letters().await.pop().expect("a dead letter").letter;
    assert_eq!((&*read.kind, read.key.as_deref(), &*read.error), ("k\u{fffd}", Some("\u{fffd}"), "e\u{fffd}e"));
}

async fn variants_are_limited<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let max = usize::try_from(VARIANTS_MAX).expect("small");
    for content in 0..25 {
        let variant = DeadLetter { fingerprint: print(content), ..letter(Reason::Conflict, "a") };
        assert_eq!(bury(&stage, number, &[variant]).await, [false], "{content}: the same one had not been there");
    }
    let letters = stage.dead_letters().await;
    assert_eq!(letters.len(), max);
    assert_eq!(letters.iter().map(|l| l.seen).sum::<u64>(), 25, "nothing goes uncounted");
    assert_eq!(letters.last().map(|l| l.seen), Some(25 - 19), "the last one counts for all that were not kept");
    assert_eq!(letters[3].letter.fingerprint, print(3), "the first ones are kept as they are");
    let kept = DeadLetter { fingerprint: print(3), ..letter(Reason::Conflict, "a") };
    assert_eq!(bury(&stage, number, &[kept]).await, [true]);
    assert_eq!(stage.dead_letters().await[3].seen, 2, "a kept one is counted for itself");
    assert_eq!(bury(&stage, number, &[letter(Reason::Conflict, "b")]).await, [false], "another id has its own limit");
    assert_eq!(bury(&stage, number, &[letter(Reason::Stale, "a")]).await, [false], "another reason has its own limit");
}

async fn variants_in_one_commit<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let variants: Vec<DeadLetter> =
        (0..30).map(|content| DeadLetter { fingerprint: print(content), ..letter(Reason::Conflict, "a") }).collect();
    assert_eq!(bury(&stage, number, &variants).await.len(), 30);
    let letters = stage.dead_letters().await;
    let max = usize::try_from(VARIANTS_MAX).expect("small");
    assert_eq!((letters.len(), letters.iter().map(|l| l.seen).sum::<u64>()), (max, 30));
}

async fn burying_races<F: Fixture>(fixture: &F) {
    const TASKS: usize = 8;
    let stage = Stage::with_lanes(fixture, TASKS).await;
    let number = stage.number("c").await;
    for round in 0..5 {
        let start = Arc::new(Barrier::new(TASKS));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (semel, start) = (stage.semel.clone(), start.clone());
                tokio::spawn(async move {
                    start.wait().await;
                    let mut lane = semel.lane().await.expect("a lane");
                    lane.begin(&super::stage::claims(number, &[])).await.expect("begin");
                    let written =
                        lane.commit(&dead(&[letter(Reason::MissingId, &round.to_string())])).await.expect("commit");
                    lane.done();
                    written.dead_seen_before[0]
                })
            })
            .collect();
        let mut new = 0;
        for task in tasks {
            new += usize::from(!joined(task).await);
        }
        let seen: Vec<u64> = stage.dead_letters().await.iter().map(|l| l.seen).collect();
        assert_eq!((new, seen), (1, vec![TASKS as u64; round + 1]), "round {round}");
    }
}

async fn pages_by_number<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    for part in 0..3 {
        let letters: Vec<DeadLetter> = (0..9).map(|n| letter(Reason::Rejected, &format!("{part}{n}"))).collect();
        bury(&stage, number, &letters).await;
    }
    let all: Vec<i64> = stage.dead_letters().await.iter().map(|l| l.number).collect();
    assert!(all.len() == 27 && all.is_sorted_by(|a, b| a < b), "{all:?}");
    let (mut after, mut paged) = (0, Vec::new());
    let mut lane = stage.lane().await;
    loop {
        let page = lane.dead_letters(&DeadFilter::default(), after, 10).await.expect("dead_letters");
        assert!(page.len() <= 10);
        let Some(last) = page.last() else { break };
        after = last.number;
        paged.extend(page.iter().map(|l| l.number));
    }
    assert_eq!(paged, all, "each once, `after` itself not again");
}

async fn filters<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    for (consumer, reason, id) in [
        ("c", Reason::Conflict, "a"),
        ("c", Reason::Stale, "a"),
        ("c", Reason::Conflict, "b"),
        ("d", Reason::Conflict, "a"),
    ] {
        let number = stage.number(consumer).await;
        bury(&stage, number, &[letter(reason, id)]).await;
    }
    let nameless = Envelope { coordinates: Some("f:1".to_owned()), ..Envelope::default() };
    let nameless = DeadLetter { id: None, envelope: nameless, ..letter(Reason::MissingId, "") };
    bury(&stage, stage.number("d").await, &[nameless]).await;
    let all = stage.dead_letters().await;
    let at = async |filter: DeadFilter| {
        let found = stage.dead_letters_where(&filter).await;
        found
            .iter()
            .map(|found| all.iter().position(|l| l.number == found.number).expect("one of them"))
            .collect::<Vec<_>>()
    };
    let any = DeadFilter::default;
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(at(DeadFilter { consumer: text("c"), ..any() }).await, [0, 1, 2]);
    assert!(at(DeadFilter { consumer: text("C"), ..any() }).await.is_empty());
    assert_eq!(at(DeadFilter { reason: Some(Reason::Conflict), ..any() }).await, [0, 2, 3]);
    assert_eq!(at(DeadFilter { reference: text("a"), ..any() }).await, [0, 1, 3]);
    assert_eq!(at(DeadFilter { reference: text("f:1"), ..any() }).await, [4], "by its place");
    assert_eq!(at(DeadFilter { number: Some(all[2].number), ..any() }).await, [2]);
    let both = DeadFilter { consumer: text("c"), reason: Some(Reason::Conflict), reference: text("a"), ..any() };
    assert_eq!(at(both).await, [0]);
}

async fn discarding<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    stage.commit(number, &[key("a")], &dead(&[letter(Reason::Failed, "a")])).await;
    stage
        .commit(
            number,
            &[key("w")],
            &Writes { waiting: vec![waiting("w")], dead: vec![letter(Reason::Conflict, "w")], ..Writes::default() },
        )
        .await;
    F::age(&stage.database, super::stage::HOUR).await;
    let mut lane = stage.lane().await;
    for found in stage.dead_letters().await {
        assert_eq!(lane.discard(found.number).await.expect("discard"), Discarded::Done);
        assert_eq!(lane.discard(found.number).await.expect("discard"), Discarded::Unknown, "gone already");
    }
    assert_eq!(lane.discard(1_000_000).await.expect("discard"), Discarded::Unknown);
    assert!(stage.dead_letters().await.is_empty());
    let now = lane.now();
    let age = async |id: &str| {
        now.since(stage.explain("c", id).await.and_then(|found| found.claim).expect("claimed").claimed_at)
    };
    assert!(age("a").await < super::stage::SOON * 3, "the window starts now");
    assert!(age("w").await >= super::stage::HOUR - super::stage::SOON, "it still waits: the window has not started");
    // `body` without a kind has another fingerprint than the suite's keys: known, and so a conflict, but not fresh.
    assert_eq!(
        stage.process("c", &Envelope::new("a", "body")).await,
        Outcome::Conflict,
        "a discarded message is done with"
    );
}
