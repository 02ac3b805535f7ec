//! As much of PostgreSQL's protocol, version 3, as the proxy has to understand.
//! <https://www.postgresql.org/docs/current/protocol-message-formats.html>

use std::io::{self, ErrorKind};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One side of a connection. Every reading method may be dropped at any time: bytes that were read stay in the buffer.
#[derive(Debug)]
pub(super) struct Peer {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Peer {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// The next packet of the beginning of a connection, which has no type; `None` at the end of the stream.
    pub(super) async fn next_startup(&mut self) -> io::Result<Option<StartupPacket>> {
        Ok(self.next_frame(0).await?.map(StartupPacket))
    }

    /// The next message; `None` at the end of the stream.
    pub(super) async fn next_message(&mut self) -> io::Result<Option<Message>> {
        Ok(self.next_frame(1).await?.map(Message))
    }

    pub(super) async fn next_byte(&mut self) -> io::Result<u8> {
        if self.fill(1).await? { Ok(self.buffer.remove(0)) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The bare stream, for a connection whose content is not looked at.
    pub(super) fn into_stream(self) -> io::Result<TcpStream> {
        // A client waits for the answer to its request before it sends anything that the request could change.
        if self.buffer.is_empty() { Ok(self.stream) } else { Err(ErrorKind::InvalidData.into()) }
    }

    /// A frame: `prefix` bytes, and a length of four bytes that counts itself and what follows it.
    async fn next_frame(&mut self, prefix: usize) -> io::Result<Option<Vec<u8>>> {
        let header = prefix + 4;
        if !self.fill(header).await? {
            return if self.buffer.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
        let length = u32::from_be_bytes(self.buffer[prefix..header].try_into().expect("four bytes")) as usize;
        // PostgreSQL allows less than 1 GiB; anything else means that this is another protocol.
        if !(4..1 << 30).contains(&length) {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes")));
        }
        if !self.fill(prefix + length).await? {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let rest = self.buffer.split_off(prefix + length);
        Ok(Some(std::mem::replace(&mut self.buffer, rest)))
    }

    /// Read until the buffer holds `length` bytes; false if the stream ends before.
    async fn fill(&mut self, length: usize) -> io::Result<bool> {
        while self.buffer.len() < length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What a client begins a connection with.
#[derive(Debug)]
pub(super) struct StartupPacket(Vec<u8>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Startup {
    /// A session, whose messages follow.
    Session,
    /// A question whether the server encrypts, by TLS or GSSAPI; the server answers with one byte, `N` for no.
    Encryption,
    /// The cancellation of another connection's query; there is no answer.
    Cancel,
}

impl StartupPacket {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn purpose(&self) -> Startup {
        match self.0.get(4..8) {
            // The numbers look like protocol versions: 1234 in the upper half, these in the lower.
            Some([0x04, 0xd2, 0x16, 0x2f | 0x30]) => Startup::Encryption,
            Some([0x04, 0xd2, 0x16, 0x2e]) => Startup::Cancel,
            _ => Startup::Session,
        }
    }
}

/// A message with its type, length and content. The same type letter means different things in the two directions, so
/// each question below belongs to one of them.
#[derive(Debug)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn kind(&self) -> u8 {
        self.0[0]
    }

    fn content(&self) -> &[u8] {
        &self.0[5..]
    }

    /// From the client: does the server answer with ReadyForQuery? Query, Sync and FunctionCall.
    pub(super) fn is_answered_by_ready(&self) -> bool {
        matches!(self.kind(), b'Q' | b'S' | b'F')
    }

    /// From the client: a simple query with a COMMIT in it.
    pub(super) fn is_commit(&self) -> bool {
        let text = String::from_utf8_lossy(self.content());
        self.kind() == b'Q' && has_commit(text.trim_end_matches('\0'))
    }

    /// From the server: nothing more is coming until the client asks again.
    pub(super) fn is_ready_for_query(&self) -> bool {
        self.kind() == b'Z'
    }

    /// From the server: a COMMIT was carried out. One that ends a failed transaction is answered with ROLLBACK.
    pub(super) fn is_committed(&self) -> bool {
        self.kind() == b'C' && self.content() == b"COMMIT\0"
    }
}

/// Is one of the statements a COMMIT? Semicolons in literals are not told from others; COMMIT PREPARED is another thing.
fn has_commit(text: &str) -> bool {
    text.split(';').any(|statement| {
        let mut words = statement.split_whitespace();
        words.next().is_some_and(|word| word.eq_ignore_ascii_case("commit"))
            && words.next().is_none_or(|word| !word.eq_ignore_ascii_case("prepared"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_recognised() {
        for commit in ["COMMIT", "commit ", "Commit;", "select 1; COMMIT", "select 1;\n commit work; select 2"] {
            assert!(has_commit(commit), "{commit}");
        }
        for other in ["", "select 'commit'", "ROLLBACK", "commits", "begin", "COMMIT PREPARED 'x'"] {
            assert!(!has_commit(other), "{other}");
        }
    }

    #[test]
    fn a_beginning_is_recognised() {
        let packet = |code: u32| StartupPacket([8_u32.to_be_bytes(), code.to_be_bytes()].concat()).purpose();
        assert_eq!(packet(80_877_103), Startup::Encryption);
        assert_eq!(packet(80_877_104), Startup::Encryption);
        assert_eq!(packet(80_877_102), Startup::Cancel);
        assert_eq!(packet(196_608), Startup::Session);
        assert_eq!(packet(196_610), Startup::Session);
    }
}
