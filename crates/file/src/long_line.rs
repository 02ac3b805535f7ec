//! A line that comes in pieces, and of which no more is held than its limit: beyond it, only the beginning and a digest.

use semel_core::{BodyDigest, CUT_LENGTH, Cut};

/// The text of one line so far.
pub(crate) struct LongLine {
    /// Longest body, in bytes.
    limit: u64,
    /// Bytes that are no part of the body where they stand at its beginning.
    mark: &'static [u8],
    raw_length: u64,
    /// All of it; once `over` is set, the beginning of the body.
    kept: Vec<u8>,
    over: Option<Over>,
}

/// A whole line.
pub(crate) struct Text {
    /// Its length where it stands, without the newline.
    pub(crate) raw_length: u64,
    /// The length of the mark before the body.
    pub(crate) mark_length: u64,
    /// Without the carriage return at its end. Where `cut` is set, the beginning.
    pub(crate) body: Vec<u8>,
    /// Set where the body is over the limit.
    pub(crate) cut: Option<Cut>,
    /// Whether it holds nothing but whitespace.
    pub(crate) blank: bool,
}

impl LongLine {
    pub(crate) fn new(limit: u64, mark: &'static [u8]) -> Self {
        LongLine { limit, mark, raw_length: 0, kept: Vec::new(), over: None }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.raw_length == 0
    }

    /// Adds what follows.
    pub(crate) fn extend(&mut self, piece: &[u8]) {
        self.raw_length += piece.len() as u64;
        match &mut self.over {
            Some(over) => over.add(piece, &mut self.kept),
            None => {
                self.kept.extend_from_slice(piece);
                // A mark and a carriage return may still turn out to be no part of the body.
                if self.kept.len() as u64 > self.limit.saturating_add(self.mark.len() as u64 + 1) {
                    self.overflow();
                }
            }
        }
    }

    /// The newline, or the end of the file, has come.
    pub(crate) fn finish(mut self) -> Text {
        if self.over.is_none() {
            let body = self.kept.strip_prefix(self.mark).unwrap_or(&self.kept);
            let mark_length = (self.kept.len() - body.len()) as u64;
            let body = body.strip_suffix(b"\r").unwrap_or(body);
            if body.len() as u64 <= self.limit {
                let (body, blank) = (body.to_vec(), is_blank(body));
                return Text { raw_length: self.raw_length, mark_length, body, cut: None, blank };
            }
            self.overflow();
        }
        let over = self.over.expect("the line is over the limit");
        Text {
            raw_length: self.raw_length,
            mark_length: over.mark_length,
            body: self.kept,
            cut: Some(Cut { length: over.length, digest: over.digest.finish() }),
            blank: over.blank,
        }
    }

    fn overflow(&mut self) {
        let begun = std::mem::take(&mut self.kept);
        let text = begun.strip_prefix(self.mark).unwrap_or(&begun);
        let mut over = Over::after_mark((begun.len() - text.len()) as u64);
        over.add(text, &mut self.kept);
        self.over = Some(over);
    }
}

/// What is known of a body that is over the limit.
struct Over {
    mark_length: u64,
    length: u64,
    digest: BodyDigest,
    /// A carriage return was the last byte so far: part of the body only if more follows.
    return_held: bool,
    blank: bool,
}

impl Over {
    fn after_mark(mark_length: u64) -> Self {
        Over { mark_length, length: 0, digest: BodyDigest::default(), return_held: false, blank: true }
    }

    fn add(&mut self, piece: &[u8], kept: &mut Vec<u8>) {
        if piece.is_empty() {
            return;
        }
        if std::mem::take(&mut self.return_held) {
            self.absorb(b"\r", kept);
        }
        self.return_held = piece.ends_with(b"\r");
        self.absorb(piece.strip_suffix(b"\r").unwrap_or(piece), kept);
    }

    fn absorb(&mut self, piece: &[u8], kept: &mut Vec<u8>) {
        self.length += piece.len() as u64;
        self.digest.update(piece);
        self.blank &= is_blank(piece);
        let room = CUT_LENGTH - kept.len();
        kept.extend_from_slice(&piece[..room.min(piece.len())]);
    }
}

pub(crate) fn is_blank(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().is_empty()
}
