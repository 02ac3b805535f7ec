//! Going on where an earlier run ended, and noticing when that is not possible.

use super::*;

fn name() -> String {
    "in".to_owned()
}

#[tokio::test]
async fn only_what_was_added_is_read() {
    let place = Place::with("one\n\ntwo\n");
    let (lines, at) = place.run(&Positions::new()).await;
    assert_eq!(lines, [line(1, "one"), line(3, "two")]);
    assert_eq!(place.run(&at).await, (vec![], at.clone()));
    place.append("\nthree\n");
    let (lines, at) = place.run(&at).await;
    assert_eq!(lines, [line(5, "three")]);
    place.append("four\n");
    assert_eq!(place.run(&at).await.0, [line(6, "four")]);
    assert_eq!(place.notices(), []);
}

#[tokio::test]
async fn from_start_reads_everything_again() {
    let place = Place::with("one\ntwo\n");
    let (_, at) = place.run(&Positions::new()).await;
    let mut again = place.source().from_start(true).subscribe(&at).await.unwrap();
    assert_eq!(acknowledge_all(&mut again).await, [line(1, "one"), line(2, "two")]);
    assert_eq!((again.positions(), place.notices()), (at, vec![]));
}

#[tokio::test]
async fn a_newline_that_comes_later_is_no_message() {
    for (last, newline) in [("two", "\n"), ("two", "\r\n"), ("two\r", "\n"), ("two ", " \n"), ("\u{feff}two", "\n")] {
        // Also as the first line of the file, where the byte order mark stands.
        let first = if last.starts_with('\u{feff}') { "" } else { "one\n" };
        let place = Place::with(format!("{first}{last}"));
        let number = if first.is_empty() { 1 } else { 2 };
        let (lines, at) = place.run(&Positions::new()).await;
        assert!(lines.last().unwrap().1.starts_with("two"), "{lines:?}");
        assert_eq!(place.run(&at).await, (vec![], at.clone()), "nothing was added");
        place.append(newline);
        let (lines, at) = place.run(&at).await;
        assert_eq!(lines, [], "{last:?} {newline:?}");
        place.append("three\n");
        assert_eq!(place.run(&at).await.0, [line(number + 1, "three")], "{last:?} {newline:?}");
        assert_eq!(place.notices(), []);
    }
}

#[tokio::test]
async fn a_last_line_that_was_half_written_is_delivered_whole_later() {
    let place = Place::with("one\n{\"half");
    let (lines, at) = place.run(&Positions::new()).await;
    assert_eq!(lines, [line(1, "one"), line(2, "{\"half")]);
    place.append("\":2}\nthree\n");
    let (lines, at) = place.run(&at).await;
    assert_eq!(lines, [line(2, "{\"half\":2}"), line(3, "three")]);
    assert_eq!(place.notices(), [Notice::LineGrew { name: name(), line: 2 }]);
    assert_eq!(place.run(&at).await.0, []);
}

#[tokio::test]
async fn another_file_at_the_path_is_read_from_its_beginning_and_said_once() {
    let place = Place::with("one\ntwo\n");
    let (_, at) = place.run(&Positions::new()).await;
    place.rotate();
    place.create("one\ntwo\nthree\n");
    let replaced = place.source().subscribe(&at).await.unwrap().positions();
    assert_eq!(place.notices(), [Notice::Replaced { name: name() }]);
    assert_eq!(place.run(&replaced).await.0.len(), 3);
    assert_eq!(place.notices(), [], "the new file's position is kept, though nothing of it was read");
}

#[tokio::test]
async fn a_truncated_file_is_read_from_its_beginning() {
    let place = Place::with("one\ntwo\n");
    let (_, at) = place.run(&Positions::new()).await;
    File::create(&place.path).unwrap().write_all(b"two\n").unwrap();
    assert_eq!(place.run(&at).await.0, [line(1, "two")]);
    assert_eq!(place.notices(), [Notice::Rewritten { name: name() }]);

    File::create(&place.path).unwrap().write_all(b"a much longer first line\n").unwrap();
    assert_eq!(place.run(&at).await.0, [line(1, "a much longer first line")]);
    assert_eq!(place.notices(), [Notice::Rewritten { name: name() }]);
}

#[tokio::test]
async fn a_position_that_nobody_can_read_is_none() {
    let place = Place::with("one\n");
    let foreign = Positions::from([(String::new(), "topic/3@17".to_owned())]);
    assert_eq!(place.run(&foreign).await.0, [line(1, "one")]);
    assert_eq!(place.notices(), [Notice::UnknownPosition { name: name() }]);
}

#[tokio::test]
async fn a_file_of_which_nothing_was_read_may_be_any_file() {
    let place = Place::with("");
    let (_, at) = place.run(&Positions::new()).await;
    place.rotate();
    place.create("one\n");
    assert_eq!(place.run(&at).await.0, [line(1, "one")]);
    assert_eq!(place.notices(), []);
}

#[test]
fn notices_are_sentences() {
    let name = "payments.jsonl".to_owned();
    let said = Notice::Replaced { name: name.clone() }.to_string();
    assert_eq!(said, "payments.jsonl was replaced; reading it from its beginning");
    let said = Notice::LineGrew { name, line: 37 }.to_string();
    assert_eq!(said, "line 37 of payments.jsonl has grown since it was read; reading it again");
}
