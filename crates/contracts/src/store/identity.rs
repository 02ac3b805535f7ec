//! Which ids are the same (law 9): those with the same bytes, and no others.

use super::check::checks;
use super::fixture::Fixture;
use super::stage::{Stage, begin, key};
use semel_core::{Claim, ClaimKey, DeadFilter, Envelope, Forgotten, Lane, Outcome, Reason, Records, Writes, valid_id};

checks! {
    "law 9: ids that differ in case, accents, width or white space are different messages" => lookalikes_are_different,
    "law 9: lookalikes stay apart within one batch too" => lookalikes_in_one_batch,
    "law 9: an id of 255 bytes is taken whole, one of 256 is refused, none is cut" => long_ids,
    "law 9: an id with U+0000 and an empty one are refused and kept, and their envelope is exact" => unstorable_ids,
    "law 9: a message without an id is a dead letter by its place in the source" => no_id,
    "law 29: an id is a value, whatever characters it has" => ids_are_values,
    "law 9: forget, explain and dead letters tell lookalikes apart" => lookalikes_for_operators,
}

/// Pairs that some collation or normal form takes for one.
const LOOKALIKES: [&str; 22] = [
    "Ab1", "aB1", "ab1", "AB1", "é", "e\u{301}", "e", "É", "a", "a ", " a", "a\t", "a\n", "a\r\n", "a\u{a0}", "ａ",
    "ß", "ss", "ſ", "s", "Ⅰ", "I",
];

fn sorted<'a>(ids: &[&'a str]) -> Vec<ClaimKey<'a>> {
    let mut ids = ids.to_vec();
    ids.sort_unstable_by_key(|id| id.as_bytes());
    ids.into_iter().map(key).collect()
}

async fn lookalikes_are_different<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    for expected in [Outcome::Processed, Outcome::Duplicate] {
        for id in LOOKALIKES {
            assert_eq!(stage.process("c", &Envelope::new(id, "body")).await, expected, "{id:?}");
        }
    }
    assert_eq!(stage.effects().await.len(), LOOKALIKES.len());
}

async fn lookalikes_in_one_batch<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let keys = sorted(&LOOKALIKES);
    let (first, second): (Vec<_>, Vec<_>) = keys.iter().enumerate().partition(|(at, _)| at % 2 == 0);
    let half = |half: Vec<(usize, &ClaimKey<'static>)>| half.into_iter().map(|(_, key)| *key).collect::<Vec<_>>();
    let (first, second) = (half(first), half(second));
    stage.commit(number, &first, &Writes::default()).await;
    let mut lane = stage.lane().await;
    let expected: Vec<Claim> =
        (0..keys.len()).map(|at| if at % 2 == 0 { Claim::Duplicate } else { Claim::Fresh }).collect();
    assert_eq!(lane.look(number, &keys).await.expect("look").claims, expected);
    assert_eq!(begin::<F>(&mut lane, number, &keys).await.claims, expected);
    lane.rollback().await.expect("rollback");
    stage.commit(number, &second, &Writes::default()).await;
    assert_eq!(begin::<F>(&mut lane, number, &keys).await.claims, vec![Claim::Duplicate; keys.len()]);
}

async fn long_ids<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let taken = [
        "x".repeat(255),
        format!("{}y", "x".repeat(254)),
        format!("{}z", "x".repeat(254)),
        "x".repeat(254),
        format!("{}x", "é".repeat(127)),
        format!("{}y", "é".repeat(127)),
        format!("{}abc", "😀".repeat(63)),
        format!("{}abd", "😀".repeat(63)),
    ];
    assert!(taken.iter().all(|id| valid_id(id).is_ok()));
    for expected in [Outcome::Processed, Outcome::Duplicate] {
        for id in &taken {
            assert_eq!(stage.process("c", &Envelope::new(&**id, "body")).await, expected, "{} bytes: {id}", id.len());
        }
    }
    for id in ["x".repeat(256), "é".repeat(128), "x".repeat(100_000)] {
        let body = format!("of {} bytes: {}", id.len(), id.is_ascii());
        let refused = stage.process("c", &Envelope::new(&*id, body)).await;
        assert_eq!(refused, Outcome::DeadLettered(Reason::InvalidId), "{} bytes", id.len());
    }
    assert_eq!(stage.effects().await.len(), taken.len());
}

async fn unstorable_ids<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    for (at, id) in ["\0", "a\0b", "a\0", ""].into_iter().enumerate() {
        let coordinates = Some(format!("file:{at}"));
        let kind = Some("no\0te".to_owned());
        let message = Envelope { coordinates, kind, key: Some("\0".to_owned()), ..Envelope::new(id, "body") };
        assert_eq!(stage.process("c", &message).await, Outcome::DeadLettered(Reason::InvalidId), "{id:?}");
        assert_eq!(stage.process("c", &message).await, Outcome::Duplicate, "{id:?} is kept already");
        let filter = DeadFilter { reference: message.coordinates.clone(), ..DeadFilter::default() };
        let letters = stage.dead_letters_where(&filter).await;
        assert_eq!(letters.len(), 1, "{id:?}");
        let letter = &letters[0].letter;
        assert_eq!((&letter.envelope, &letter.id, letters[0].seen), (&message, &None, 2));
    }
    assert!(stage.effects().await.is_empty());
    assert_eq!(
        stage.process("c", &Envelope::new("a", "body")).await,
        Outcome::Processed,
        "no part of a refused id is claimed"
    );
}

async fn no_id<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let at = |place: Option<&str>, body: &str| Envelope {
        coordinates: place.map(str::to_owned),
        body: body.into(),
        ..Envelope::default()
    };
    let messages =
        [at(Some("file:1"), "x"), at(Some("file:2"), "x"), at(Some("file:1"), "y"), at(None, "x"), at(None, "y")];
    for expected in [Outcome::DeadLettered(Reason::MissingId), Outcome::Duplicate] {
        for message in &messages {
            assert_eq!(stage.process("c", message).await, expected, "{message:?}");
        }
    }
    let letters = stage.dead_letters().await;
    assert_eq!(
        letters.iter().map(|letter| letter.seen).collect::<Vec<_>>(),
        [2; 5],
        "place and content tell them apart"
    );
    let other = stage.process("d", &messages[0]).await;
    assert_eq!(other, Outcome::DeadLettered(Reason::MissingId), "another consumer keeps its own");
}

async fn ids_are_values<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let strange = [
        "'; drop table effects; --",
        "%",
        "_",
        "\\",
        "\\u0041",
        "{a,b}",
        "{}",
        "[1,2]",
        "\"",
        "\"a\",\"b\"",
        "null",
        "NULL",
        "true",
        "0",
        "00",
        "1.0",
        "1e0",
        "\u{feff}",
        "\u{200b}",
        "\u{202e}abc",
        "😀",
        "\u{10ffff}",
        "\u{1}",
        "\u{7f}",
        ",",
        "$1",
        "?",
        "a,b",
        "(a)",
        ":a",
        "/* a",
        "A\\",
        "\u{ffff}",
    ];
    for expected in [Outcome::Processed, Outcome::Duplicate] {
        for id in strange {
            assert_eq!(stage.process("c", &Envelope::new(id, "body")).await, expected, "{id:?}");
        }
    }
    let mut lane = stage.lane().await;
    let again = begin::<F>(&mut lane, number, &sorted(&strange)).await.claims;
    assert_eq!(again, vec![Claim::Conflict; strange.len()], "in one batch, and with other content");
    lane.rollback().await.expect("rollback");
    let mut expected = strange.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(stage.effects().await, expected, "each id is the value that it was");
}

async fn lookalikes_for_operators<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    for id in ["Ab1", "aB1", "a", "a "] {
        stage.process("c", &Envelope::new(id, "body")).await;
        stage.process("c", &Envelope::new(id, "other")).await;
    }
    for (id, other) in [("Ab1", "aB1"), ("a ", "a")] {
        let letters =
            stage.dead_letters_where(&DeadFilter { reference: Some(id.to_owned()), ..DeadFilter::default() }).await;
        assert_eq!(letters.len(), 1, "{id:?}");
        let mut lane = stage.semel.lane().await.expect("a lane");
        lane.discard(letters[0].number).await.expect("discard");
        assert_eq!(lane.forget("c", id).await.expect("forget"), Forgotten::Done, "{id:?}");
        lane.done();
        assert!(stage.explain("c", id).await.is_none(), "{id:?}");
        let left = stage.explain("c", other).await.expect("its lookalike is untouched");
        assert!(left.claim.is_some() && left.dead.len() == 1, "{left:?}");
    }
    assert!(stage.explain("c", "AB1").await.is_none() && stage.explain("C", "aB1").await.is_none());
}
