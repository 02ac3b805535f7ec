//! An open source: lines out, answers in.

use crate::desk::{Desk, FileSettle, Kept};
use crate::input::{Change, Input, Piece};
use crate::lines::{Line, Splitter};
use crate::notice::Notice;
use crate::opened::Opened;
use crate::position::{Mark, Position};
use crate::progress::Progress;
use semel_core::{BrokerError, Delivery, Envelope, Positions, Subscription};
use std::sync::Arc;

/// `next` gives out no more than about so many bytes at once.
const BATCH_BYTES: usize = 1024 * 1024;
/// The one unit of a file.
const UNIT: &str = "";

/// Told what a person should know.
pub(crate) type Listener = Arc<dyn Fn(&Notice) + Send + Sync>;

/// What a source says to its subscription.
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) line_length_max: u64,
    pub(crate) listener: Option<Listener>,
    pub(crate) progress: Arc<Progress>,
}

/// A file or a stream that is being read.
pub struct FileSubscription {
    told: Told,
    input: Input,
    /// The file that is being read; none where it is a stream.
    opened: Option<Arc<Opened>>,
    splitter: Splitter,
    /// The last line of a file that has ended, if it had no newline.
    last: Option<(Line, Mark)>,
    /// The first line was delivered before, up to here, when it had no newline.
    delivered_to: Option<u64>,
    ended: bool,
    desk: Arc<Desk>,
}

/// One line that goes out.
pub(crate) struct Pulled {
    pub(crate) envelope: Envelope,
    pub(crate) settle: FileSettle,
    again: bool,
}

impl FileSubscription {
    /// Reads `input` from `position` on, or from its beginning.
    pub(crate) fn new(told: Told, input: Input, opened: Option<Arc<Opened>>, position: Option<Position>) -> Self {
        let start = Mark::start(opened.clone(), position.as_ref());
        let (offset, lines) = position.as_ref().map_or((0, 0), |at| (at.resume_at(), at.lines_before()));
        FileSubscription {
            splitter: Splitter::starting_at(offset, lines, told.line_length_max),
            delivered_to: position.and_then(|position| position.unended_to()),
            desk: Arc::new(Desk::starting_at(start)),
            last: None,
            ended: false,
            told,
            input,
            opened,
        }
    }

    /// The next lines, or none at the end: then every line has been answered. Nothing is taken out before an await.
    pub(crate) async fn pull(&mut self, max: usize) -> Result<Vec<Pulled>, BrokerError> {
        loop {
            let batch = self.take(max.max(1));
            if !batch.is_empty() || (self.ended && self.desk.is_clear()) {
                return Ok(batch);
            }
            let reading = !self.ended && !self.desk.is_full();
            tokio::select! {
                biased;
                piece = self.input.read(), if reading => self.accept(piece?),
                () = self.desk.changed() => {}
            }
        }
    }

    /// What is here: lines that were given back first, since they stand before all others.
    fn take(&mut self, max: usize) -> Vec<Pulled> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < max && bytes < BATCH_BYTES {
            let Some((number, kept)) = self.desk.deliver_again() else { break };
            bytes += kept.body.len();
            batch.push(self.pulled(number, kept.body.to_vec(), kept, true));
        }
        while batch.len() < max && bytes < BATCH_BYTES {
            let Some((line, behind)) = self.line() else { break };
            bytes += line.body.len();
            self.told.progress.read_to(line.after);
            let kept = Kept { line: line.number, body: line.body.as_slice().into(), cut: line.cut };
            let number = self.desk.deliver(behind);
            batch.push(self.pulled(number, line.body, kept, false));
        }
        batch
    }

    fn pulled(&self, number: u64, body: Vec<u8>, kept: Kept, again: bool) -> Pulled {
        let coordinates = Some(format!("{}:{}", self.told.name, kept.line));
        let envelope = Envelope { body, cut: kept.cut.clone(), coordinates, ..Envelope::default() };
        Pulled { envelope, settle: FileSettle::new(self.desk.clone(), number, kept), again }
    }

    fn line(&mut self) -> Option<(Line, Mark)> {
        if let Some(last) = self.last.take() {
            return Some(last);
        }
        loop {
            let line = self.splitter.take()?;
            if !self.was_delivered(&line) {
                let behind = Mark::behind(&line, self.opened.clone());
                return Some((line, behind));
            }
        }
    }

    fn accept(&mut self, piece: Piece) {
        match piece {
            Piece::Bytes(bytes) => self.splitter.push(bytes),
            Piece::End => {
                self.finish();
                self.ended = true;
                self.told.progress.read_to(self.splitter.offset());
            }
            Piece::Another(opened, change) => {
                self.finish();
                self.opened = Some(opened);
                self.delivered_to = None;
                self.splitter = Splitter::starting_at(0, 0, self.told.line_length_max);
                let name = self.told.name.clone();
                self.told.say(match change {
                    Change::Replaced => Notice::Replaced { name },
                    Change::Rewritten => Notice::Rewritten { name },
                });
            }
        }
    }

    /// The file has ended: what is left of it is its last line.
    fn finish(&mut self) {
        let last = self.splitter.finish();
        let opened = self.opened.clone();
        self.last = last.filter(|line| !self.was_delivered(line)).map(|line| {
            let behind = Mark::behind(&line, opened);
            (line, behind)
        });
    }

    /// Whether this is the line without a newline that the last reader delivered, and nothing came to it but the newline.
    fn was_delivered(&mut self, line: &Line) -> bool {
        let Some(to) = self.delivered_to.take().filter(|to| line.start < *to) else { return false };
        let grown = line.text_end() > to;
        if grown {
            self.told.say(Notice::LineGrew { name: self.told.name.clone(), line: line.number });
        }
        !grown
    }
}

impl Told {
    pub(crate) fn say(&self, notice: Notice) {
        if let Some(listener) = &self.listener {
            listener(&notice);
        }
    }
}

impl Subscription for FileSubscription {
    type Settle = FileSettle;

    async fn next(&mut self, max: usize) -> Result<Vec<Delivery<FileSettle>>, BrokerError> {
        let pulled = self.pull(max).await?;
        Ok(pulled.into_iter().map(Delivery::from).collect())
    }

    fn positions(&mut self) -> Positions {
        let position = self.desk.position();
        position.map(|position| (UNIT.to_owned(), position.text())).into_iter().collect()
    }
}

impl From<Pulled> for Delivery<FileSettle> {
    fn from(Pulled { envelope, settle, again }: Pulled) -> Self {
        let mut delivery = Delivery::new(envelope, settle);
        // Of a first delivery nobody knows whether an earlier process had it; that is what the position is for.
        delivery.redelivered = again.then_some(true);
        delivery
    }
}

impl Drop for FileSubscription {
    fn drop(&mut self) {
        self.desk.close();
    }
}

impl std::fmt::Debug for FileSubscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSubscription")
            .field("name", &self.told.name)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// The stored position of a source that has one unit.
pub(crate) fn stored(positions: &Positions) -> Option<&str> {
    positions.get(UNIT).map(String::as_str)
}
