//! Files and standard input as a message source for semel: JSON Lines, read by position.
//!
//! Every line is the body of one message; its coordinates are `NAME:LINE`, counted from 1. The position behind the acknowledged lines is
//! kept in the store, so that the next run reads what was added since. The position is an acknowledgement, written lazily: after a crash
//! some lines are read again, and semel knows them as duplicates.
//!
//! ```
//! use semel_core::{Positions, Source, Subscription};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("payments.jsonl");
//! std::fs::write(&path, "{\"payment_id\":\"pay-1\"}\n\n{\"payment_id\":\"pay-2\"}\n")?;
//!
//! let payments = semel_file::source(&path).named("payments.jsonl").notice(|notice| eprintln!("{notice}"));
//! let mut subscription = payments.subscribe(&Positions::new()).await?;
//! let deliveries = subscription.next(100).await?;
//! assert_eq!(deliveries[1].body, br#"{"payment_id":"pay-2"}"#);
//! assert_eq!(deliveries[1].coordinates.as_deref(), Some("payments.jsonl:3"));
//! # Ok(()) }
//! ```
//!
//! A service does not call these itself: it passes the source to `Consumer::run`.
//!
//! # What a line is
//!
//! | in the file | what comes of it |
//! |---|---|
//! | `\n` or `\r\n` | the end of a line, no part of the body |
//! | a line of whitespace only | counted, not delivered |
//! | a UTF-8 byte order mark at the beginning of the file | left out |
//! | a lone `\r`, NUL, bytes that are not UTF-8 | delivered as they are; whether that is a message is judged later |
//! | a line over the limit ([`FileSource::line_length_max`], 1 MiB) | never held whole: the first 64 KiB, the length and the digest of all of it |
//! | a last line without newline | delivered at the end of the file; while following, only when its newline has come |
//!
//! A last line that was delivered without its newline and has grown since was not complete then: it is delivered again, as a whole
//! ([`Notice::LineGrew`]). If nothing came to it but a newline or whitespace, it is not.
//!
//! # When the file changes
//!
//! A position belongs to a file, not to a path: it holds device, inode and a digest of the first up to 256 bytes. When it is the same file
//! and no shorter than before, reading goes on; otherwise the file is read from its beginning, and a [`Notice`] says so. Lines behind the
//! position may be added at any time; lines before it must not be edited in place, which is noticed only where the beginning or the end of
//! a line moved. (Editors write a new file, and that is noticed.)
//!
//! While following, a file that was renamed (log rotation) is read to its end before its successor, and one that was truncated in place
//! (`copytruncate`) is begun anew. The successor counts once it has something in it, so a writer may go on with the old file until then.
//! *Not* found is what was still unread in a file that was rotated away while nobody read: let rotation wait for the reader, or read the
//! rotated file once by its own name.
//!
//! # What else can stand at a path
//!
//! FIFOs, terminals and `/dev/stdin` are read as [standard input](stdin) is: once, to their end, without a position, so that a line that
//! was read and not acknowledged is lost with the process. They cannot be followed. Directories, sockets and block devices are refused.
//!
//! # Limits
//!
//! At most 256 KiB are read ahead, and a line up to its limit. [`next`](semel_core::Subscription::next) answers at most about 1 MiB at once. Of a line that was delivered
//! a copy is kept until it is answered. When 10,000 lines or 64 MiB were given back and wait for their delay, nothing new is read until
//! some of them were delivered again. The end of a file comes only when every delivery was answered (or dropped), since it might come back.

mod acknowledged;
mod desk;
mod error;
mod follow;
mod input;
mod lines;
mod long_line;
mod notice;
mod open;
mod opened;
mod pipe;
mod position;
mod progress;
mod source;
mod subscription;
mod tail;

pub use desk::FileSettle;
pub use notice::Notice;
pub use progress::Progress;
pub use source::FileSource;
pub use subscription::FileSubscription;

use std::path::Path;

/// The file of JSON Lines at `path`. Nothing is opened yet.
pub fn source(path: impl AsRef<Path>) -> FileSource {
    FileSource::at(path.as_ref().to_owned())
}

/// Standard input, one message a line. It is read once, by a thread of its own, and ends at its end; it has no position, so that what was
/// read and not acknowledged when the process ends must be piped in again.
pub fn stdin() -> FileSource {
    FileSource::stdin()
}

#[cfg(all(test, unix))]
mod tests;
