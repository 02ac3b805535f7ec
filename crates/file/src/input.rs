//! Where the bytes come from: a file, or something that can be read only once.

use crate::opened::Opened;
use crate::pipe::Pipe;
use crate::tail::Tail;
use semel_core::BrokerError;
use std::sync::Arc;

/// What comes next.
pub(crate) enum Piece {
    /// Bytes, never none.
    Bytes(Vec<u8>),
    /// The file has ended, and another begins in its place.
    Another(Arc<Opened>, Change),
    /// There will be nothing more.
    End,
}

/// How one file came to follow another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Another file stands at the path.
    Replaced,
    /// The same file was truncated.
    Rewritten,
}

/// A source of bytes.
pub(crate) enum Input {
    File(Tail),
    Stream(Pipe),
}

impl Input {
    /// The next piece; waits for it. Safe to drop: nothing that was read is lost.
    pub(crate) async fn read(&mut self) -> Result<Piece, BrokerError> {
        match self {
            Input::File(tail) => tail.read().await,
            Input::Stream(pipe) => pipe.read().await,
        }
    }
}
