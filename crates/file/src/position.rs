//! Positions: the mark behind a line, the text in which it is stored, and whether it still holds.

use crate::lines::Line;
use crate::opened::{Head, Opened, Place, read_at};
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::io;
use std::sync::Arc;

/// A place between two lines.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    /// In which file. None: in something that cannot be read again.
    opened: Option<Arc<Opened>>,
    offset: u64,
    line: u64,
    /// Where the last line before it begins, if no newline ended it when it was read.
    unended: Option<u64>,
}

impl Mark {
    /// The place where reading starts.
    pub(crate) fn start(opened: Option<Arc<Opened>>, position: Option<&Position>) -> Self {
        let (offset, line, unended) = position.map_or((0, 0, None), |at| (at.offset, at.line, at.unended));
        Mark { opened, offset, line, unended }
    }

    /// The place behind `line`.
    pub(crate) fn behind(line: &Line, opened: Option<Arc<Opened>>) -> Self {
        let unended = (!line.ended).then_some(line.start);
        Mark { opened, offset: line.after, line: line.number, unended }
    }

    /// The mark as it is stored; None where the source cannot be read again.
    pub(crate) fn position(&self) -> Option<Position> {
        let opened = self.opened.as_ref()?;
        let Mark { offset, line, unended, .. } = *self;
        Some(Position { place: opened.place, head: opened.head(offset), offset, line, unended })
    }
}

/// A stored position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    #[serde(flatten)]
    place: Place,
    head: Head,
    /// How many bytes were acknowledged.
    pub(crate) offset: u64,
    /// How many lines these were.
    line: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unended: Option<u64>,
}

/// What becomes of a stored position when its file is opened again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It holds.
    Same(Position),
    /// Another file stands there.
    Replaced,
    /// The file was truncated, or written anew in place.
    Rewritten,
    /// The text says nothing to this version.
    Unknown,
}

impl Position {
    /// Where reading goes on. A last line without a newline is read again: it may have grown, or only have got its newline.
    pub(crate) fn resume_at(&self) -> u64 {
        self.unended.unwrap_or(self.offset)
    }

    /// How many lines lie before that.
    pub(crate) fn lines_before(&self) -> u64 {
        if self.unended.is_some() { self.line - 1 } else { self.line }
    }

    /// Up to where the last line was delivered, if it had no newline.
    pub(crate) fn unended_to(&self) -> Option<u64> {
        self.unended.map(|_| self.offset)
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("a position is plain JSON")
    }

    /// Looks whether the position in `text` holds for `file`.
    pub(crate) fn find(text: &str, file: &File, metadata: &Metadata) -> io::Result<Found> {
        let Ok(position) = serde_json::from_str::<Position>(text) else { return Ok(Found::Unknown) };
        if position.unended.is_some_and(|start| start > position.offset || position.line == 0) {
            return Ok(Found::Unknown);
        }
        if position.offset == 0 {
            // Nothing was read: whatever stands there now, its beginning is where to go on.
            return Ok(Found::Same(position));
        }
        if position.place != Place::of(metadata) {
            return Ok(Found::Replaced);
        }
        let holds =
            position.offset <= metadata.len() && position.head.begins(file)? && position.follows_newline(file)?;
        Ok(if holds { Found::Same(position) } else { Found::Rewritten })
    }

    fn follows_newline(&self, file: &File) -> io::Result<bool> {
        match self.resume_at() {
            0 => Ok(true),
            offset => Ok(read_at(file, offset - 1, 1)? == b"\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_with(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn position_in(file: &File, offset: u64, line: u64, unended: Option<u64>) -> Position {
        let opened = Opened::new(file, &file.metadata().unwrap(), offset).unwrap();
        Mark { opened: Some(Arc::new(opened)), offset, line, unended }.position().unwrap()
    }

    fn find(text: &str, file: &File) -> Found {
        Position::find(text, file, &file.metadata().unwrap()).unwrap()
    }

    #[test]
    fn a_position_holds_while_the_file_only_grows() {
        let mut file = file_with(b"one\ntwo\n");
        let position = position_in(&file, 8, 2, None);
        assert_eq!(find(&position.text(), &file), Found::Same(position.clone()));
        file.write_all(&[b'x'; 1000]).unwrap();
        assert_eq!(find(&position.text(), &file), Found::Same(position.clone()));

        file.set_len(7).unwrap();
        assert_eq!(find(&position.text(), &file), Found::Rewritten, "shorter");
        let other = file_with(b"one\ntwo\n");
        assert_eq!(find(&position.text(), &other), Found::Replaced, "another file with the same bytes");
    }

    #[test]
    fn a_file_written_anew_in_place_is_told_by_its_beginning_and_by_its_lines() {
        let file = file_with(b"one\ntwo\n");
        let position = position_in(&file, 8, 2, None);
        let rewrite = |bytes: &[u8]| {
            let mut file = &file;
            std::io::Seek::rewind(&mut file).unwrap();
            file.write_all(bytes).unwrap();
        };
        rewrite(b"ONE\ntwo\nthree\n");
        assert_eq!(find(&position.text(), &file), Found::Rewritten);
        rewrite(b"one\ntwo\nthree\n");
        assert_eq!(find(&position.text(), &file), Found::Same(position));

        let long = [vec![b'x'; 300], b"\ny\n".to_vec()].concat();
        let file = file_with(&long);
        let position = position_in(&file, 301, 1, None);
        (&file).write_all(b"z").unwrap();
        assert!(matches!(find(&position.text(), &file), Found::Same(_)));
        let shifted = position_in(&file, 300, 1, None);
        assert_eq!(find(&shifted.text(), &file), Found::Rewritten, "no line ends there any more");
    }

    #[test]
    fn a_line_without_newline_is_read_again_from_its_start() {
        let file = file_with(b"one\ntwo");
        let position = position_in(&file, 7, 2, Some(4));
        assert_eq!((position.resume_at(), position.lines_before(), position.unended_to()), (4, 1, Some(7)));
        let Found::Same(read) = find(&position.text(), &file) else { panic!("it holds") };
        assert_eq!(read, position);
    }

    #[test]
    fn the_stored_text_is_stable_and_a_foreign_one_is_unknown() {
        let file = file_with(b"one\n");
        let text = position_in(&file, 4, 1, None).text();
        let keys: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(keys.keys().map(String::as_str).collect::<Vec<_>>(), ["device", "head", "inode", "line", "offset"]);
        assert_eq!((&keys["offset"], &keys["line"], &keys["head"]["length"]), (&4.into(), &1.into(), &4.into()));
        for foreign in ["", "42", "{}", &text.replace("\"line\"", "\"row\"")] {
            assert_eq!(find(foreign, &file), Found::Unknown, "{foreign:?}");
        }
    }
}
