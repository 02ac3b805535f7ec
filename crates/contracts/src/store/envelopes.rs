//! What came is kept byte for byte, wherever it is kept.

use super::check::checks;
use super::dead_letters::letter;
use super::fixture::Fixture;
use super::stage::{Stage, waiting};
use semel_core::{Cut, Envelope, Reason, Records, Timestamp, Waiting, Writes};

checks! {
    "an envelope comes back from the inbox byte for byte" => through_the_inbox,
    "an envelope comes back from the dead letters byte for byte" => through_the_dead_letters,
    "an envelope goes from the dead letters to the inbox byte for byte" => through_a_replay,
}

/// Each with something that some column, encoding or driver does not take as it is.
fn envelopes() -> Vec<(&'static str, Envelope)> {
    let some = |text: &str| Some(text.to_owned());
    let all = Envelope {
        id: some("id"),
        kind: some("kind"),
        key: some("key"),
        time: Some(Timestamp::from_millis(1_767_225_600_123)),
        correlation_id: some("correlation"),
        causation_id: some("causation"),
        content_type: some("application/json"),
        headers: vec![("a".to_owned(), "1".to_owned())],
        body: b"{}".to_vec(),
        cut: None,
        coordinates: some("file:17"),
    };
    let everywhere = |text: &str| Envelope {
        id: some(text),
        kind: some(text),
        key: some(text),
        correlation_id: some(text),
        causation_id: some(text),
        content_type: some(text),
        coordinates: some(text),
        headers: vec![(text.to_owned(), text.to_owned())],
        body: text.into(),
        ..Envelope::default()
    };
    let headers = |headers: &[(&str, &str)]| Envelope {
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Envelope::default()
    };
    let body = |body: Vec<u8>| Envelope { body, ..Envelope::default() };
    let times = [i64::from(i32::MIN), -1, 0, 253_402_300_799_999].map(Timestamp::from_millis);
    let cut = Cut { length: u64::from(u32::MAX) + 17, digest: [0xfe; 16] };
    let mut envelopes = vec![
        ("everything set", all),
        ("nothing set", Envelope::default()),
        ("empty texts, which are not the same as none", everywhere("")),
        ("U+0000 everywhere", everywhere("\0a\0\0b\0")),
        ("quotes, backslashes and what looks like escapes", everywhere("'\"\\ \\u0000 \\x00 \\n \\' $1 ? {} []")),
        ("control characters", everywhere(&(1..32).map(char::from).chain(['\u{7f}', '\u{85}']).collect::<String>())),
        ("all planes of Unicode", everywhere("é e\u{301} ß ｆ 中 \u{202e} \u{feff} \u{fffd} \u{ffff} 😀 \u{10ffff}")),
        ("white space at the ends", everywhere(" \t a \r\n ")),
        ("words of SQL and JSON", everywhere("null")),
        (
            "repeated and strange header names",
            headers(&[("a", "1"), ("A", "2"), ("a", "1"), ("", ""), ("\0", "x"), ("z", ""), ("b", "last")]),
        ),
        ("every byte", body((0..=255).collect())),
        ("a body of zeros", body(vec![0; 1000])),
        ("no UTF-8", body(vec![0xff, 0xfe, 0xc0, 0x80, 0xed, 0xa0, 0x80])),
        ("1 MiB", body((0..1 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect())),
        ("a body that was cut", Envelope { cut: Some(cut), ..body(vec![b'x'; 64 * 1024]) }),
        (
            "an empty body that was cut",
            Envelope { cut: Some(Cut { length: 1, digest: [0; 16] }), ..Envelope::default() },
        ),
    ];
    let many: Vec<(String, String)> = (0..100).map(|n| (format!("header-{n}"), "v".repeat(n * 10))).collect();
    envelopes.push(("100 headers", Envelope { headers: many, ..Envelope::default() }));
    envelopes.extend(times.map(|time| ("a time far away", Envelope { time: Some(time), ..Envelope::default() })));
    envelopes
}

/// Says which part differs: nobody reads a mebibyte.
fn same(what: &str, read: &Envelope, written: &Envelope) {
    let small = |envelope: &Envelope| Envelope { body: Vec::new(), ..envelope.clone() };
    assert_eq!(small(read), small(written), "{what}");
    assert!(
        read.body == written.body,
        "{what}: another body of {} bytes instead of {}",
        read.body.len(),
        written.body.len()
    );
}

async fn through_the_inbox<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let envelopes = envelopes();
    let messages: Vec<Waiting> = envelopes
        .iter()
        .enumerate()
        .map(|(at, (_, envelope))| Waiting { envelope: envelope.clone(), ..waiting(&at.to_string()) })
        .collect();
    stage.defer(number, &messages).await;
    let read = stage.due(number).await;
    assert_eq!(read.len(), envelopes.len());
    for (read, (what, written)) in read.iter().zip(&envelopes) {
        same(what, &read.envelope, written);
    }
}

async fn through_the_dead_letters<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let envelopes = envelopes();
    let dead: Vec<_> = envelopes
        .iter()
        .enumerate()
        .map(|(at, (_, envelope))| semel_core::DeadLetter {
            envelope: envelope.clone(),
            ..letter(Reason::Rejected, &at.to_string())
        })
        .collect();
    // All in one commit: what one of them needs must not be forced on another.
    assert_eq!(stage.write(number, &Writes { dead, ..Writes::default() }).await, vec![false; envelopes.len()]);
    let read = stage.dead_letters().await;
    assert_eq!(read.len(), envelopes.len());
    for (read, (what, written)) in read.iter().zip(&envelopes) {
        same(what, &read.letter.envelope, written);
    }
}

async fn through_a_replay<F: Fixture>(fixture: &F) {
    let stage = Stage::new(fixture).await;
    let number = stage.number("c").await;
    let mut envelopes = envelopes();
    envelopes.retain(|(_, envelope)| envelope.cut.is_none());
    for (at, (_, envelope)) in envelopes.iter().enumerate() {
        let letter =
            semel_core::DeadLetter { envelope: envelope.clone(), ..letter(Reason::MissingId, &at.to_string()) };
        let letter = semel_core::DeadLetter { id: None, ..letter };
        stage.write(number, &Writes { dead: vec![letter], ..Writes::default() }).await;
        let stored = stage.dead_letters().await.pop().expect("a dead letter");
        let mut lane = stage.semel.lane().await.expect("a lane");
        let message = Waiting { envelope: stored.letter.envelope, ..waiting(&at.to_string()) };
        lane.replay(stored.number, &message, None).await.expect("replay");
        lane.done();
    }
    let read = stage.due(number).await;
    assert_eq!(read.len(), envelopes.len());
    for (read, (what, written)) in read.iter().zip(&envelopes) {
        same(what, &read.envelope, written);
    }
}
