//! Files and standard input as a message source for [semel](https://crates.io/crates/semel): JSON Lines, read by position.
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

/// The file at `path`.
pub fn source(path: impl AsRef<Path>) -> FileSource {
    FileSource::at(path.as_ref().to_owned())
}

/// Standard input.
pub fn stdin() -> FileSource {
    FileSource::stdin()
}
