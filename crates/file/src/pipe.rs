//! Standard input, FIFOs and other things that are read once and never again.

use crate::error::stream_not_read;
use crate::input::Piece;
use semel_core::BrokerError;
use std::io::{self, ErrorKind, Read};
use tokio::sync::mpsc;

/// As much as a pipe holds on Linux.
const PIECE_LENGTH: usize = 64 * 1024;
/// Pieces that are read ahead.
const PIECES_AHEAD: usize = 4;

/// A stream that a thread of its own reads. Not one of the runtime's threads: such a read may wait for ever, and the runtime waits for its
/// threads when the program ends.
pub(crate) struct Pipe {
    name: String,
    pieces: mpsc::Receiver<io::Result<Vec<u8>>>,
}

impl Pipe {
    /// Starts to read what `open` opens. Both happen in the thread: opening a FIFO waits for its writer.
    pub(crate) fn start<R: Read>(
        name: &str,
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> Result<Self, BrokerError> {
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let read = move || match open() {
            Ok(stream) => send_all(stream, &sender),
            Err(error) => drop(sender.blocking_send(Err(error))),
        };
        std::thread::Builder::new()
            .name("semel-stream".to_owned())
            .spawn(read)
            .map_err(|error| stream_not_read(name, &error))?;
        Ok(Pipe { name: name.to_owned(), pieces })
    }

    pub(crate) async fn read(&mut self) -> Result<Piece, BrokerError> {
        match self.pieces.recv().await {
            Some(Ok(bytes)) => Ok(Piece::Bytes(bytes)),
            Some(Err(error)) => Err(stream_not_read(&self.name, &error)),
            None => Ok(Piece::End),
        }
    }
}

/// Ends with the stream, with an error, or when nobody listens any more.
fn send_all(mut stream: impl Read, sender: &mpsc::Sender<io::Result<Vec<u8>>>) {
    let mut buffer = vec![0; PIECE_LENGTH];
    loop {
        let piece = match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => Ok(buffer[..length].to_vec()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = piece.is_err();
        if sender.blocking_send(piece).is_err() || failed {
            return;
        }
    }
}
