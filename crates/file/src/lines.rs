//! Bytes into lines: pure, fed in pieces of any size, and never holding more of a line than its limit.

use crate::long_line::{LongLine, Text, is_blank};
use semel_core::Cut;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line that is not blank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// Counted from 1, blank lines included.
    pub(crate) number: u64,
    /// Where it begins in the file.
    pub(crate) start: u64,
    /// Where its text begins: behind `start` only where a byte order mark stands between.
    pub(crate) text_start: u64,
    /// Where the next line begins.
    pub(crate) after: u64,
    /// Whether a newline ends it. The last line of a file may have none.
    pub(crate) ended: bool,
    /// Its bytes without newline and carriage return; their beginning where `cut` is set.
    pub(crate) body: Vec<u8>,
    /// What is known of a line over the limit.
    pub(crate) cut: Option<Cut>,
}

impl Line {
    /// Where its text ends, whitespace at its end not counted (that of a cut line is).
    pub(crate) fn text_end(&self) -> u64 {
        let length = self.cut.as_ref().map_or(self.body.trim_ascii_end().len() as u64, |cut| cut.length);
        self.text_start + length
    }
}

/// Splits a file into lines. Push a piece, take lines until there is none, push the next piece.
///
/// A line ends with `\n` or `\r\n`. Blank lines are counted and left out. A byte order mark at the beginning of the file is no part of its
/// first line. Everything else, a lone `\r`, a NUL, bytes that are not UTF-8, is passed on as it is: whether it is a message is not judged
/// here.
pub(crate) struct Splitter {
    limit: u64,
    /// The piece that is being split, and how far.
    piece: Vec<u8>,
    at: usize,
    /// The lines that are complete, and the one that is not: where it begins, and what of it stood in earlier pieces.
    completed: u64,
    start: u64,
    begun: LongLine,
}

impl Splitter {
    /// Starts at `offset`, where a line begins, after `completed` lines. Of lines with more than `limit` bytes the beginning is kept.
    pub(crate) fn starting_at(offset: u64, completed: u64, limit: u64) -> Self {
        let begun = LongLine::new(limit, mark_at(offset));
        Splitter { limit, piece: Vec::new(), at: 0, completed, start: offset, begun }
    }

    /// Adds the next bytes of the file. All lines of the piece before must have been taken.
    pub(crate) fn push(&mut self, piece: Vec<u8>) {
        debug_assert!(self.at == self.piece.len(), "lines of the last piece were not taken");
        self.piece = piece;
        self.at = 0;
    }

    /// The next line whose newline has been seen.
    pub(crate) fn take(&mut self) -> Option<Line> {
        loop {
            let rest = &self.piece[self.at..];
            let Some(length) = newline_in(rest) else {
                self.begun.extend(rest);
                self.at = self.piece.len();
                return None;
            };
            let text = &rest[..length];
            self.at += length + 1;
            let text = if self.begun.is_empty() && length as u64 <= self.limit && self.start > 0 {
                whole(text)
            } else {
                self.begun.extend(text);
                self.collected()
            };
            if let Some(line) = self.complete(text, true) {
                return Some(line);
            }
        }
    }

    /// The last line, which no newline ends, if there is one: the file ends here.
    pub(crate) fn finish(&mut self) -> Option<Line> {
        debug_assert!(self.at == self.piece.len(), "lines of the last piece were not taken");
        if self.begun.is_empty() {
            return None;
        }
        let text = self.collected();
        self.complete(text, false)
    }

    /// How far the file is split into lines.
    pub(crate) fn offset(&self) -> u64 {
        self.start
    }

    fn collected(&mut self) -> Text {
        // Only the first line of a file has a mark, and this is for the lines after it.
        std::mem::replace(&mut self.begun, LongLine::new(self.limit, b"")).finish()
    }

    fn complete(&mut self, text: Text, ended: bool) -> Option<Line> {
        let start = self.start;
        self.completed += 1;
        self.start += text.raw_length + u64::from(ended);
        let Text { mark_length, body, cut, blank, .. } = text;
        let (number, text_start, after) = (self.completed, start + mark_length, self.start);
        (!blank).then_some(Line { number, start, text_start, after, ended, body, cut })
    }
}

/// The common case: the whole line stands in one piece, and is short.
fn whole(raw: &[u8]) -> Text {
    let body = raw.strip_suffix(b"\r").unwrap_or(raw);
    Text { raw_length: raw.len() as u64, mark_length: 0, body: body.to_vec(), cut: None, blank: is_blank(body) }
}

fn mark_at(offset: u64) -> &'static [u8] {
    if offset == 0 { BYTE_ORDER_MARK } else { b"" }
}

fn newline_in(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use semel_core::{BodyDigest, CUT_LENGTH};

    fn split(pieces: impl IntoIterator<Item = Vec<u8>>, limit: u64) -> Vec<Line> {
        let mut splitter = Splitter::starting_at(0, 0, limit);
        let mut lines = Vec::new();
        for piece in pieces {
            splitter.push(piece);
            lines.extend(std::iter::from_fn(|| splitter.take()));
        }
        lines.extend(splitter.finish());
        lines
    }

    fn bodies(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        split([bytes.to_vec()], 1024).into_iter().map(|line| (line.number, line.body)).collect()
    }

    /// What the splitter must do, with the whole file in memory.
    fn naive(bytes: &[u8], limit: u64) -> Vec<Line> {
        let mut start = 0;
        let mut lines = Vec::new();
        for (index, raw) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let after = start + raw.len();
            let text = raw.strip_suffix(b"\n").unwrap_or(raw);
            let marked = if start == 0 { text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text) } else { text };
            let body = marked.strip_suffix(b"\r").unwrap_or(marked);
            let mut digest = BodyDigest::default();
            digest.update(body);
            let cut = (body.len() as u64 > limit).then(|| Cut { length: body.len() as u64, digest: digest.finish() });
            if !body.trim_ascii().is_empty() {
                lines.push(Line {
                    number: index as u64 + 1,
                    start: start as u64,
                    text_start: (start + text.len() - marked.len()) as u64,
                    after: after as u64,
                    ended: raw.ends_with(b"\n"),
                    body: if cut.is_some() { body[..body.len().min(CUT_LENGTH)].to_vec() } else { body.to_vec() },
                    cut,
                });
            }
            start = after;
        }
        lines
    }

    #[test]
    fn newlines_of_both_kinds_blank_lines_and_the_last_line() {
        let lines = bodies(b"one\r\n\n  \t\r\ntw\ro\nthree");
        assert_eq!(lines, [(1, b"one".to_vec()), (4, b"tw\ro".to_vec()), (5, b"three".to_vec())]);
        assert_eq!(bodies(b""), []);
        assert_eq!(bodies(b"\n\n"), []);
        assert_eq!(bodies(b"x\n"), [(1, b"x".to_vec())]);
        assert_eq!(bodies(b"\0\n\xff\xfe\n"), [(1, b"\0".to_vec()), (2, b"\xff\xfe".to_vec())]);
    }

    #[test]
    fn a_byte_order_mark_is_removed_at_the_very_beginning_only() {
        assert_eq!(bodies(b"\xEF\xBB\xBFa\n\xEF\xBB\xBFb\n"), [(1, b"a".to_vec()), (2, b"\xEF\xBB\xBFb".to_vec())]);
        assert_eq!(bodies(b"\xEF\xBB\xBF\n\xEF\xBB\xBFb\n"), [(2, b"\xEF\xBB\xBFb".to_vec())]);
        let marked = split([b"\xEF".to_vec(), b"\xBB\xBFa".to_vec(), b"b".to_vec()], 1);
        assert_eq!((marked[0].text_start, marked[0].text_end(), marked[0].after), (3, 5, 5));
        assert!(marked[0].cut.is_some() && split([b"\xEF\xBB\xBFa\r\n".to_vec()], 1)[0].cut.is_none());
    }

    #[test]
    fn of_a_line_over_the_limit_the_beginning_the_length_and_the_digest_are_kept() {
        let long = vec![b'x'; 3 * CUT_LENGTH + 7];
        let lines = split(long.chunks(1000).map(<[u8]>::to_vec).chain([b"\nshort\n".to_vec()]), CUT_LENGTH as u64);
        assert_eq!(lines[0].body.len(), CUT_LENGTH);
        assert_eq!(lines[0].cut.as_ref().map(|cut| cut.length), Some(long.len() as u64));
        assert_eq!((lines[1].number, &*lines[1].body), (2, &b"short"[..]));
        assert_eq!(lines, naive(&[&long[..], b"\nshort\n"].concat(), CUT_LENGTH as u64));
    }

    proptest! {
        #[test]
        fn any_file_in_any_pieces_splits_as_the_whole_file_does(
            marked in any::<bool>(),
            text in proptest::collection::vec(prop_oneof![
                4 => Just(b"x".to_vec()), 2 => Just(b"\n".to_vec()), 2 => Just(b"\r\n".to_vec()), 1 => Just(b"\r".to_vec()),
                1 => Just(b" ".to_vec()), 1 => Just(BYTE_ORDER_MARK.to_vec()), 1 => Just(b"\0".to_vec()), 1 => Just(b"\xff".to_vec()),
                1 => "[a-z]{1,40}".prop_map(String::into_bytes),
            ], 0..60),
            sizes in proptest::collection::vec(1_usize..9, 1..40),
            limit in 0_u64..20,
        ) {
            let mut file = if marked { BYTE_ORDER_MARK.to_vec() } else { Vec::new() };
            file.extend(text.concat());
            let mut rest = &file[..];
            let pieces = sizes.iter().cycle().map_while(|size| {
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                rest = after;
                (!piece.is_empty()).then(|| piece.to_vec())
            });
            prop_assert_eq!(split(pieces, limit), naive(&file, limit));
        }
    }
}
