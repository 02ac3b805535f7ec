//! What a line is, what a file may be, how much comes at once.

use super::*;
use crate::stdin;
use semel_core::{BodyDigest, BrokerError, CUT_LENGTH, Redelivery};
use std::process::{Command, Stdio};

async fn refusal(source: FileSource) -> String {
    match source.subscribe(&Positions::new()).await {
        Err(BrokerError::Broken(sentence)) => sentence,
        other => panic!("{other:?} is no refusal"),
    }
}

#[tokio::test]
async fn lines_are_numbered_as_an_editor_does() {
    let place = Place::with(b"\xEF\xBB\xBF{\"a\":1}\r\n\n  \t\n{\"b\":\r2}\n\0\n\xff\xfe\nlast");
    let (lines, _) = place.run(&Positions::new()).await;
    let expected = [(1, "{\"a\":1}"), (4, "{\"b\":\r2}"), (5, "\0"), (6, "\u{fffd}\u{fffd}"), (7, "last")];
    assert_eq!(lines, expected.map(|(number, body)| line(number, body)));
    assert_eq!(place.notices(), []);
}

#[tokio::test]
async fn empty_and_blank_files_end_at_once() {
    for bytes in ["", "\n", " \r\n\n", "\u{feff}"] {
        assert_eq!(Place::with(bytes).run(&Positions::new()).await.0, [], "{bytes:?}");
    }
}

#[tokio::test]
async fn a_line_over_the_limit_is_cut_and_the_next_is_whole() {
    let long = "x".repeat(3 * 1024 * 1024);
    let place = Place::with(format!("{long}\r\nnext\n"));
    let mut subscription = place.source().subscribe(&Positions::new()).await.unwrap();
    let batch = subscription.pull(10).await.unwrap();
    let mut digest = BodyDigest::default();
    digest.update(long.as_bytes());
    let cut = batch[0].envelope.cut.clone().unwrap();
    assert_eq!(
        (cut.length, cut.digest, batch[0].envelope.body.len()),
        (long.len() as u64, digest.finish(), CUT_LENGTH)
    );
    let next = match batch.get(1) {
        Some(next) => seen(&next.envelope),
        None => seen(&subscription.pull(10).await.unwrap()[0].envelope),
    };
    assert_eq!(next, line(2, "next"));

    let source = place.source().line_length_max(long.len() as u64);
    let whole = source.subscribe(&Positions::new()).await.unwrap().pull(1).await.unwrap();
    assert_eq!((whole[0].envelope.body.len(), &whole[0].envelope.cut), (long.len(), &None));
}

#[tokio::test]
async fn a_batch_is_bounded_in_lines_and_in_bytes() {
    let place = Place::with(format!("{}\n", "x".repeat(100_000)).repeat(30));
    let mut subscription = place.source().subscribe(&Positions::new()).await.unwrap();
    let mut lines = 0;
    while lines < 30 {
        let batch = subscription.pull(7).await.unwrap();
        assert!((1..=7).contains(&batch.len()));
        lines += batch.len();
    }
    let place = Place::with(format!("{}\n", "x".repeat(1_000_000)).repeat(3));
    let source = place.source();
    let mut subscription = source.subscribe(&Positions::new()).await.unwrap();
    assert!(subscription.pull(0).await.unwrap().len() == 1, "at least one");
    assert!(subscription.pull(100).await.unwrap().len() <= 2);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_with_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    assert!(refusal(source(path("missing.jsonl"))).await.ends_with("missing.jsonl does not exist"));
    assert!(refusal(source(directory.path())).await.ends_with("is a directory; it must be a file of JSON Lines"));
    std::fs::write(path("file"), "").unwrap();
    assert!(refusal(source(path("file/below"))).await.contains("file/below is no path of a file"));
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    assert!(refusal(source(path("socket"))).await.contains("is a device or a socket"));

    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path("file"), PermissionsExt::from_mode(0o000)).unwrap();
    // The super-user may read everything.
    if File::open(path("file")).is_err() {
        assert!(refusal(source(path("file"))).await.starts_with("no permission to read "));
    }
}

#[tokio::test]
async fn a_fifo_is_read_to_its_end_once_and_without_positions() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(refusal(source(&path).follow(true)).await.contains("cannot be followed"));

    let source = source(&path).named("in");
    let mut subscription = source.subscribe(&Positions::new()).await.unwrap();
    let writer = std::thread::spawn(move || {
        let mut fifo = OpenOptions::new().write(true).open(path).unwrap();
        (0..20_000).for_each(|number| writeln!(fifo, "line {number}").unwrap());
        write!(fifo, "the end").unwrap();
    });
    let lines = acknowledge_all(&mut subscription).await;
    writer.join().unwrap();
    assert_eq!(
        (lines.len(), &lines[19_999], &lines[20_000]),
        (20_001, &line(20_000, "line 19999"), &line(20_001, "the end"))
    );
    assert_eq!(subscription.positions(), Positions::new());
    assert!(refusal(source.clone()).await.contains("only once"));
}

/// Run by the next test in a process of its own.
#[tokio::test]
#[ignore = "reads standard input"]
async fn child_that_reads_stdin() {
    let mut subscription = stdin().follow(true).subscribe(&Positions::new()).await.unwrap();
    let lines = acknowledge_all(&mut subscription).await;
    let told = format!("{lines:?} {:?}", subscription.positions());
    std::fs::write(std::env::var_os("SEMEL_TEST_ANSWER").unwrap(), told).unwrap();
}

#[tokio::test]
async fn standard_input_ends_and_has_no_positions() {
    let answer = tempfile::NamedTempFile::new().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "tests::reading::child_that_reads_stdin"])
        .env("SEMEL_TEST_ANSWER", answer.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"one\n\ntwo").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(answer.path()).unwrap(), r#"[("stdin:1", "one"), ("stdin:3", "two")] {}"#);
}

#[tokio::test]
async fn the_description_says_what_it_is() {
    let place = Place::with("one\ntwo\n");
    let source = place.source();
    assert_eq!(
        (source.name(), source.features().ends, source.features().redelivery),
        ("in".into(), true, Redelivery::ByPosition)
    );
    assert!(!source.clone().follow(true).features().ends);
    assert_eq!((crate::source("a/b.jsonl").name(), stdin().name()), ("a/b.jsonl".into(), "stdin".into()));
    assert!(stdin().follow(true).features().ends);

    let progress = source.progress();
    assert_eq!((progress.bytes_read(), progress.bytes_total()), (0, 0));
    let mut subscription = source.subscribe(&Positions::new()).await.unwrap();
    assert_eq!((progress.bytes_read(), progress.bytes_total()), (0, 8));
    acknowledge_all(&mut subscription).await;
    assert_eq!((progress.bytes_read(), progress.bytes_total()), (8, 8));
    let _resumed = source.subscribe(&subscription.positions()).await.unwrap();
    assert_eq!((progress.bytes_read(), progress.bytes_total()), (8, 8));
}
